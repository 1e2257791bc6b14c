"""Real runs in embedded labs, killed by SIGKILL at a chosen system call or at a random instant, and resumed until they end.

What must hold then: every planned trial has its record once, no record that was there has changed, no traceback, exit statuses as
documented, no namespace, lab or process left, and nothing written beside the run folder. Needs root, and namespaces and a /run of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from outcome import STATUSES, carried_out

HOOK = Path(__file__).parent / "hook"
SOURCE = Path(__file__).parents[2] / "src"
NAMESPACES = Path("/run/netns")
LABS = Path("/run/dutlab")
_MOST_KILLS = 3
_CLONE_NEWNS = 0x20000
"""unshare(2), linux/sched.h."""
_ENDS_S = 180.0
_LONGEST_STOP_S = 25.0
"""Longer than a ping, a lease or a question waits."""
_SHARED = Path("/var/tmp")

_FRAMES = "duration: 200ms, warmup: 50ms, links: [[a]]"
WORKLOADS = {
    "iperf3": "iperf3: {streams: 1, omit: 0s, duration: 1s, links: [[a]]}",
    "sweep": f"sweep: {{frame_sizes: [64, imix], {_FRAMES}}}",
    "path-mtu": "path-mtu: {links: [[a]]}",
    "latency": "latency: {frame_sizes: [64], rate: 2kpps, duration: 300ms, links: [[a]]}",
    "matrix": "matrix: {duration: 1s, omit: 0s}",
    "datagrams": "datagrams: {lengths: [64], rate: 1kpps, duration: 1s, links: [[a]]}",
    "steps": 'steps: {run: {source: ["true"]}}',
    "soak": "soak: {frame_sizes: [64], rate: 2kpps, duration: 3s, links: [[a]]}",
}
LABS_OF_RUNS = ("three-node", "three-node-rfc2544", "three-node-ssh")


@dataclass
class Killed:
    """What a run went through."""

    words: str
    kills: int = 0
    faults: list[str] = field(default_factory=list)


def usable_workloads(folder: Path) -> list[str]:
    """Those of WORKLOADS that this release plans as they are written here."""
    return [name for name in WORKLOADS if carried_out(["plan", str(_experiment(folder, name, "three-node"))], folder).status == 0]


def points(folder: Path) -> int:
    """How many calls of a whole run of `sweep` could be the last."""
    count = folder / "count"
    done = _dutlab(
        folder, ["run", str(_experiment(folder, "sweep", "three-node"))], FAULTS_FOLDER=str(folder / "runs"), FAULTS_COUNT=str(count)
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"a run without any fault ended with {done.returncode}: {done.stderr}")
    return len(count.read_text().splitlines())


def killed_at_call(folder: Path, number: int) -> Killed:
    """A run that is killed before its `number`th call that changes a file, and resumed."""
    what = Killed(f"sweep in three-node, killed at call {number}")
    return _through(folder, "sweep", "three-node", what, FAULTS_FOLDER=str(folder / "runs"), FAULTS_KILL_AT=str(number))


def killed_at_instants(folder: Path, workloads: list[str], dice: random.Random) -> Killed:
    """A run of one workload in one lab, killed again and again."""
    workload, lab = dice.choice(workloads), dice.choice(LABS_OF_RUNS)
    instants = [round(dice.uniform(0.2, 6.0), 2) for _ in range(dice.randint(1, _MOST_KILLS))]
    return _through(folder, workload, lab, Killed(f"{workload} in {lab}, killed after {instants} s"), instants)


def stopped_at_an_instant(folder: Path, workloads: list[str], dice: random.Random) -> Killed:
    """A run of one workload in one lab whose controller is stopped for a time, and goes on."""
    workload, lab = dice.choice(workloads), dice.choice(LABS_OF_RUNS)
    at, pause_s = round(dice.uniform(0.2, 6.0), 2), round(dice.uniform(1.0, _LONGEST_STOP_S), 1)
    return _through(folder, workload, lab, Killed(f"{workload} in {lab}, stopped after {at} s for {pause_s} s"), [at], pause_s=pause_s)


def _through(
    folder: Path, workload: str, lab: str, what: Killed, instants: list[float] | None = None, *, pause_s: float = 0.0, **environment: str
) -> Killed:
    experiment, runs, before = _experiment(folder, workload, lab), folder / "runs", _shared()
    records: dict[Path, str] = {}
    waits = [None, *[None] * _MOST_KILLS] if instants is None else [*instants, None, None]
    for wait in waits:
        found = sorted(runs.glob("2*")) if runs.is_dir() else []
        command = ["resume", str(found[0])] if found else ["run", str(experiment)]
        status, said = _killed_after(folder, command, wait, pause_s, **environment)
        environment = {}
        what.faults += _changed(records, runs)
        if status == -signal.SIGKILL:
            what.kills += 1
            continue
        if status not in STATUSES:
            what.faults.append(f"{command[0]} ended with {status}")
        if "Traceback" in said:
            what.faults.append(f"{command[0]}: traceback: {said.strip().splitlines()[-1]}")
        if status in (0, 1):
            what.faults += [f"{fault}; {command[0]} had ended with {status}: {said.strip()[-300:]}" for fault in _whole(folder, runs)]
            break
        what.faults.append(f"{command[0]} ended with {status}: {said.strip()[-300:]}")
        break
    else:
        what.faults.append("did not end")
    what.faults += _left(before)
    return what


def _experiment(folder: Path, workload: str, lab: str) -> Path:
    path = folder / "experiment.yaml"
    modes = "[router, nat]" if workload == "sweep" else "[router]"
    text = f"experiment: faults\ntestbed: {{lab: {lab}}}\nfactors: {{mode: {modes}}}\nworkloads:\n  - {WORKLOADS[workload]}\nrepeats: 1\nseed: 7\nrepeat_disturbed: 0\n"
    path.write_text(text)
    return path


def _start(folder: Path, argv: list[str], err: int, **environment: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": f"{HOOK}:{SOURCE}", "XDG_CACHE_HOME": str(folder.parent / "cache"), **environment}
    return subprocess.Popen([sys.executable, "-m", "dutlab", *argv], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=err, start_new_session=True)  # fmt: skip


def _dutlab(folder: Path, argv: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    status, said = _killed_after(folder, argv, None, **environment)
    return subprocess.CompletedProcess(argv, status, "", said)


def _killed_after(folder: Path, argv: list[str], wait_s: float | None, pause_s: float = 0.0, **environment: str) -> tuple[int, str]:
    """Its status, -9 when it was killed after `wait_s` or by the hook, and what it said to standard error. With `pause_s` it is stopped instead."""
    with (folder / "said").open("wb") as err:
        process = _start(folder, argv, err.fileno(), **environment)
        try:
            if wait_s is not None and pause_s and (status := _stopped_after(process, wait_s, pause_s)) is not None:
                return status, (folder / "said").read_text(errors="replace")
            process.wait(_ENDS_S if wait_s is None or pause_s else wait_s)
        except subprocess.TimeoutExpired:
            process.kill()  # the process alone: whatever it started must end by itself
            if wait_s is None or pause_s:
                process.wait()
                return 99, f"did not end within {_ENDS_S:g} s"
        status = process.wait()
    return status, (folder / "said").read_text(errors="replace")


def _stopped_after(process: subprocess.Popen[bytes], wait_s: float, pause_s: float) -> int | None:
    """Stops it for a time; its status where it ended before that."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(wait_s)
    process.send_signal(signal.SIGSTOP)
    time.sleep(pause_s)
    process.send_signal(signal.SIGCONT)
    return None


