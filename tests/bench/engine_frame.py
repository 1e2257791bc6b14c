"""Where the instructions of a frame go that the engine sends and receives by XDP: a table of parts for each path, in the guest of `exact`.

Each path is measured twice: by the guest's clock, as tests/vm/test_engine_cost.py does it (a long trial less a short one), and by QEMU's log of each
instruction of some hundred frames. The log has addresses: in the kernel they become functions, in the engine's BPF programs the C functions of
their source, by the kernel's line tables. Batches with an interrupt or another process are left out. Needs gcc and libc's static archive; needs no root.

    python tests/bench/engine_frame.py --paths straight,router --functions
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dutlab.hosts.kernels import MODULES, newest_kernel, release_of
from dutlab.hosts.local import LocalHost
from dutlab.hosts.programs import Program
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.exact.guest import MARK, PAUSE, guest_image
from dutlab.tools.exact.machine import Machine, Monitor, run_script, saved, tried, version_of
from dutlab.tools.exact.traced import OF_USERS, Symbols

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "engine" / "xdp" / "bpf"
FEW, MANY = 20_000, 120_000
"""Frames of a short and of a long trial."""
LOGGED_FRAMES = 300_000
LOGGED_US = {"router": 4000}
"""Time to log by the guest's clock, where it is not 500 µs."""
PORTS = {"bare": "g0", "dropped": "g0", "paced": "g0", "straight": "g0", "router": "v0"}
"""Path → its sending port. `bare`: a loop that only sends, into a program that only drops; `dropped`: the engine sends into that program;
`paced`: the same at a pace that is too fast for the guest, so that it never waits;
`straight`: the engine also accounts for the frames; `router`: a Linux router is in between."""
SCRIPT = """(sleep 300; echo "{mark} late"; poweroff -f) & late=$!
say() {{ echo "{mark} $*"; }}
ip -n sink link set g1 netns 1
ip -n sink link set v3 netns 1
for port in g0 g1 v0 v3; do ip link set $port up; done
ip addr add 10.9.0.1/24 dev g0
ip addr add 10.9.1.1/24 dev g1
ip addr add 10.8.0.2/24 dev v0
ip addr add 10.8.1.2/24 dev v3
ip -n dut addr add 10.8.0.1/24 dev v1
ip -n dut addr add 10.8.1.1/24 dev v2
ip netns exec dut sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
ip netns exec dut ethtool -K v1 gro on
ip -n dut neigh replace 10.8.1.2 lladdr $(cat /sys/class/net/v3/address) dev v2 nud permanent
to_g1=$(cat /sys/class/net/g1/address) to_v1=$(ip netns exec dut cat /sys/class/net/v1/address)
sleep 1
sends="--backend xdp --size {size} --isolated --quiet --json"
both="$sends --rate max --drain 50ms"
straight() {{ dutlab-engine forward-test g0 g1 --to 10.9.0.2 --mac $to_g1 --frames $1 $both; }}
router() {{ dutlab-engine forward-test v0 v3 --to 10.8.1.2 --mac $to_v1 --frames $1 $both; }}
beside_drop() {{
  rm -f /tmp/ask; mkfifo /tmp/ask
  dutlab-engine yardstick drop g1 </tmp/ask >/tmp/drop & drop=$!
  exec 3>/tmp/ask
  sleep 0.3
  "$@"
  status=$?
  exec 3>&-
  wait $drop
  return $status
}}
dropped() {{ beside_drop dutlab-engine send g0 --to 10.9.0.2 --mac $to_g1 --frames $1 --rate max $sends; }}
paced() {{ beside_drop dutlab-engine send g0 --to 10.9.0.2 --mac $to_g1 --frames $1 --rate 5Mpps $sends; }}
bare() {{ beside_drop dutlab-engine yardstick send g0 $1 --bytes $(({size} - 4)); }}
refused() {{ sed 's/^/{mark} said /' /tmp/out /tmp/err; say failed mode; poweroff -f; }}
timed() {{
  $1 $2 >/tmp/out 2>/tmp/err || refused
  sed "s/^/{mark} timed $1 /" /tmp/out
}}
logged() {{
  before=$(cat /sys/class/net/$2/statistics/tx_packets)
  $1 {logged} >/tmp/out 2>/tmp/err & trial=$!
  while [ $(($(cat /sys/class/net/$2/statistics/tx_packets) - before)) -lt 20000 ]; do sleep 0.01; done
  frame_log pause $address $3 "{mark} {pause}"
  say lines
  frame_log lines
  say symbols
  grep -i " [tw] " /proc/kallsyms
  say end
  wait $trial || refused
}}
{work}
say done
poweroff -f
"""
BATCH = "xdp_do_flush"
"""Function of the kernel that ends each batch of live frames."""
_LONGEST = 8192
"""Bytes from a line of a program to an address that may still be its own."""
_ADDRESS = re.compile(rb"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", re.MULTILINE)
_HEAD = re.compile(r"(?:\w+ \*?)*(\w+)\(")
_INTERRUPTS = ("asm_sysvec_", "asm_common_interrupt", "apic_timer_interrupt")
_HELPERS = ("bpf_ktime", "bpf_loop", "bpf_csum", "ktime_", "kvm_clock", "csum_", "do_csum", "read_tsc", "percpu_array_map_lookup")
"""Functions of the kernel that count as the program's that called them."""
# In this order: the first pattern that fits a function (`program:function` in a program) names its part.
PARTS = {
    "send: build": r"send_\w+:(write_\w+|copy_head|part|next_shape|stamp_of)",
    "send: checksum": r"send_\w+:(fold\w*|halves)",
    "send: number, pace, end": r"send_\w+:|note_\w+:(?!note_latency)",
    "account: checksum": r"account_?\w*:(is_sound\w*|fold\w*|halves|sum_\w+)",
    "account: clock": r"account_?\w*:(read_clock|forget_clock)|end_of_poll:",
    "account: ledger": r"account_?\w*:(mark|look_up|is_reordered|note_extent|note_by_three)",
    "account: latency": r"account_?\w*:(note_latency|bucket_of)",
    "account: find the frame and its totals": r"account_?\w*:",
    "bare drop": r"bare_\w+:",
    "kernel: loop and pages": r"bpf_test_\w+|xdp_test_\w+|page_pool_\w+|__page_pool\w+|xdp_return_\w+|__xdp_return|clear_page\w*|bpf_dispatcher\w+",
    "kernel: redirect": r"bpf_xdp_redirect|xdp_do_\w+|dev_xdp_\w+|bq_\w+|dev_get_by_index_rcu|__dev_flush|__(cpu|xsk)_map_flush|.*devmap\w*|bpf_trace\w+",
    "kernel: veth and NAPI": r"veth_\w+|\w*napi\w*|net_rx_action|handle_softirqs|\w*do_softirq|_raw_spin\w+|__rcu\w+|raise_softirq\w*",
}
OTHER = "kernel: other functions"


