"""CPU time of commands from start to end, beside `python -c pass` in the same round, and what each imports; medians of ROUNDS=9.

Then `--help` of every command, the least of HELPS=3, beside Python with click alone. Exit 1 where the CPU time of one is above its limit, in
multiples of the peer. PYTHONPATH=src:tests .venv/bin/python tests/bench/start_time.py; with a path, it also writes the table of that page.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click

from dutlab.cli.main import dutlab
from fake_run import build
from loaded_modules import loaded, packages, rooms

ROUNDS, HELPS = int(os.environ.get("ROUNDS", "9")), int(os.environ.get("HELPS", "3"))
TESTS = Path(__file__).parents[1]
PYTHON = sys.executable
DUTLAB = (PYTHON, str(TESTS.parent / "dutlab.data" / "scripts" / "dutlab"))
PLAN = TESTS.parent / "examples" / "firewall-modes" / "experiment.yaml"
MOST_OF_HELP = 2.5
MOST = {"`--version`": 4.5, "`--help`": 5, "`plan`": 22, "`runs`": 9}
MARK = "<!-- tests/bench/start_time.py writes what follows -->"


@dataclass(frozen=True)
class Case:
    """A command, and the environment that it needs."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def taken(argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds of CPU, children included, and of wall time."""
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment})
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


def cases_in(folder: Path) -> dict[str, Case]:
    run, other = (str(build(folder / name)) for name in ("runs", "others"))
    iperf3 = str(TESTS / "data" / "iperf3" / "ok.json")
    tab = {"_DUTLAB_COMPLETE": "bash_complete", "DUTLAB_LINE": "dutlab plan --", "COMP_CWORD": "2", "COMP_WORDS": "dutlab plan --"}
    return {
        "`--version`": Case(("--version",), {}),
        "`--help`": Case(("--help",), {}),
        "completion of `plan --`": Case((), tab),
        "`plan`": Case(("plan", str(PLAN)), {}),
        "`runs`": Case(("runs", "--runs", str(folder / "runs")), {}),
        "`compare`": Case(("compare", run, other), {}),
        "`check`": Case(("check", run, "--baseline", other, "--threshold", "5%"), {}),
        "`report`": Case(("report", run), {}),
        "`import`": Case(("import", "iperf3", iperf3, "--runs", str(folder / "imported")), {}),
    }


def starts(cases: Mapping[str, Case], out: Path) -> tuple[list[str], bool]:
    """Lines of the table, and whether no command is above its limit. `out` is a file that is written."""
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        found.setdefault("", []).append(taken((PYTHON, "-c", "pass"), {}))
        for name, case in cases.items():
            found.setdefault(name, []).append(taken((*DUTLAB, *case.argv), case.environment))
    peer = found.pop("")
    lines = [
        "| command | CPU (s) | ÷ `python -c pass` | modules | of dutlab | packages of others | rooms of dutlab |",
        "|---|---|---|---|---|---|---|",
        f"| `python -c pass` | {median(cpu for cpu, _ in peer):.3f} | 1 | 0 | 0 | | |",
    ]
    slow = []
    for name, of in found.items():
        cpu, wall = (median(each) for each in zip(*of, strict=True))
        ratio = median(mine / theirs for (mine, _), (theirs, _) in zip(of, peer, strict=True))
        modules = loaded(cases[name].argv, cases[name].environment, out)
        ours = sum(module.split(".")[0] == "dutlab" for module in modules)
        lists = " | ".join(", ".join(sorted(names)) for names in (packages(modules), rooms(modules)))
        lines.append(f"| {name} | {cpu:.3f} | {ratio:.1f} | {len(modules)} | {ours} | {lists} |")
        print(f"{name}: CPU {cpu:.3f} s, {ratio:.1f} ×; wall {wall:.3f} s")
        slow += [name] if ratio > MOST.get(name, ratio) else []
    print(*lines, sep="\n")
    return lines, not slow


def write(page: Path, lines: list[str]) -> None:
    """Replace the table of the page, and the words on its conditions."""
    load = os.getloadavg()[0]
    words = f"Medians of {ROUNDS} rounds on {os.cpu_count()} CPUs, Python {sys.version.split()[0]}, load {load:.0f}."
    page.write_text("\n".join([page.read_text().partition(MARK)[0] + MARK, words, "", *lines, ""]))


def helps() -> bool:
    peer = min(taken((PYTHON, "-c", "import click"), {})[0] for _ in range(HELPS))
    found = sorted(
        ((min(taken((*DUTLAB, *name, "--help"), {})[0] for _ in range(HELPS)), name) for name in commands((), dutlab)), reverse=True
    )
    print(f"python with click: CPU {peer:.3f} s; {len(found)} commands' help: {found[-1][0]:.3f} to {found[0][0]:.3f} s")
    for took, name in found[:3]:
        print(f"dutlab {' '.join(name)} --help: CPU {took:.3f} s, {took / peer:.2f} ×")
    return found[0][0] / peer <= MOST_OF_HELP


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users have compiled modules
    with tempfile.TemporaryDirectory() as name:
        table, well = starts(cases_in(Path(name)), Path(name) / "modules")
    if sys.argv[1:]:
        write(Path(sys.argv[1]), table)
    sys.exit(not all([well, helps()]))
