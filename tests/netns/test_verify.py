"""The methods against devices whose answers are known, in a real lab."""

from __future__ import annotations

from dutlab.methods.known import CASES
from dutlab.runner import known_rig
from dutlab.runner.verify import verify
from dutlab.tools.engine.binary import find_engine

EXACT = [case for case in CASES if case.name in {"drops", "duplicates", "swaps", "corrupts", "burst"}]


async def test_what_is_exact_by_rule_is_found_exactly(lab):
    told = []
    found = await verify(lab, EXACT, str(find_engine()), told.append)
    assert told == found
    assert {k.figure for k in found} == {
        "lost_frames", "duplicated_frames", "reordered_frames", "corrupted_frames", "wronged_frames", "burst_frames",
    }  # fmt: skip
    assert [k for k in found if not k.holds] == []


async def test_a_delay_is_never_found_shorter_than_it_is(lab):
    (known,) = await verify(lab, [case for case in CASES if case.name == "holds"], str(find_engine()), lambda _: None)
    assert known.found is not None
    assert known.found >= known.expected


async def test_the_same_delay_is_found_at_each_load(lab):
    found = await verify(lab, [case for case in CASES if case.name == "holds-at-each-load"], str(find_engine()), lambda _: None)
    assert [k.figure for k in found] == ["50%/tl_ns", "100%/tl_ns"]
    assert all(k.found is not None and k.found >= k.expected for k in found), (found, "later on a busy machine, but never earlier")


async def test_what_the_tester_does_itself_is_not_the_devices(lab):
    found = await known_rig.verify(lab, str(find_engine()), lambda _: None)
    assert {k.figure for k in found} == {"lost_frames", "void_loads", "reordered_at_least_frames", "loads_whose_order_is_known"}
    assert [k for k in found if not k.holds] == []
