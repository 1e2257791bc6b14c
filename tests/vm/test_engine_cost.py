"""What a frame costs our own engine and the devices of `verify` in instructions, in the guest of `exact`: held within 1 % of a file.

A change that makes it more or less writes tests/data/engine-instructions.json: `ENGINE_COST=write pytest tests/vm/test_engine_cost.py`, and its
commit says why.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import platform
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from capability import need, need_engine
from dutlab.dut.linux_exact_words import GuestWords
from dutlab.hosts.kernels import MODULES, newest_kernel, release_of
from dutlab.hosts.local import LocalHost
from dutlab.hosts.programs import Program
from dutlab.spec.mixes import Mix
from dutlab.spec.workloads.exact import ExactSetting
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.exact.guest import MARK, Pass, guest_image, trial_script
from dutlab.tools.exact.machine import Machine, run_script, saved, tried, version_of
from dutlab.tools.exact.program import parse_console
from vm.conftest import need_clang

pytestmark = pytest.mark.exact

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "engine" / "xdp" / "bpf"
RECORDED = ROOT / "tests" / "data" / "engine-instructions.json"
WITHIN = {"af_xdp": 0.05}
"""Share by which a figure may differ; 0.01 of the others. How often `af_xdp` wakes up moves by 2.5 % with the size of the guest's initrd alone."""
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
DEVICES = {"forwards": (0, 1), "drops": (1, 0), "duplicates": (2, 2), "corrupts": (6, 1)}
"""Device of engine/xdp/bpf/devices.bpf.c, which wrongs each frame → its kind there, and how many frames come out for each. What one costs that polices
or holds frames depends on when they come; the one that swaps them is refused by the verifier of Linux 6.1, for which the engine offers none."""
DEVICE_FRAMES = 5000
OUT_IFINDEX = 3
"""Of v2, in its namespace."""


# The generator holds each frame while it is on its way, and the kernel cannot change one that is held: an XDP program makes a copy first.
COPIES = """#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("xdp") int copies(struct xdp_md *frame) { return XDP_PASS; }
"""


def device(kind: int) -> str:
    """Its source. The guest's kernel (6.1) has no links for tc yet, so tc(8) attaches it."""
    text = (SOURCES / "devices.bpf.c").read_text()
    assert "u32 kind, out_ifindex, depth" in text
    return text.replace("kind, out_ifindex, depth", f"kind = {kind}, out_ifindex = {OUT_IFINDEX}, depth")


def unpacks(name: str, source: str, folder: Path) -> str:
    """What makes its object file in the guest."""
    (folder / "source.c").write_text(source)
    flags = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", f"-I{SOURCES}", f"-I/usr/include/{platform.machine()}-linux-gnu"]
    subprocess.run(["clang", *flags, "-c", "source.c", "-o", "source.o"], cwd=folder, check=True)
    packed = b64encode(gzip.compress((folder / "source.o").read_bytes(), mtime=0)).decode()
    return f"base64 -d <<'end' | gunzip >/tmp/{name}.o\n{packed}\nend"


def devices_script(folder: Path) -> tuple[bytes, list[Pass]]:
    """A trial whose passes have another device each between generator and sink."""
    passes = [Pass(name, 128, DEVICE_FRAMES, "v0") for name in DEVICES]
    files = [unpacks("copies", COPIES, folder), *(unpacks(name, device(kind), folder) for name, (kind, _) in DEVICES.items())]
    setting = ExactSetting(frame_size=Mix.model_validate(64), frames=DEVICE_FRAMES, flow_count=1, rules=0, routes=0, mtu=1500)
    commands = (*files, "ip link set dev v1 xdp obj /tmp/copies.o sec xdp", "tc qdisc add dev v1 clsact")
    script = trial_script(setting, GuestWords(commands), passes).decode()
    for name in DEVICES:
        attach = f"dut tc filter add dev v1 ingress bpf direct-action obj /tmp/{name}.o sec classifier || fail {name}"
        script = script.replace(f"\npass {name} ", f"\ndut tc filter del dev v1 ingress 2>/dev/null\n{attach}\npass {name} ")
    return script.encode(), passes


async def consoles(folder: Path, scripts: list[bytes]) -> list[str]:
    """What the guest says to each, from the same state on."""
    host, kernel = LocalHost("dut"), newest_kernel()
    release = release_of(kernel)
    image = guest_image(MODULES / release, release, more=[Program("dutlab-engine", "dutlab")])
    machine = Machine(kernel, image, "max", await version_of(host))
    state = await saved(host, machine, folder)
    return [await tried(partial(run_script, host, machine, state, script)) for script in scripts]


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


def costs_of_devices(text: str, passes: list[Pass]) -> Iterator[tuple[str, float]]:
    """Each with the generator and the sink that its frames have."""
    for p, found in zip(passes, parse_console(text)[0][1:], strict=True):
        came = DEVICES[p.name][1]
        assert (found.sent, found.foreign) == (p.frames, 0) and found.came == came * p.frames, (p.name, found)
        yield f"device {p.name}", found.instructions / p.frames


def test_a_frame_costs_engine_and_devices_what_is_recorded(exact_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_engine()
    need_clang()
    monkeypatch.setenv("PATH", f"{find_engine().parent}:{os.environ['PATH']}")
    release = release_of(newest_kernel())
    trials = "\n".join(f"trial {backend} {frames}" for backend, pair in FRAMES.items() for frames in pair)
    of_devices, passes = devices_script(tmp_path)
    engine, devices = asyncio.run(consoles(exact_cache, [SCRIPT.format(mark=MARK, trials=trials).encode(), of_devices]))
    found = {backend: cost(engine, backend) for backend in FRAMES} | dict(costs_of_devices(devices, passes))
    found = {name: round(of, 1) for name, of in found.items()}
    recorded = json.loads(RECORDED.read_text())
    if os.environ.get("ENGINE_COST") == "write":
        RECORDED.write_text(json.dumps(recorded | {release: found}, indent=1) + "\n")
    need(f"{RECORDED.name} of {release}", release in recorded)
    apart = {
        name: (recorded[release].get(name), of)
        for name, of in found.items()
        if abs(of / recorded[release].get(name, 1.0) - 1) > WITHIN.get(name, 0.01)
    }
    assert not apart, "recorded and found"
