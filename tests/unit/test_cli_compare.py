"""compare and check over run folders, good and bad."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cells import shown_cell
from dutlab.analysis.design import NotKnown, RunOrder
from dutlab.analysis.verdict import Verdict
from dutlab.cli.check import check
from dutlab.cli.compare import compare
from dutlab.cli.import_files import import_files as import_command
from dutlab.errors import DutlabError, InputError
from dutlab.plan.trials import TURNS, Turns
from dutlab.report.questions import sides
from dutlab.report.questions.compared import compare_modes, compare_runs
from dutlab.report.questions.sides import ComparedRun, open_run
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from fake_run import PPS, Wanted, build
from simulated_runs import SimulatedRun

CALM = {"bad_luck": False, "repeats": 6, "cores": 0, "sizes": (64, 1518)}


def made(folder: Path, name: str, **wanted: object) -> Path:
    return build(folder, Wanted(**{**CALM, **wanted})).rename(folder / name)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An older run and a newer one, in which `router` is as slow as `nat` and `nat` is unchanged."""
    folder = tmp_path_factory.mktemp("runs")
    made(folder, "2026-11-01T0801Z-firewall-modes-0001")
    made(folder, "2026-11-02T0801Z-firewall-modes-0002", modes={"nat": "router", "filter-empty": "filter-empty"})
    return folder


OLD, NEW = "2026-11-01T0801Z-firewall-modes-0001", "2026-11-02T0801Z-firewall-modes-0002"


def run(command: object, *words: object) -> Result:
    return CliRunner().invoke(command, [str(w) for w in words])  # type: ignore[arg-type]


def compared(*words: object) -> dict[str, Any]:
    """The answer of `compare` as JSON, of the first pair."""
    found: dict[str, Any] = json.loads(run(compare, *words, "--json").output)["compared"][0]
    return found


def ratios(found: dict[str, Any]) -> dict[str, float]:
    return {c["pair"]["label"]: c["ratio"]["ratio"] for c in found["comparisons"]}


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {c["pair"]["label"]: c["words"] for c in found["comparisons"]}


def refused(command: object, *words: object) -> DutlabError:
    done = run(command, *words)
    assert isinstance(done.exception, DutlabError), done.output
    return done.exception


def test_modes_of_one_run_are_compared_with_the_first(runs: Path) -> None:
    said = run(compare, runs / OLD).output
    assert "two runs" not in said
    assert [line for line in said.splitlines() if " against " in line] == [f"{mode} against router" for mode in list(PPS)[1:]]
    assert re.search(r"\b5 cells\b.*: slower", said)


def test_stretches_of_one_run_are_not_called_two_runs(tmp_path: Path) -> None:
    run_of = replace(SimulatedRun.drawn(0), repeats=6, in_turn=False, steps=(0.5,))
    path = run_of.written(tmp_path)
    assert json.loads(run(compare, path, "--json").output)["compared"][0]["design"] == RunOrder.ONE_AFTER_THE_OTHER.value
    said = run(compare, path).output
    assert "between the two runs" not in said and "two parts" in said


def test_two_runs_are_compared_cell_by_cell(runs: Path) -> None:
    found = compared(runs / OLD, runs / NEW)
    assert verdicts(found)["router · sweep 64 · link a"] == verdicts(found)["router · iperf3 · link a"] == "slower"
    assert len(found["only_first"]) == 10  # filter-default and nat
    assert {"path": "experiment.factors.mode", "first": ", ".join(PPS), "second": "router, filter-empty"} in found["differences"]


def test_a_run_is_equivalent_to_its_copy_within_a_margin(runs: Path, tmp_path: Path) -> None:
    found = compared(runs / OLD, shutil.copytree(runs / OLD, tmp_path / "copy"), "--margin", "10%")
    assert set(verdicts(found).values()) == {"equivalent within ±10 %"}
    assert found["differences"] == []


@pytest.mark.parametrize("words", [[OLD, OLD], [OLD, "--against", OLD], [OLD, NEW, OLD, "--order"]])
def test_a_run_is_not_compared_with_itself(runs: Path, words: list[str]) -> None:
    assert OLD in refused(compare, *(word if word.startswith("--") else runs / word for word in words)).what


@pytest.mark.parametrize("others", [(compare,), (compare, NEW), (check, "--threshold", "2%", "--baseline", NEW)])
def test_a_figure_that_was_not_measured_is_refused_with_those_that_were(runs: Path, others: tuple[Any, ...]) -> None:
    command, *words = others
    why = refused(command, runs / OLD, *(runs / w if w == NEW else w for w in words), "--figure", "latency_p99")
    assert isinstance(why, InputError) and "latency_p99_ns" in str(why)