class Places:
    """Names of addresses: functions of the kernel, and C functions in the engine's programs."""

    def __init__(self, lines: str, symbols: str) -> None:
        self._symbols = Symbols(symbols)
        rows = sorted((int(at, 16), kind, word) for at, kind, word in (line.split() for line in lines.splitlines()))
        self._begins = [row for row in rows if row[1] == "begin"]
        self._lines = [row for row in rows if row[1] != "begin"]
        self._addresses = [row[0] for row in self._lines]
        self._known = dict[bytes, tuple[str, bool]]()

    def at(self, address: bytes) -> tuple[str, bool]:
        """Return the function at an address, and whether it is entered there."""
        if (place := self._known.get(address)) is None:
            place = self._known[address] = self._look_up(int(address, 16))
        return place

    def _look_up(self, address: int) -> tuple[str, bool]:
        row = bisect_right(self._addresses, address) - 1
        while row > 0 and self._lines[row][2] == "0":  # code of no line belongs to the line before
            row -= 1
        if row < 0 or self._lines[row][1] == "end" or address - self._addresses[row] > _LONGEST:
            return self._symbols.at(address)
        _, file, line = self._lines[row]
        begin, _, program = max(begin for begin in self._begins if begin[0] <= address)
        return f"{program}:{_function_at(Path(file).name, int(line))}", address == begin


def _function_at(file: str, line: int) -> str:
    """Return the C function at a line of the programs' sources."""
    for text in reversed((SOURCES / file).read_text(encoding="utf-8").splitlines()[:line]):
        if (head := _HEAD.match(text.replace("__attribute__((always_inline)) ", ""))) and head[1] != "SEC":
            return head[1]
    return "?"


@dataclass
class Counted:
    """Instructions of some frames, by function."""

    frames: int = 0
    functions: Counter[str] = field(default_factory=Counter)

    def parts(self) -> dict[str, float]:
        """Return instructions per frame by part, in the order of PARTS."""
        parts = dict.fromkeys((*PARTS, OTHER), 0.0)
        for name, count in self.functions.items():
            part = next((part for part, pattern in PARTS.items() if re.match(pattern, name)), OTHER)
            parts[part] += count / self.frames
        return {part: count for part, count in parts.items() if count >= 0.05}


