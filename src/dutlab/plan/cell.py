"""A trial's place in the plan: the level of every factor and the workload, in serialisable words."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Cell(BaseModel):
    """What is varied. `params` are of the workload, with units in their names: frame_size, rate_pps, duration_s, streams."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    mode: str
    factors: dict[str, str]
    """Level of every factor, mode included."""
    workload: str
    """As the experiment file calls it: iperf3, sweep, …"""
    tool: str
    links: tuple[str, ...]
    params: dict[str, str | float | int | None]
    repeat: int
    """From 1."""

    @property
    def link_label(self) -> str:
        """`a`, or `a+b` for links driven at once."""
        return "+".join(self.links)
