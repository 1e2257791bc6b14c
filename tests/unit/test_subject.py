"""What figures are of: fields, texts, and the form in a record's file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cells import cell_of
from dutlab.store.record import TrialRecord
from dutlab.subject import (
    WAYS_OF_DRIVES,
    FigureName,
    Figures,
    Subject,
    Way,
    apart,
    back_of,
    by_part,
    each_part,
    figure_name,
    is_step,
    joined,
    of_part,
    places_in,
    plain_place,
    run_of,
    run_part,
    share_of,
    share_part,
    step_part,
    sums_first,
    way_figure,
    whole_of,
)
from run_records import trial_record

_NAMES = st.text(min_size=1, max_size=8).map(plain_place)
_PARTS = st.text("abz09_%./- ", max_size=8)
_SUBJECTS = st.builds(Subject, st.lists(_NAMES, min_size=1, max_size=4, unique=True).map(tuple), st.sampled_from(Way), _PARTS)
_VALUES = st.dictionaries(st.sampled_from(["lower_pps", "latency_p99_ns", "loss_ratio"]), st.floats(0, 1e9), min_size=1)


@given(_SUBJECTS)
def test_a_subject_is_what_its_text_says(subject: Subject) -> None:
    found = Subject.read(subject.place)
    assert (found.places, found.part) == (subject.places, "") and found.flows == subject.flows == apart(subject.place)
    assert found.way is (Way.FORWARD if subject.way.value in WAYS_OF_DRIVES else subject.way)
    assert subject.is_sum == (len(subject.flows) > 1)
    assert len(subject.place_of_flows) == len(subject.flows) and set(subject.place_of_flows) == set(subject.places)


@given(_PARTS, st.sampled_from(["lower_pps", "latency_p99_ns"]), st.sampled_from([None, *WAYS_OF_DRIVES.values()]))
def test_the_name_of_a_figure_is_its_part_its_measure_and_its_way(part: str, measure: str, way: Way | None) -> None:
    name = FigureName(part, measure, way)
    assert figure_name(str(name)) == name
    assert by_part(of_part(part, {way_figure(way, measure): 1.0})) == {part: {way_figure(way, measure): 1.0}}


def test_what_a_step_prints_of_the_other_direction_is_of_the_way_back() -> None:
    step = Subject(("fw",), part=step_part("run", 1))
    figures = Figures.of([(step, {"goodput_bps": 2.0, "goodput_bps.back": 1.0, "run_2/goodput_bps.back": 3.0})])
    assert figures == {"fw": {"run/01/goodput_bps": 2.0}, "fw.back": {"run/01/goodput_bps": 1.0, "run/01/run_2/goodput_bps": 3.0}}
    assert [run_of(part) for part in (run_part(2), "run_2/x", "ndr", "run_x")] == [(2, ""), (2, "x"), (1, "ndr"), (1, "run_x")]


@given(st.dictionaries(_SUBJECTS, _VALUES, max_size=4))
def test_a_record_keeps_every_figure_with_its_subject(values: dict[Subject, dict[str, float]]) -> None:
    figures = Figures.of(values.items())
    record = trial_record(1, cell_of("sweep", frame_size=64), figures)
    assert dict(figures.by_subject()) == values
    assert TrialRecord.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize("text", ["", "+", "a+", "a+a", "a+b.back", "a.back+a", "a+b+a.back+b.back", "a.back.back"])
def test_a_text_that_is_none_of_a_subject_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"name|figures"):
        Subject.read(text)


def test_a_record_of_the_form_before_is_refused() -> None:
    now = "2026-11-26T00:00:00Z"
    cell = cell_of("sweep", frame_size=64).model_dump_json()
    old = f'{{"trial":1,"status":"measured","cell":{cell},"started":"{now}","ended":"{now}","figures":{{"a":{{"lower_pps":1.0}}}}}}'
    with pytest.raises(ValidationError, match="figures"):
        TrialRecord.model_validate_json(old)


def test_the_whole_is_what_has_the_most_flows() -> None:
    both = joined(["a", back_of("a")])
    assert whole_of(["a", both, back_of("a")], "a") == both
    assert whole_of(["a", "b"], "b") == "b" and whole_of([], "usual") == "usual"
    assert sums_first(["b", "a", both]) == [both, "a", "b"]


def test_names_of_other_peoples_places_and_figures_keep_their_order_and_lose_what_is_a_mark_here() -> None:
    assert places_in("ge-0/0/1+ge-0/0/2") == Subject(("ge-0_0_1", "ge-0_0_2"))
    figures = Figures({"a": {"ndr/lower_pps": 2.0, "loss_ratio": 0.0, "ndr/upper_pps": 3.0}})
    assert [(subject.part, values) for subject, values in figures.by_subject()] == [
        ("ndr", {"lower_pps": 2.0}),
        ("", {"loss_ratio": 0.0}),
        ("ndr", {"upper_pps": 3.0}),
    ]


def test_parts_are_made_and_read_in_one_place() -> None:
    assert [share_of(part) for part in (share_part(12.5), share_part(100), "ndr", "x%")] == [12.5, 100, None, None]
    assert is_step(step_part("measurement", 1)) and not is_step("ndr")
    assert [each_part(name) for name in ("ndr/lower_pps", "lower_pps", "seq/iops.read", "iops.read")] == [
        "*/lower_pps",
        "lower_pps",
        "*/iops",
        "iops",
    ]
