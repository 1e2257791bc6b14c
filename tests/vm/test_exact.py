"""The workload `exact` with its guest: figures that are the same to the last digit, and guests that come to no result."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
from pathlib import Path

import pytest

from dutlab.hosts.kernels import newest_kernel
from main_job import only_run, records
from processes import LIMIT_S, eventually
from vm.conftest import Dutlab, need_clang

pytestmark = pytest.mark.exact

TESTBED = "testbed: guest\nhosts: {dut: {local: true, family: linux-exact}}\n"
EXPERIMENT = """
experiment: exact
testbed: bed.yaml
factors: {mode: [router, filter-default, flowtable, bridge, two-routers, ipsec, wireguard, refused, lost, late]}
modes:
  refused: {apply: ["nft -f - <<'end'\\ntable inet t {\\n  chan x { }\\n}\\nend"], restore: ["true"]}
  lost: {apply: ["nft add table inet t; nft 'add chain inet t f { type filter hook forward priority 0; policy drop; }'"], restore: ["true"]}
  late: {apply: [sleep 20], restore: ["true"]}
workloads:
  - exact: {frame_sizes: [64], frames: 200, limit_s: 15, flows: [100]}
repeats: 1
order: as-written
watch: []
"""
FIGURE = "exact_instructions_per_frame"
XDP = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("xdp") int passes(struct xdp_md *frame) { return XDP_PASS; }
SEC("sends") int to_sink(struct xdp_md *frame) { return bpf_redirect(3, 0); }
SEC("drops") int to_nobody(struct xdp_md *frame) { return XDP_DROP; }
char _license[] SEC("license") = "GPL";
"""
"""The port to the sink is the third in the router's namespace."""


@pytest.fixture
def cache(exact_cache: Path) -> Path:
    return exact_cache


@pytest.fixture
def command(exact_command: Dutlab, tmp_path: Path) -> Dutlab:
    (tmp_path / "bed.yaml").write_text(TESTBED)
    return exact_command


def guests_below(place: Path) -> list[int]:
    """Emulators that use a file there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(place).encode() in (process / "cmdline").read_bytes() and (process / "comm").read_text().startswith("qemu"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def no_state_is_cut(cache: Path) -> bool:
    """Whether each saved guest ends with QEMU's description of its devices: a byte 6, its length (migration/savevm.c), and JSON."""
    states = [path.read_bytes() for path in (cache / "dutlab" / "exact").iterdir() if path.is_file()]
    begins = [data.rindex(b'{"page_size"') for data in states]
    return bool(states) and all(
        data[at - 5] == 6 and int.from_bytes(data[at - 4 : at], "big") == len(data) - at for data, at in zip(states, begins, strict=True)
    )


