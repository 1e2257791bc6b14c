"""A trial's place in the plan: the level of every factor and the workload, in serialisable words."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from dutlab.spec.traffic import Traffic


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
    def flows(self) -> int:
        """How many flows cross the DUT at once at most, which its table of states must hold."""
        text = self.params.get("traffic")
        of_frames = Traffic.parse(None if text is None else str(text)).flows.count
        said = [int(self.params.get(name) or 0) for name in ("most_flows", "table_flows", "streams")]
        return max(of_frames, *said) * len(self.links) * (2 if self.params.get("directions") == "both" else 1)

    @property
    def link_label(self) -> str:
        """`a`, or `a+b` for links driven at once."""
        return "+".join(self.links)