def test_other_figures_can_be_asked_for(runs: Path) -> None:
    said = run(compare, runs / OLD, "--figure", "latency_p50_ns").output
    assert "latency_p50_ns" in said and "slower" in said and "goodput" not in said


def test_check_fails_a_slower_run_and_passes_an_equal_one(runs: Path) -> None:
    slower = run(check, runs / NEW, "--baseline", runs / OLD)
    assert slower.exit_code == 1
    assert re.match(r"FAIL: \d+ % .*\(p [=<] 0\.\d+\).*\bof 14\b.*\b10\b.*\b9\b", slower.output.splitlines()[0])
    copy = shutil.copytree(runs / OLD, runs.parent / "copy-of-old")
    for more, status in (((), 2), (("--margin", "10%"), 0), (("--threshold", "5%"), 0)):
        assert run(check, copy, "--baseline", runs / OLD, *more).exit_code == status, "28 results, 6 repeats: none could be proven worse"


def test_check_finds_the_newest_older_run_of_the_same_experiment(runs: Path, tmp_path: Path) -> None:
    broken = tmp_path / "runs"
    shutil.copytree(runs, broken)
    (broken / "2026-11-01T0901Z-half-written").mkdir()
    newer = shutil.copytree(broken / OLD, broken / "2026-11-01T1001Z-newer-version")
    (newer / "plan.json").write_text('{"schema_version": 99}')
    assert f"{NEW} against {OLD}" in run(check, broken / NEW, "--baseline", broken).output
    none = run(check, broken / OLD, "--baseline", broken)
    assert isinstance(none.exception, DutlabError)
    assert "holds no run" in str(none.exception)


def test_too_few_repeats_prove_nothing_and_a_threshold_fails_what_is_off_without_proof(tmp_path: Path) -> None:
    once, slow = (made(tmp_path, name, repeats=1, modes={mode: "router"}) for name, mode in (("once", "router"), ("slow", "nat")))
    copy = shutil.copytree(once, tmp_path / "copy")
    assert run(check, copy, "--baseline", once).exit_code == 2
    assert run(check, copy, "--baseline", once, "--threshold", "1%").exit_code == 2, "one repeat says nothing of its spread"
    assert run(check, slow, "--baseline", once, "--threshold", "20%", "--figure", "received_pps").exit_code == 1


def test_a_cut_run_is_compared_as_far_as_it_goes_and_says_so(runs: Path, tmp_path: Path) -> None:
    cut = made(tmp_path, "cut", cut_after=60)
    said = run(compare, runs / OLD, cut).output
    assert "no record" in said


def test_runs_without_a_cell_in_common_say_where_they_differ(runs: Path, tmp_path: Path) -> None:
    short = made(tmp_path, "short", seconds=5)
    said = str(refused(compare, runs / OLD, short))
    assert "duration_s: 30 and 5" in said and " absent" not in said and "None" not in said
    assert "iperf3, sweep and none" in str(refused(compare, runs / OLD, made(tmp_path, "nothing", cut_after=0)))


def test_names_from_records_cannot_move_the_terminal(tmp_path: Path) -> None:
    bad = made(tmp_path, "bad", modes={"router": "ro\x1b[2Juter", "nat": "n\u202eat"}, repeats=2)
    said = run(compare, bad).output
    assert "\x1b" not in said and "\u202e" not in said
    assert "n?at against ro?[2Juter" in said


def test_rates_per_watt_turn_the_answer_round(runs: Path) -> None:
    found = json.loads(run(compare, runs / OLD, runs / NEW, "--per", "watt=90,20", "--json").output)
    assert found["per"] == {"word": "watt", "amounts": [90, 20]}
    # half the rate at less than a quarter of the power
    assert verdicts(found["compared"][0])["router · sweep 64 · link a"] == "faster"
    latency = (runs / OLD, runs / NEW, "--figure", "latency_p99_ns")
    assert compared(*latency) == compared(*latency, "--per", "watt=90,20"), "a time is not divided"


@pytest.mark.parametrize("per", ["watt", "watt=90", "watt=90,0", "watt=90,x", "=1,2", "core"])
def test_what_cannot_be_divided_by_is_refused(runs: Path, per: str) -> None:
    assert refused(compare, runs / OLD, runs / NEW, "--per", per).remedy
    refused(compare, runs / OLD, "--per", "watt=90")


