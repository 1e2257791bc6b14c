"""YAML file next to the runs with facts that people write about devices: specification, price, set-up of each mode, caveats.

devices:
  e302-9d:
    title: Supermicro SuperServer E302-9D
    runs: ["*e302-9d*"]
    specification: {processor: Xeon D-2123IT, ports: 4 × 10G}
    price: "1,079 USD (May 2020)"
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from dutlab.errors import SpecRefused
from dutlab.spec.model import FILE_CONTEXT, SpecModel, plain_faults
from dutlab.spec.yaml_source import parse, read_file
from dutlab.store.read import dut_of

Words = Annotated[str, Field(max_length=2_000)]


class DeviceSheet(SpecModel):
    """Facts about a device that were not measured."""

    title: Words = ""
    runs: tuple[Words, ...] = ()
    """Shell patterns of the names of its runs."""
    specification: dict[Words, Words] = Field(default_factory=dict)
    price: Words = ""
    """Price with currency and date."""
    modes: dict[Words, Words] = Field(default_factory=dict)
    """Mode → its set-up, as text or commands."""
    method: Words = ""
    optics: Words = ""
    caveats: tuple[Words, ...] = ()
    author: Words = ""
    status: Words = ""
    """Status of the sheet, such as `draft`, `final`, `withdrawn`."""
    source: Words = ""
    """Place where the figures were published first."""


class DeviceFile(SpecModel):
    """Content of the whole file."""

    devices: dict[str, DeviceSheet]


def read_devices(path: Path) -> dict[str, DeviceSheet]:
    """Return name → sheet, in the order of the file. Raises SpecRefused with every fault."""
    source = parse(read_file(path), str(path))
    try:
        return DeviceFile.model_validate(source.data, context=FILE_CONTEXT).devices
    except ValidationError as error:
        raise SpecRefused([source.fault(*of) for of in plain_faults(error)]) from None


def device_of(name: str, resolved: Mapping[str, Any], sheets: Mapping[str, DeviceSheet]) -> str:
    """Return the device that the run `name` measured: the first with a matching pattern, else the run's testbed or experiment."""
    if (
        device_name := next((device for device, sheet in sheets.items() if any(fnmatchcase(name, p) for p in sheet.runs)), None)
    ) is not None:
        return device_name
    testbed, experiment = (section if isinstance(section := resolved.get(key), Mapping) else {} for key in ("testbed", "experiment"))
    own = str(testbed.get("name") or "")
    if testbed.get("lab") or not own or own.startswith("unknown"):
        return str(experiment.get("name") or own or dut_of(resolved))
    return own
