"""Proof of a finding: an experiment of two levels, and the cost that its figures show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dutlab.analysis.comparison import Comparison
from dutlab.analysis.doctor.finding import Finding, Price
from dutlab.analysis.doctor.kinds import FindingProof
from dutlab.analysis.verdict import Verdict

CURED, NOTHING = "cured", "nothing"
"""The factor, and its level for the hosts as found. The other level is named after the kind of the finding."""
_STREAM, _PAIRS = "iperf3", "matrix"
"""Two workloads of the same load: over a path, and between every two hosts of a segment, which has no source and no sink."""


def link_of(finding: Finding | None, links: Mapping[str, Sequence[str]]) -> str:
    """Return the first link that the finding names, else the first of `links`.

    `links` has the ports of each link, as `host:interface`.
    """
    where = finding.where if finding is not None else ()
    named = (name for name, ports in links.items() if f"link {name}" in where or any(port in where for port in ports))
    return next(named, next(iter(links), ""))


def experiment_of(
    kind: str, proof: FindingProof, finding: Finding | None, *, testbed: object, link: str, is_segment: bool, mode: str, repeats: int
) -> dict[str, Any]:
    """Return the experiment file. Its levels are the hosts before and after the fix, or values of a setting if the workload is the cause.

    If a cure or an undo has a step by hand, the file has no commands for the level, and a person sets it.
    """
    name, workload = _PAIRS if is_segment and proof.workload == _STREAM else proof.workload, {**proof.settings, "links": [[link]]}
    data: dict[str, Any] = {"experiment": f"prove-{kind}", "testbed": testbed, "factors": {"mode": [mode]}, "repeats": repeats}
    if proof.levels is not None:
        setting, values = proof.levels
        return {**data, "workloads": [{name: {**workload, setting: value}} for value in values]}
    data["factors"][CURED] = [NOTHING, kind]
    if finding is not None and not any(step.by_hand for step in (*finding.cure, *finding.undo)):
        data["levels"] = {CURED: {NOTHING: {}, kind: _commands(finding)}}
    return {**data, "workloads": [{name: workload}]}


def _commands(finding: Finding) -> list[dict[str, Any]]:
    """Return the commands of each host that apply and undo the cure, in the order of the cure."""
    hosts = dict.fromkeys(step.host for step in finding.cure)
    by_host = {host: [[s.command for s in steps if s.host == host] for steps in (finding.cure, finding.undo)] for host in hosts}
    return [{"host": host, "apply": cure, "restore": undo} for host, (cure, undo) in by_host.items()]


@dataclass(frozen=True)
class ProofPair:
    """Comparison of two levels of one cell."""

    before: str
    after: str
    place: str
    """Links and frame size, in words."""
    comparison: Comparison

    @property
    def figure(self) -> str:
        """Name of the compared figure."""
        return self.comparison.pair.figure

    @property
    def words(self) -> str:
        """The comparison in words, with both levels."""
        first, second = self.comparison.first, self.comparison.second
        levels = f": {first.value:.4g} became {second.value:.4g}" if first and second else ""
        return f"{self.after} instead of {self.before}, {self.place}, {self.figure}{levels}"

    @property
    def is_proven(self) -> bool:
        """True if a difference is proven."""
        return self.comparison.verdict in {Verdict.BETTER, Verdict.WORSE}

    @property
    def price(self) -> Price:
        """Cost of the worse level, measured here; not known where no difference is proven."""
        ratio, sides = self.comparison.ratio, (self.comparison.first, self.comparison.second)
        repeats = min((side.n for side in sides if side is not None), default=0)
        if ratio is None or not self.is_proven:
            return Price(None, "", f"measured here, {repeats} repeats of each level: {self.comparison.words}; {self.comparison.why}")
        share = min(ratio.ratio, 1 / ratio.ratio)
        interval = ratio.interval
        spread = f", 95 % interval of the ratio {interval.low:.3f} to {interval.high:.3f}" if interval else ""
        source = f"measured here: {ratio.ratio:.3f} times, {repeats} repeats of each level{spread}"
        return Price(100 * (1 - share), f"{self.figure}, {self.place}", source)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for programs."""
        c = self.comparison
        interval = c.ratio.interval if c.ratio else None
        return {
            "before": self.before, "after": self.after, "place": self.place, "figure": self.figure, "verdict": c.verdict.value,
            "proven": self.is_proven, "first": asdict(c.first) if c.first else None, "second": asdict(c.second) if c.second else None,
            "ratio": c.ratio.ratio if c.ratio else None, "interval": [interval.low, interval.high] if interval else None, "p": c.p,
            "price": asdict(self.price),
        }  # fmt: skip


def level_of(factors: Mapping[str, str], setting: object, proof: FindingProof) -> str:
    """Return the level at which a cell was measured."""
    return factors.get(CURED, "") if proof.levels is None else str(getattr(setting, proof.levels[0], ""))
