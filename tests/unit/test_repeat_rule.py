"""Repeats until the interval is narrow: the rule in the file, in the plan, and what it makes needless."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from cells import cell_of
from dutlab import labs
from dutlab.plan.plan import Plan
from dutlab.plan.trials import make_plan
from dutlab.spec.loader import SpecRefused, load_experiment
from dutlab.stats.repeats import RepeatRule, decide
from dutlab.store import needed
from dutlab.store.needed import Repeats, needed_cells, needless, repeat_rule
from refusal import refusals
from run_records import trial_record

NOW = datetime(2026, 11, 21, tzinfo=UTC)
RULE = RepeatRule(0.02, 10)
TEXT = """\
experiment: until
testbed: {{lab: three-node}}
factors: {{mode: [router, nat]}}
workloads:
  - sweep: {{frame_sizes: [64], duration: 1s, links: [[a]]}}
repeats: {repeats}
"""


def loaded(tmp_path, repeats):
    path = tmp_path / "e.yaml"
    path.write_text(TEXT.format(repeats=repeats))
    return load_experiment(path)


def cells(modes="ab", repeats=10):
    return {
        n: cell_of("sweep", mode=m, repeat=r, frame_size=64)
        for n, (r, m) in enumerate(((r, m) for r in range(1, repeats + 1) for m in modes), 1)
    }


def record(number, cell, value, status="measured"):
    figures = {} if value is None else {"a": {"offered_pps": 9.0, "received_pps": value}}
    return trial_record(number, cell, figures, status=status)


def test_the_rule_goes_from_the_file_into_the_plan_and_back(tmp_path):
    experiment = loaded(tmp_path, "{until: 2%, most: 10}")
    plan = make_plan(experiment, labs.description("three-node").testbed, seed=1)
    written = json.loads(json.dumps(plan.to_json()))
    assert len(plan.trials) == 20 and Plan.from_json(written) == plan
    assert repeat_rule(written) == RULE
    assert repeat_rule({"trials": []}) is None and repeat_rule({"repeat_rule": {"until": "fast"}}) is None


def test_a_rule_that_cannot_be_kept_is_refused_where_it_stands(tmp_path, golden):
    rules = "{until: 2%, most: 5}", "{until: 0%, most: 9}", "{until: 2, most: 9}", "{until: 2%}", "{until: 2%, most: 2000}", "true"
    golden.check("refusals-repeats.txt", refusals(SpecRefused, [partial(loaded, tmp_path, rule) for rule in rules], tmp_path))


def test_only_the_cell_that_is_known_well_enough_ends():
    planned = cells()
    close, wide = iter([100, 101, 100, 100.5, 99.8, 100.2, 100, 99.9]), iter([100, 150, 80, 120, 60, 130, 90, 110])
    records = [record(n, c, next(close if c.mode == "a" else wide)) for n, c in planned.items() if c.repeat <= 8]
    out = needless(planned, records, RULE)
    assert {planned[n].mode for n in out} == {"a"} and len(out) == 2
    assert set(needed_cells({"trials": [{"number": n, "cell": c.model_dump(mode="json")} for n, c in planned.items()],
                             "repeat_rule": {"until": "2%", "most": 10}}, records)) == planned.keys() - out  # fmt: skip


def test_trials_without_a_result_decide_nothing():
    planned = cells("a")
    records = [record(n, c, None if n == 2 else 100, "failed" if n == 2 else "measured") for n, c in planned.items() if n <= 8]
    assert needless(planned, records, RULE) == frozenset()
    assert needless(planned, [*records, record(9, planned[9], 100)], RULE) == {10}


@settings(max_examples=25)
@given(st.lists(st.floats(50, 150), max_size=10))
def test_what_is_needless_stays_needless(values):
    planned = cells("a")
    before = frozenset()
    for k in range(len(values) + 1):
        now = needless(planned, [record(n, planned[n], values[n - 1]) for n in range(1, k + 1)], RULE)
        assert before - set(range(1, k + 1)) <= now
        before = now


@settings(max_examples=25)
@given(st.permutations(range(1, 11)), st.lists(st.floats(99, 101), min_size=10, max_size=10), st.integers(0, 10))
def test_records_may_come_in_any_order(order, values, count):
    planned = cells("a")
    some = [record(n, planned[n], values[n - 1]) for n in order[:count]]
    assert needless(planned, some, RULE) == needless(planned, sorted(some, key=lambda r: r.trial), RULE)


def test_each_record_is_looked_at_once_however_often_it_is_asked(monkeypatch):
    planned, looked, decided = cells(repeats=200), [], []
    value_of = needed._value
    monkeypatch.setattr(needed, "_value", lambda of: looked.append(of.trial) or value_of(of))
    monkeypatch.setattr(needed, "decide", lambda values, rule: decided.append(len(values)) or decide(values, rule))
    repeats = Repeats(planned, [], RepeatRule(0.02, 200))
    for number, cell in planned.items():
        assert not any(repeats.needless(n) for n in planned), "values this far apart are never close"
        repeats.add(record(number, cell, 100 * (1 + number % 4 // 2)))
    assert looked == list(planned)
    assert len(decided) == len(planned), "a result that comes last is judged once, and those before it not again"


@settings(max_examples=25)
@given(st.lists(st.floats(990, 1010), min_size=6, max_size=10), st.data())
def test_a_trial_that_was_set_aside_and_done_again_counts_once(values, data):
    """As when its mode was lost during it."""
    planned = cells("a")
    found = [record(n, planned[n], v) for n, v in enumerate(values, 1)]
    repeats = Repeats(planned, found, RULE)
    void = data.draw(st.lists(st.sampled_from(found), unique_by=lambda r: r.trial))
    for r in void:
        repeats.set_aside(r.trial)
    left = [r for r in found if r not in void]
    assert {n for n in planned if repeats.needless(n)} == needless(planned, left, RULE)
    again = [record(r.trial, planned[r.trial], r.figures["a"]["received_pps"] * 1.001) for r in void]
    for r in again:
        repeats.add(r)
    assert {n for n in planned if repeats.needless(n)} == needless(planned, [*left, *again], RULE)
