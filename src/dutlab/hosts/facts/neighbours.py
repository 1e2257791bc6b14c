"""What the neighbour tables of the test interfaces hold; it stands apart from the interfaces because it changes by the minute."""

from __future__ import annotations

import json
from typing import Any

from dutlab.hosts.facts.questions import Answers, Question
from dutlab.hosts.facts.tree import FactTree


def question(name: str) -> Question:
    """What is asked of the interface `name`."""
    return ("ip", "-s", "-j", "-4", "neigh", "show", "dev", name)


def put(facts: FactTree, answers: Answers, name: str) -> None:
    """Into `neighbours/NAME`."""
    text, why = answers.of(*question(name))
    facts.put(f"neighbours/{name}", neighbour_states(text) if text is not None else None, why)


def neighbour_states(text: str) -> list[dict[str, Any]] | None:
    """`ip -s -j neigh`: state and seconds since it was last confirmed, of each entry; whose it is stays out of the facts."""
    try:
        return [{"state": " ".join(e["state"]), "confirmed_s": e.get("confirmed")} for e in json.loads(text or "[]")]
    except (ValueError, KeyError, TypeError):
        return None