def test_modes_cost_what_they_cost_to_the_last_digit_and_a_guest_without_a_result_says_why(
    command: Dutlab, tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    done = command("run", "e.yaml")
    assert done.returncode == 1, done.stderr
    found = {r["cell"]["mode"]: r for r in records(only_run(tmp_path))}
    cost = {mode: r["figures"]["dut"][FIGURE] for mode, r in found.items() if r["status"] == "measured"}
    assert cost["bridge"] < cost["router"] < cost["flowtable"] < cost["filter-default"], cost  # the second frame of a flow makes it fast
    assert cost["router"] < cost["two-routers"] < cost["ipsec"] < cost["wireguard"], cost
    assert "rfc4106-gcm-aesni" in found["ipsec"]["tool_facts"]["ciphers"].split()
    assert (
        "rfc4106-gcm-aesni" not in found["two-routers"]["tool_facts"].get("ciphers", "")
        and "aes" in found["router"]["tool_facts"]["processor_instructions"].split()
    )
    new = {mode: found[mode]["figures"]["dut"]["exact_first_instructions_per_frame"] - cost[mode] for mode in ("router", "filter-default")}
    assert abs(new["router"]) < 500 < new["filter-default"], new
    facts = found["router"]["tool_facts"]
    assert facts["kernel"] == newest_kernel().name.removeprefix("vmlinuz-")
    assert len(facts["kernel_sha256"]) == len(facts["initrd_sha256"]) == 64
    assert (facts["tracked_flows"], found["filter-default"]["tool_facts"]["tracked_flows"]) == ("0", "101")
    assert not any(r["doubts"] or r["interference"] for r in found.values() if r["status"] == "measured")
    why = {mode: found[mode]["why"] for mode in ("refused", "lost", "late")}
    assert "/dev/stdin:2:" in why["refused"] and "were lost" in why["lost"] and "limit_s" in why["late"], why
    again = command(
        "exact", "--modes", "router", "--size", "64", "frames=200", "limit_s=15", "flows=100", "--profile", "--runs", "again/runs"
    )
    assert again.returncode == 0, again.stderr
    (record,) = records(only_run(tmp_path / "again"))
    assert record["figures"]["dut"][FIGURE] == cost["router"], "with a profile too"
    assert no_state_is_cut(cache)
    functions = {row["function"]: row["own_instructions_per_frame"] for row in record["tables"]["functions"]}
    assert sum(functions.values()) == pytest.approx(cost["router"])
    assert {"ip_forward", "fib_table_lookup"} < functions.keys() and abs(functions.pop("(rest)")) < 0.1 * cost["router"], functions
    page = (only_run(tmp_path / "again") / "report" / "report.html").read_text()
    assert "ip_forward" in page and "Instructions by function: router" in page
    assert not guests_below(cache)
    kernel = bytearray(newest_kernel().read_bytes())
    middle = len(kernel) // 2  # its decompressor is behind what it unpacks
    kernel[middle : middle + 200_000] = bytes(200_000)
    (tmp_path / "broken").write_bytes(kernel)
    broken = command("exact", "--kernel", "broken", "--size", "64", "--mode", "router", "--runs", "broken-runs")
    assert broken.returncode == 1 and "System halted" in broken.stderr, broken.stderr


def test_runs_go_at_once_and_a_guest_ends_with_a_command_that_is_killed(command: Dutlab, tmp_path: Path, cache: Path) -> None:
    running = command.begin("exact", "--modes", "router", "--size", "1518", "frames=1000000")
    assert eventually(lambda: bool(guests_below(cache)))
    meanwhile = command("exact", "--modes", "router", "--size", "64", "frames=100", "--runs", "others")
    assert meanwhile.returncode == 0, meanwhile.stderr
    for state in (path for path in (cache / "dutlab" / "exact").iterdir() if path.is_file()):
        os.truncate(state, state.stat().st_size // 2)  # as after a crash of the machine
    (tmp_path / "long.nft").write_text("# a comment of a long rule set\n" * 3000 + "table inet t {\n chain c {\n counter\n }\n}\n")
    after = command("exact", "--ruleset", "long.nft", "--size", "64", "frames=100", "--runs", "after-a-crash")
    assert after.returncode == 0, after.stderr
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait(LIMIT_S) == -signal.SIGKILL
    assert eventually(lambda: not guests_below(cache))


def test_an_xdp_program_of_the_user_is_a_mode(command: Dutlab, tmp_path: Path) -> None:
    need_clang()
    (tmp_path / "x.c").write_text(XDP)
    flags = ["-O2", "-g", "-target", "bpf", f"-I/usr/include/{platform.machine()}-linux-gnu"]
    for name in ("goes-on", "sends", "drops", "absent"):
        subprocess.run(["clang", *flags, "-c", "x.c", "-o", f"{name}.o"], cwd=tmp_path, check=True)
    programs = ("--xdp", "goes-on.o", "--xdp", "sends.o:sends", "--xdp", "drops.o:drops", "--xdp", "absent.o:none")
    done = command("exact", "--modes", "router", *programs, "--size", "64", "frames=200", "limit_s=15")
    assert done.returncode == 1, done.stderr
    found = {r["cell"]["mode"]: r for r in records(only_run(tmp_path))}
    cost = {mode: r["figures"]["dut"][FIGURE] for mode, r in found.items() if r["status"] == "measured"}
    assert cost["router"] < cost["sends"] < cost["goes-on"], cost  # veth copies a frame that pktgen holds before it shows it to a program
    assert "were lost" in found["drops"]["why"] and "refuses the mode" in found["absent"]["why"], found


def test_each_frame_goes_into_another_of_many_tunnels(command: Dutlab, tmp_path: Path) -> None:
    done = command("exact", "--modes", "ipsec,wireguard", "--size", "64", "frames=200", "tunnels=50")
    assert done.returncode == 0, done.stderr
    cost = {r["cell"]["mode"]: r["figures"]["dut"][FIGURE] for r in records(only_run(tmp_path))}
    assert cost["ipsec"] < cost["wireguard"], cost  # of frames that each came through once
