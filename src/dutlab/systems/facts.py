"""Facts of a host as data: what is asked, what was answered, and the tree that they are put into. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

Question = tuple[str, ...]
"""A command, or a word of the scripts that ask (hosts/facts.py, linux_facts): slurp, every, lines, pcie, irqs, optic,
drives, smart, and `asroot` before a command that answers others too, but not whole."""


class Answers:
    """Answers of a host, by question."""

    def __init__(self, by_question: dict[Question, tuple[str | None, str]], why: str) -> None:
        self._by_question, self._why = by_question, why

    def of(self, *question: str) -> tuple[str | None, str]:
        """The answer without white space around it, or None and why; an empty file is an answer."""
        return self._by_question.get(question, (None, self._why))

    def said(self, *question: str) -> tuple[str | None, str]:
        """Return the answer of a command, for which nothing is not an answer."""
        text, why = self.of(*question)
        return text or None, why or f"`{question[0]}` said nothing"


class FactTree:
    """Collects values by path; a value that is not there is noted with its reason."""

    def __init__(self) -> None:
        self._tree: dict[str, Any] = {}
        self._absent: dict[str, str] = {}

    def put(self, path: str, value: object, why: str = "") -> None:
        """Store a value. `path` is divided by dots, or by slashes where it has names with dots. A later value replaces an earlier one."""
        node = self._tree
        *folders, leaf = path.split("/") if "/" in path else path.split(".")
        for folder in folders:
            node = node.setdefault(folder, {})
        node[leaf] = value
        if value is None:
            self._absent[path] = why or "not reported"
        else:
            self._absent.pop(path, None)

    def to_json(self) -> dict[str, Any]:
        """Sorted, with the reasons under `absent`."""
        return {**dict(sorted(self._tree.items())), "absent": dict(sorted(self._absent.items()))}


class OwnFacts(Protocol):
    """Questions for a known system in addition to those of linux_facts. The answers have the names of Linux's facts."""

    def questions(self, names: Sequence[str]) -> Iterator[Question]:
        """Yield the questions about it and about its interfaces `names`."""

    def put(self, facts: FactTree, answers: Answers, names: Sequence[str]) -> None:
        """Store the answers under the paths of Linux's facts; a later value replaces an earlier one."""
