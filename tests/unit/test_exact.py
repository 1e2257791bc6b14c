"""The workload `exact` without a guest: what a console says, which frames make a trial void, what counts say of one another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dutlab.analysis.answers import AnswerKind, Contest, Entrant, decide
from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Pair
from dutlab.analysis.verdict import Reason, Verdict
from dutlab.dut.linux_exact import GUEST, in_words
from dutlab.errors import LabError, SpecRefused
from dutlab.hosts.kernels import release_of
from dutlab.hosts.local import LocalHost
from dutlab.spec.bounds import TestbedBounds
from dutlab.spec.known import EXACT, FAMILY_MODES
from dutlab.spec.loader import given_experiment
from dutlab.spec.workloads.exact import ExactSetting, ExactWorkload
from dutlab.tools.exact.guest import PROOF_FRAMES, Pass, insist_on_modules, layer3_bytes, passes_of, trial_script
from dutlab.tools.exact.machine import GuestEnd, GuestStuck, Machine, ended, tried
from dutlab.tools.exact.program import PassResult, figures_of, parse_console, void_because


def settings(**given: object) -> list[ExactSetting]:
    return [drive.setting for drive in ExactWorkload.model_validate(given).drives(TestbedBounds({}, {}))]  # type: ignore[misc]


def results(planned: list[Pass], *, instructions: int = 1000) -> list[PassResult]:
    proof = PassResult(1, PROOF_FRAMES, 0, PROOF_FRAMES, 0, 0)
    return [proof, *(PassResult(instructions * p.frames, p.frames, 0, p.frames, layer3_bytes(p), 0) for p in planned)]


CONSOLE = """KASLR disabled
dutlab: pass proof v0 64 60 9000 9001 Result: OK: 5014(c4996+d18) usec, 64 (60byte,0frags)   12762pps 6Mb/sec (6125760bps) errors: 0
dutlab: counted table netdev sink { counter ours { packets 64 bytes 2944 } counter foreign { packets 0 bytes 0 } }
dutlab: distinct 64
dutlab: pass rig g0 100 60 10000 10001 Result: OK: 400(c400+d0) usec, 100 (60byte,0frags)   1pps 1Mb/sec (1bps) errors: 0
dutlab: counted table netdev sink { counter ours { packets 100 bytes 4600 } counter foreign { packets 2 bytes 80 } }
dutlab: tracked 7
dutlab: done
"""


def test_a_console_is_read_as_pktgen_and_nft_print_it() -> None:
    found, distinct, tracked = parse_console(CONSOLE)
    assert (distinct, tracked) == (64, 7)
    assert found[1] == PassResult(instructions=400_000, sent=100, errors=0, came=100, layer3_bytes=4600, foreign=2)
    with pytest.raises(ValueError, match="output of a trial"):
        parse_console(CONSOLE.replace("dutlab: tracked 7\n", ""))


def test_a_guest_has_no_network_and_no_file_of_this_machine() -> None:
    argv = Machine(Path("kernel"), b"", "max", "8.2").argv
    assert {"-nodefaults", "-no-user-config"} < set(argv)
    assert [argv[at + 1] for at, word in enumerate(argv) if word == "-device"] == ["pvpanic-pci"]
    assert not {word for word in argv if word.startswith(("-net", "-nic", "-drive", "-hd", "-blockdev", "-virtfs", "-fsdev", "-chardev"))}


def test_the_rig_is_taken_away_and_a_mix_is_weighed_by_its_sizes() -> None:
    (setting,) = settings(frame_sizes=[{"name": "two", "parts": {64: 3, 1518: 1}}], frames=1000, flows=[200])
    planned = passes_of(setting)
    assert [(p.name, p.size, p.frames, p.port) for p in planned] == [
        ("first-rig", 64, 200, "g0"), ("first", 64, 200, "v0"), ("rig", 64, 750, "g0"), ("router", 64, 750, "v0"),
        ("rig", 1518, 250, "g0"), ("router", 1518, 250, "v0"),
    ]  # fmt: skip
    cost = {"first-rig": 100, "first": 900, "rig": 100, "router": 500}
    each = [
        replace(of, instructions=(cost[p.name] + (40 if p.size > 64 else 0)) * p.frames)
        for p, of in zip(planned, results(planned)[1:], strict=True)
    ]
    figures, rows = figures_of(planned, [results(planned)[0], *each])
    assert figures == {
        "exact_instructions_per_frame": 400, "exact_first_instructions_per_frame": 800, "exact_rig_instructions_per_frame": 110,
        "exact_whole_instructions_per_frame": 510,
    }  # fmt: skip
    assert len(rows) == len(planned)


@pytest.mark.parametrize(
    ("at", "change", "distinct"),
    [
        (0, {}, PROOF_FRAMES - 1),
        (0, {"came": PROOF_FRAMES + 1}, PROOF_FRAMES),
        (0, {"foreign": 1}, PROOF_FRAMES),
        (-1, {"came": 99}, PROOF_FRAMES),
        (-1, {"foreign": 1}, PROOF_FRAMES),
        (-1, {"layer3_bytes": 1}, PROOF_FRAMES),
        (-1, {"errors": 1}, PROOF_FRAMES),
        (-1, {"sent": 99}, PROOF_FRAMES),
    ],
    ids=["lost", "twice", "foreign", "lost-later", "foreign-later", "shortened", "error", "not-sent"],
)
def test_a_frame_that_is_lost_or_comes_twice_or_is_foreign_makes_a_trial_void(at: int, change: dict[str, int], distinct: int) -> None:
    planned = passes_of(settings(frame_sizes=[64], frames=100)[0])
    found = results(planned)
    assert not void_because(planned, found, PROOF_FRAMES)
    found[at] = replace(found[at], **change)  # type: ignore[arg-type] # fields are numbers
    assert void_because(planned, found, distinct)


@pytest.mark.parametrize(
    ("console", "qemu", "kind", "said"),
    [
        ("dutlab: ready\ndutlab: said /dev/stdin:4:9-13: Error: syntax\ndutlab: failed mode\n", "", GuestEnd.MODE, "/dev/stdin:4:9-13: Error: syntax"),
        (f"dutlab: said {'x' * 9000}\ndutlab: failed mode\n", "", GuestEnd.MODE, f"{'x' * 199}…"),
        ("dutlab: failed no module veth\n", "", GuestEnd.PART, "no module veth"),
        ("dutlab: pass 1\ndutlab: late\n", "", GuestEnd.LATE, "dutlab: pass 1 / dutlab: late"),
        ("Decoding failed\n\n -- System halted", "", GuestEnd.NO_BOOT, "Decoding failed / -- System halted"),
        ("", "", GuestEnd.NO_BOOT, "its console is empty"),
        ("", "qemu: -icount: invalid option\n", GuestEnd.NO_ICOUNT, "qemu: -icount: invalid option"),
        ("", "unable to find CPU model 'x'\n", GuestEnd.NO_START, "unable to find CPU model 'x'"),
        ("dutlab: pass 1\nOops\n", "", GuestEnd.SOON, "dutlab: pass 1 / Oops"),
    ],
)  # fmt: skip
def test_a_guest_without_a_result_says_why(console: str, qemu: str, kind: GuestEnd, said: str) -> None:
    failed = ended(LocalHost("dut"), console, qemu)
    assert (failed.kind, failed.message, failed.raw["console.txt"]) == (kind, said, console.encode())
    assert failed.remedy
    assert ended(LocalHost("dut"), console, qemu, is_booted=True).kind is (GuestEnd.SOON if kind is GuestEnd.NO_BOOT else kind)
    assert ended(LocalHost("dut"), console, qemu, is_spent=True).kind is (kind if kind in {GuestEnd.MODE, GuestEnd.PART} else GuestEnd.LATE)


def test_the_script_has_the_rules_routes_and_passes_of_its_setting() -> None:
    (setting,) = settings(frame_sizes=[64], rules=[3], routes=[300], mtu=[9000])
    script = trial_script(setting, in_words("nat", None), passes_of(setting)).decode()
    assert "masquerade" in script and "tcp dport 3 drop" in script and "tcp dport 4 drop" not in script
    assert "n < 4396" in script and "dst_max 10.1.17.43" in script and "mtu 9000" in script
    assert trial_script(setting, in_words("mine", ["nft add table x"]), []).decode().count("nft add table x") == 1


@pytest.mark.parametrize("mode", FAMILY_MODES[EXACT])
def test_each_mode_of_the_family_has_commands(mode: str) -> None:
    words = in_words(mode, None)
    script = trial_script(settings(frame_sizes=[64], routes=[1], offload=["gro"])[0], words, []).decode()
    assert f"route add 10.1.%d.%d {words.hop}" in script and "gro on" in script and ("netns add far" in script) == bool(words.outside)
    assert words.commands and words.to_mac == ("02:00:00:00:00:03" if mode == "bridge" else "02:00:00:00:00:01")
    assert GUEST.links["a"].dut_in.interface == "v1"


TESTBED = "testbed: guest\nhosts: {dut: {local: true, family: linux-exact}}\n"
EXPERIMENT = "experiment: e\ntestbed: {bed}\nfactors: {{mode: [router]}}\nworkloads: [{{exact: {{{body}}}}}]\n"


@pytest.mark.parametrize(
    ("bed", "body", "path"),
    [
        ("bed.yaml", "frame_sizes: [1519]", "workloads.0.exact.frame_sizes.0"),
        ("bed.yaml", "flows: [1, 1]", "workloads.0.exact.flows.1"),
        ("bed.yaml", "kernel: vmlinuz", "workloads.0.exact.kernel"),
        ("bed.yaml", "links: [[a]]", "workloads.0.exact.links"),
        ("{lab: three-node}", "frames: 100", "workloads.0.exact"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(bed: str, body: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "bed.yaml").write_text(TESTBED)
    with pytest.raises(SpecRefused) as refused:
        given_experiment(EXPERIMENT.format(bed=bed, body=body).encode(), tmp_path / "e.yaml")
    assert path in [fault.path for fault in refused.value.faults]


def test_a_module_that_a_mode_needs_and_the_kernel_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "modules.dep").write_text("kernel/net/ipv4/esp4.ko:\nkernel/net/xfrm/xfrm-user.ko.xz: kernel/net/xfrm/xfrm_algo.ko\n")
    (tmp_path / "modules.builtin").write_text("kernel/net/bridge/bridge.ko\n")
    for mode in ("ipsec", "bridge", "router"):
        insist_on_modules(tmp_path, "6.1", in_words(mode, None).modules)
    with pytest.raises(LabError, match=r"wireguard \(CONFIG_WIREGUARD\)"):
        insist_on_modules(tmp_path, "6.1", in_words("wireguard", None).modules)
    insist_on_modules(tmp_path / "absent", "6.1", in_words("wireguard", None).modules)


def test_a_file_that_is_no_kernel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"\0" * 4096)
    for path in (tmp_path / "k", tmp_path / "absent"):
        with pytest.raises(LabError):
            release_of(path)


def test_counts_need_no_test_and_no_repeats() -> None:
    figure = "exact_instructions_per_frame"
    first, second, close = 5000.0, 5010.0, 5004.0
    apart, same, near = compare([Pair("cell", figure, (a,), (b,)) for a, b in ((first, second), (first, first), (first, close))])
    assert (apart.verdict, apart.could_prove, apart.p) == (Verdict.WORSE, True, 0.0)
    assert (same.verdict, same.reason) == (Verdict.NO_DIFFERENCE, Reason.EQUAL)
    assert (near.verdict, near.reason) == (Verdict.NO_DIFFERENCE, Reason.WITHIN)
    assert compare([Pair("cell", figure, (first,), ())])[0].verdict is Verdict.MISSING
    assert compare([Pair("cell", figure, (first,), (second,))], least=0.01)[0].verdict is Verdict.NO_DIFFERENCE
    (standing,) = decide([Contest("64 bytes", figure, (Entrant("nat", ((8006.0,),)), Entrant("router", ((4927.2,),))))])
    assert (standing.kind, standing.best) == (AnswerKind.FASTEST, ("router",))


@pytest.mark.parametrize(("stuck", "runs"), [(0, 1), (2, 3), (3, 3)])
async def test_a_guest_that_is_stuck_is_run_again_three_times_in_all(stuck, runs):
    done = []

    async def once():
        done.append(1)
        if len(done) <= stuck:
            raise GuestStuck("the guest waits", tool="qemu", host="dut")
        return "console"

    if stuck < runs:
        assert await tried(once) == "console"
    else:
        with pytest.raises(GuestStuck):
            await tried(once)
    assert len(done) == runs
