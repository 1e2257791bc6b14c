"""Neighbour tables of the test interfaces, without addresses. They are separate from the interfaces because they change often."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dutlab.systems.facts import Answers, FactTree, Question


def questions(names: Sequence[str]) -> Iterator[Question]:
    """Yield the questions."""
    yield from (_of_linux(name) for name in names)


def put(facts: FactTree, answers: Answers, names: Sequence[str]) -> None:
    """Store the answers under `neighbours/NAME`."""
    for name in names:
        text, why = answers.of(*_of_linux(name))
        facts.put(f"neighbours/{name}", neighbour_states(text) if text is not None else None, why)


def neighbour_states(text: str) -> list[dict[str, Any]] | None:
    """Parse `ip -s -j neigh`: state of each entry, and seconds since it was confirmed."""
    try:
        return [{"state": " ".join(e["state"]), "confirmed_s": e.get("confirmed")} for e in json.loads(text or "[]")]
    except (ValueError, KeyError, TypeError):
        return None


def _of_linux(name: str) -> Question:
    return ("ip", "-s", "-j", "-4", "neigh", "show", "dev", name)
