"""What each of several processes of tests does first, so that none still waits for a long test when the others are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest


def dealt(items: Sequence[pytest.Item], processes: int, long: Sequence[Path]) -> list[pytest.Item]:
    """The tests in an order whose equal parts each begin with a share of those in the folders `long`, and end with others.

    pytest-xdist gives each process such a part, and one that is done takes the end of another's: short tests, easily shared out.
    A file stays whole, for what its tests have in common. Files with few tests come first: the longest tests are in these.
    """
    files, short = defaultdict[Path, list[pytest.Item]](list), list[pytest.Item]()
    for item in items:
        (files[item.path] if any(item.path.is_relative_to(folder) for folder in long) else short).append(item)
    parts: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for file in sorted(files.values(), key=len, reverse=True):
        smallest = min(parts, key=len)
        smallest[:0] = file
    order: list[pytest.Item] = []
    filled = 0
    for number, part in enumerate(parts):
        end = filled + max(0, (len(items) - len(order)) // (processes - number) - len(part))
        order += [*part, *short[filled:end]]
        filled = min(end, len(short))
    return [*order, *short[filled:]]