def test_cores_are_read_from_the_facts(runs: Path, tmp_path: Path) -> None:
    boxes = [shutil.copytree(runs / OLD, tmp_path / name) for name in ("small", "large")]
    for box, cores in zip(boxes, (2, 8), strict=True):
        path = box / "hosts" / "dut.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "cpu": {"cores": cores}}))
    assert set(ratios(compared(*boxes, "--per", "core")).values()) == {0.25}


# ---- one rule for a figure, both directions


def ramps(folder: Path, name: str, *, forward: float, backward: float, saturated: bool = True) -> Path:
    """Six ramps in both directions, as `run` leaves them: figures of each direction and of both together."""
    path = made(folder, name, modes={"router": "router"}, sizes=(64,))
    run = RunFolder.open(path)
    for record in list(run.records()):
        if record.cell.workload == "sweep":
            wobble = 1 + record.cell.repeat / 1e4
            end = {"saturation_pps": 1e5} if saturated else {}
            there, back, both = ({"max_received_pps": rate * wobble, **end} for rate in (forward, backward, forward + backward))
            cell = shown_cell("loadtest", dict(record.cell.params), mode=record.cell.mode, repeat=record.cell.repeat)
            changed = record.model_copy(update={"cell": cell, "figures": {"a": there, "a.back": back, "a+a.back": both}})
            (path / "trials" / f"{record.trial:04d}" / "record.json").write_text(changed.model_dump_json())
        else:
            shutil.rmtree(path / "trials" / f"{record.trial:04d}")
    return path


def test_both_directions_of_a_link_and_their_sum_are_compared(tmp_path: Path) -> None:
    base = ramps(tmp_path, "base", forward=1e6, backward=1e6)
    slow = ramps(tmp_path, "slow", forward=0.73e6, backward=0.13e6)
    assert {label: round(ratio, 4) for label, ratio in ratios(compared(base, slow)).items()} == {
        "router · loadtest 64 · link a, both directions": 0.43,
        "router · loadtest 64 · link a": 0.73,
        "router · loadtest 64 · link a, backward": 0.13,
    }
    assert run(check, slow, "--baseline", base).exit_code == 1


def test_ramps_that_were_not_saturated_are_bounds_and_prove_nothing_worse(tmp_path: Path) -> None:
    base = ramps(tmp_path, "base", forward=1e6, backward=1e6)
    open_end = ramps(tmp_path, "open", forward=0.73e6, backward=0.13e6, saturated=False)
    found = compared(base, open_end)
    assert {c["reason"] for c in found["comparisons"]} == {"bound"}
    assert run(check, open_end, "--baseline", base).exit_code == 2, "cannot tell"


def test_the_ratio_printed_is_that_of_the_medians_printed(tmp_path: Path) -> None:
    paths = []
    for name, rates in (("a", (700, 705, 1300, 1301, 1302)), ("b", (1000, 1010, 1012, 1500, 1510))):
        path = made(tmp_path, name, modes={"router": "router"}, sizes=(64,), repeats=5)
        for record in list(RunFolder.open(path).records()):
            if record.cell.workload == "sweep":
                figures = {"a": {**record.figures["a"], "received_pps": rates[record.cell.repeat - 1] * 1e3}}
                changed = TrialRecord.model_copy(record, update={"figures": figures})
                (path / "trials" / f"{record.trial:04d}" / "record.json").write_text(changed.model_dump_json())
        paths.append(path)
    said = run(compare, *paths, "--figure", "received_pps").output
    assert "1.300 Mpps" in said and "1.012 Mpps" in said and "0.778" in said and "5 repeats" in said


def test_imported_ramps_are_compared_by_what_they_measured(tmp_path: Path) -> None:
    published = Path(__file__).parents[2] / "examples" / "published" / "apu6-loadtest.csv"
    assert run(import_command, "figures", published, "--runs", tmp_path).exit_code == 0
    (path,) = tmp_path.glob("*apu6*")
    said = run(compare, path)
    assert said.exit_code == 0 and "link a, both directions" in said.output
    assert "1.569" in said.output, "152.05 of 96.9 kpps"


def test_cells_without_a_figure_to_compare_by_are_refused(runs: Path, tmp_path: Path) -> None:
    path = shutil.copytree(runs / OLD, tmp_path / "odd")
    for record in list(RunFolder.open(path).records()):
        changed = record.model_copy(update={"figures": {link: {"odd_count": 1.0} for link in record.figures}})
        (path / "trials" / f"{record.trial:04d}" / "record.json").write_text(changed.model_dump_json())
    assert "odd_count" in refused(compare, path).remedy


