"""Connection tracking table capacity (RFC 9693 section 4.9): the most connections that the DUT knows at once.

From C0, a safe number, the number is doubled until the maximum connection establishment rate drops below the share `beta`. Then the gap is
halved until it is at most `error` wide, with `gamma` instead of `beta`. The search needs to know only whether the rate drops so far: the
last rate that held is tried, then half of it, and so on down to that share.

A trial that fails is made once more. A table that was filled once holds that many connections; but other work on the tester can hold frames
up, and the frames that it then sends at once can be lost on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.methods.ports import Row
from dutlab.methods.stateful_nat.phases import Phases
from dutlab.units import si

_TRIES = 2
"""Trials of one number at one rate that must fail before it counts as too many."""


@dataclass(frozen=True)
class TableCapacity:
    """Result in the letters of the RFC: C0 and R0 at the start, CS and RS that held, CT that did not."""

    begins_at: int
    begins_per_s: float
    held: int | None
    held_per_s: float | None
    failed_from: int | None
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @property
    def figures(self) -> Mapping[str, float]:
        """Known bounds of the capacity."""
        bounds = {"capacity_connections": self.held, "capacity_upper_connections": self.failed_from}
        return {name: float(value) for name, value in bounds.items() if value is not None}

    @property
    def row(self) -> Row:
        """Row of the table of RFC 9693 section 6."""
        return {
            "c0_connections": self.begins_at,
            "r0_per_s": self.begins_per_s,
            "cs_connections": self.held,
            "rs_per_s": self.held_per_s,
            "ct_connections": self.failed_from,
        }


@dataclass
class _Fill:
    phases: Phases
    rows: list[Row] = field(default_factory=list)

    async def holds(self, connections: int, rate_per_s: float, share: float) -> float | None:
        """Return the rate at which all connections are established, down to `share` of `rate_per_s`; None if none.

        Raises MeasurementError.
        """
        rate = rate_per_s
        while rate >= rate_per_s * share:
            for _ in range(_TRIES):
                trial = await self.phases.trial(connections, rate)
                self.rows.append({**trial.row, "safe_per_s": rate_per_s})
                if trial.passes:
                    return rate
            rate /= 2
        return None


async def measure(phases: Phases, rate_per_s: float) -> TableCapacity:
    """Run the search. `rate_per_s` is R0, at which C0 connections were established. Raises MeasurementError, HostError."""
    setting, fill = phases.setting, _Fill(phases)
    safe, safe_rate, failed_from = setting.first_connections, rate_per_s, None
    rate = await fill.holds(safe, safe_rate, setting.beta_ratio)
    if rate is None:
        words = (
            f"not even {safe} connections were established at {si(rate_per_s, '/s')} or less; write a smaller capacity_from or fill_rate"
        )
        doubt = Doubt(DoubtKind.NO_LOWER_BOUND, words, "capacity_connections")
        return TableCapacity(safe, rate_per_s, None, None, safe, tuple(fill.rows), (f"capacity: {words}",), (doubt,))
    safe_rate = begins_per_s = rate
    cut = ""
    try:
        while failed_from is None and safe < setting.most_connections:
            tried = min(2 * safe, setting.most_connections)
            rate = await fill.holds(tried, safe_rate, setting.beta_ratio)
            if rate is None:
                failed_from = tried
            else:
                safe, safe_rate = tried, rate
        while failed_from is not None and failed_from - safe > setting.error_connections:
            tried = (safe + failed_from) // 2
            rate = await fill.holds(tried, safe_rate, setting.gamma_ratio)
            if rate is None:
                failed_from = tried
            else:
                safe, safe_rate = tried, rate
    except MachineTooBusy:
        raise
    except MeasurementError as end:
        cut = str(end)
    notes, doubts = _words(safe, failed_from, fill.rows, cut)
    return TableCapacity(
        setting.first_connections, begins_per_s, safe, safe_rate, failed_from, tuple(fill.rows), tuple(notes), tuple(doubts)
    )


def _words(safe: int, failed_from: int | None, rows: list[Row], cut: str) -> tuple[list[str], list[Doubt]]:
    """Return the end of the search, in sentences, and its doubts."""
    figure = "capacity_connections"
    if cut:
        return [f"capacity: {cut}"], [Doubt(DoubtKind.SEARCH_CUT, cut, figure)]
    if failed_from is None:
        words = f"all {safe} connections were established, the most that was tried: the table may hold more"
        return [f"capacity: {words}"], [Doubt(DoubtKind.NO_UPPER_BOUND, words, figure)]
    row = next(row for row in reversed(rows) if row["asked_connections"] == failed_from)
    came = "no answer was asked for" if row["validated_connections"] is None else f"{row['validated_connections']} answers arrived"
    return [f"capacity: of {failed_from} connections {row['arrived_connections']} arrived and {came}"], []
