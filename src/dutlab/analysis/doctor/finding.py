"""One finding: its evidence, its cost, its fix, and the undo of the fix."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dutlab.analysis.doctor.kinds import KINDS, FindingProof

NOT_KNOWN = "no published figure was found"
WORTH_PERCENT = 1.0
"""Least cost in percent for a warning. Repeats differ by more than a smaller cost."""
_BY_HAND = "by hand: "


@dataclass(frozen=True)
class Price:
    """Expected cost of a finding. `percent` is None where it is not known."""

    percent: float | None
    of: str
    """Subject of the cost: `TCP goodput`, `the clock of a core`."""
    source: str
    """Source of the cost: a formula with its numbers, a published measurement, a reading; for an unknown cost, the reason."""

    @property
    def words(self) -> str:
        """The cost in words: `4.9 % of TCP goodput`; `not known`."""
        return f"{self.percent:.1f} % of {self.of}" if self.percent is not None else "not known"


def unknown_price(why: str) -> Price:
    """Return a cost that is not known. `why` is the reason."""
    return Price(None, "", f"{NOT_KNOWN}: {why}")


@dataclass(frozen=True)
class Evidence:
    """One reading: its place and its text."""

    host: str
    read: str
    """The file or command that was read."""
    said: str
    """Content of the file, or output of the command."""


@dataclass(frozen=True)
class CureStep:
    """A command on a host. For a step that a person must carry out, `command` begins with `by hand: `."""

    host: str
    command: str

    @property
    def by_hand(self) -> str:
        """Steps for a person; empty for a command."""
        return self.command.removeprefix(_BY_HAND) if self.command.startswith(_BY_HAND) else ""


@dataclass(frozen=True)
class Finding:
    """One thing that distorts results."""

    kind: str
    """Kind of the finding, one of KINDS."""
    what: str
    """The finding as a clause."""
    price: Price
    where: tuple[str, ...]
    """Ports `host:interface`, hosts, or links `link a`."""
    evidence: tuple[Evidence, ...]
    cure: tuple[CureStep, ...]
    undo: tuple[CureStep, ...]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r}: not a kind of finding")

    @property
    def proof(self) -> FindingProof:
        """The measurement that shows the cost of the finding on this machine."""
        return KINDS[self.kind].proof

    @property
    def is_worth_a_warning(self) -> bool:
        """True if the finding loses frames, or if its cost is known and at least WORTH_PERCENT."""
        return KINDS[self.kind].loses_frames or (self.price.percent is not None and self.price.percent >= WORTH_PERCENT)

    def to_json(self) -> dict[str, Any]:
        """Return the finding for programs and run folders, with the workload that proves it."""
        return {**asdict(self), "proof": self.proof.words}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finding:
        """Read the output of to_json(). Raises KeyError or TypeError if `data` is not a finding."""
        evidence = tuple(Evidence(**e) for e in data["evidence"])
        cure, undo = (tuple(CureStep(**s) for s in data[name]) for name in ("cure", "undo"))
        return cls(str(data["kind"]), str(data["what"]), Price(**data["price"]), tuple(map(str, data["where"])), evidence, cure, undo)


def by_price(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings: known costs first, the largest first; then unknown costs; last those that cost nothing now.

    Findings that differ only in their place are merged into one.
    """
    merged: dict[tuple[str, str, Price], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.what, finding.price)
        known = merged.get(key)
        merged[key] = finding if known is None else _both(known, finding)
    return sorted(merged.values(), key=_place)


def shell(*words: object) -> str:
    """Return a command line, with quotes around each word that needs them."""
    return shlex.join(str(w) for w in words)


def write(value: object, file: str) -> str:
    """Return a command that writes `value` into a file of the kernel."""
    return f"echo {shlex.quote(str(value))} > {shlex.quote(file)}"


def _place(finding: Finding) -> tuple[float, str]:
    percent = finding.price.percent
    return (0.5 if percent is None else -percent if percent > 0 else 1.0), finding.kind


def _both(one: Finding, other: Finding) -> Finding:
    return replace(
        one,
        where=_each_once(one.where, other.where),
        evidence=_each_once(one.evidence, other.evidence),
        cure=_each_once(one.cure, other.cure),
        undo=_each_once(one.undo, other.undo),
    )


def _each_once(one: Sequence[Any], other: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*one, *other)))
