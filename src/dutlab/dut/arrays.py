"""Common part of all array engines: the mode that makes one array of all drives of a host, and how that array is recognised.

An engine is three shell scripts (`ArrayEngine`). The array is called `dutlab`, and undo removes nothing that has another name. The undo
step is journalled before anything is made, and needs only the names of the drives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut.mode import Check, OfRecord, Prober, UndoStep
from dutlab.errors import HostError, TestbedError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.spec.drives import DriveSpec
from dutlab.spec.testbed import HostSpec, Testbed
from dutlab.systems.modes import SETS, ModeArray

SYNCS_S = 86_400.0
"""Time limit in seconds for all of an array's synchronisation before it is measured."""
# `dev` finds a drive by its stable name; `unused` ends the script if a drive must not be written to. `moves` ends it when the progress of a
# synchronisation has not changed for `still_s` seconds.
COMMON = r"""
still_s=120 was= since=
die() { echo "$1" >&2; exit 1; }
dev() {
  case $1 in
    serial=*) lsblk -dnpo PATH,SERIAL | while read -r path serial; do [ "$serial" != "${1#serial=}" ] || echo "$path"; done ;;
    *) readlink -f -- "$1" ;;
  esac
}
moves() {
  now=$(date +%s)
  if [ "$2" != "$was" ] || [ -z "$since" ]; then was=$2 since=$now; fi
  [ $((now - since)) -lt $still_s ] || die "array $1 made no progress for $still_s s: $2"
}
unused() {
  for member; do
    found=$(dev "$member")
    [ -b "$found" ] || die "$member does not exist"
    [ -z "$(wipefs -n -p -- "$found" | grep -v '^#')" ] || die "$found has a signature: end its use, and erase it by hand (wipefs -a)"
    [ -z "$(lsblk -no MOUNTPOINTS -- "$found" | tr -d '[:space:]')" ] || die "$found is mounted"
    for by in "/sys/class/block/${found##*/}/holders/"*; do [ ! -e "$by" ] || die "${by##*/} is made of $found"; done
  done
}
"""


@dataclass(frozen=True)
class ArrayEngine:
    """Array engine: three shell scripts. A script that fails ends with 1 and prints the reason."""

    programs: tuple[Program, ...]
    undo: str
    """Script that removes our array from the members, which are its arguments."""
    apply: str
    """Script that makes the array. Arguments: level, state, chunk in KiB, bitmap, stripe cache, threads, KiB/s of a rebuild, members; the
    engine chooses where one is 0."""
    state: str
    """Script that prints one fact of the array per line: `path`, `size_bytes`, `kind file` if it is in a file system, `dutlab_level`,
    `dutlab_drives`, …; then one line for each set that can lose a drive: `set degraded sync_action`."""


@dataclass(frozen=True)
class ArrayState:
    """State of an array, as the kernel reports it."""

    path: str
    size_bytes: int
    facts: Mapping[str, str]
    sets: tuple[tuple[int, str], ...]
    """Missing drives of each set that can lose one, and the action: `idle`, `recover`, `resync`."""
    is_file: bool = False
    """True if the array is a file in the file system of its drives; undo removes it."""

    @property
    def words(self) -> str:
        """Level, missing drives and current action, for a check."""
        lost = sum(degraded for degraded, _ in self.sets)
        doing = ", ".join(dict.fromkeys(action for _, action in self.sets)) or "no redundancy"
        level = "+".join(value for key, value in self.facts.items() if key.endswith("_level"))
        return f"{level}, {lost} of its drives missing or not rebuilt, {doing}"


async def state_from_engine(engine: ArrayEngine, host: Host) -> ArrayState:
    """Return the state of the array that this engine made on `host`. Raises CommandFailed when there is none, HostError."""
    facts, sets = dict[str, str](), list[tuple[int, str]]()
    for line in (await host.run(["sh", "-c", engine.state, "dutlab"])).text.splitlines():
        key, _, value = line.partition(" ")
        if key == "set":
            degraded, _, action = value.partition(" ")
            sets.append((int(degraded), action))
        else:
            facts[key] = value
    is_file = facts.pop("kind", "") == "file"
    return ArrayState(facts.pop("path"), int(facts["size_bytes"]), facts, tuple(sets), is_file)


@dataclass(frozen=True)
class ArrayMode(OfRecord):
    """Mode of an array: one level in one state."""

    array: ModeArray
    engine: ArrayEngine

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs of the engine, which the DUT needs."""
        return {"dut": list(self.engine.programs)}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the step that stops the array and erases its superblocks or labels from the members."""
        argv = ("sh", "-c", self.engine.undo, "dutlab", *members_of(testbed.hosts[dut.name]))
        return [UndoStep(dut.name, argv, why=f"the drives of {dut.name} are in no array any more")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Make the array of all drives and wait until it is synchronised; then fail or rebuild a member. Raises TestbedError, HostError."""
        host = testbed.hosts[dut.name]
        if protected := [drive.name for drive in host.drives.values() if not drive.destroy]:
            raise TestbedError(f"mode {self.name} writes to {protected[0]}, and the testbed lacks `destroy: yes` there")
        settings = host.array
        numbers = ((settings.chunk or 0) >> 10, settings.bitmap, settings.stripe_cache or 0, settings.group_threads or 0)
        rate = int((settings.rebuild_bytes_per_s or 0) / 1024)
        words = [self.array.level, self.array.state, *map(str, numbers), str(rate), *members_of(host)]
        done = await dut.run(["sh", "-c", self.engine.apply, "dutlab", *words], timeout_s=SYNCS_S, check=False)
        if done.status != 0:
            raise HostError(f"array {self.name} cannot be made: {done.complaint}", host=dut.name, remedy="see /proc/mdstat there")

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the state that the kernel reports."""
        del prober
        return await self.checks_of_state(dut, testbed)

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Check level, number of drives, and missing or rebuilding drives. This also shows a rebuild that ended during a trial."""
        array, status = self.array, await state_from_engine(self.engine, dut)
        drives = len(testbed.hosts[dut.name].drives)
        if array.set_level:
            wanted = {"dutlab_level": "raid0", "dutlab_drives": str(SETS)}
            wanted |= {f"dutlab-{i}_{k}": v for i in (1, 2) for k, v in (("level", array.set_level), ("drives", str(drives // SETS)))}
        else:
            wanted = {"dutlab_level": array.level, "dutlab_drives": str(drives)}
        lost = sum(degraded for degraded, _ in status.sets)
        actions = {action for _, action in status.sets}
        states = {
            "": lost == 0 and actions <= {"idle"},
            "rebuilt": lost == 0 and actions <= {"idle"},
            "degraded": lost == 1 and actions <= {"idle"},
            "rebuilding": lost == 1 and "recover" in actions,
        }
        right = all(status.facts.get(k) == v for k, v in wanted.items())
        return [
            Check(f"an array of {drives} drives of level {array.level}", right, status.words),
            Check(f"it is {array.state or 'healthy'}", states[array.state], status.words),
        ]


def members_of(host: HostSpec) -> list[str]:
    """Return the drives of a host, as `dev` of COMMON finds them."""
    return [_member(drive) for drive in host.drives.values()]


def _member(drive: DriveSpec) -> str:
    return f"{drive.folder}/{drive.by_id}" if drive.by_id is not None else f"serial={drive.serial}"
