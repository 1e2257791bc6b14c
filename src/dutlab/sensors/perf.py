"""Sensor `perf`: profile of a Linux host's processor time in a trial, as stacks of functions with their samples (perf-record(1)).

perf samples by cycles where the machine has such counters, otherwise by a timer (`cpu-clock`). It reads all cores of the machine. The
host computes the stacks after the trial, so that this takes no CPU time from the trial. They become the raw file `profile-HOST.folded`:
one line per stack, functions from the outermost inwards with `;` between them, then a blank and the number of samples in that stack.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

from dutlab.errors import HostError
from dutlab.events import Tell, no_observer
from dutlab.hosts.host import Process
from dutlab.hosts.private_folder import held_folder
from dutlab.sensors.sensor import SensorSite, Watched
from dutlab.spec.sensors import PerfSensor

_EVENT = "profiled event: "
_READ_S = 120.0
# $1 is samples a second and core, $2 a folder. perf-script prints the command, a line per frame from the innermost outwards, a blank line.
_SCRIPT = r"""
command -v perf >/dev/null || { echo "perf is not installed; Debian: apt install linux-perf"; exit 1; }
e=cycles; perf stat -x, -e cycles true 2>&1 | grep -q '^[0-9]' || e=cpu-clock
perf record -q -a -g -F "$1" -e $e -o "$2/data" </dev/null >"$2/said" 2>&1 & p=$!
n=0; while [ ! -s "$2/data" ] && kill -0 $p 2>/dev/null && [ $n -lt 200 ]; do n=$((n + 1)); sleep 0.05; done
[ -s "$2/data" ] || { tr '\n' ' ' < "$2/said"; echo; exit 1; }
echo "profiled event: $e"
read -r _
kill -INT $p; wait $p
perf script -i "$2/data" -F comm,ip,sym 2>/dev/null | awk '
/^\t/ { $1 = ""; sub(/^ /, ""); gsub(/;/, ":"); s = $0 (s == "" ? "" : ";" s); next }
NF { c = $0; gsub(/;/, ":", c); gsub(/^[ \t]+|[ \t]+$/, "", c); next }
c != "" { n[c (s == "" ? "" : ";" s)]++; c = s = "" }
END { for (k in n) print k, n[k] }'
"""


class PerfProfile:
    """Profile of one host in one trial; a Sensor."""

    vital = False

    def __init__(self, spec: PerfSensor, site: SensorSite) -> None:
        self.name, self._spec, self._site = spec.name, spec, site
        self._held = AsyncExitStack()
        self._process: Process | None = None
        self._event = ""

    async def start(self, tell: Tell = no_observer) -> None:
        """Start perf; return when it samples. Raises HostError."""
        host = self._site.host
        folder = await self._held.enter_async_context(held_folder(host))
        pin = [] if self._site.core is None else host.system.pinned([self._site.core])
        self._process = await host.spawn([*pin, "sh", "-c", _SCRIPT, "profile", str(self._spec.frequency), folder])
        line = (await self._process.readline()).decode("utf-8", "replace").strip()
        if not line.startswith(_EVENT):
            await self._end()
            raise HostError(
                f"perf does not sample: {line or 'it printed nothing'}", host=host.name, remedy="install linux-perf there, as root"
            )
        self._event = line.removeprefix(_EVENT)

    async def stop(self, began_s: float) -> Watched:
        """Return the stacks of the trial as a raw file. Raises HostError."""
        if self._process is None:
            return Watched()
        try:
            await self._process.write(b"end\n")
            done = await self._process.wait(_READ_S)
        finally:
            await self._end()
        if not done.stdout.strip():
            return Watched(faults=(f"{self.name}: perf has no sample of {self._event}: {done.complaint}",))
        head = f"# {self._event}, {self._spec.frequency} samples a second and core\n".encode()
        return Watched(raw={f"profile-{self._site.host.name}.folded": head + done.stdout})

    async def _end(self) -> None:
        if self._process is not None:
            await self._process.end()
        self._process = None
        await self._held.aclose()


def make(spec: PerfSensor, site: SensorSite) -> PerfProfile | None:
    """Return the sensor that `spec` describes; None if the host is not Linux."""
    return PerfProfile(spec, site) if site.host.system.kernel == "Linux" else None
