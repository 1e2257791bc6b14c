"""What is asked of the state table, and the flows that it is asked with."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dutlab.errors import InputError
from dutlab.methods.mixes import mix_of
from dutlab.methods.params import Params
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
    params = Params(cell)
    return Asked(
        link=cell.links[0],
        mix=mix_of(cell),
        tests=params.each("tests", StateTest),
        trial=Seconds(params.one("trial_s", float)),
        loss=params.one("loss_ratio", float),
        width=params.one("width_ratio", float),
        fill=None if (fill := params.maybe("fill_pps", float)) is None else Pps(fill),
        most=params.one("most_flows", int),
        destination_ports=params.one("destination_ports", int),
        table=params.maybe("table_flows", int),
        nat_ports=params.maybe("nat_ports", _range),
        drain=Seconds(params.one("drain_s", float)),
        budget=Seconds(params.one("budget_s", float)),
    )


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last)
