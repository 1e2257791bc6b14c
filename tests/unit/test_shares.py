"""Long tests begin first on every process, and short ones are left for the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from shares import dealt

ROOT = Path("/tests")


def collected(**files: int) -> list[SimpleNamespace]:
    """So many tests of each file, in the order of the files; `netns_a` is /tests/netns/a."""
    return [SimpleNamespace(path=ROOT / name.replace("_", "/"), name=f"{name}-{n}") for name, count in files.items() for n in range(count)]


@pytest.mark.parametrize("processes", [2, 3, 4, 7])
@pytest.mark.parametrize(
    "files",
    [{"netns_a": 9, "netns_b": 1, "netns_c": 4, "netns_d": 2, "unit_a": 50, "unit_b": 41}, {"netns_a": 5, "netns_b": 2}, {"unit_a": 9}, {}],
)
def test_every_test_runs_once_and_the_tests_of_a_long_file_stay_together(files: dict[str, int], processes: int) -> None:
    items = collected(**files)
    order = dealt(items, processes, [ROOT / "netns"])  # type: ignore[arg-type]
    assert Counter(i.name for i in order) == Counter(i.name for i in items)
    for name, count in files.items():
        at = [n for n, item in enumerate(order) if item.name.startswith(f"{name}-")]
        if name.startswith("netns") and count:
            assert at == list(range(at[0], at[0] + count))


def test_each_process_begins_with_long_tests_of_a_file_that_has_few() -> None:
    order = dealt(collected(netns_a=9, netns_b=1, netns_c=4, netns_d=2, unit_a=84), 2, [ROOT / "netns"])  # type: ignore[arg-type]
    first, second = order[:50], order[50:]
    assert [len([i for i in part if "netns" in i.path.parts]) for part in (first, second)] == [9, 7]
    assert second[0].name == "netns_b-0" and second[1].name == "netns_d-0"
    assert all("unit" in i.path.parts for i in (*first[9:], *second[7:]))
