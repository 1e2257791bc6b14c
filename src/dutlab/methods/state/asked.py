"""What is asked of the state table, and the flows that it is asked with."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dutlab.errors import InputError
from dutlab.methods.mixes import mix_of
from dutlab.methods.ports import FrameMix
from dutlab.plan.cell import Cell
from dutlab.spec.traffic import RFC4814_SOURCE_PORTS, FlowSet, Traffic
from dutlab.units import Pps, Seconds


class StateTest(enum.Enum):
    """What is found; the word is that of the experiment file."""

    RATE = "rate"
    CONCURRENT = "concurrent"


@dataclass(frozen=True)
class Asked:
    """One link's measurement."""

    link: str
    mix: FrameMix
    tests: tuple[StateTest, ...]
    trial: Seconds
    loss: float
    width: float
    fill: Pps | None
    most: int
    """Flows that are tried at most."""
    destination_ports: int
    table: int | None
    nat_ports: tuple[int, int] | None
    drain: Seconds
    budget: Seconds
    """Of sending, for the concurrent flows."""

    def flows(self, count: int, seed: int) -> Traffic:
        """So many different ones; of another seed others. Raises InputError for more than there are."""
        if count > self.most:
            raise InputError(f"{count} flows: {self.most} can be told apart", remedy="shorten the trial, or take more destination_ports")
        ports = {"source_ports": RFC4814_SOURCE_PORTS[1], "destination_ports": self.destination_ports}
        return Traffic(flows=FlowSet(count=count, seed=seed, **ports))


def asked_of(cell: Cell) -> Asked:
    """The cell's params, as StateWorkload.settings names them. Raises InputError."""
    params = cell.params
    try:
        ports = params.get("nat_ports")
        first, _, last = str(ports).partition("-")
        return Asked(
            link=cell.links[0],
            mix=mix_of(cell),
            tests=tuple(StateTest(word) for word in str(params["tests"]).split(",")),
            trial=Seconds(float(params["trial_s"] or 0)),
            loss=float(params["loss_ratio"] or 0),
            width=float(params["width_ratio"] or 0),
            fill=None if (fill := params.get("fill_pps")) is None else Pps(float(fill)),
            most=int(params["most_flows"] or 0),
            destination_ports=int(params["destination_ports"] or 0),
            table=None if (table := params.get("table_flows")) is None else int(table),
            nat_ports=None if ports is None else (int(first), int(last)),
            drain=Seconds(float(params["drain_s"] or 0)),
            budget=Seconds(float(params["budget_s"] or 0)),
        )
    except (KeyError, ValueError) as e:
        raise InputError(f"workload {cell.workload} is not fully described: {e}", remedy="see `state` in the reference") from e
