"""Which functions take the instructions of a frame: the log of a pass, the sum of a record's table, and what changed between two."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from click.testing import CliRunner

from cells import cell_of
from dutlab.cli.effects import cost
from dutlab.report.model.groups import Group
from dutlab.report.questions.cells import instructions_by_mode
from dutlab.report.questions.sides import open_run
from dutlab.report.sections.instructions import TOP, instructions_section
from dutlab.stats.functions import FUNCTIONS, REST, WITH, WITHOUT, FunctionCost, changes, grown, of_rows, words_of
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.tools.exact.guest import Pass
from dutlab.tools.exact.program import folded, function_costs, profiles_of
from dutlab.tools.exact.traced import Count, FrameLog, PassProfile, Symbols, Tracer, symbols_in, tracer, without_symbols
from fake_run import Wanted, build

EXACT = {"frame_size": "64", "frames": 1000, "flow_count": 1, "rules": 0, "routes": 0, "mtu": 1500, "profile": True}
KALLSYMS = """ffffffff81000000 T netif_rx
ffffffff81000100 T asm_sysvec_apic_timer_interrupt
ffffffff81000200 t netif_rx.cold
ffffffff81000300 T __softirqentry_text_start
ffffffff81000300 T __do_softirq
ffffffff81000380 D data
ffffffff81000400 T net_rx_action
ffffffffc0000000 t pktgen_thread_worker\t[pktgen]
ffffffffc0001000 t veth_xmit\t[veth]
"""
RX, TICK, COLD, SOFT, POLL, PKTGEN, XMIT = (
    0xFFFFFFFF81000000,
    *(0xFFFFFFFF81000000 + n for n in (0x100, 0x200, 0x300, 0x400)),
    0xFFFFFFFFC0000000,
    0xFFFFFFFFC0001000,
)


def log_of(*addresses: int) -> bytes:
    """As QEMU writes it."""
    return b"".join(b"Trace 0: 0x7f00c0ffee00 [0000000000000000/%016x/0040c0b0/ff000201] \n" % address for address in addresses)


def frame(*more: int) -> list[int]:
    """From the generator into its port, two functions further, and back."""
    return [XMIT, XMIT + 4, RX, RX + 4, SOFT, *more, POLL, SOFT + 8, COLD, RX + 8, XMIT + 8, PKTGEN + 40, PKTGEN + 44]


def left_in_a_queue() -> list[int]:
    """A frame that another thread takes out of its queue later."""
    return [XMIT, XMIT + 4, RX, RX + 4, RX + 8, XMIT + 8, PKTGEN + 40, PKTGEN + 44]


def test_a_log_becomes_stacks_of_whole_frames_without_interrupts() -> None:
    found = FrameLog(Symbols(KALLSYMS))
    text = log_of(0x401000, PKTGEN + 44, *frame(), *frame(SOFT + 4, SOFT + 8), *frame(TICK, SOFT + 4), *left_in_a_queue(), *frame(), XMIT)
    for at in range(0, len(text), 97):
        found.take(text[at : at + 97])
    profile = found.profile()
    assert profile.frames == 3
    begin = ("pktgen_thread_worker",)
    assert profile.stacks == {
        begin: 2, (*begin, "veth_xmit"): 3, (*begin, "veth_xmit", "netif_rx"): 4,
        (*begin, "veth_xmit", "netif_rx", "__do_softirq"): pytest.approx(2 + 2 / 3),
        (*begin, "veth_xmit", "netif_rx", "__do_softirq", "net_rx_action"): 1,
    }  # fmt: skip
    assert (profile.functions["netif_rx"], profile.functions["__do_softirq"].error) == (Count(4), pytest.approx(2 / 3))
    assert sum(profile.stacks.values()) == pytest.approx(sum(of.mean for of in profile.functions.values()))
    with pytest.raises(ValueError, match="0 frames"):
        FrameLog(Symbols(KALLSYMS)).profile()


class OldQemu:
    """A monitor that knows the older command, or neither; it writes a log of two frames when it is asked."""

    def __init__(self, *known: str) -> None:
        self._known, self._name, self._file = known, "", None

    async def command(self, line: str) -> str:
        word, _, rest = line.partition(" ")
        if word == "logfile":
            if self._file is not None:
                self._file.close()
            self._name = rest.strip('"')
        elif line == "log exec":
            self._file = await asyncio.to_thread(Path(self._name).open, "wb")
            await asyncio.to_thread(self._file.write, log_of(PKTGEN, *frame(), *frame(), XMIT))
        return "" if word in {"logfile", "log", *self._known} else f"unknown command: '{word}'"


@pytest.mark.parametrize(("known", "profiles"), [(("singlestep",), 2), ((), 0)], ids=["older", "unknown"])
def test_a_pass_is_logged_between_two_pauses_or_it_is_said_why_not(known: tuple[str, ...], profiles: int, tmp_path: Path) -> None:
    async def traced() -> Tracer:
        monitor = OldQemu(*known)
        async with tracer(tmp_path) as log:
            for _ in range(4):
                await log.paused(monitor, f"dutlab: symbols\n{KALLSYMS}dutlab: symbols end\n")
            return log

    log = asyncio.run(traced())
    assert ([of.frames for of in log.profiles], bool(log.why)) == ([2] * profiles, not profiles)
    assert not list(tmp_path.iterdir())


def test_symbols_are_taken_off_the_console() -> None:
    console = f"dutlab: a\ndutlab: symbols\n{KALLSYMS}dutlab: symbols end\ndutlab: pause\n"
    assert symbols_in(console) == KALLSYMS
    assert without_symbols(console) == "dutlab: a\ndutlab: symbols\ndutlab: symbols end\ndutlab: pause\n"
    assert without_symbols("dutlab: done\n") == "dutlab: done\n"


def profile(**functions: float) -> PassProfile:
    return PassProfile(
        255, {(name,): mean for name, mean in functions.items()}, {name: Count(mean, 1.0) for name, mean in functions.items()}
    )


def test_functions_and_the_rest_add_up_to_the_figures() -> None:
    planned = [Pass(name, size, frames, "v0") for size, frames in ((64, 750), (1518, 250)) for name in ("router", "traced-rig", "traced")]
    profiles = profiles_of(planned, [profile(send=100), profile(send=100, route=300), profile(send=140), profile(send=140, route=340)])
    figures = {"exact_whole_instructions_per_frame": 430.0, "exact_rig_instructions_per_frame": 112.0}
    costs = function_costs(profiles, figures)
    assert [(of.name, of.own, of.whole, of.rig) for of in costs] == [
        ("route", 310, 310, 0), ("send", 0, 110, 110), (REST, pytest.approx(8), 10, 2)
    ]  # fmt: skip
    assert of_rows(of.row for of in costs) == costs
    assert folded(profiles[WITHOUT]).splitlines()[1:] == [b"send 110000"] and b"route 310000" in folded(profiles[WITH])


def test_a_report_has_a_table_and_a_flame_graph_a_mode_and_the_difference_of_two(tmp_path: Path) -> None:
    now, groups = datetime(2026, 11, 27, tzinfo=UTC), list[Group]()
    for trial, mode in enumerate(("router", "nat"), 1):
        costs = [FunctionCost(f"f{n}", 100.0 - n, 0.0, 200.0 - n, 100.0) for n in range(TOP + 3)]
        cell = cell_of("exact", mode=mode, links=("dut",), **EXACT)
        raw = tmp_path / "trials" / f"{trial:04d}" / "raw"
        raw.mkdir(parents=True)
        (raw / "instructions-router.folded").write_bytes(folded(profile(send=100.0, route=100.0 * trial)))
        record = TrialRecord(
            trial=trial, status="measured", cell=cell, started=now, ended=now, figures={}, raw=["raw/instructions-router.folded"],
            tables={FUNCTIONS: [of.row for of in costs]},
        )  # fmt: skip
        groups.append(Group(mode, cell, [trial], [record]))
    (found,) = instructions_section(cast("RunFolder", SimpleNamespace(path=tmp_path)), groups, ["router", "nat"])
    assert [len(table.rows) for table in found.tables] == [TOP + 2, TOP + 2]
    others, whole = found.tables[0].rows[-2:]
    assert (others.cells[0], whole.cells[0]) == ("3 others", "all together")
    assert whole.cells[1].median == sum(100.0 - n for n in range(TOP + 3)) and whole.cells[2].median == 1.0
    assert [{box.name for box in flame.boxes} for flame in found.flames] == [{"send", "route"}] * 3
    assert [any(box.change for box in flame.boxes) for flame in found.flames] == [False, False, True]
    assert instructions_section(cast("RunFolder", None), [], []) == ()


def test_a_change_is_named_where_the_choice_of_frames_does_not_explain_it() -> None:
    older = [FunctionCost(name, own, error, own, 0) for name, own, error in (("a", 100, 0), ("b", 50, 3), ("c", 70, 0), (REST, 9, 0))]
    newer = [FunctionCost(name, own, error, own, 0) for name, own, error in (("a", 512, 1), ("b", 55, 3), ("d", 18, 0), (REST, 30, 0))]
    found = changes(older, newer)
    assert [(of.name, of.change) for of in found] == [("a", 412), ("c", -70), ("d", 18)]
    assert words_of(grown(found)) == "a +412 ± 2.0, d +18"


def test_cost_has_instructions_of_the_same_mode_and_size_next_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(tmp_path, Wanted(seconds=2, cores=0, sizes=(64,)))
    run = open_run(path)
    assert instructions_by_mode(run) == {}
    counted = [r.model_copy(update={"figures": {r.cell.link_label: {"exact_instructions_per_frame": 5000.0}}}) for r in run.records]
    runs = {path: run, tmp_path: type(run)(run.name, tuple(counted), {})}
    monkeypatch.setattr("dutlab.report.questions.sides.open_run", runs.__getitem__)
    both, alone = (CliRunner().invoke(cost, [str(path), *words]) for words in (("--exact", str(tmp_path)), ()))
    assert both.output.count(" 5,000.0") == len(run.modes) and "instructions" not in alone.output
    told = json.loads(CliRunner().invoke(cost, [str(path), "--exact", str(tmp_path), "--json"]).output)["costs"]
    assert {of["mode"]: of["instructions"] for of in told} == dict.fromkeys(run.modes, 5000.0)
