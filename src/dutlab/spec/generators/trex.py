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
"""On the generator's machine."""
_Name = Annotated[str, Field(pattern=r"^[a-z_][A-Za-z0-9_]*$", max_length=64)]
_Tunables = Annotated[
    tuple[tuple[_Name, str | int | float], ...],
    BeforeValidator(
        lambda written: tuple(written.items()) if isinstance(written, Mapping) else written,
        json_schema_input_type=dict[_Name, str | int | float],
    ),
    PlainSerializer(dict),
]
"""A mapping in the file; a generator can be a key, and a dict in it could not."""


class TrexModel(GeneratorModel):
    """A server that is started for the run, or runs already."""

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
    """The folder of the release, with t-rex-64 in it."""
    server: Literal["own", "running"] = "own"
    config: AbsolutePath | None = None
    """A trex_cfg.yaml that is there, for cards that DPDK drives: port 2n is the source's end of the n-th link, port 2n+1 the sink's.
    Without it one is written that has TRex use the links' interfaces by AF_PACKET."""
    profile: AbsolutePath | None = None
    """A stateless profile of the user's own, instead of our frames; its rates are scaled to what is asked."""
    tunables: _Tunables = ()
    """Arguments of the profile's `get_streams`, as in {size: 64, vm: cached} of stl/bench.py."""
    address: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:-]*$")] = "127.0.0.1"
    """Address of a running server, as the machine that has the client at `path` reaches it."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that tunables have a profile, and an address another's server."""
        yield from super().cross_faults(data, made)
        if made is not None and made.tunables and made.profile is None:
            yield fault(("tunables",), "are a profile's; write profile: FILE.py", FaultKind.CONFLICT)
        if made is not None and data.get("address") is not None and made.server == "own":
            yield fault(("address",), "is for a server that runs already; write server: running", FaultKind.CONFLICT)

    @property
    def needs_one_machine(self) -> bool:
        """Unless somebody else's configuration says which ports it has."""
        return self.server == "own" and self.config is None

    @property
    def fixes_sizes(self) -> str:
        """A profile does."""
        return "" if self.profile is None else "the profile fixes the sizes; write one frame size, by which its trials are called"
