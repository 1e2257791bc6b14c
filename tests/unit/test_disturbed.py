"""A trial that other work disturbed does not count, is done again a bounded number of times, and keeps its record."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import run_records
from cells import cell_of
from disturbance import interference, record
from dutlab import labs
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import StoreError
from dutlab.hosts.local import THIS_MACHINE
from dutlab.methods.ports import Measured, OfferCount
from dutlab.physics.disturbed import MOST_TAKEN, VoidAttempts, disturbed, disturbed_load, explains_loss
from dutlab.physics.interference import ForwardingWait, ThreadTime
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure, Missing
from dutlab.report.pages.terminal import terminal_table
from dutlab.report.write import write_report
from dutlab.runner.attempts import Attempts
from dutlab.runner.journal import Journal, read_journal
from dutlab.runner.progress import RunResult
from dutlab.runner.trial import with_rate_per_cpu_second
from dutlab.sensors.cpu_account import forwarding_names
from dutlab.spec.links import Port
from dutlab.store.attempts import AttemptReason
from dutlab.store.index import Wanted, list_runs, opened
from dutlab.store.judged import judged
from dutlab.store.record import DoubtRecord, TrialRecord
from dutlab.store.run_folder import RunFolder


def new_run(runs: Path, trials: int = 3, modes: tuple[str, ...] = ("router",), **experiment: str) -> RunFolder:
    cells = [record(n, mode=mode, repeat=n).cell for mode in modes for n in range(1, trials + 1)]
    return run_records.new_run(runs, cells, resolved={"experiment": {"name": "busy", **experiment}})


def test_a_trial_that_lost_a_hundredth_of_its_cpu_time_to_others_is_disturbed_and_a_load_of_a_search_that_lost_a_tenth() -> None:
    for judge, calm, busy, percent in ((lambda t: disturbed([t])[0], 0.009, 0.03, "3%"), (disturbed_load, 0.09, 0.11, "11%")):
        assert judge({"this-machine": interference(calm)}) == ""
        assert (why := judge({"this-machine": interference(busy)})).startswith("this-machine: ") and percent in why
    # Threads that wait for one another are not disturbed; an engine that somebody suspended is.
    assert "1.2 s" in disturbed_load({"this-machine": replace(interference(0.0), stopped_s=1.25)})
    assert disturbed_load({"this-machine": interference(0.0, wait_share=0.95)}) == ""


def test_a_trial_is_compared_with_the_calmest_of_its_cell_host_by_host() -> None:
    cell = [{"sink": interference(None, wait_share=share)} for share in (0.45, 0.35, 0.46)]
    assert [bool(why) for why in disturbed(cell)] == [False, False, True]
    assert disturbed_load(cell[2]) == ""
    # A little work of others that keeps threads waiting much longer than in the calmest trial disturbs.
    used = ((0.0, 0.05), (0.05, 0.25), (0.05, 0.14), (0.01, 0.25))
    cell = [{"lab": replace(interference(0.0, wait_share=share), others_cpu_s=others_s)} for others_s, share in used]
    calm, why, *others = disturbed(cell)
    assert (calm, others) == ("", ["", ""]), "the last waited as long, and others did next to nothing meanwhile"
    assert all(fact in why for fact in ("lab: ", "0.1 s", "25%", "5%"))
    # Hosts are judged each by itself.
    cell = [{"source": interference(0.0), "sink": interference(0.5)}, {"source": interference(0.0)}, {}]
    assert [why.partition(":")[0] for why in disturbed(cell)] == ["sink", "", ""]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.one_of(st.none(), st.floats(0, 0.9)), st.floats(0, 0.9)), max_size=8))
def test_a_cell_never_loses_its_calmest_trial_to_a_comparison(cell: list[tuple[float | None, float]]) -> None:
    found = disturbed([{"h": interference(taken, wait_share=wait)} for taken, wait in cell])
    compared = [(wait, why) for (taken, wait), why in zip(cell, found, strict=True) if taken is None or taken < 0.99 * MOST_TAKEN]
    least = min((wait for _, wait in cell), default=0.0)
    assert all(not why for wait, why in compared if wait <= least)


def test_a_loss_that_fits_into_the_time_that_threads_waited_is_the_rigs() -> None:
    found = {"this-machine": interference(0.05)}  # some 53 ms of waiting
    assert explains_loss(found, failed_frames=300, made_pps=1e6, by_rig=False)
    assert not explains_loss(found, failed_frames=300_000, made_pps=1e6, by_rig=False)
    assert not explains_loss(found, failed_frames=0, made_pps=1e6, by_rig=False)
    # Next to no waiting explains a loss only where counters place it in the rig.
    found = {"this-machine": interference(0.01)}
    assert not explains_loss(found, failed_frames=300, made_pps=1e6, by_rig=False)
    assert explains_loss(found, failed_frames=300, made_pps=1e6, by_rig=True)
    assert not explains_loss({"this-machine": interference(0.0)}, failed_frames=300, made_pps=1e6, by_rig=True)


@pytest.mark.parametrize(
    ("attempts", "by_work", "by_link", "said"),
    [
        (4, 4, 0, ()), (5, 4, 0, ("machine too busy", "4 of 5")), (6, 4, 0, ()), (6, 2, 2, ()),
        (5, 0, 4, ("link unsteady", "4 of 5")), (6, 3, 2, ("3 of 6", "down in 2")),
    ],
)  # fmt: skip
def test_where_nearly_no_attempt_counts_the_reason_is_said(attempts: int, by_work: int, by_link: int, said: tuple[str, ...]) -> None:
    words = VoidAttempts(attempts, by_work, by_link).words
    assert bool(words) == bool(said) and all(part in words for part in said)
    assert ("busy" in words) == (bool(said) and not by_link)


def test_a_disturbed_trial_is_no_measured_one_and_says_why() -> None:
    first, second = judged([record(1), record(2, 0.4, repeat=2)])
    assert (first.status, second.status) == ("measured", "disturbed")
    assert "40%" in second.why
    assert [d.kind for d in second.doubts] == ["DISTURBED"]
    assert judged([second])[0].doubts == second.doubts
    # Cells are not mixed.
    assert [r.status for r in judged([record(1, None, wait_share=0.1), record(2, None, wait_share=0.9, mode="nat")])] == ["measured"] * 2
    # A method that judged each of its offers is not judged as a whole.
    searched = record(1, 0.4).model_copy(update={"offers": OfferCount(made=20, disturbed=9)})
    assert judged([searched])[0].status == "measured"
    # A trial of one offer is compared with its cell.
    waited = record(2, 0.05, wait_share=0.25, repeat=2).model_copy(update={"offers": OfferCount(made=1, disturbed=0)})
    assert [r.status for r in judged([record(1, wait_share=0.05), waited])] == ["measured", "disturbed"]


def test_disturbed_trials_that_are_to_count_are_measured_and_carry_the_doubt(tmp_path: Path) -> None:
    run = new_run(tmp_path, disturbed="count")
    run.write_trial(record(1, 0.4), {})
    (found,) = run.records()
    assert (found.status, [d.kind for d in found.doubts]) == ("measured", ["DISTURBED"])


def test_an_attempt_is_kept_whole_beside_the_trial_that_counts(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.write_trial(record(1, 0.4), {"iperf3.json": b"{}"})
    written = (run.path / "trials/0001/record.json").read_bytes()
    attempt = run.set_aside(1, AttemptReason.DISTURBED)
    assert attempt.folder.name == "0001.disturbed-1"
    assert (attempt.folder / "record.json").read_bytes() == written
    assert (attempt.folder / "raw/iperf3.json").read_bytes() == b"{}"
    assert run.finished() == set() and not (run.path / "trials/0001").exists()
    run.write_trial(record(1), {})
    assert run.set_aside(1, AttemptReason.TOOL_ENDED).folder.name == "0001.tool-ended-2"
    assert [(a.trial, a.number, a.reason) for a in run.attempts()] == [(1, 1, AttemptReason.DISTURBED), (1, 2, AttemptReason.TOOL_ENDED)]
    with pytest.raises(StoreError):
        run.set_aside(1, AttemptReason.DISTURBED)
    # The manifest covers attempts.
    run.write_trial(record(1), {})
    run.write_manifest()
    assert "trials/0001.disturbed-1/record.json" in (run.path / "MANIFEST.sha256").read_text()
    (run.path / "trials/0001.disturbed-1/record.json").write_text("{}")
    assert run.verify_manifest().changed == ("trials/0001.disturbed-1/record.json",)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return new_run(tmp_path)


def attempts_of(run: RunFolder, journal: Journal, notes: list[str], most: int = 2) -> Attempts:
    def aside(trial: int, attempt: int, reason: str, why: str) -> None:
        notes.append(f"{trial} {attempt} {reason} {why}")

    return Attempts(run, journal, most, notes.append, aside)


def keep(run: RunFolder, attempts: Attempts, found: TrialRecord) -> TrialRecord:
    verdict = attempts.verdict(found)
    run.write_trial(verdict, {})
    attempts.written(verdict)
    return verdict


def test_a_disturbed_trial_is_done_again_a_bounded_number_of_times(run: RunFolder) -> None:
    notes: list[str] = []
    with closing(Journal(run.journal)) as journal:
        attempts = attempts_of(run, journal, notes)
        done = []
        while True:
            done.append(keep(run, attempts, record(1, 0.4)))
            if not attempts.once_more(1, AttemptReason.DISTURBED, done[-1].why):
                break
    assert [(r.status, r.attempt) for r in done] == [("disturbed", 1), ("disturbed", 2), ("disturbed", 3)]
    assert [a.folder.name for a in run.attempts()] == ["0001.disturbed-1", "0001.disturbed-2"]
    assert run.finished() == {1}
    assert [e["attempt"] for e in read_journal(run.journal) if e["event"] == "attempt-set-aside"] == [1, 2]
    assert notes[0].startswith("1 1 disturbed this-machine: ")


def test_the_bound_holds_over_a_resume_and_for_each_reason_apart(run: RunFolder) -> None:
    for _ in range(2):
        with closing(Journal(run.journal)) as journal:
            attempts = attempts_of(run, journal, [], most=1)
            keep(run, attempts, record(1, 0.4))
            again = attempts.once_more(1, AttemptReason.DISTURBED, "")
    assert not again
    assert len(run.attempts()) == 1
    with closing(Journal(run.journal)) as journal:
        attempts = attempts_of(run, journal, [], most=1)
        keep(run, attempts, record(2, repeat=2).model_copy(update={"status": "failed", "why": "the engine was killed"}))
        assert attempts.once_more(2, AttemptReason.TOOL_ENDED, "the engine was killed")
        keep(run, attempts, record(2, 0.4, repeat=2))
        assert attempts.once_more(2, AttemptReason.DISTURBED, "")
        assert keep(run, attempts, record(2, repeat=2)).attempt == 3
        assert not attempts.once_more(2, AttemptReason.TOOL_ENDED, "")


def test_a_machine_that_is_too_busy_ends_the_repeating_and_is_named_once(run: RunFolder) -> None:
    notes: list[str] = []
    with closing(Journal(run.journal)) as journal:
        attempts = attempts_of(run, journal, notes, most=10)
        for _ in range(5):
            keep(run, attempts, record(1, 0.4))
            again = attempts.once_more(1, AttemptReason.DISTURBED, "")
        assert not again and not attempts.once_more(1, AttemptReason.DISTURBED, "")
    assert ["5 of 5" in note for note in notes if "too busy" in note] == [True]


def test_a_report_says_which_trials_were_done_again_and_counts_the_others(run: RunFolder) -> None:
    run.write_trial(record(1, 0.4), {})
    run.set_aside(1, AttemptReason.DISTURBED)
    for n in (1, 2):
        run.write_trial(record(n, repeat=n), {})
    run.write_trial(record(3, 0.5, repeat=3), {})
    found = gather(run.path, run.path)
    assert found.busy == ""
    assert all(words in found.repeated for words in ("2 trials", "again: 1.", "counts: 3."))
    (value,) = [v for row in found.sections[0].tables[0].rows for v in row.cells]
    assert (value.n, value.median) == (2, 9e9)
    assert [(t.number, t.status) for t in found.unsuccessful] == [(3, "disturbed")]


def two_modes(runs: Path, *taken: float) -> RunFolder:
    """Three trials of `router` and three of `nat`, of each of which others took such a share."""
    run = new_run(runs, 3, ("router", "nat"))
    for n, share in enumerate(taken, 1):
        run.write_trial(record(n, share, mode="router" if n < 4 else "nat", repeat=(n - 1) % 3 + 1), {})
    return run


def test_a_report_of_a_machine_that_was_too_busy_says_so_first_and_answers_nothing(tmp_path: Path) -> None:
    run = two_modes(tmp_path, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5)
    found = gather(run.path, run.path)
    assert "5 of 6" in found.busy
    assert found.headlines == ()
    written = {p.suffix: p for p in write_report([run.path], formats=("html", "md"), out=None)}
    page, text = written[".html"].read_text(), written[".md"].read_text()
    assert page.index("Machine too busy") < page.index("<h2>Answer</h2>")
    assert text.index("Machine too busy") < text.index("## Answer")


def test_a_link_that_goes_down_is_not_called_other_work(tmp_path: Path) -> None:
    down = Doubt(DoubtKind.LINK_WENT_DOWN, "dut:in-a", "a")
    run, notes = new_run(tmp_path, 6, ("router",)), list[str]()
    with closing(Journal(run.journal)) as journal:
        attempts = attempts_of(run, journal, notes, most=1)
        for n in range(1, 7):
            void = record(n, repeat=n).model_copy(
                update={"status": "disturbed", "why": "link a went down", "doubts": [DoubtRecord.of(down)]}
            )
            keep(run, attempts, record(n) if n == 6 else void)
            attempts.once_more(n, AttemptReason.DISTURBED, "") if n == 1 else None
        assert not attempts.any_disturbed and "link unsteady" in attempts.reason_not_to_repeat
        keep(run, attempts, record(1, repeat=1))
    found = gather(run.path, run.path)
    assert found.busy == "" and "other work" not in found.repeated.lower() and "5 trials" in found.repeated
    assert not [step for step in found.answer.next if "DUTLAB_DISTURBED" in step.command or "quiet" in step.command]
    assert [of.doubts for _, of in run.set_aside_records()] == [[DoubtRecord.of(down)]], "nothing is added to it"


def test_a_cell_without_an_undisturbed_trial_has_no_figure_that_counts_and_hides_no_other(tmp_path: Path) -> None:
    run = two_modes(tmp_path, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5)
    found = gather(run.path, run.path)
    assert found.busy == ""
    assert "4–6" in found.repeated and "1 cell" in found.repeated and found.repeated in found.answer.sure
    assert "9.0" in " ".join(found.answer.fast), "the other cell's figure is in the answer"
    values = {row.label: row.cells[0] for row in found.sections[0].tables[0].rows}
    assert isinstance(values["nat"], Missing) and "disturbed" in values["nat"].why
    assert values["nat"].greyed is not None and values["nat"].greyed.median == 4.5e9
    shown = "\n".join(terminal_table(found.sections[0].tables[0]))
    assert "(4.5" in shown and "9.0" in shown
    # Beside undisturbed trials of its cell, one does not show at all.
    run = new_run(tmp_path / "other")
    for n in (1, 2, 3):
        run.write_trial(record(n, 0.5 if n == 3 else 0.0, repeat=n), {})
    (value,) = [v for row in gather(run.path, run.path).sections[0].tables[0].rows for v in row.cells]
    assert isinstance(value, Figure) and (value.n, value.median) == (2, 9e9)


def test_the_index_counts_them_and_keeps_their_figures_out(run: RunFolder) -> None:
    run.write_trial(record(1), {})
    run.write_trial(record(2, 0.4, repeat=2), {})
    with opened(run.path.parent) as index:
        (line,) = list_runs(index, Wanted())
        assert (line.measured, line.disturbed) == (1, 1)
        assert [row["status"] for row in index.execute("SELECT status FROM trials ORDER BY trial")] == ["measured", "disturbed"]


def test_interference_survives_the_record_and_back(run: RunFolder) -> None:
    kept = replace(interference(0.25), threads={})
    run.write_trial(record(1).model_copy(update={"interference": {"sink": kept}}), {})
    assert run.record(1).interference == {"sink": kept}


def test_the_rate_per_cpu_second_is_of_the_time_that_the_load_was_on() -> None:
    cell = cell_of("iperf3", streams=4, duration_s=4, omit_s=1)
    threads = {"iperf3": ThreadTime(1.5, 0.0), "napi/in-a-80": ThreadTime(0.4, 0.0), "napi/eth-a-9": ThreadTime(0.1, 0.0)}
    found = {THIS_MACHINE: replace(interference(0.5), run_s=2.0, threads=threads)}
    measured = with_rate_per_cpu_second(Measured({"a": {"goodput_bps": 8e9}}), cell, found, ("napi/in-a-", "napi/out-a-"))
    of_all, of_forwarding = 8e9 * 5 / 2, 8e9 * 5 / 0.4
    assert measured.figures["a"] == {"goodput_bps": 8e9, "goodput_bits_per_cpu_s": of_all, "forwarded_bits_per_cpu_s": of_forwarding}
    assert "forwarded_bits_per_cpu_s" not in with_rate_per_cpu_second(Measured({"a": {"goodput_bps": 8e9}}), cell, found).figures["a"]
    sweep = cell_of("sweep", duration_s=4, warmup_s=1, frame_size="64")
    frames = [
        with_rate_per_cpu_second(Measured({"a": {"received_pps": 1e6}}), sweep, found, ("napi/in-a-",), counted).figures["a"]
        for counted in (0.0, 6e6)
    ]
    forwarding = ForwardingWait(0.4, 0.0, 9, instructions=3e9, cycles=6e9, fixed_work_s=2e-5)
    counted = {THIS_MACHINE: replace(found[THIS_MACHINE], forwarding=forwarding)}
    of_frames = with_rate_per_cpu_second(Measured({"a": {"received_pps": 1e6}}), sweep, counted, ("napi/in-a-",), 6e6).figures["a"]
    assert (of_frames["instructions_per_frame"], of_frames["cycles_per_frame"]) == (500, 1000)
    assert of_frames["forwarded_frames_per_work"] == pytest.approx(6e6 / 0.4 * 2e-5)
    assert all("instructions_per_frame" not in of for of in frames), "this machine did not count them"
    assert [of["forwarded_frames_per_cpu_s"] for of in frames] == [sweep.setting.loaded_s * 1e6 / 0.4, 6e6 / 0.4]
    polling = with_rate_per_cpu_second(
        Measured({"a": {"received_pps": 1e6}}), sweep, found, ("napi/in-a-", "iperf3"), 5e6, shares={"iperf3": 0.4}
    ).figures["a"]
    assert polling["forwarded_frames_per_cpu_s"] == pytest.approx(5e6 / (0.4 + 0.4 * 1.5)), "what polls in vain forwards nothing"
    assert polling["received_frames_per_cpu_s"] == pytest.approx(5e6 / (2.0 - 0.6 * 1.5))
    for unknown in ({}, {"source": found[THIS_MACHINE]}, {THIS_MACHINE: replace(found[THIS_MACHINE], run_s=0.0, threads={})}):
        assert "goodput_bits_per_cpu_s" not in with_rate_per_cpu_second(Measured({"a": {"goodput_bps": 8e9}}), cell, unknown).figures["a"]


def test_the_threads_that_forward_are_those_of_the_duts_ports() -> None:
    lab = labs.description("three-node").testbed
    assert forwarding_names(lab) == ("napi/in-a-", "napi/out-a-", "napi/in-b-", "napi/out-b-")
    ports = {
        name: link.model_copy(update={"path": (*link.path[:1], Port(host="dut", interface="eth-a"), *link.path[2:])})
        for name, link in lab.links.items()
    }
    assert forwarding_names(lab.model_copy(update={"links": ports})) == (), "the source has a port of that name too"


def costly(trial: int, mode: str, repeat: int, ns: float, taken: float) -> TrialRecord:
    """A trial that needs so many ns of the forwarding threads for a frame, and lost a share of its rate to others."""
    found = record(trial, taken, mode=mode, repeat=repeat)
    return found.model_copy(update={"figures": {"a": {**found.figures["a"], "forwarded_frames_per_cpu_s": 1e9 / ns}}})


@pytest.mark.parametrize("taken", [0.0, 0.6])
def test_modes_are_compared_by_processor_time_per_frame_where_rates_are_disturbed(tmp_path: Path, taken: float) -> None:
    run = new_run(tmp_path, 6, ("router", "nat"))
    for n in range(1, 7):
        run.write_trial(costly(n, "router", n, 1000 + n, taken), {})
        run.write_trial(costly(n + 6, "nat", n, 1620 + n, taken), {})
    found = gather(run.path, run.path)
    assert found.answered
    if not taken:
        assert found.cpu_cost is None and found.headlines
        return
    assert found.busy and found.cpu_cost is not None
    assert (found.cpu_cost.attempts, found.cpu_cost.disturbed, found.cpu_cost.forwarding) == (12, 12, True)
    router, nat = found.cpu_cost.modes
    assert (router.mode, router.times, nat.mode, nat.proven) == ("router", 1.0, "nat", True)
    assert (nat.times, router.ns_per_frame, nat.ns_per_frame) == pytest.approx((1.62, 1003.5, 1623.5), rel=1e-2)
    assert any("nat costs 1.62 × router" in words for words in found.answer.fast)
    assert any(step.command.startswith("DUTLAB_DISTURBED=count ") for step in found.answer.next)


@pytest.mark.parametrize("is_read", [False, True])
def test_modes_are_compared_at_equal_speed_where_the_processor_was_slower_in_some_trials(tmp_path: Path, is_read: bool) -> None:
    """Its neighbours on one host slow it by up to a half: what nat costs is lost in that, unless the speed is read."""
    run = new_run(tmp_path, 6, ("router", "nat"))
    slower = (1.0, 1.5, 1.1, 1.4, 1.05, 1.3, 1.5, 1.0, 1.2, 1.0, 1.4, 1.1)
    for n, (times, (mode, ns)) in enumerate(zip(slower, [*[("router", 1000)] * 6, *[("nat", 1300)] * 6], strict=True), 1):
        of = costly(n, mode, (n - 1) % 6 + 1, ns * times + n % 3, 0.0)
        forwarding = ForwardingWait(1.0, 0.0, 1, fixed_work_s=2e-5 * times if is_read else None)
        per_work = {"forwarded_frames_per_work": of.figures["a"]["forwarded_frames_per_cpu_s"] * 2e-5 * times} if is_read else {}
        figures = {"a": {**of.figures["a"], **per_work}}
        read = {THIS_MACHINE: replace(interference(0.0), forwarding=forwarding)}
        run.write_trial(of.model_copy(update={"interference": read, "figures": figures}), {})
    found = gather(run.path, run.path)
    assert (found.cpu_cost is not None) is is_read
    if found.cpu_cost is not None:
        assert "50%" in found.spread and found.cpu_cost.at_equal_speed
        router, nat = found.cpu_cost.modes
        assert (router.mode, nat.times, nat.proven) == ("router", pytest.approx(1.3, rel=1e-3), True)
        assert (router.ns_per_frame, nat.ns_per_frame) == pytest.approx((1000 * 1.15, 1300 * 1.15), rel=1e-2), "at the usual speed"
        assert found.cpu_cost.words in found.answer.fast


def test_a_run_that_is_answered_by_processor_time_ends_with_0() -> None:
    busy = RunResult(Path("run"), measured=4, failed=0, refused=0, disturbed=20)
    assert (busy.exit_status_of(answered=True), busy.exit_status_of(answered=False), busy.exit_status) == (0, 1, 1)
    assert replace(busy, left=1).exit_status_of(answered=True) == 1


def test_one_mode_is_compared_with_nothing(run: RunFolder) -> None:
    for n in (1, 2, 3):
        run.write_trial(costly(n, "router", n, 1000, 0.5), {})
    assert (found := gather(run.path, run.path)).cpu_cost is None and not found.answered
