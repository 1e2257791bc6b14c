"""Generator `trex`: Cisco's TRex, stateless, on a machine that has both ends of every link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.generators.base import GeneratorFeature, GeneratorModel
from dutlab.spec.generators.counted import EVENLY, NOT_SHARED, NOT_TIMED, ONE_FLOW
from dutlab.spec.model import fault

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\s'\"]*$")]
"""Absolute path on the generator's machine."""
_Name = Annotated[str, Field(pattern=r"^[a-z_][A-Za-z0-9_]*$", max_length=64)]
_Tunables = Annotated[
    tuple[tuple[_Name, str | int | float], ...],
    BeforeValidator(
        lambda written: tuple(written.items()) if isinstance(written, Mapping) else written,
        json_schema_input_type=dict[_Name, str | int | float],
    ),
    PlainSerializer(dict),
]
"""Mapping in the file, kept as pairs because a generator must be hashable."""


class TrexModel(GeneratorModel):
    """TRex server, started for the run or already running."""

    kind: ClassVar[str] = "trex"
    stepped: ClassVar[bool] = True
    lacks: ClassVar[Mapping[GeneratorFeature, str]] = {
        **{ask: f"{why}; give it your own profile (profile: FILE.py)" for ask, why in ONE_FLOW.items()},
        **NOT_TIMED,
        **EVENLY,
        **NOT_SHARED,
        GeneratorFeature.ORDER: "it mixes sizes by their rates, in no order",
        GeneratorFeature.READINGS: "its counters are read once, after the drain",
    }

    path: AbsolutePath = "/opt/trex"
    """Folder of the TRex release, with t-rex-64 in it."""
    server: Literal["own", "running"] = "own"
    config: AbsolutePath | None = None
    """Existing trex_cfg.yaml, for cards with DPDK drivers: port 2n is the source's end of the n-th link, port 2n+1 the sink's.
    Without it, dutlab writes one that uses the links' interfaces by AF_PACKET."""
    profile: AbsolutePath | None = None
    """Stateless profile of the user, in place of dutlab's frames; its rates are scaled to the intended rate."""
    tunables: _Tunables = ()
    """Arguments of the profile's `get_streams`, such as {size: 64, vm: cached} of stl/bench.py."""
    address: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:-]*$")] = "127.0.0.1"
    """Address of a running server, as seen from the machine with the client at `path`."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that tunables have a profile, and that an address is of a running server."""
        yield from super().cross_faults(data, made)
        if made is not None and made.tunables and made.profile is None:
            yield fault(("tunables",), "are a profile's; write profile: FILE.py", FaultKind.CONFLICT)
        if made is not None and data.get("address") is not None and made.server == "own":
            yield fault(("address",), "is for a server that runs already; write server: running", FaultKind.CONFLICT)

    @property
    def needs_one_machine(self) -> bool:
        """True unless a running server or a configuration file determines the ports."""
        return self.server == "own" and self.config is None

    @property
    def fixes_sizes(self) -> str:
        """Reason why a profile sends its own frame sizes; empty without a profile."""
        return "" if self.profile is None else "the profile fixes the sizes; write one frame size, by which its trials are called"
