"""Limits of an earlier run as expected rates: which cell of the run, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.cli.expected_rates import expected_body, expected_rates
from dutlab.cli.manner import CommonOptions
from dutlab.cli.one_workload import MeasureOptions, given_workload
from dutlab.errors import InputError
from dutlab.plan.cell import Cell
from dutlab.plan.trials import make_plan
from dutlab.spec.loader import testbed_of as bed_of
from dutlab.spec.workloads import model_of
from run_records import new_run, trial_record

DATA = {"experiment": "x", "testbed": {"lab": "three-node"}, "factors": {"mode": ["router"]}, "repeats": 1}
BODY = {"search": {"preset": "rfc2544"}, "rfc2544": {"tests": ["throughput"]}}
TABLE = {"search": "goals", "rfc2544": "throughput"}


def cell(workload, size, mode="router", repeat=1, links=("a",)):
    (drive,) = model_of(workload).model_validate({**BODY[workload], "links": [list(links)], "frame_sizes": [size]}).drives(["a"])
    return Cell(mode=mode, factors={"mode": mode}, tool="engine", links=links, setting=drive.setting, repeat=repeat)


def record(number, of, lower, **more):
    return trial_record(number, of, tables={TABLE[of.workload]: [{"lower_pps": lower}]}, **more)


def rates(records, workload="search", modes=(), link_sets=None):
    return expected_rates(records, workload, modes=modes, link_sets=link_sets)


def test_the_median_of_the_repeats_of_each_size_is_expected():
    of = [record(n, cell("search", 64, repeat=n), lower) for n, lower in enumerate((1.0e6, 1.2e6, 1.1e6), 1)]
    of += [record(4, cell("search", "imix"), 3e5), record(5, cell("search", 512), None), record(6, cell("rfc2544", 512), 7e5)]
    assert rates(of) == {"64": 1.1e6, "imix": 3e5}
    assert rates(of, "rfc2544") == {"512": 7e5}
    assert rates([record(1, cell("search", 64), 1e6, status="failed")]) == {}


def test_several_limits_of_a_size_are_refused_until_mode_and_links_choose_one():
    of = [record(n, cell("search", 64, mode, links=links), 1e6 * n) for n, (mode, links) in enumerate(
        (("router", ("a",)), ("nat", ("a",)), ("router", ("a", "b"))), 1)]  # fmt: skip
    with pytest.raises(InputError, match="several"):
        rates(of)
    with pytest.raises(InputError, match="several"):
        rates(of, modes=["router"])
    assert rates(of, modes=["router"], link_sets=[["a", "b"]]) == {"64": 3e6}
    assert rates(of, modes=["nat"]) == {"64": 2e6}


@pytest.mark.parametrize("workload", BODY)
def test_the_next_search_of_the_run_expects_what_it_found(workload, tmp_path):
    of = [cell(workload, 64), cell(workload, 1518)]
    run = new_run(tmp_path, of)
    for number, (one, lower) in enumerate(zip(of, (1234567.25, 4e5), strict=True), 1):
        run.write_trial(record(number, one, lower), {})
    where = MeasureOptions((), None, None, (), 1, Path("runs"), None, CommonOptions())
    body = expected_body(run.path, workload, [64], where)
    definition = given_workload(DATA, workload, {**BODY[workload], "frame_sizes": [64], "links": [["a"]], **body}, ())
    (trial,) = make_plan(definition.experiment, bed_of(definition)).trials
    assert trial.cell.setting.expected_pps == 1234567.25
    assert expected_body(None, workload, [64], where) == {}
    with pytest.raises(InputError):
        expected_body(run.path, workload, [128], where)
