"""Facts of drives: model, place, temperature and wear.

They are from /sys/block; temperature and wear also from nvme-cli or smartmontools, as root where the login can become root.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dutlab.systems.facts import Answers, FactTree, Question
from dutlab.systems.linux_facts.text import chosen
from dutlab.systems.pcie import pcie_path

_SECTOR, _DATA_UNIT, _KELVIN = 512, 512_000, 273
"""Units: /sys/block/*/size has sectors of 512 bytes for every drive; NVMe has data in thousands of these, and temperatures in kelvin."""
_NUMBERS = {
    "queue/logical_block_size": "logical_sector_bytes",
    "queue/physical_block_size": "physical_sector_bytes",
    "queue/nr_requests": "queue_requests",
    "queue/max_sectors_kb": "largest_request_kib",
    "queue/read_ahead_kb": "read_ahead_kib",
    "queue/io_poll": "polled",
    "queues": "queues",
    "device/numa_node": "numa_node",
}
_TEXTS = {
    "device/model": "model",
    "device/vendor": "vendor",
    "device/serial": "serial",
    "serial": "serial",
    "device/firmware_rev": "firmware",
    "device/rev": "firmware",
    "queue/write_cache": "write_cache",
    "backing_file": "file",
}


def questions(root: str) -> Iterator[Question]:
    """Yield the questions."""
    yield from (("drives", root), ("smart", root))


def put(facts: FactTree, answers: Answers, root: str) -> None:
    """Store the answers under `drives/NAME`, with the kernel's names."""
    output, why = answers.output_of("drives", root)
    if output is None:
        facts.put("drives", None, why)
        return
    worn, why_not = answers.of("smart", root)
    health = dict(_blocks("smart", worn or ""))
    for name, text in _blocks("drive", output):
        properties = drive_facts(text)
        if name in health:
            figures = health_of(health[name])
            properties = {**figures, **properties}
            why_not = _SAYS_NONE if figures else (health[name].strip().splitlines() or [why_not])[-1]
        for key, value in properties.items():
            facts.put(f"drives/{name}/{key}", value)
        for key in ("temperature_c", "percent_used"):
            if key not in properties:
                facts.put(f"drives/{name}/{key}", None, why_not if name in health else "this kind of drive does not report it")


def drive_facts(text: str) -> dict[str, Any]:
    """Parse the files of one drive: lines `file contents`, then the path to the processor as `pcie_path` reads it."""
    own, _, way = text.partition("\ndevice ")
    contents = {key: value.strip() for key, _, value in (line.partition(" ") for line in own.splitlines()) if value.strip()}
    properties: dict[str, Any] = {
        name: int(contents[file]) for file, name in _NUMBERS.items() if re.fullmatch(r"\d+", contents.get(file, ""))
    }
    properties |= {name: contents[file] for file, name in _TEXTS.items() if file in contents}
    if "model" not in properties:
        properties.pop("vendor", None)  # a virtual drive has a PCI vendor number there
    properties |= {"size_bytes": int(contents["size"]) * _SECTOR} if contents.get("size", "").isdecimal() else {}
    properties |= {"rotational": contents["queue/rotational"] == "1"} if "queue/rotational" in contents else {}
    properties |= {"scheduler": chosen(contents["queue/scheduler"]) or contents["queue/scheduler"]} if "queue/scheduler" in contents else {}
    heat = _celsius(int(contents["temperature"]) / 1000) if re.fullmatch(r"-?\d{1,9}", contents.get("temperature", "")) else None
    properties |= {} if heat is None else {"temperature_c": heat}
    if way and (steps := pcie_path(f"device {way}")):
        properties["pcie"] = [step.to_json() for step in steps]
    return properties


def health_of(text: str) -> dict[str, Any]:
    """Return the values that `nvme smart-log -o json` and `smartctl --json` both have; empty for other texts."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    figures: dict[str, Any] = {name: value for name, read in _HEALTH.items() if (value := _first(document, read)) is not None}
    figures |= {name: value for name, value in _of_attributes(document).items() if name not in figures}
    for key, name in _IDENTITY.items():
        if document.get(key):
            figures.setdefault(name, str(document[key]))
    return figures


def _of_attributes(document: Mapping[str, Any]) -> dict[str, float]:
    """Return wear, written bytes and media errors from a SATA drive's attributes, by the names in smartctl's database of drives.

    An attribute of wear has what remains, 100 on a new drive, as its normalized value. A SCSI drive has written bytes in a log, as text.
    """
    figures: dict[str, float] = {}
    written: Any = document
    for key in ("scsi_error_counter_log", "write", "gigabytes_processed"):
        written = written.get(key) if isinstance(written, Mapping) else None
    if isinstance(written, str) and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", written):
        figures["written_bytes"] = float(written) * _GIGABYTE
    sector = document.get("logical_block_size")
    units = {**_WRITTEN_UNITS, "Total_LBAs_Written": sector if isinstance(sector, int) else _SECTOR}
    table = document.get("ata_smart_attributes")
    entries = table.get("table") if isinstance(table, Mapping) else None
    for entry in filter(_is_object, entries if isinstance(entries, list) else ()):
        name, left, raw = str(entry.get("name")), entry.get("value"), entry["raw"].get("value") if _is_object(entry.get("raw")) else None
        if name in units and isinstance(raw, int):
            figures["written_bytes"] = raw * float(units[name])
        elif name in _LIFE_LEFT and isinstance(left, int) and 0 <= left <= _NEW:
            figures.setdefault("percent_used", float(_NEW - left))
        elif name in _UNCORRECTABLE and isinstance(raw, int) and raw < _MOST_ERRORS:
            figures["media_errors"] = float(raw)
    return figures


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


_WRITTEN_UNITS = {"Host_Writes_32MiB": 32 << 20, "Host_Writes_MiB": 1 << 20} | dict.fromkeys(
    ("Host_Writes_GiB", "Lifetime_Writes_GiB", "Total_Writes_GiB", "Total_Host_Writes_GiB"), 1 << 30
)
_LIFE_LEFT = frozenset({
    "Media_Wearout_Indicator", "Percent_Lifetime_Remain", "Percent_Lifetime_Used", "SSD_Life_Left", "Remaining_Lifetime_Perc",
    "Wear_Leveling_Count",
})  # fmt: skip
_UNCORRECTABLE = frozenset({"Reported_Uncorrect", "Uncorrectable_Error_Cnt"})
_NEW, _MOST_ERRORS = 100, 1 << 32
"""Raw values above 32 bits have several numbers in them."""
_GIGABYTE = 1e9
_IDENTITY = {
    "model_name": "model", "serial_number": "serial", "firmware_version": "firmware", "scsi_model_name": "model",
    "scsi_revision": "firmware",
}  # fmt: skip
"""Names of SCSI drives since smartmontools 7.4."""
_COLDEST_C, _HOTTEST_C = -60.0, 150.0
_SAYS_NONE = "the drive's own log has none"


def _celsius(value: float) -> float | None:
    """Return the temperature; None for 0, the value without a sensor (smartmontools 7.4), and for impossible values."""
    return float(value) if value != 0 and _COLDEST_C <= value <= _HOTTEST_C else None


_Read = tuple[tuple[str, Callable[[float], float | None]], ...]
_HEALTH: dict[str, _Read] = {
    "temperature_c": (("temperature.current", _celsius), ("temperature", lambda kelvin: _celsius(kelvin - _KELVIN))),
    "percent_used": (
        ("percent_used", float),
        ("nvme_smart_health_information_log.percentage_used", float),
        ("endurance_used.current_percent", float),
        ("scsi_percentage_used_endurance_indicator", float),
    ),
    "spare_percent": (("avail_spare", float), ("nvme_smart_health_information_log.available_spare", float)),
    "written_bytes": (
        ("data_units_written", lambda units: units * _DATA_UNIT),
        ("nvme_smart_health_information_log.data_units_written", lambda units: units * _DATA_UNIT),
    ),
    "hours": (("power_on_hours", float), ("power_on_time.hours", float)),
    "media_errors": (("media_errors", float), ("nvme_smart_health_information_log.media_errors", float)),
}


def _first(report: Mapping[str, Any], read: _Read) -> float | None:
    for path, meaning in read:
        value: Any = report
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and (result := meaning(value)) is not None:
            return result
    return None


def _blocks(word: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of the parts that begin with a line `WORD NAME`."""
    for block in re.split(rf"^{word} ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        yield name.strip(), rest
