"""Most concurrent flows: a number of flows are begun, then each is answered; the DUT knows those whose answers pass.

Received frames of new flows prove nothing: a full table may delete an old flow for each new one (nf_conntrack's early_drop removes
unanswered flows). If answers cannot be addressed, because the DUT gives flows other ports, a flow counts when its first frame arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.methods.bracket import Bracket, bracket
from dutlab.methods.dut_tables import FlowCounts, StateTable, risen
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, made_frames, negative_loss
from dutlab.methods.ports import Generator, IPAddress, Offer, Row
from dutlab.methods.state.rate import counted
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.state import StateSetting
from dutlab.units import Pps, Seconds, si

FIRST_FLOWS = 1024
SPARE_S = 30.0
"""Seconds for which a flow is kept in addition to the time to begin and answer all flows."""
TRIES = 4
"""Tries of a number of flows, each at half the rate of the previous one."""
MADE = 0.995
"""Share of the flows that the generator must have begun."""


class _Cut(Exception):
    """The search must stop; the text is the reason."""


class _Nothing(Exception):
    """No flow is known even at the first number; the text is the result of that trial."""


@dataclass(frozen=True)
class Concurrent:
    """Result of the search."""

    bracket: Bracket
    rows: Sequence[Row]
    notes: Sequence[str]
    doubts: Sequence[Doubt]

    @property
    def figures(self) -> Mapping[str, float]:
        """Known bounds; 0 is not a bound."""
        bounds = {"concurrent_flows": self.bracket.held, "concurrent_upper_flows": self.bracket.failed_from}
        return {name: float(value) for name, value in bounds.items() if value}


@dataclass
class _Filling:
    generator: Generator
    states: StateTable
    link: str
    setting: StateSetting
    fill: Pps
    rows: list[Row] = field(default_factory=list)
    doubts: dict[DoubtKind, Doubt] = field(default_factory=dict)
    best: int = 0
    spent_s: float = 0.0

    async def holds(self, flows: int) -> bool:
        """Return True if `flows` are known at once.

        A failure is tried again more slowly, since the rate may have lost frames. Raises _Cut.
        """
        usual = self.fill
        for _ in range(TRIES):
            row = await self._sound(flows)
            if known(row) >= flows * (1 - self.setting.loss_ratio):
                self.best = flows
                return True
            if not row["set_up_flows"] and self.best and not known(await self._sound(self.best)):
                raise _Cut(f"no frame arrived, not even for {self.best} flows, which had passed before: the DUT or the path is down")
            if not self.best and not known(row):
                raise _Nothing(_silence(row))
            if has_rejected_flows(row):
                break
            self.fill = Pps(self.fill / 2)
        slowest, self.fill = row["fill_per_s"], usual
        if not has_rejected_flows(row) and (begun := int(row["begun_flows"] or 0)) < flows * MADE:
            raise _Cut(f"the generator began {begun} of {flows} flows, even at {si(float(slowest or 0), 'pps')}; lower fill_rate")
        return False

    async def _sound(self, flows: int) -> Row:
        """Run a trial; repeat it once if it contradicts itself. Raises _Cut."""
        for _ in range(2):
            row, faults = await self._once(flows)
            self.rows.append(row)
            if not faults:
                return row
        raise _Cut(f"two trials of {flows} flows in a row gave no result: {faults[0].detail}")

    async def _once(self, flows: int) -> tuple[Row, list[Doubt]]:
        takes_s = 2 * (flows / self.fill + self.setting.drain_s)
        if self.rows and self.spent_s + takes_s > self.setting.budget_s:
            spent = f"{self.spent_s:.0f} s of {self.setting.budget_s:g} s are spent"
            raise _Cut(f"{spent}, and {flows} flows at {si(self.fill, 'pps')} take {takes_s:.0f} s; raise budget or fill_rate")
        self.spent_s += takes_s
        await self.states.forget()
        before = await self.states.counts()
        there = await self._offer(flows, Directions.FORWARD, None)
        after = await self.states.counts()
        row = {
            "asked_flows": flows,
            "fill_per_s": self.fill,
            "begun_flows": made_frames(there),
            "set_up_flows": there.received_frames,
            "answered_flows": None,
            **counted(before, after),
        }
        faults = [d for d in (*negative_loss(there), *self._noted(there)) if d.kind in (DoubtKind.NEGATIVE_LOSS, DoubtKind.LEDGER_OPEN)]
        if self.setting.nat_ports is None and there.received_frames > 0:
            address = ip_address(there.sources[0]) if there.sources else None
            back = await self._offer(flows, Directions.ANSWERS, address)
            row = {**row, "answered_flows": back.received_frames, **counted(before, await self.states.counts())}
            faults += negative_loss(back)
        return row, faults

    def _noted(self, flow: Flow) -> list[Doubt]:
        doubts = doubts_of(self._load(1, Directions.FORWARD, None), flow)
        self.doubts.update({doubt.kind: doubt for doubt in doubts})
        return doubts

    def _load(self, flows: int, directions: Directions, answered: IPAddress | None) -> Offer:
        return Offer(
            links=(self.link,),
            mix=self.setting.frame_size,
            rate=self.fill,
            duration=Seconds(flows / self.fill),
            drain=self.setting.drain_s,
            directions=directions,
            answered=answered,
            traffic=self.setting.traffic(flows, seed=1),
        )

    async def _offer(self, flows: int, directions: Directions, answered: IPAddress | None) -> Flow:
        (flow,) = (await self.generator.offer(self._load(flows, directions, answered))).flows
        return flow


async def measure(generator: Generator, states: StateTable, link: str, setting: StateSetting, fill: Pps) -> Concurrent:
    """Fill the table at `fill` new flows a second. Raises HostError, ToolFailed, MeasurementError."""
    await states.keep(2 * setting.most_flows / fill * 2**TRIES + SPARE_S)
    limits = await states.counts()
    filling = _Filling(generator, states, link, setting, fill)
    try:
        bounds = await bracket(filling.holds, first=FIRST_FLOWS, most=setting.most_flows, resolution=setting.width_ratio, guess=limits.most)
        notes, doubts = _words(bounds, filling, limits)
    except MachineTooBusy:
        raise
    except (_Cut, _Nothing, MeasurementError) as end:
        if not filling.rows:
            raise
        bounds, notes = Bracket(filling.best, None), [f"concurrent flows: {end}"]
        kind = DoubtKind.NO_LOWER_BOUND if isinstance(end, _Nothing) else DoubtKind.SEARCH_CUT
        doubts = [Doubt(kind, str(end), "concurrent_flows")]
    await states.forget()
    return Concurrent(bounds, filling.rows, notes, [*doubts, *filling.doubts.values()])


def _silence(first: Row) -> str:
    if not first["set_up_flows"]:
        return "no frame arrived: is the path through the DUT open?"
    return f"of {first['asked_flows']} flows {first['set_up_flows']} were begun and {first['answered_flows']} answers arrived"


def _words(bracketed: Bracket, filling: _Filling, limits: FlowCounts) -> tuple[list[str], list[Doubt]]:
    """Return the end of the search, in sentences, and its doubts."""
    setting, rows, notes = filling.setting, filling.rows, list[str]()
    if not any(row.get("tracked_flows") for row in rows):
        notes.append("concurrent flows: the DUT tracked none in any trial: these packets need no state")
    if setting.nat_ports is not None:
        notes.append(
            "concurrent flows: the DUT gives flows other ports, so answers cannot be sent; a flow counts when its first frame arrives"
        )
    if bracketed.failed_from is None:
        words = f"all {bracketed.held} flows are held, the most that was tried: the limit is higher"
        return [*notes, f"concurrent flows: {words}"], [Doubt(DoubtKind.NO_UPPER_BOUND, words, "concurrent_flows")]
    row = next(row for row in reversed(rows) if row["asked_flows"] == bracketed.failed_from)
    words = _ended_by(bracketed.failed_from, row, limits)
    explained = has_rejected_flows(row) or (limits.most is not None and bracketed.failed_from > limits.most)
    doubts = [] if explained else [Doubt(DoubtKind.LIMIT_UNEXPLAINED, words, "concurrent_flows")]
    return [*notes, f"concurrent flows: {words}"], doubts


def _ended_by(failed_from: int, row: Row, limits: FlowCounts) -> str:
    """Return the DUT's counters for the smallest number that it did not hold, as in `row`."""
    counts = ", ".join(f"{name} {number}" for name, number in risen(row).items()) or "no counter of the DUT rose"
    if limits.most is not None and failed_from > limits.most:
        return f"at {failed_from} the state table is full: it holds {limits.most} ({counts})"
    answers = "" if row["answered_flows"] is None else f" and {row['answered_flows']} answers arrived"
    return f"of {failed_from} flows {row['set_up_flows']} were taken{answers}, with the table not full by its size ({counts})"


def has_rejected_flows(row: Row) -> bool:
    """Return True if the DUT counted flows that it dropped, or deleted for others: then the rate is not the cause."""
    return not {"insert_failed", "drop", "early_drop"}.isdisjoint(risen(row))


def known(row: Row) -> int:
    """Return the flows of a trial that the DUT is known to have stored."""
    taken, answered = row["set_up_flows"], row["answered_flows"]
    return int(taken or 0) if answered is None else min(int(taken or 0), int(answered))
