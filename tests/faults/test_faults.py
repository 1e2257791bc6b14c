"""A minute of all faults; `make faults MINUTES=60` makes an hour of them."""

from __future__ import annotations

import random

import pytest

from capability import have_netns, need
from faults import KINDS, NEED_NAMESPACES, carry_out

SECONDS = 10.0


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_and_nothing_gets_in(kind):
    if kind in NEED_NAMESPACES:
        need("netns", have_netns())
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}; again: python tests/faults/faults.py --seed {seed} --only {kind}")
    tally = carry_out(kind, SECONDS, seed)
    assert tally.counts["attempts"] > 0
    assert not tally.faults
