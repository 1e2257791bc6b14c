"""Facts of a host: questions, answers, and the tree that stores them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

Question = tuple[str, ...]
"""Command, or a function of the scripts that ask (hosts/facts.py, linux_facts): slurp, every, lines, pcie, irqs, optic, drives, smart.
`asroot` precedes a command that prints less to other users."""


class Answers:
    """Answers of a host, by question."""

    def __init__(self, by_question: dict[Question, tuple[str | None, str]], why: str) -> None:
        self._by_question, self._why = by_question, why

    def of(self, *question: str) -> tuple[str | None, str]:
        """Return the stripped answer, or None and the reason; an empty file is an answer."""
        return self._by_question.get(question, (None, self._why))

    def output_of(self, *question: str) -> tuple[str | None, str]:
        """Return the answer of a command, or None and the reason; an empty output is not an answer."""
        text, why = self.of(*question)
        return text or None, why or f"`{question[0]}` printed nothing"


class FactTree:
    """Values by path; a missing value is stored with its reason."""

    def __init__(self) -> None:
        self._tree: dict[str, Any] = {}
        self._absent: dict[str, str] = {}

    def put(self, path: str, value: object, why: str = "") -> None:
        """Store a value. Dots divide `path`, or slashes if it has names with dots. A later value replaces an earlier one."""
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
        """Return the sorted tree, with the reasons under `absent`."""
        return {**dict(sorted(self._tree.items())), "absent": dict(sorted(self._absent.items()))}


class OwnFacts(Protocol):
    """Questions for a known system in addition to those of linux_facts. The answers have the names of Linux's facts."""

    def questions(self, names: Sequence[str]) -> Iterator[Question]:
        """Yield the questions about the host, and about its interfaces `names`."""

    def put(self, facts: FactTree, answers: Answers, names: Sequence[str]) -> None:
        """Store the answers under the paths of Linux's facts; a later value replaces an earlier one."""