# ---- runs as the unit


def test_a_run_is_checked_against_all_older_ones_and_each_counts_once(tmp_path: Path) -> None:
    wanted = {"sizes": (64,), "repeats": 2}
    for day in range(1, 6):
        made(tmp_path, f"2026-11-0{day}T0801Z-firewall-modes-0001", **wanted)
    same = made(tmp_path, "2026-11-06T0801Z-firewall-modes-0001", **wanted)
    found = json.loads(run(check, same, "--baseline", tmp_path, "--json").output)
    assert found["design"] == "several runs a side" and not found["failed"]
    assert {c["first"]["n"] for c in found["comparisons"]} == {5}
    slow = made(tmp_path, "2026-11-07T0801Z-firewall-modes-0002", modes={"filter-empty": "filter-empty", "nat": "router"}, **wanted)
    worse = run(check, slow, "--baseline", tmp_path, "--most", "5")
    assert worse.exit_code == 1
    assert "Each run counts once" in worse.output


def test_margins_may_differ_by_cell_and_figure(runs: Path, tmp_path: Path) -> None:
    found = json.loads(run(compare, runs / OLD, "--margin", "80%", "--margin", "*iperf3*=0.1%", "--json").output)["compared"]
    words = {c["words"] for pair in found for c in pair["comparisons"] if "sweep" in c["pair"]["label"]}
    assert "equivalent within ±80 %" in words
    assert not any("equivalent" in c["words"] for pair in found for c in pair["comparisons"] if "iperf3" in c["pair"]["label"])


def in_turn(run: ComparedRun, place: int, *, late: int | None = None) -> ComparedRun:
    """The run as if it had taken turns with another: its blocks two hours apart, and trial `late` done again when all was over."""
    first = min(r.started for r in run.records)

    def moved(record: TrialRecord) -> TrialRecord:
        hours = 100 if record.trial == late else 2 * record.cell.repeat + (place + record.cell.repeat) % 2
        return record.model_copy(update={"started": first + timedelta(hours=hours, seconds=record.trial)})

    turns = Turns(runs=("one", "two"), place=place, seed=3)
    facts = {**run.facts, TURNS: turns.model_dump(mode="json")}
    return replace(run, name=turns.runs[place], records=tuple(map(moved, run.records)), facts=facts)


