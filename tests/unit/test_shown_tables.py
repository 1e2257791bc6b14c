"""Tables of a report: no figure of the answer a second time, each trial with its figure, equal doubts once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dutlab.report.gather import gather
from dutlab.report.model.run_report import RunReport
from dutlab.report.model.run_tables import unsuccessful_tables
from dutlab.report.model.shown_tables import shared_marks, shown_tables
from dutlab.report.model.table import Column, Figure, Links, Row, Table
from dutlab.report.write import print_report


@pytest.fixture(scope="module")
def found(built: Callable[..., Path]) -> RunReport:
    run = built(seconds=2, lab=True)
    return gather(run, run)


def test_a_table_that_is_in_the_answer_is_not_shown_again_and_a_longer_one_is_folded(found: RunReport) -> None:
    (goodput,), (rates, every) = ([(t.folded, shown) for t, shown in shown_tables(found, s)] for s in found.sections)
    assert goodput == (True, True), "more than half of its figures are in the answer"
    assert rates == (False, False), "all of its figures are"
    assert every == (True, True), "32 rows, drawn above"


def test_a_table_with_a_ceiling_or_a_text_that_the_answer_lacks_is_shown(found: RunReport) -> None:
    section = found.sections[1]
    table = section.tables[0]
    ceiling = replace(table, rows=(*table.rows, Row("", tuple(1e6 for _ in table.columns), head="ceiling")))
    worded = replace(table, columns=(*table.columns, Column("seen")), rows=tuple(replace(r, cells=(*r.cells, "odd")) for r in table.rows))
    for more in (ceiling, worded):
        ((shown, visible),) = shown_tables(found, replace(section, tables=(more,)))
        assert visible and shown.folded and shown.rows == more.rows


def test_each_measured_trial_has_its_figure(found: RunReport) -> None:
    assert all(bool(t.result) == (t.status == "measured") for t in found.trials)
    table = found.answer.tables[1]
    for row in table.rows:
        for cell in row.cells:
            if isinstance(cell, Figure):
                results = [float(t.result.split()[0]) * 1e3 for t in found.trials if t.number in cell.trials]
                assert sorted(results)[1] == pytest.approx(cell.median, rel=1e-3)


def test_trials_of_a_cell_that_failed_alike_are_one_row(found: RunReport) -> None:
    (table,) = unsuccessful_tables(found.unsuccessful)
    assert len(found.unsuccessful) == 6 and len(table.rows) == 4  # three of one cell that failed, one of each of three that was refused
    assert sum(len(cell.links) for row in table.rows if isinstance(cell := row.cells[0], Links)) == 6


def test_marks_of_every_table_are_shared_and_those_of_a_single_table_are_not() -> None:
    figure = Figure(1.0, 1.0, 1.0, interval=False, n=1, planned=1, trials=(1,))
    one, two, words = (
        Table("t", "t", (Column("x"),), (Row("", (cell,)),), marks) for cell, marks in ((figure, (1, 2)), (figure, (2, 3)), ("-", ()))
    )
    assert shared_marks([one, two, words]) == {2}
    assert shared_marks([one, words]) == frozenset()


def test_the_printed_answer_is_short_and_the_prose_is_for_verbose(built: Callable[..., Path]) -> None:
    run = built(seconds=2, lab=True, sizes=(64,))
    short, long = ([*print_report([run], width=100, colour=False, verbose=verbose)] for verbose in (False, True))
    assert len(short) <= 40
    lead = gather(run, run).sections[1].lead.split(".")[0]
    assert lead not in " ".join(short) and lead in " ".join(long)
