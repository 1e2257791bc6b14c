"""Best and worst of a run: of cells that can be compared, by the side that is better, and the same in a list of runs as in its index."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cells import cell_of
from dutlab.cli.runs import runs
from dutlab.report.model.ends import end_words
from dutlab.store.index import opened, results_in
from dutlab.store.results import CellResult, best_and_worst, results_of
from dutlab.store.run_folder import RunFolder
from fake_run import Wanted, build
from run_records import new_run, trial_record

RESULT = CellResult(
    "0" * 12, "router", {}, "sweep", "a", "a", "64", "", "received_pps", 5e5, 4.9e5, 5.1e5, 3, at_least=False, disturbed=False
)


def test_each_cell_has_the_median_of_its_repeats_under_one_place(tmp_path: Path) -> None:
    records = [
        trial_record(n, cell_of("sweep", mode=mode, repeat=repeat, warmup_s=0), {"a": {"received_pps": pps}})
        for n, (mode, repeat, pps) in enumerate([("nat", 1, 3e5), ("nat", 2, 5e5), ("nat", 3, 4e5), ("router", 1, 6e5)], 1)
    ]
    found = results_of(records)
    assert [(c.mode, c.median, c.low, c.high, c.repeats) for c in found] == [("nat", 4e5, 3e5, 5e5, 3), ("router", 6e5, 6e5, 6e5, 1)]
    assert len({c.place for c in found}) == 1
    (other,) = results_of([trial_record(1, cell_of("sweep", mode="nat", frame_size=128, warmup_s=0), {"a": {"received_pps": 1.0}})])
    assert other.place != found[0].place
    run = new_run(tmp_path, [r.cell for r in records])
    for record in records:
        run.write_trial(record, {}, [])
    run.write_manifest()
    with opened(tmp_path) as index:
        assert results_in(index, [run.name, "absent"]) == {run.name: found}
        assert results_in(index, []) == {}


@pytest.mark.parametrize(("figure", "best"), [("received_pps", "fast"), ("rtt_p50_ns", "slow")])
def test_the_best_is_by_the_side_that_is_better(figure: str, best: str) -> None:
    cells = [replace(RESULT, mode=mode, figure=figure, median=value) for mode, value in (("slow", 1e5), ("fast", 9e5), ("middle", 5e5))]
    (ends,) = best_and_worst(cells)
    assert (ends.best.mode, ends.cells, ends.places, ends.is_alone) == (best, 3, 1, False)
    assert {ends.best.mode, ends.worst.mode} == {"slow", "fast"}


def test_only_cells_of_one_place_are_compared_and_the_place_of_most_modes_is_chosen() -> None:
    alone = replace(RESULT, place="1" * 12, mode="vpp", frame_size="1518", median=9e6)
    few = [replace(RESULT, place="2" * 12, mode=mode, frame_size="128") for mode in ("router", "nat")]
    many = [replace(RESULT, mode=mode, median=pps) for mode, pps in (("router", 6e5), ("nat", 3e5), ("filter", 4e5))]
    (ends,) = best_and_worst([alone, *few, *many])
    assert (ends.best.mode, ends.worst.mode, ends.best.frame_size) == ("router", "nat", "64")
    assert end_words(ends).text.startswith("sweep 64 a: ") and "600.0 kpps router" in end_words(ends).text


def test_without_modes_to_compare_it_is_the_best_and_worst_of_all_places_in_words_that_tell_them_apart() -> None:
    pairs = [
        replace(RESULT, place=str(n) * 12, mode="as-found", workload="matrix", frame_size="", setting=f"client {a}", median=pps)
        for n, (a, pps) in enumerate((("nas", 1e6), ("desk", 2e6)))
    ]
    (ends,) = best_and_worst(pairs)
    text = end_words(ends).text
    assert text.index("2.000 Mpps") < text.index("client desk") < text.index("1.000 Mpps") < text.index("client nas")


def test_levels_of_factors_and_doubts_are_in_the_words() -> None:
    cells = [replace(RESULT, factors={"mtu": mtu, "irq": "on"}, median=pps) for mtu, pps in (("1500", 3e5), ("9000", 6e5))]
    (ends,) = best_and_worst([replace(cells[0], disturbed=True), replace(cells[1], at_least=True)])
    assert end_words(ends).best == "≥ 600.0 kpps router · mtu 9000"
    assert all(part in end_words(ends).worst for part in ("300.0 kpps", "router", "mtu 1500", "disturbed"))


def test_a_figure_that_is_no_speed_is_shown_only_where_there_is_none() -> None:
    power = replace(RESULT, place="1" * 12, figure="j_per_gb", median=5.0, links="a+b", link="a+b")
    assert [ends.best.figure for ends in best_and_worst([power, RESULT])] == ["received_pps"]
    assert [ends.best.figure for ends in best_and_worst([power])] == ["j_per_gb"]
    assert best_and_worst([replace(RESULT, figure="no_such_figure")]) == ()


def test_a_list_of_runs_has_the_best_and_worst_of_each(tmp_path: Path) -> None:
    run = build(tmp_path, Wanted(repeats=1, seconds=1, cores=0))
    (listed,) = json.loads(CliRunner().invoke(runs, ["--runs", str(tmp_path), "--json"], catch_exceptions=False).stdout)["runs"]
    ends = best_and_worst(results_of(RunFolder(run).records()))
    assert [(of["best"]["mode"], of["worst"]["mode"], of["best"]["median"]) for of in listed["results"]] == [
        (of.best.mode, of.worst.mode, of.best.median) for of in ends
    ]
    assert len(ends) == 2
    text = CliRunner().invoke(runs, ["--runs", str(tmp_path)], catch_exceptions=False).stdout
    assert end_words(ends[0]).best in text and end_words(ends[0]).worst in text
