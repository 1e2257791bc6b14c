"""Reader of the embedded labs' data files. It does not touch the system."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dutlab.errors import InputError, LabError
from dutlab.spec.testbed import Testbed

_FILES = Path(__file__).with_name("labs")
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


@dataclass(frozen=True)
class LabDescription:
    """A lab that can be built: its testbed and its settings."""

    name: str
    testbed: Testbed
    settings: LabSettings

    def layout(self, name: str | None = None) -> tuple[str, Layout]:
        """Return name and layout of the layout called `name`, or of the lab's default. Raises InputError."""
        chosen = name or self.settings.layout
        if chosen not in self.settings.layouts:
            raise InputError(
                f"lab {self.name} has no layout {chosen!r}", remedy=f"choose one of {', '.join(sorted(self.settings.layouts))}"
            )
        return chosen, self.settings.layouts[chosen]


def lab_names() -> list[str]:
    """Return the names of the labs that can be built."""
    return sorted(f.name.removesuffix(".yaml") for f in _FILES.iterdir() if f.name.endswith(".yaml"))


@cache
def description(name: str) -> LabDescription:
    """Return the lab called `name`, without building it. Raises InputError."""
    if name not in lab_names():
        raise InputError(f"there is no embedded lab {name!r}", remedy=f"choose one of {', '.join(lab_names())}")
    return parse(name, _text(name))


def _text(name: str) -> str:
    return (_FILES / f"{name}.yaml").read_text(encoding="utf-8")


def _load(text: str) -> dict[str, Any]:
    """Return a lab's data; keys that it lacks are from the lab that it names as `like`."""
    from ruamel.yaml import YAML  # noqa: PLC0415 -- only a lab that is built or described needs it

    data: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    if (other := data.pop("like", None)) is None:
        return data
    base = _load(_text(other))
    return {**base, **data, "lab": {**base["lab"], **data.get("lab", {})}}


def parse(name: str, text: str) -> LabDescription:
    """Read a lab's file. Raises LabError where it is faulty, which is a fault of this release."""
    try:
        data = _load(text)
        settings = LabSettings.model_validate(data.pop("lab"))
        testbed = Testbed.model_validate({**data, "lab": name})
        for layout in settings.layouts.values():
            layout.insist_on(testbed.hosts)
        return LabDescription(name, testbed, settings)
    except (ValidationError, KeyError, AttributeError) as e:
        raise LabError(f"the description of lab {name} is faulty: {e}") from e
