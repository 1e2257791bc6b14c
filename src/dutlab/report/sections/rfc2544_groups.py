"""What a group of RFC 2544's trials is about, in the words of its tables, plots and files."""

from __future__ import annotations

from dutlab.report.model.groups import Group
from dutlab.spec.workloads.rfc2544 import variant_of


def of_test(group: Group, test: str) -> bool:
    """Whether it has a test of that name."""
    return test in str(group.cell.params.get("tests")).split(",")


def size_of(group: Group) -> str:
    """The frame size or mix."""
    return str(group.cell.params["frame_size"])


def place_of(group: Group) -> str:
    """Where frames go, beside what, and what of them is not as in the tests that come first."""
    return ", ".join(filter(None, (direction_of(group), variant(group))))


def direction_of(group: Group) -> str:
    """Where frames go, and beside what."""
    params = group.cell.params
    both = ", both directions" if params.get("directions") == "both" else ""
    beside = str(params.get("modifiers") or "").replace(",", " and ")
    return group.cell.link_label + both + (f", beside {beside}" if beside else "")


def variant(group: Group) -> str:
    """What of the frames is not as in the tests that come first; nothing if all is."""
    return variant_of(group.cell.setting)


def file_words(group: Group) -> list[str]:
    """What place_of() says, for the name of a file."""
    params = group.cell.params
    words = [group.cell.link_label, str(params.get("directions")), *str(params.get("modifiers") or "").split(",")]
    return [word.replace(",", "").replace(" ", "-") for word in (*words, variant(group)) if word]