def test_runs_that_took_turns_by_chance_are_compared_round_by_round(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (in_turn(open_run(runs / name), place) for place, name in enumerate((OLD, NEW)))
    found = compare_runs([one], [two])
    assert found.design is RunOrder.ROUNDS and found.not_known == (NotKnown.SET_UP,)
    of = {c.pair.label: c for c in found.comparisons}
    assert of["router · sweep 64 · link a"].verdict is Verdict.WORSE
    assert of["router · sweep 64 · link a"].p == 2 / 64
    assert not any("turns" in d.path for d in found.differences)
    monkeypatch.setattr("dutlab.report.questions.sides.open_run", lambda path: one if path.name == OLD else two)
    assert "6 rounds" in run(compare, runs / OLD, runs / NEW).output


def test_a_result_without_a_partner_in_its_round_is_left_out_and_told(runs: Path) -> None:
    one, two = in_turn(open_run(runs / OLD), 0), in_turn(open_run(runs / NEW), 1)
    (again,) = (r for r in one.records if (r.cell.repeat, r.cell.mode, r.cell.workload, r.cell.links) == (2, "router", "iperf3", ("a",)))
    found = compare_runs([in_turn(open_run(runs / OLD), 0, late=again.trial)], [two])
    assert found.design is RunOrder.ROUNDS
    (cell,) = (c for c in found.comparisons if c.pair.label == "router · iperf3 · link a")
    assert cell.pair.first_at == cell.pair.second_at == (1, 3, 4, 5, 6)
    assert [fault.startswith("2 results") for fault in found.faults] == [True]


def test_runs_that_took_no_turns_with_one_another_are_not_compared_round_by_round(runs: Path) -> None:
    one, two = in_turn(open_run(runs / OLD), 0), in_turn(open_run(runs / NEW), 1)
    alone = replace(two, facts={k: v for k, v in two.facts.items() if k != TURNS})
    assert compare_runs([one], [alone]).design is RunOrder.INTERLEAVED  # nobody knows that chance drew the order
    later = replace(two, records=tuple(r.model_copy(update={"started": r.started + timedelta(days=9)}) for r in two.records))
    assert compare_runs([one], [later]).design is RunOrder.ONE_AFTER_THE_OTHER  # cut at once, and each went on alone


def test_what_is_left_out_of_records_changes_no_comparison(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flows, checks, counters and commands are many times the figures; a comparison of many trials holds none of them."""
    lean = open_run(runs / OLD)
    assert {len(r.flows) + len(r.checks) + len(r.counters) + len(r.raw) for r in lean.records} == {0}
    monkeypatch.setattr(sides, "FIGURES_ONLY", ())
    whole = open_run(runs / OLD)
    assert any(r.flows and r.checks and r.counters and r.raw for r in whole.records)
    assert compare_modes(lean) == compare_modes(whole)
    assert compare_runs([lean], [lean]) == compare_runs([whole], [whole])


def boxes(folder: Path, **of_b: object) -> tuple[Path, Path]:
    a = made(folder, "2026-11-01T0801Z-box-a-0001", experiment="box-a", sizes=())
    return a, made(folder, "2026-11-02T0801Z-box-b-0002", experiment="box-b", sizes=(), **of_b)


def test_runs_that_were_given_names_are_called_by_them(tmp_path: Path) -> None:
    a, b = boxes(tmp_path)
    lines = run(compare, a, b).output.splitlines()
    assert lines[0] == "box-b against box-a"
    assert {f"box-a: {a.name}", f"box-b: {b.name}"} <= set(lines)
    assert any(line.split()[:3] == ["cell", "box-a", "box-b"] for line in lines)
    found = compared(a, b)
    assert (found["first"], found["second"], found["runs"]) == ("box-a", "box-b", [[a.name], [b.name]])


def test_two_runs_of_one_name_among_three_are_called_by_their_folders(tmp_path: Path) -> None:
    a, b = boxes(tmp_path)
    again = shutil.copytree(b, tmp_path / "2026-11-03T0801Z-box-b-0003")
    heads = [line for line in run(compare, a, b, again).output.splitlines() if " against " in line]
    assert heads == [f"{b.name} against {a.name}", f"{again.name} against {a.name}"]


def test_modes_that_are_called_differently_are_compared_when_matched(tmp_path: Path) -> None:
    a, b = boxes(tmp_path, modes={"router": "routing", "nat": "masquerade"})
    assert isinstance(why := refused(compare, a, b), InputError) and "--match-modes" in str(why) and "masquerade" in str(why)
    matched = ["--match-modes", "router=routing", "--match-modes", "nat=masquerade"]
    found = verdicts(compared(a, b, *matched))
    assert {label.partition(" · ")[0] for label in found} == {"router", "nat"}
    assert set(found.values()) == {"no difference proven"}
    assert run(check, b, "--baseline", a, *matched).exit_code == 1  # two modes are missing


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["router"], "write A=B"),
        (["=nat"], "write A=B"),
        (["bridge=router"], "no mode bridge"),
        (["router=bridge"], "no mode bridge"),
        (["router=nat"], "as one: router"),
        (["router=nat", "nat=nat"], "as one"),
        (["router=router", "router=nat"], "duplicate mode"),
    ],
)
def test_a_match_of_modes_that_cannot_be_is_refused(runs: Path, words: list[str], why: str) -> None:
    error = refused(compare, runs / OLD, runs / OLD, *(option for word in words for option in ("--match-modes", word)))
    assert isinstance(error, InputError) and why in str(error)


def test_modes_that_change_places_are_matched_both(runs: Path) -> None:
    of = ratios(compared(runs / OLD, runs / OLD, "--match-modes", "router=nat", "--match-modes", "nat=router"))
    assert of["router · sweep 64 · link a"] < 0.7 and of["nat · sweep 64 · link a"] > 1.4


def test_a_single_run_has_no_modes_to_match(runs: Path) -> None:
    assert isinstance(refused(compare, runs / OLD, "--match-modes", "router=nat"), InputError)


def test_cells_that_differ_in_more_than_mode_size_and_link_are_told_apart(tmp_path):
    published = Path(__file__).parents[2] / "examples" / "published"
    for name in ("tengig-before", "tengig-after"):
        assert run(import_command, "figures", published / f"{name}.csv", "--runs", tmp_path).exit_code == 0
    before, after = (next(tmp_path.glob(f"*{name}*")) for name in ("tengig-before", "tengig-after"))
    found = compared(before, after, "--match-modes", "before=after")
    labels = [of["pair"]["label"] for of in found["comparisons"]]
    assert "before · matrix · link a · asus to mellanox" in labels
    assert len(set(labels)) == len(labels) == 6
