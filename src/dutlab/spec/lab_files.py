"""Reader of the embedded labs' data files. It does not touch the system."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dutlab.errors import InputError, LabError
from dutlab.spec.testbed import Testbed

if TYPE_CHECKING:
    from dutlab.spec.lab_settings import LabSettings, Layout

_FILES = Path(__file__).with_name("labs")
_SETTINGS = "\nlab:"
"""Beginning of the last section of a lab's file."""


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
    _insist_on(name)
    return parse(name, _text(name))


@cache
def lab_testbed(name: str) -> Testbed:
    """Return only the testbed of the lab called `name`, without parsing its settings, most of the file. Raises InputError."""
    _insist_on(name)
    try:
        return Testbed.model_validate({**_testbed_data(name), "lab": name})
    except ValidationError as e:
        raise LabError(f"the description of lab {name} is faulty: {e}") from e


def _insist_on(name: str) -> None:
    if name not in lab_names():
        raise InputError(f"there is no embedded lab {name!r}", remedy=f"choose one of {', '.join(lab_names())}")


def _text(name: str) -> str:
    return (_FILES / f"{name}.yaml").read_text(encoding="utf-8")


def _data(text: str) -> dict[str, Any]:
    from ruamel.yaml import YAML  # noqa: PLC0415 -- only a lab that is built or described needs it

    data: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return data


def _testbed_data(name: str) -> dict[str, Any]:
    data = _data(_text(name).partition(_SETTINGS)[0])
    other = data.pop("like", None)
    return data if other is None else {**_testbed_data(other), **data}


def _load(text: str) -> dict[str, Any]:
    """Return a lab's data; keys that it lacks come from the lab that it names as `like`."""
    data = _data(text)
    if (other := data.pop("like", None)) is None:
        return data
    base = _load(_text(other))
    return {**base, **data, "lab": {**base["lab"], **data.get("lab", {})}}


def parse(name: str, text: str) -> LabDescription:
    """Read a lab's file. Raises LabError where it is faulty, which is a fault of this release."""
    from dutlab.spec.lab_settings import LabSettings  # noqa: PLC0415 -- a plan needs only the testbed

    try:
        data = _load(text)
        settings = LabSettings.model_validate(data.pop("lab"))
        testbed = Testbed.model_validate({**data, "lab": name})
        for layout in settings.layouts.values():
            layout.insist_on(testbed.hosts)
        return LabDescription(name, testbed, settings)
    except (ValidationError, KeyError, AttributeError) as e:
        raise LabError(f"the description of lab {name} is faulty: {e}") from e
