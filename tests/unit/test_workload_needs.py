"""What each workload needs of the hosts of its links."""

from __future__ import annotations

import pytest

from dutlab.spec.workloads import Need, model_of
from dutlab.spec.workloads.frames import FrameWorkload
from dutlab.workloads import settable


@pytest.mark.parametrize("kind", settable())
def test_each_workload_says_what_it_needs(kind: str) -> None:
    model = model_of(kind)
    assert model.needs
    assert model.needs <= frozenset(Need)
    if issubclass(model, FrameWorkload):
        assert Need.FRAMES in model.needs


def test_programs_of_the_hosts_own_need_no_engine() -> None:
    assert {kind for kind in settable() if Need.FRAMES not in model_of(kind).needs} >= {
        "iperf3",
        "matrix",
        "path-mtu",
        "steps",
        "datagrams",
    }
