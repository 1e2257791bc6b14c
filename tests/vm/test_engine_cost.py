"""What a frame costs our own engine in instructions, in the guest of `exact`: held within 1 % of tests/data/engine-instructions.json.

A change that makes it more or less writes the file: `ENGINE_COST=write pytest tests/vm/test_engine_cost.py`, and its commit says why.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from capability import need, need_engine
from dutlab.hosts.kernels import MODULES, newest_kernel, release_of
from dutlab.hosts.local import LocalHost
from dutlab.hosts.programs import Program
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.exact.guest import MARK, guest_image
from dutlab.tools.exact.machine import Machine, run_script, saved, version_of

RECORDED = Path(__file__).parents[1] / "data" / "engine-instructions.json"
WITHIN = 0.01
FRAMES = {"af_packet": (2000, 12000), "af_xdp": (2000, 8000), "xdp": (10000, 110000)}
"""Back end → frames of a short and of a long trial: so many that what the kernel does meanwhile is little of it."""
# One namespace has both ends of a cable, so that one process sends and receives. All of it is on one processor.
SCRIPT = """(sleep 300; echo "{mark} late"; poweroff -f) & late=$!
ip -n sink link set g1 netns 1
for port in g0 g1; do ip link set $port up; done
ip addr add 10.9.0.1/24 dev g0
ip addr add 10.9.1.1/24 dev g1
mac=$(cat /sys/class/net/g1/address)
sleep 1
trial() {{
  dutlab-engine forward-test g0 g1 --to 10.9.0.2 --mac $mac --backend $1 --size 64 --rate max --frames $2 --drain 50ms \\
    --isolated --quiet --json >/tmp/out 2>/tmp/err || {{ sed 's/^/{mark} said /' /tmp/out /tmp/err; echo "{mark} failed mode"; poweroff -f; }}
  sed "s/^/{mark} $1 /" /tmp/out
}}
{trials}
echo "{mark} done"
poweroff -f
"""


async def console(folder: Path) -> tuple[str, str]:
    """The kernel's release, and what the guest says."""
    host, kernel = LocalHost("dut"), newest_kernel()
    release = release_of(kernel)
    image = guest_image(MODULES / release, release, more=[Program("dutlab-engine", "dutlab")])
    machine = Machine(kernel, image, "max", await version_of(host))
    state = await saved(host, machine, folder)
    trials = "\n".join(f"trial {backend} {frames}" for backend, pair in FRAMES.items() for frames in pair)
    script = SCRIPT.format(mark=MARK, trials=trials)
    return release, await run_script(host, machine, state, script.encode())


def cost(text: str, backend: str) -> float:
    """Instructions for one frame more, sent and received: begin and end of a trial are in both numbers of frames."""
    took = []
    for line in text.splitlines():
        if line.startswith(f"{MARK} {backend} {{"):
            found = json.loads(line.partition(f"{backend} ")[2])
            assert found["ledger"]["balances"] and found["ledger"]["lost"] == 0, found["ledger"]
            ends = [found[side]["streams"][0] for side in ("sent", "received")]
            took.append(max(of["last_monotonic_ns"] for of in ends) - ends[0]["first_monotonic_ns"])
    few, many = map(int, took)
    return (many - few) / (FRAMES[backend][1] - FRAMES[backend][0])


def test_a_frame_costs_the_engine_what_is_recorded(exact_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_engine()
    monkeypatch.setenv("PATH", f"{find_engine().parent}:{os.environ['PATH']}")
    release, text = asyncio.run(console(exact_cache))
    found = {backend: round(cost(text, backend), 1) for backend in FRAMES}
    recorded = json.loads(RECORDED.read_text())
    if os.environ.get("ENGINE_COST") == "write":
        RECORDED.write_text(json.dumps(recorded | {release: found}, indent=1) + "\n")
    need(f"{RECORDED.name} of {release}", release in recorded)
    apart = {backend: (of, found[backend]) for backend, of in recorded[release].items() if abs(found[backend] / of - 1) > WITHIN}
    assert not apart, "recorded and found"