def _changed(known: dict[Path, str], runs: Path) -> list[str]:
    """Records that are not as they were; new ones become known. An attempt that was set aside has its record still."""
    found = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in runs.glob("*/trials/*/record.json")}
    gone = [h for h in known.values() if h not in found.values()]
    known.clear()
    known.update(found)
    return [f"{len(gone)} records were changed or removed"] if gone else []


def _whole(folder: Path, runs: Path) -> list[str]:
    """What is missing of the one run."""
    found = sorted(runs.iterdir())
    if len(found) != 1:
        return [f"{len(found)} entries in the runs folder: {', '.join(p.name for p in found)}"]
    run, faults = found[0], []
    names = sorted(p.name for p in (run / "trials").iterdir() if re.fullmatch(r"\d{4}", p.name) and (p / "record.json").is_file())
    expected = [f"{n:04d}" for n in range(1, len(names) + 1)]
    planned = (run / "plan.json").read_text().count('"number"')
    if names != expected or len(names) != planned:
        faults.append(f"records of {names}, planned {planned}")
    if parts := sorted(p.name for p in run.rglob("*.part") if "report" not in p.parts):
        faults.append(f"temporary files left: {parts}")
    done = _dutlab(folder, ["undo", str(run)])
    if done.returncode != 0:
        faults.append(f"undo of a whole run ended with {done.returncode}: {done.stderr}")
    if not (run / "MANIFEST.sha256").is_file():
        return [*faults, "no manifest"]
    for line in (run / "MANIFEST.sha256").read_text().splitlines():
        digest, name = line.split("  ", 1)
        if not (run / name).is_file() or hashlib.sha256((run / name).read_bytes()).hexdigest() != digest:
            faults.append(f"{name} is not as the manifest says")
    return faults


def private_tmp() -> None:
    """Gives this process mounts and a /var/tmp of its own: there engines are copied to, and others put things."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    for words in (["--make-rprivate", "/"], ["-t", "tmpfs", "tmpfs", str(_SHARED)]):
        subprocess.run(["mount", *words], check=True)


def _shared() -> set[str]:
    """What lies in the folder of all users; nothing where it is not ours alone."""
    return {str(p) for p in _SHARED.iterdir()} if os.path.ismount(_SHARED) else set()


def _left(before: set[str]) -> list[str]:
    """What a run has left on the machine; what ends by itself may take its time, where it gets no CPU."""
    deadline = time.monotonic() + _ENDS_S
    while (found := _left_now(before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _left_now(before: set[str]) -> list[str]:
    found = [f"namespace {p.name} left" for p in NAMESPACES.glob("dutlab-*")] if NAMESPACES.is_dir() else []
    found += [f"{p} left" for p in LABS.rglob("*") if p.is_file()] if LABS.is_dir() else []
    found += [f"{p} left" for p in sorted(_shared() - before)]
    return found
