"""Public files of fio, pkt-gen and smartctl (tests/data/cases, each with its source and its right answer), and their kinds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dutlab.doubts import DoubtKind
from dutlab.interop.imported_run import ImportOptions
from dutlab.interop.importers import read_files
from dutlab.systems.linux_facts.drives import health_of
from dutlab.units import BpsL1

CASES = Path(__file__).parents[1] / "data" / "cases"
LINE = ImportOptions(BpsL1(1e10))


def case(number: int, kind: str, *names: str):
    (folder,) = CASES.glob(f"{number}-*")
    trials, faults = read_files(kind, [folder / name for name in names], LINE)
    assert not faults
    return trials


@pytest.mark.parametrize(
    ("number", "name", "figures", "doubts"),
    [
        (14, "ssd.json", {"storage": {"read_iops": 100_000, "fio_cpu_cores": 0.6}}, []),
        (15, "ssd.json", {"storage": {"read_iops": 70_000, "write_iops": 30_000, "mixed_iops": 100_000}}, []),
        (16, "hdd.json", {"storage": {"read_iops": 180}}, [DoubtKind.TOOL_INCOMPLETE, DoubtKind.STORAGE_ERRORS]),
        (
            17,
            "cluster.json",
            {"node-a": {"read_iops": 6000}, "node-b": {"read_iops": 5900}, "node-a+node-b": {"read_iops": 11_900, "read_clat_p99_ns": 1.5e6}},
            [],
        ),
        (18, "disk.txt", {"storage": {"read_iops": 5400, "read_bytes_per_s": 21600 * 1024, "read_clat_mean_ns": 180_200, "fio_cpu_cores": 0.07}}, []),
        (
            20,
            "hdd.txt",
            {"storage": {"read_iops": 1048576 / 72.472, "read_bytes_per_s": 57_875 * 1024, "read_clat_mean_ns": 1_087_670, "read_clat_p99_ns": 2_352_000, "read_slat_mean_ns": 13_450}},
            [],
        ),
        (
            45,
            "disk.txt",
            {"storage": {"read_iops": 4981375 / 60.144, "read_bytes_per_s": 324 * 2**20, "read_clat_mean_ns": 3_091_200, "read_clat_p99_ns": 12_256_000, "read_clat_p999_ns": 16_712_000, "fio_cpu_cores": 0.632}},
            [],
        ),
    ],
)  # fmt: skip
def test_a_file_of_fio_is_one_test_with_these_figures(number, name, figures, doubts) -> None:
    (trial,) = case(number, "fio", name)
    for place, of in figures.items():
        assert {figure: trial.measured.figures[place][figure] for figure in of} == pytest.approx(of)
    assert set(trial.measured.figures) == set(figures)
    assert [d.kind for d in trial.measured.doubts] == doubts


def test_the_spread_between_jobs_is_a_detail() -> None:
    (trial,) = case(14, "fio", "ssd.json")
    assert [row["iops"] for row in trial.measured.tables["jobs"]] == [24_800, 25_000, 25_100, 25_100]


def test_a_folder_is_a_device_where_files_are_called_by_their_options() -> None:
    trials = case(44, "fio", "one-ssd/randread-16-1.json", "raid0-of-3/randread-16-1.json")
    assert {t.cell.mode: t.measured.figures["storage"]["read_iops"] for t in trials} == {"one-ssd": 47_400, "raid0-of-3": 62_100}


def test_a_sender_faster_than_its_line_is_doubted() -> None:
    (trial,) = case(22, "pkt-gen", "tx.txt")
    figures = trial.measured.figures["a"]
    assert trial.cell.params["frame_size"] == 16_388
    assert figures["offered_bps_l1"] == pytest.approx(79.18e9, rel=1e-3)
    assert DoubtKind.QUEUED_NOT_SENT in {d.kind for d in trial.measured.doubts}


def test_a_drive_without_a_sensor_has_no_temperature() -> None:
    (folder,) = CASES.glob("37-*")
    text = (folder / "sdd.json").read_text()
    assert {name: of for name, of in health_of(text).items() if name in ("temperature_c", "hours")} == {"hours": 21_000}
    warm = re.sub(r'("temperature": \{\s*"current": )0', r"\g<1>31", text)
    assert health_of(warm)["temperature_c"] == 31
    assert "temperature_c" not in health_of('{"temperature": 0, "power_on_hours": 5}'), "kelvin of nvme-cli"
