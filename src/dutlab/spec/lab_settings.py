"""Settings of an embedded lab other than its testbed: the section `lab` of its file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

WATCH = "watch"
"""Key of a layout's cores, next to the hosts, for the core of the sensors."""


class _Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


def _cores(value: Any) -> Any:  # noqa: ANN401 -- what a file says can be anything
    """Return host → cores from `source:0 dut:1,2 watch:3`."""
    if not isinstance(value, str):
        return value
    return {host: cores.split(",") for host, _, cores in (word.partition(":") for word in value.split())}


Cores = Annotated[dict[str, Annotated[tuple[int, ...], Field(min_length=1)]], BeforeValidator(_cores)]


class Layout(_Strict):
    """Assignment of a lab's hosts to cores."""

    about: str
    napi_threads: frozenset[str]
    """Hosts whose ports are served by kernel threads, pinned to the host's cores."""
    cpus: dict[int, Cores]
    """Number of usable cores → cores of each host and, under `watch`, of the sensors, as indices into the usable cores."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if 1 not in self.cpus:
            raise ValueError("cpus: a layout must also say what it does on 1 core")
        for count, cores in self.cpus.items():
            used = {core for of_host in cores.values() for core in of_host}
            if not used <= set(range(count)):
                raise ValueError(f"cpus: {count}: names a core beyond the {count} it is for")
        return self

    def on(self, usable: Sequence[int]) -> tuple[dict[str, tuple[int, ...]], int]:
        """Return the CPU numbers of each host and the CPU of the sensors, where dutlab may use the CPUs `usable`."""
        cores = self.cpus[max(n for n in self.cpus if n <= max(1, len(usable)))]
        hosts = {host: tuple(usable[i] for i in of_host) for host, of_host in cores.items() if host != WATCH}
        return hosts, usable[cores[WATCH][0]]

    def insist_on(self, hosts: Collection[str]) -> None:
        """Check that the layout names exactly the lab's `hosts`. Raises KeyError."""
        for named in (*(cores.keys() - {WATCH} for cores in self.cpus.values()), self.napi_threads | set(hosts)):
            if unknown := set(named) ^ set(hosts):
                raise KeyError(f"layout {self.about!r}: {', '.join(sorted(unknown))} is in the hosts or in the layout, not in both")


class LabSettings(_Strict):
    """Settings of a lab's file other than its testbed."""

    gro: bool
    tso: bool
    reach: Literal["netns", "ssh"] = "netns"
    """Way to reach its hosts: directly in their namespaces, or through an ssh server in each."""
    guests: tuple[str, ...] = ()
    """Hosts with their own kernel (guest.py), reached over ssh."""
    kernel: Literal["uml", "qemu"] = "uml"
    """Kernel of the guests: user-mode Linux, or Debian's cloud kernel in QEMU."""
    card: Literal["virtio-net", "vmxnet3"] = "virtio-net"
    """Model of the network cards of a QEMU guest."""
    queues: Annotated[int, Field(ge=1, le=64)] = 1
    """Receive and transmit queues of each port. One is in use until `ethtool -L` sets more."""
    box: bool = False
    """True if the DUT acts as a bought box: it forwards from the start, neighbours use ARP or ND, and source and sink are one host."""
    layout: str
    layouts: dict[str, Layout]

    @model_validator(mode="after")
    def _default_exists(self) -> Self:
        if self.layout not in self.layouts:
            raise ValueError(f"layout: {self.layout!r} is not among the layouts {', '.join(sorted(self.layouts))}")
        return self
