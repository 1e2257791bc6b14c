"""Cores of a host for the threads that send and receive: the same for all of its links, or by link.

cpus: [1, 2, 3, 4]
cpus: {a: [1, 2], b: [3, 4]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, Strict, TypeAdapter, ValidationError

from dutlab.errors import FaultKind
from dutlab.spec.fields import Name
from dutlab.spec.model import ValueFault, fault, faults_of, refuse

_LAST_CPU = 8191  # CONFIG_NR_CPUS of x86 at most
Numbers = tuple[Annotated[int, Strict(), Field(ge=0, le=_LAST_CPU)], ...]
_NUMBERS: TypeAdapter[tuple[int, ...]] = TypeAdapter(Numbers, config=ConfigDict(defer_build=True))
_NAME: TypeAdapter[str] = TypeAdapter(Name, config=ConfigDict(defer_build=True))


class Cores(tuple[int, ...]):  # noqa: SLOT001 -- it has an attribute, and a tuple cannot have slots with values
    """All cores of a host in order, each once if they are given by link. `by_link` is empty if all links use all cores."""

    by_link: Mapping[str, tuple[int, ...]]

    def __new__(cls, numbers: Sequence[int] = (), by_link: Mapping[str, Sequence[int]] | None = None) -> Self:
        """Make it of the cores of all links, or of those of each link."""
        named = {link: tuple(of) for link, of in (by_link or {}).items()}
        made = super().__new__(cls, numbers or tuple(dict.fromkeys(n for of in named.values() for n in of)))
        made.by_link = named
        return made

    def __reduce__(self) -> tuple[type[Cores], tuple[tuple[int, ...], Mapping[str, tuple[int, ...]]]]:
        """Copy and pickle with the cores of each link."""
        return type(self), (tuple(self), self.by_link)


def cores_on(cores: Sequence[int] | None, link: str) -> tuple[int, ...]:
    """Return the cores for one link: its own if they are given by link, else all."""
    by_link = cores.by_link if isinstance(cores, Cores) else {}
    return by_link.get(link, ()) if by_link else tuple(cores or ())


def _read(value: Any) -> Cores:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, Cores):
        return value
    if not isinstance(value, Mapping):
        return Cores(_NUMBERS.validate_python(value))
    by_link, faults = dict[str, tuple[int, ...]](), []
    for name, numbers in value.items():
        try:
            by_link[_NAME.validate_python(name)] = cores = _NUMBERS.validate_python(numbers)
        except ValidationError as error:
            faults += faults_of(error, (str(name),))
            continue
        if not cores:
            faults.append(fault((str(name),), "empty; write the cores of the link, or leave it out", FaultKind.MISSING))
    if faults:
        raise refuse("cpus", faults)
    if not by_link:
        raise ValueFault("empty; write a list of cores, or the cores of each link", FaultKind.MISSING)
    return Cores(by_link=by_link)


def _written(cores: Sequence[int]) -> list[int] | dict[str, list[int]]:
    by_link = cores.by_link if isinstance(cores, Cores) else {}
    return {link: list(of) for link, of in by_link.items()} if by_link else list(cores)


HostCores = Annotated[
    Cores, PlainValidator(_read, json_schema_input_type=Numbers | dict[Name, Numbers]), PlainSerializer(_written, return_type=Any)
]
"""Cores of a host in a testbed file."""
