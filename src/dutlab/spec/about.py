"""Specification of a host as its owner states it: facts that no program reads there, such as price, slots and the controller's model.

about:
  model: Supermicro SuperServer E302-9D
  memory: 4 × 8 GB DDR4-2133 ECC
  bmc: ASPEED AST2500
  price: 1,079 USD (May 2020)
  more: {chassis: fanless}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.model import SpecModel, fault

MOST_MORE = 40
"""Largest number of further properties."""
Words = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f]+$")]
Property = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f]+$")]


class AboutSpec(SpecModel):
    """Specification of a host, as text for readers. Nothing is computed from it."""

    model: Words | None = None
    """Maker and product."""
    processor: Words | None = None
    memory: Words | None = None
    """Memory modules (DIMMs): number, size, type, speed."""
    storage: Words | None = None
    ports: Words | None = None
    """Network ports: number, speed, controller."""
    slots: Words | None = None
    """Expansion slots, and how wide each is wired."""
    bmc: Words | None = None
    """Management controller (BMC): chip or model, and firmware."""
    firmware: Words | None = None
    """BIOS or UEFI, with its version."""
    cooling: Words | None = None
    supply: Words | None = None
    """Power supply."""
    system: Words | None = None
    """Operating system, with its version."""
    price: Words | None = None
    """Price with currency and date."""
    more: dict[Property, Words] = Field(default_factory=dict)
    """Further properties, by name."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check the number of further properties."""
        if isinstance(more := data.get("more"), Mapping) and len(more) > MOST_MORE:
            yield fault(("more",), f"{len(more)} properties; at most {MOST_MORE} are shown", FaultKind.RANGE)

    @property
    def rows(self) -> dict[str, str]:
        """Property → text, in the order of this model, then `more`."""
        own = {name: text for name in type(self).model_fields if name != "more" and (text := getattr(self, name))}
        return {**own, **{name: text for name, text in self.more.items() if name not in own}}
