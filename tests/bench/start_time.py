"""CPU and wall time of the program from its start to its end, beside `python -c pass` in the same round; medians of ROUNDS=9.

Then `--help` of every command, the least of HELPS=3, beside Python with click alone. Exit 1 where the CPU time of one is above its aim, in
multiples of the peer. PYTHONPATH=src:tests .venv/bin/python tests/bench/start_time.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import click

from dutlab.cli.main import dutlab
from fake_run import build

ROUNDS, HELPS = int(os.environ.get("ROUNDS", "9")), int(os.environ.get("HELPS", "3"))
PYTHON, DUTLAB = sys.executable, str(Path(sys.executable).with_name("dutlab"))
TESTS = Path(__file__).parents[1]
PLAN = TESTS.parent / "examples" / "firewall-modes" / "experiment.yaml"
MOST_OF_HELP = 2.5
MOST = {"--version": 6.5, "--help": 6, "plan": 20}


def taken(argv: list[str]) -> tuple[float, float]:
    """Seconds of CPU, children included, and of wall time."""
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in {0, 1, 2}, argv  # 2: a check that cannot tell
    return used.ru_utime + used.ru_stime, time.perf_counter() - began


def commands(name: tuple[str, ...], command: click.Command) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [name]
    ctx = click.Context(command)
    subs = [(sub, command.get_command(ctx, sub)) for sub in command.list_commands(ctx)]
    return [name, *(leaf for sub, found in subs if found is not None for leaf in commands((*name, sub), found))]


def starts(folder: Path) -> bool:
    runs = folder / "runs"
    run, other = (str(build(folder / name)) for name in ("runs", "others"))
    iperf3 = str(TESTS / "data" / "iperf3" / "ok.json")
    cases = {
        "--version": ["--version"],
        "--help": ["--help"],
        "plan": ["plan", str(PLAN)],
        "runs": ["runs", "--runs", str(runs)],
        "compare": ["compare", run, other],
        "check": ["check", run, "--baseline", other, "--threshold", "5%"],
        "report": ["report", run],
        "import": ["import", "iperf3", iperf3, "--runs", str(folder / "imported")],
    }
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        found.setdefault("", []).append(taken([PYTHON, "-c", "pass"]))
        for name, argv in cases.items():
            found.setdefault(name, []).append(taken([DUTLAB, *argv]))
    peer = found.pop("")
    print(f"python -c pass: CPU {median(cpu for cpu, _ in peer):.3f} s, wall {median(wall for _, wall in peer):.3f} s")
    slow = []
    for name, of in found.items():
        cpu, wall = (median(each) for each in zip(*of, strict=True))
        ratio = median(mine / theirs for (mine, _), (theirs, _) in zip(of, peer, strict=True))
        print(f"dutlab {name}: CPU {cpu:.3f} s, {ratio:.1f} ×; wall {wall:.3f} s")
        slow += [name] if ratio > MOST.get(name, ratio) else []
    return not slow


def helps() -> bool:
    peer = min(taken([PYTHON, "-c", "import click"])[0] for _ in range(HELPS))
    found = sorted(((min(taken([DUTLAB, *name, "--help"])[0] for _ in range(HELPS)), name) for name in commands((), dutlab)), reverse=True)
    print(f"python with click: CPU {peer:.3f} s; {len(found)} commands' help: {found[-1][0]:.3f} to {found[0][0]:.3f} s")
    for took, name in found[:3]:
        print(f"dutlab {' '.join(name)} --help: CPU {took:.3f} s, {took / peer:.2f} ×")
    return found[0][0] / peer <= MOST_OF_HELP


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        well = [starts(Path(name)), helps()]
    sys.exit(not all(well))
