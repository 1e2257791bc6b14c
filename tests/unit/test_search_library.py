"""The MLRsearch library, asked one trial at a time."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.errors import MeasurementError
from dutlab.methods.search.mlrsearch import Bounds, Library, LoadOutcome, NextTrial
from dutlab.spec.goals import PRESETS

CSIT = PRESETS["csit"]


def threads():
    return [t for t in threading.enumerate() if t.name == "mlrsearch"]


async def run(library, loss_ratio, most=10_000):
    step, asked = await library.first(), []
    while isinstance(step, NextTrial):
        asked.append(step)
        assert len(asked) < most
        frames = math.ceil(step.load * step.duration)
        step = await library.tell(LoadOutcome(step, frames, frames, round(frames * loss_ratio(step.load))))
    return step, asked


@pytest.mark.parametrize(("loss", "bounds"), [(1.0, Bounds(None, 1e3)), (0.0, Bounds(1e6, None))])
async def test_all_or_nothing_has_one_bound(loss, bounds):
    with Library(CSIT, lowest=1e3, highest=1e6) as library:
        found, _ = await run(library, lambda _: loss)
    assert set(found.values()) == {bounds}


async def test_leaving_a_search_in_its_middle_ends_its_thread():
    with Library(CSIT, lowest=1e3, highest=1e6) as library:
        assert isinstance(await library.first(), NextTrial)
        assert len(threads()) == 1
    assert not threads()
    with Library(CSIT, lowest=1e3, highest=1e6):
        pass  # never begun
    assert not threads()


async def test_what_the_library_raises_is_told_as_a_search_that_gave_up(monkeypatch):
    with Library(CSIT, lowest=1e3, highest=1e6) as library:

        def fails(*_, **__):
            raise RuntimeError("Internal error: load outside limits")

        monkeypatch.setattr("MLRsearch.MultipleLossRatioSearch.search", fails)
        with pytest.raises(MeasurementError, match="Internal error"):
            await library.first()


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_the_loss_ratio_that_is_told_is_the_one_that_the_library_reads(asked, sent, lost):
    told = LoadOutcome(NextTrial(1.0, 1.0), asked, sent, lost)
    from MLRsearch import MeasurementResult  # noqa: PLC0415 -- slow to load below a test

    theirs = MeasurementResult(1.0, 1.0, intended_count=asked, offered_count=sent, loss_count=lost)
    assert told.loss_ratio == theirs.loss_ratio


@settings(max_examples=40)
@given(st.floats(20, 1e9), st.floats(1e-4, 0.9), st.floats(0, 2), st.sampled_from(sorted(PRESETS)))
async def test_no_range_and_no_limit_brings_the_library_to_a_halt(highest, share, limit, preset):
    with Library(PRESETS[preset], lowest=highest * share, highest=highest) as library:
        bounds, _ = await run(library, lambda load: max(0.0, 1 - limit * highest / load))
    for found in bounds.values():
        assert found.lower is not None or found.upper is not None
        if found.lower and found.upper:
            assert found.lower < found.upper
