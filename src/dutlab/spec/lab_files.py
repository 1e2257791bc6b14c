"""Embedded labs, read from their data files; nothing here touches the system."""

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
"""Beside the hosts, of the cores of a layout: where sensors run."""


class _Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


def _cores(value: Any) -> Any:  # noqa: ANN401 -- what a file says can be anything
    """`source:0 dut:1,2 watch:3` as each host's cores."""
    if not isinstance(value, str):
        return value
    return {host: cores.split(",") for host, _, cores in (word.partition(":") for word in value.split())}


Cores = Annotated[dict[str, Annotated[tuple[int, ...], Field(min_length=1)]], BeforeValidator(_cores)]


class Layout(_Strict):
    """A way to spread a lab over cores."""

    about: str
    napi_threads: frozenset[str]
    """Hosts whose ports are served by kernel threads, pinned to the host's cores."""
    cpus: dict[int, Cores]
    """Cores by number of cores: each host's, and those of the sensors under `watch`, as indices into the cores that we may use."""

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
        """The hosts' CPU numbers and the sensors' one, where we may use the CPUs `usable`."""
        cores = self.cpus[max(n for n in self.cpus if n <= max(1, len(usable)))]
        hosts = {host: tuple(usable[i] for i in of_host) for host, of_host in cores.items() if host != WATCH}
        return hosts, usable[cores[WATCH][0]]

    def insist_on(self, hosts: Collection[str]) -> None:
        """Raises KeyError for a host that is left out of it, or that a lab of `hosts` has not."""
        for named in (*(cores.keys() - {WATCH} for cores in self.cpus.values()), self.napi_threads | set(hosts)):
            if unknown := set(named) ^ set(hosts):
                raise KeyError(f"layout {self.about!r}: {', '.join(sorted(unknown))} is in the hosts or in the layout, not in both")


class LabSettings(_Strict):
    """Parts of a lab's file other than its testbed."""

    gro: bool
    tso: bool
    reach: Literal["netns", "ssh"] = "netns"
    """Way to its hosts: into their namespaces, or through an ssh server in each."""
    guests: tuple[str, ...] = ()
    """Hosts with their own kernel (guest.py), which are reached over ssh."""
    kernel: Literal["uml", "qemu"] = "uml"
    """Whose these are: user-mode Linux, or Debian's kernel for clouds in QEMU."""
    card: Literal["virtio-net", "vmxnet3"] = "virtio-net"
    """Ports of a guest in QEMU."""
    queues: Annotated[int, Field(ge=1, le=64)] = 1
    """Receive and transmit queues of each port, of which one is in use until more are asked for (`ethtool -L`)."""
    box: bool = False
    """The DUT is as a box from a shop: it forwards by itself, neighbours find one another, and source and sink are one host, the tester."""
    layout: str
    layouts: dict[str, Layout]

    @model_validator(mode="after")
    def _default_exists(self) -> Self:
        if self.layout not in self.layouts:
            raise ValueError(f"layout: {self.layout!r} is not among the layouts {', '.join(sorted(self.layouts))}")
        return self


@dataclass(frozen=True)
class LabDescription:
    """A lab that could be built: the testbed it will be, and its settings."""

    name: str
    testbed: Testbed
    settings: LabSettings

    def layout(self, name: str | None = None) -> tuple[str, Layout]:
        """The layout called `name`, or the lab's default. Raises InputError."""
        chosen = name or self.settings.layout
        if chosen not in self.settings.layouts:
            raise InputError(
                f"lab {self.name} has no layout {chosen!r}", remedy=f"choose one of {', '.join(sorted(self.settings.layouts))}"
            )
        return chosen, self.settings.layouts[chosen]


def lab_names() -> list[str]:
    """The labs that can be built."""
    return sorted(f.name.removesuffix(".yaml") for f in _FILES.iterdir() if f.name.endswith(".yaml"))


@cache
def description(name: str) -> LabDescription:
    """The lab called `name`. Raises InputError; touches nothing."""
    if name not in lab_names():
        raise InputError(f"there is no embedded lab {name!r}", remedy=f"choose one of {', '.join(lab_names())}")
    return parse(name, _text(name))


def _text(name: str) -> str:
    return (_FILES / f"{name}.yaml").read_text(encoding="utf-8")


def _load(text: str) -> dict[str, Any]:
    """A lab's data; what it does not say itself is that of the lab it is `like`."""
    from ruamel.yaml import YAML  # noqa: PLC0415 -- only a lab that is built or described needs it

    data: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    if (other := data.pop("like", None)) is None:
        return data
    base = _load(_text(other))
    return {**base, **data, "lab": {**base["lab"], **data.get("lab", {})}}


def parse(name: str, text: str) -> LabDescription:
    """A lab's file. Raises LabError when it is none: the files are ours, so that is a fault of this release."""
    try:
        data = _load(text)
        settings = LabSettings.model_validate(data.pop("lab"))
        testbed = Testbed.model_validate({**data, "lab": name})
        for layout in settings.layouts.values():
            layout.insist_on(testbed.hosts)
        return LabDescription(name, testbed, settings)
    except (ValidationError, KeyError, AttributeError) as e:
        raise LabError(f"the description of lab {name} is faulty: {e}") from e
