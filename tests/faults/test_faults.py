"""Faults that are the same each time; `make faults MINUTES=60` makes an hour of new ones, and kills and stops at random instants."""

from __future__ import annotations

import pytest

from capability import have_netns, need
from faults import KINDS, NEED_NAMESPACES, carry_out

SECONDS, SEED = 5.0, 20261122


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"instants", "stops"}])
def test_nothing_is_lost_and_nothing_gets_in(kind):
    if kind in NEED_NAMESPACES:
        need("netns", have_netns())
    print(f"again: python tests/faults/faults.py --seed {SEED} --only {kind}")
    tally = carry_out(kind, SECONDS, SEED)
    assert tally.counts["attempts"] > 0
    assert not tally.faults
