"""Injected interference: a simulated device on a machine that other work loads in chosen offers, and loses frames to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from cells import cell_of
from dutlab.methods.ports import Generator, Offer, Outcome
from dutlab.physics.interference import CpuAccount, Interference, ThreadTime
from dutlab.store.record import TrialRecord

NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)


def interference(taken: float | None, *, wait_share: float = 0.5) -> Interference:
    """Threads that ran for 1 s; `taken` is the share of their time that others took, and all that they used; None where it is not known."""
    taken_s = None if taken is None else taken / (1 - taken)
    return Interference(2.0, 2, 1.0, wait_share / (1 - wait_share), taken_s, taken_s, None, 0.0, None)


def record(trial: int, taken: float | None = 0.0, *, wait_share: float = 0.5, mode: str = "router", repeat: int = 1) -> TrialRecord:
    cell = cell_of("iperf3", mode=mode, repeat=repeat, streams=4)
    return TrialRecord(
        trial=trial, status="measured", cell=cell, started=NOW, ended=NOW + timedelta(seconds=3),
        figures={"a": {"goodput_bps": 9e9 * (1 - (taken or 0))}}, interference={"this-machine": interference(taken, wait_share=wait_share)},
    )  # fmt: skip


@dataclass
class BusyMachine:
    """A generator around another, and the CPU accounts of the machine that it runs on. `taken` is offer number → share taken by others."""

    generator: Generator
    taken: Callable[[int], float]
    stall_s: Callable[[int], float] = lambda _: 0.0
    """What comes in so long is lost in the rig."""
    place: str = "DUT stack"
    offers: list[Offer] = field(default_factory=list)
    _run_s: float = 0.0
    _taken_s: float = 0.0

    async def offer(self, offer: Offer) -> Outcome:
        """As the port asks."""
        number = len(self.offers)
        self.offers.append(offer)
        outcome = await self.generator.offer(offer)
        share = self.taken(number)
        self._run_s += offer.duration
        self._taken_s += offer.duration * share / (1 - share)
        flows = []
        for flow in outcome.flows:
            more = min(round(flow.sent_frames / flow.sent_seconds * self.stall_s(number)), flow.received_frames)
            flows.append(
                replace(
                    flow,
                    received_frames=flow.received_frames - more,
                    lost_frames=flow.lost_frames + more,
                    places={self.place: flow.lost_frames + more},
                )
            )
        return replace(outcome, flows=tuple(flows), raw={"engine.jsonl": f"offer {number}\n".encode()})

    async def read(self) -> Mapping[str, CpuAccount]:
        """The account of the one machine."""
        busy_s = self._run_s + self._taken_s
        return {
            "lab": CpuAccount(
                busy_s, 2, busy_s, 0.0, None, self._run_s, {"engine": ThreadTime(self._run_s, self._taken_s)}, taken_s=self._taken_s
            )
        }


async def no_sleep(_: float) -> None:
    """For waits between offers."""
