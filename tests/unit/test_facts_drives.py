"""Facts of drives: a tree of /sys as files, and what nvme-cli, smartmontools and dmidecode print, in their documented forms."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dutlab.hosts.facts import collect_facts
from dutlab.hosts.local import LocalHost
from dutlab.report.sections.drive_facts import drives_section
from dutlab.systems.linux_facts.drives import health_of
from dutlab.systems.linux_facts.text import command_line, dimms
from outputs import output
from sysfs import PciDevice, pcie_registers, write_drive

# nvme-cli's Documentation/nvme-smart-log.txt and nvme-print-json.c: heat in kelvin, data in thousands of 512 bytes.
NVME_SMART = output("facts_drives", "nvme-smart").rstrip("\n")
# smartctl(8), --json: of an NVMe drive, and of an SSD on SATA since 7.4 (`endurance_used`).
SMARTCTL_NVME = {
    "json_format_version": [1, 0],
    "smartctl": {"version": [7, 3], "exit_status": 0},
    "device": {"name": "/dev/nvme0", "type": "nvme", "protocol": "NVMe"},
    "model_name": "KXG50ZNV512G NVMe TOSHIBA 512GB",
    "serial_number": "18DS11V9TY8T",
    "firmware_version": "AADA4102",
    "nvme_smart_health_information_log": {"critical_warning": 0, "temperature": 41, "available_spare": 99, "percentage_used": 12,
                                          "data_units_written": 1000, "media_errors": 2},
    "temperature": {"current": 41},
    "power_on_time": {"hours": 9001},
}  # fmt: skip
SMARTCTL_SATA = {
    "smartctl": {"version": [7, 4], "exit_status": 4},
    "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
    "model_name": "Samsung SSD 860 EVO 500GB", "serial_number": "S3YZNB0K", "firmware_version": "RVT02B6Q",
    "endurance_used": {"current_percent": 7}, "temperature": {"current": 30}, "power_on_time": {"hours": 2401},
}  # fmt: skip
# dmidecode(8), type 17: an empty place, and one that runs slower than it could.
DMIDECODE = output("facts_drives", "dmidecode")
FILES = {
    "size": "7501476528", "device/model": "ACME X1 3.84TB   ", "device/serial": "S3RIAL0001", "device/firmware_rev": "EPK98B5Q",
    "queue/logical_block_size": "512", "queue/physical_block_size": "4096", "queue/nr_requests": "1023", "queue/rotational": "0",
    "queue/scheduler": "[none] mq-deadline", "queue/write_cache": "write back", "queue/io_poll": "0",
}  # fmt: skip
ROOT_PORT = PciDevice("0000:00:03.1", "8.0 GT/s PCIe", 4, "16.0 GT/s PCIe", 16, pcie_registers(payload=256, payload_most=512))
NVME = PciDevice("0000:41:00.0", "8.0 GT/s PCIe", 4, "16.0 GT/s PCIe", 4, pcie_registers(payload=256, payload_most=512))


def program(folder: Path, name: str, text: str, *, status: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {status}\n")
    (folder / name).chmod(0o755)


async def test_a_drive_is_told_by_its_files_its_way_and_its_health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_drive(tmp_path, "nvme0n1", [ROOT_PORT, NVME], files=FILES, heat=38850, queues=32)
    program(tmp_path / "bin", "nvme", NVME_SMART)
    program(tmp_path / "bin", "dmidecode", DMIDECODE)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    facts = await collect_facts(LocalHost("server"), [], of_drives=True, root=str(tmp_path))
    drive = facts["drives"]["nvme0n1"]
    assert (drive["model"], drive["serial"], drive["firmware"]) == ("ACME X1 3.84TB", "S3RIAL0001", "EPK98B5Q")
    assert drive["size_bytes"] == 7501476528 * 512
    assert (drive["logical_sector_bytes"], drive["physical_sector_bytes"], drive["scheduler"]) == (512, 4096, "none")
    assert (drive["queues"], drive["queue_requests"], drive["rotational"]) == (32, 1023, False)
    assert drive["temperature_c"] == 38.85, "the kernel's own is finer than the log's whole kelvin"
    assert (drive["percent_used"], drive["written_bytes"], drive["hours"]) == (3, 19397424 * 512_000, 1363)
    assert [(s["address"], s["link_gts"], s["link_width"], s["payload_bytes"]) for s in drive["pcie"]] == [
        ("0000:41:00.0", 8.0, 4, 256),
        ("0000:00:03.1", 8.0, 4, 256),
    ]
    assert facts["dimms"][0]["mts_now"] == 2933
    (section,) = drives_section({"server": facts})
    cells = dict(zip((c.head for c in section.tables[0].columns), section.tables[0].rows[0].cells, strict=True))
    assert cells["link"] == "8 GT/s x4 (16 GT/s x4)"
    assert (cells["worn"], cells["queues"], cells["sectors"]) == ("3 %", "32 × 1023", "512 / 4096")


async def test_a_drive_without_a_program_for_its_health_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_drive(tmp_path, "nvme0n1", [NVME], files=FILES)
    program(tmp_path / "bin", "nvme", "Failed to open /dev/nvme0n1: Permission denied", status=1)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    facts = await collect_facts(LocalHost("server"), [], of_drives=True, root=str(tmp_path))
    assert facts["drives"]["nvme0n1"]["percent_used"] is None
    assert facts["absent"]["drives/nvme0n1/percent_used"] == "Failed to open /dev/nvme0n1: Permission denied"


async def test_what_is_no_drive_is_left_out_and_a_host_without_any_says_so(tmp_path: Path) -> None:
    assert (await collect_facts(LocalHost("a"), [], of_drives=True, root=str(tmp_path)))["drives"] is None
    for name, size in (("zram0", "100"), ("md0", "100"), ("loop0", "0"), ("loop1", "100"), ("vda", "100")):
        (tmp_path / "sys/block" / name).mkdir(parents=True)
        (tmp_path / "sys/block" / name / "size").write_text(f"{size}\n")
    (tmp_path / "sys/block/loop1/loop").mkdir()
    (tmp_path / "sys/block/loop1/loop/backing_file").write_text("/tmp/one drive.img\n")
    found = (await collect_facts(LocalHost("a"), [], of_drives=True, root=str(tmp_path)))["drives"]
    assert sorted(found) == ["loop1", "vda"]
    assert found["loop1"]["file"] == "/tmp/one drive.img"


def test_health_is_read_from_each_program() -> None:
    assert health_of(NVME_SMART)["temperature_c"] == 40
    nvme = health_of(json.dumps(SMARTCTL_NVME))
    assert (nvme["model"], nvme["serial"], nvme["firmware"]) == ("KXG50ZNV512G NVMe TOSHIBA 512GB", "18DS11V9TY8T", "AADA4102")
    assert (nvme["temperature_c"], nvme["percent_used"], nvme["spare_percent"], nvme["written_bytes"], nvme["hours"], nvme["media_errors"]) == (
        41, 12, 99, 512_000_000, 9001, 2,
    )  # fmt: skip
    sata = health_of(json.dumps(SMARTCTL_SATA))
    assert (sata["temperature_c"], sata["percent_used"], sata["hours"]) == (30, 7, 2401)


def sata(*attributes: tuple[str, int, int], **of_drive: object) -> dict[str, object]:
    table = [{"name": name, "value": value, "raw": {"value": raw}} for name, value, raw in attributes]
    return health_of(json.dumps({"ata_smart_attributes": {"table": table}, **of_drive}))


def test_a_sata_drive_has_wear_and_writes_among_its_attributes() -> None:
    # The forms of prometheus-community/smartctl_exporter's files: Samsung, Intel, Micron, and a disk whose raw value has several numbers.
    samsung = sata(("Wear_Leveling_Count", 90, 354), ("Total_LBAs_Written", 99, 1000), logical_block_size=512)
    assert samsung == {"percent_used": 10, "written_bytes": 512_000}
    assert sata(("Media_Wearout_Indicator", 22, 0), ("Host_Writes_32MiB", 100, 3)) == {"percent_used": 78, "written_bytes": 3 << 25}
    assert sata(("Percent_Lifetime_Remain", 98, 2), ("Reported_Uncorrect", 100, 1)) == {"percent_used": 2, "media_errors": 1}
    assert sata(("Reported_Uncorrect", 100, 1 << 40), ("Temperature_Celsius", 24, 98784247832)) == {}
    assert sata(("Media_Wearout_Indicator", 22, 0), endurance_used={"current_percent": 80}) == {"percent_used": 80}


def test_a_scsi_drive_is_named_by_newer_versions_too() -> None:  # influxdata/telegraf
    log = {"write": {"gigabytes_processed": "132513.233", "total_uncorrected_errors": 0}}
    text = json.dumps({"scsi_model_name": "SEAGATE ST0000000", "scsi_revision": "DX10", "scsi_error_counter_log": log})
    assert health_of(text) == {"model": "SEAGATE ST0000000", "firmware": "DX10", "written_bytes": 132513.233e9}


@pytest.mark.parametrize("text", ["", "{", "[]", "sudo: a password is required", '{"temperature": true, "percent_used": "3"}'])
def test_what_is_no_health_tells_nothing(text: str) -> None:
    assert health_of(text) == {}


def test_memory_is_told_by_what_is_plugged_in() -> None:
    assert dimms(DMIDECODE) == [
        {
            "size_bytes": 32 << 30,
            "place": "DIMM 1",
            "bank": "P0 CHANNEL A",
            "type": "DDR4",
            "part": "M393A4K40DB2-CVF",
            "mts": 3200,
            "mts_now": 2933,
        }
    ]
    assert dimms("# No SMBIOS nor DMI entry point found, sorry.") == []


def test_the_command_line_keeps_what_changes_speed_and_hides_who_and_where() -> None:
    said = "BOOT_IMAGE=/vmlinuz root=UUID=1234 ro isolcpus=2-7 mitigations=off nvme.poll_queues=8 ip=192.0.2.1 rd.luks.key=secret -- --password x"
    assert command_line(said) == "BOOT_IMAGE=… root=… ro isolcpus=2-7 mitigations=off nvme.poll_queues=8 ip=… rd.luks.key=…"
