"""How far instructions a frame say what a frame takes: modes of the guest of `exact` by instructions and by time, and the correlation of both.

Time is that of the same guest (kernel, programs, processor) in QEMU without -icount, by its own clock: the median of so many passes of each mode,
the generator and sink taken away. QEMU translates instructions, so its time knows the processor's caches and branches only through what it makes
of them. `--lab` adds the time of the embedded lab on this machine's own kernel and processor, at full speed, for the modes that it has. Only an
idle machine can show either. Needs no root; the lab does.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import correlation, median

from dutlab.cli.one_workload import as_yaml
from dutlab.cli.versions import rules_mode
from dutlab.dut.linux_exact import in_words
from dutlab.dut.linux_exact_words import GuestWords
from dutlab.hosts.kernels import MODULES, newest_kernel, release_of
from dutlab.hosts.local import LocalHost
from dutlab.report.questions.cells import rates_by_mode
from dutlab.report.questions.sides import open_run
from dutlab.spec.bounds import TestbedBounds
from dutlab.spec.known import EXACT, FAMILY_MODES
from dutlab.spec.workloads.exact import ExactSetting, ExactWorkload
from dutlab.tools.exact.guest import guest_image, passes_of, trial_script
from dutlab.tools.exact.machine import Machine, run_script, saved, version_of
from dutlab.tools.exact.program import parse_console

IN_LAB = ("router", "filter-empty", "filter-1", "filter-25", "filter-default", "nat-open", "nat")
CHAIN = "table inet t {{\n chain forward {{\n type filter hook forward priority 0; policy accept;\n {}\n }}\n}}"
OWN = {f"rules-{n}": rules_mode(CHAIN.format(" ".join(f"tcp dport {port} drop;" for port in range(1, n + 1)))) for n in (10, 50, 100)}
"""Modes of nothing but rules that no frame meets."""


class WithClock(Machine):
    """Time passes by the host's clock."""

    @property
    def argv(self) -> list[str]:
        """QEMU without the counter of instructions."""
        words = super().argv
        at = words.index("-icount")
        return words[:at] + words[at + 2 :]


def own_ns(console: str, passes: int) -> float:
    """Nanoseconds, or instructions, of a frame through the router less with the rig; the median of the pairs of passes."""
    found, _, _ = parse_console(console)
    each = [of.instructions / of.sent for of in found[-2 * passes :]]
    return median(router - rig for rig, router in zip(each[::2], each[1::2], strict=True))


def words_of(mode: str) -> GuestWords:
    return in_words(mode, OWN[mode]["apply"] if mode in OWN else None)


async def by_guest(machine: Machine, setting: ExactSetting, modes: Sequence[str], repeats: int, folder: Path) -> dict[str, float]:
    """Of each mode."""
    host, found = LocalHost("dut"), dict[str, float]()
    state = await saved(host, machine, folder)
    begin, *pair = passes_of(setting)
    for mode in modes:
        console = await run_script(host, machine, state, trial_script(setting, words_of(mode), [begin, *pair * repeats]))
        found[mode] = own_ns(console, repeats)
        print(f"  {mode}: {found[mode]:,.1f}", flush=True)
    return found


def by_lab(folder: Path, size: int, repeats: int) -> dict[str, float]:
    """Nanoseconds from one frame to the next at full speed."""
    workload = {"sweep": {"frame_sizes": [size], "rates": ["max"], "duration": "2s"}}
    data = {
        "experiment": "lab",
        "testbed": {"lab": "three-node"},
        "factors": {"mode": list(IN_LAB)},
        "workloads": [workload],
        "repeats": repeats,
    }
    (folder / "lab.yaml").write_bytes(as_yaml(data))
    subprocess.run([sys.executable, "-m", "dutlab", "run", "lab.yaml", "--runs", "runs", "--unattended"], cwd=folder, check=True)
    (run,) = (folder / "runs").iterdir()
    (rates,) = rates_by_mode(open_run(run)).values()
    return {mode: 1e9 / median(values) for mode, values in rates.items()}


def told(what: str, instructions: Mapping[str, float], times: Mapping[str, float]) -> None:
    modes = [mode for mode in instructions if mode in times]
    print(f"\n{what}\n| mode | instructions a frame | ns a frame | ns an instruction |\n|---|---|---|---|")
    for mode in sorted(modes, key=lambda of: instructions[of]):
        print(f"| `{mode}` | {instructions[mode]:,.1f} | {times[mode]:,.1f} | {times[mode] / instructions[mode]:.3f} |")
    a, b = [instructions[mode] for mode in modes], [times[mode] for mode in modes]
    ranks = correlation(*([sorted(of).index(value) for value in of] for of in (a, b)))
    print(f"{len(modes)} modes: correlation {correlation(a, b):.3f}, of ranks {ranks:.3f}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--modes", nargs="+", default=[*FAMILY_MODES[EXACT], *OWN])
    parser.add_argument("--lab", action="store_true")
    asked = parser.parse_args()
    kernel = newest_kernel()
    release = release_of(kernel)
    programs = dict.fromkeys(program for mode in asked.modes for program in words_of(mode).programs)
    words = (kernel, guest_image(MODULES / release, release, more=tuple(programs)), "max", await version_of(LocalHost("dut")))
    workload = ExactWorkload.model_validate({"frame_sizes": [asked.size], "frames": asked.frames})
    (drive,) = workload.drives(TestbedBounds({}, {}))
    setting = drive.setting
    assert isinstance(setting, ExactSetting)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        print(f"Linux {release}, {asked.size} bytes\ninstructions")
        instructions = await by_guest(Machine(*words), setting, asked.modes, 1, folder / "counted")
        print("nanoseconds in QEMU without -icount")
        told(
            "Time in QEMU, same kernel",
            instructions,
            await by_guest(WithClock(*words), setting, asked.modes, asked.repeats, folder / "timed"),
        )
        if asked.lab:
            told("Time in the embedded lab, this machine's kernel", instructions, by_lab(folder, asked.size, asked.repeats))


if __name__ == "__main__":
    asyncio.run(main())