def counted(log: bytes, places: Places) -> Counted:
    """Sum up the whole batches without an interrupt and without another process."""
    total, batch, is_whole, program = Counted(), Counted(), False, ""
    for address in _ADDRESS.findall(log):
        name, is_entry = places.at(address)
        if is_entry and name == BATCH:
            if is_whole and batch.frames:
                total.frames += batch.frames
                total.functions += batch.functions
            batch, is_whole, program = Counted(), True, ""
        if ":" in name:
            program = name
            batch.frames += is_entry and name.startswith(("send_", "bare_send:"))
        elif program and name.startswith(_HELPERS):
            name = f"{program} > {name}"
        else:
            program = ""
        if name.startswith(_INTERRUPTS) or name == OF_USERS:
            is_whole = False
        batch.functions[name.partition(" > ")[0]] += 1
    return total


class Log:
    """QEMU's log of each instruction, from one pause of the guest to the next."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._is_on = folder, False
        self.files = list[Path]()

    async def paused(self, monitor: Monitor, _: str) -> None:
        """Begin or end a log."""
        self._is_on = not self._is_on
        for word in ("one-insn-per-tb", "singlestep"):  # since QEMU 8.1, and before
            if not await monitor.command(f"{word} {'on' if self._is_on else 'off'}"):
                break
        if self._is_on:
            self.files.append(self._folder / f"log-{len(self.files)}")
            await monitor.command(f'logfile "{self.files[-1]}"')
            await monitor.command("log exec")
        else:
            await monitor.command("log none")
            await monitor.command("logfile /dev/null")


async def console_of(cache: Path, script: str, log: Log) -> str:
    """Return what the guest prints. Raises ToolFailed, LabError."""
    host, kernel = LocalHost("dut"), newest_kernel()
    release = release_of(kernel)
    image = guest_image(MODULES / release, release, more=[Program("dutlab-engine", "dutlab"), Program("frame_log", "")])
    machine = Machine(kernel, image, "max", await version_of(host))

    async def once() -> str:
        state = await saved(host, machine, cache)
        log.files.clear()
        return await run_script(host, machine, state, script.encode(), log.paused)

    return await tried(once)


def by_clock(console: str) -> Iterator[tuple[str, float]]:
    """Yield each path with its instructions per frame by the guest's clock."""
    took = dict[str, list[int]]()
    for path, text in re.findall(rf"^{MARK} timed (\w+) (\{{.*)$", console, re.MULTILINE):
        found = json.loads(text)
        if "cpu_ns" in found:
            took.setdefault(path, []).append(found["cpu_ns"])
            continue
        if "ledger" in found and not (found["ledger"]["balances"] and found["ledger"]["lost"] == 0):
            raise SystemExit(f"{path}: frames were lost: {found['ledger']}")
        ends = [found[side]["streams"][0] for side in ("sent", "received") if side in found] or [found["streams"][0]]
        took.setdefault(path, []).append(max(end["last_monotonic_ns"] for end in ends) - ends[0]["first_monotonic_ns"])
    for path, (few, many) in took.items():
        yield path, (many - few) / (MANY - FEW)


def measure(paths: Sequence[str], size: int, cache: Path) -> Iterator[tuple[str, float, Counted]]:
    """Yield each path with its instructions per frame by the guest's clock, and those of its log."""
    work = [f"timed {path} {frames}" for path in paths for frames in (FEW, MANY)] + [
        f"logged {path} {PORTS[path]} {LOGGED_US.get(path, 500)}" for path in paths
    ]
    script = SCRIPT.format(mark=MARK, pause=PAUSE, size=size, logged=LOGGED_FRAMES, work="\n".join(work))
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as place:
        folder = Path(place)
        subprocess.run(["gcc", "-O2", "-static", "-o", folder / "frame_log", HERE / "frame_log.c"], check=True)
        subprocess.run(["strip", "-o", folder / "dutlab-engine", find_engine()], check=True)
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        log = Log(folder)
        console = asyncio.run(console_of(cache, script, log))
        tables = re.findall(rf"^{MARK} lines\n(.*?)^{MARK} symbols\n(.*?)^{MARK} end$", console, re.DOTALL | re.MULTILINE)
        for (path, clock), file, table in zip(by_clock(console), log.files, tables, strict=True):
            yield path, clock, counted(file.read_bytes(), Places(*table))


def main() -> None:
    """Print a table for each path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", default=",".join(PORTS), help=f"of {', '.join(PORTS)}")
    parser.add_argument("--size", type=int, default=64, help="bytes with FCS")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "dutlab-engine-frame", help="where the booted guest is kept"
    )
    parser.add_argument("--functions", action="store_true", help="each function too")
    options = parser.parse_args()
    for path, clock, counts in measure(options.paths.split(","), options.size, options.cache):
        print(f"{path}: {clock:.1f} instructions a frame by the guest's clock; of {counts.frames} logged frames:")
        for part, count in counts.parts().items():
            print(f"  {count:9.1f}  {part}")
        if options.functions:
            for name, count in counts.functions.most_common(80):
                print(f"      {count / counts.frames:9.2f}  {name}")


if __name__ == "__main__":
    main()
