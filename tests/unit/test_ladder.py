"""The ladder from the drives' rating down: rungs that follow by hand, those of the published server, and what reports make of ratings."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.main import dutlab
from dutlab.physics.ceilings.ladder import Ladder, Load, ladder, rated_iops
from dutlab.physics.ceilings.path import BlockLoad, topology
from dutlab.physics.ceilings.path import Path as DataPath
from dutlab.physics.ceilings.pcie import PcieLink, oversubscription
from dutlab.physics.ceilings.storage import Array, DriveRating, raid_ceilings
from dutlab.plan.cell import Cell
from dutlab.report.model.groups import Group
from dutlab.report.sections.drive_facts import drives_section
from dutlab.report.sections.drive_ladder import DriveLadders, ladder_section, memory_of
from dutlab.report.sections.drive_limits import drive_limits
from dutlab.spec.workloads.fio import FioSetting
from run_records import trial_record

DATA = Path(__file__).parents[1] / "data"
NOW = datetime(2026, 11, 22, tzinfo=UTC)
HALF_OF_THE_LANES = DataPath(PcieLink(3, 4), PcieLink(3, 16), 4, payload=256)


def published(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / name).read_text().splitlines()))


def era() -> DriveRating:
    of = {next(iter(row.values())): float(row["value"]) for row in published("era-drive-spec.csv") if row["unit"]}
    return DriveRating(of["random_read_4k"], of["random_write_4k"], of["sequential_read"] * 1e6, of["sequential_write"] * 1e6)


def iops(found: Ladder) -> dict[str, float]:
    return {rung.name: rung.iops for rung in found.rungs}


def test_the_published_server_reads_half_of_what_its_drives_are_rated_for():
    found = ladder(32, era(), Load(4096), path=HALF_OF_THE_LANES)
    assert found.rungs[0].iops == pytest.approx(32 * 610_200) == pytest.approx(19_526_400)
    value = {
        int(row["drives"]): float(row["value"])
        for row in published("era-workloads.csv")
        if (row["workload"], row["block_bytes"]) == ("random_read", "4096")
    }
    assert found.share(value[32]) == pytest.approx(0.512, abs=5e-4)
    assert ladder(16, era(), Load(4096)).share(value[16]) == pytest.approx(0.551, abs=5e-4)
    assert found.binds.name == "uplinks"
    assert oversubscription(PcieLink(3, 4), 32, PcieLink(3, 16), 4) == pytest.approx(2.0)


def test_its_sequential_reads_are_what_half_of_the_lanes_pass():
    found = ladder(32, era(), Load(1 << 20), path=HALF_OF_THE_LANES)
    passes = found.binds.iops * found.block
    assert found.binds.name == "uplinks" and passes == pytest.approx(64 * 8e9 * 128 / 130 / 8 * 256 / 280)
    (row,) = [row for row in published("era-raid-comparison.csv") if row["parameter"] == "sequential_read"]
    assert max(float(row[engine]) for engine in ("era_raid5_50", "linux_raid10", "linux_raid5")) * 1e9 / passes == pytest.approx(
        0.976, abs=1e-3
    )


@pytest.mark.parametrize(
    ("level", "groups", "writes", "expected"),
    [
        (0, None, 1.0, 32 * 75_000), (10, None, 1.0, 16 * 75_000), (5, None, 1.0, 32 / (2 / 610_200 + 2 / 75_000)),
        (6, None, 1.0, 32 / (3 / 610_200 + 3 / 75_000)), (50, 4, 1.0, 32 / (2 / 610_200 + 2 / 75_000)), (5, None, 0.0, 32 * 610_200),
        (5, None, 0.3, 32 / (1.3 / 610_200 + 0.6 / 75_000)),
    ],
)  # fmt: skip
def test_an_array_costs_what_its_requests_cost_the_drives(level, groups, writes, expected):
    found = ladder(32, DriveRating(610_200, 75_000), Load(4096, writes), array=Array(level, 32, groups))
    assert iops(found)["RAID arithmetic"] == pytest.approx(expected)


def test_merged_writes_pay_for_parity_once_a_stripe():
    found = {c.name: c.value for c in raid_ceilings(Array(50, 32, 4), DriveRating(610_200, 75_000))}
    assert found["random_write_merged_iops"] == 28 * 75_000
    assert found["random_write_md_iops"] < found["random_write_ssd_iops"] < found["random_write_merged_iops"]
    assert "random_write_merged_iops" not in {c.name for c in raid_ceilings(Array(10, 32), DriveRating(610_200, 75_000))}
    # Merged writes of raid 50 give up a drive a group.
    found = {c.name: c.value for c in raid_ceilings(Array(50, 32, 2), era())}
    assert found["random_write_merged_iops"] == 30 * 75_000 == 2.25e6


def test_bytes_a_second_memory_and_the_busier_way_of_a_link_limit_too():
    drive = DriveRating(600_000, None, 2.8e9, None)
    assert rated_iops(drive, Load(4096)) == 600_000
    assert rated_iops(drive, Load(1 << 20)) == pytest.approx(2.8e9 / (1 << 20))
    assert rated_iops(drive, Load(4096, 0.5)) is None
    # Memory and the busier way of a link limit too.
    found = ladder(4, DriveRating(1e6, 1e6), Load(4096, 1.0), array=Array(5, 4), path=DataPath(uplink=PcieLink(3, 1), memory=(1000, 1)))
    link = 8e9 * 128 / 130 / 8
    assert iops(found)["uplinks"] == pytest.approx(link / (4096 * 2)), "two reads and two writes, one each way at once"
    assert iops(found)["memory"] == pytest.approx(8e9 / (4096 * 4))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--drives", "4"], "the rating"), (["--drives", "0", "--read-iops", "1k"], "the number of drives"),
        (["--drives", "4", "--read-iops", "1k", "--uplink", "fast"], "is not a link"), (["--drives", "4", "--read-iops", "1k", "--mts", "3200"], "both --mts"),
        (["--drives", "4", "--read-iops", "1k", "--block", "much"], "is not a size"), (["--drives", "3", "--read-iops", "1k", "--level", "10"], "even number"),
        (["--drives", "4", "--read-iops", "1k", "--writes", "10%"], "the rating"),
    ],
)  # fmt: skip
def test_what_cannot_be_computed_says_why(words, why):
    done = CliRunner().invoke(dutlab, ["limits", "ladder", *words])
    assert why in str(done.exception) and done.exit_code != 0, (done.output, done.exception)


def test_the_command_names_the_rung_that_binds():
    words = ["--drives", "32", "--read-iops", "610200", "--uplink", "3x16", "--uplinks", "4", "--payload", "256", "--measured", "9999k"]
    said = CliRunner().invoke(dutlab, ["limits", "ladder", *words])
    assert said.exit_code == 0 and "71.1%" in said.output, said.output
    assert "51.2%" in said.output
    told = json.loads(CliRunner().invoke(dutlab, ["limits", "ladder", *words, "--json"]).output)
    assert (told["binds"], [r["name"] for r in told["rungs"]]) == ("uplinks", ["drives, added up", "uplinks"])


def measured(label: str, links: tuple[str, ...], value: float, rw: str = "randread") -> Group:
    setting = FioSetting(options={"rw": rw, "bs": "4k"}, writes=False, ramp_s=0, duration_s=1)
    cell = Cell(mode=label, factors={"mode": label}, tool="fio", links=links, setting=setting, repeat=1)
    return Group(label, cell, [1], [trial_record(1, cell, {"+".join(links): {"iops.read": value}})])


def bed(drives: int) -> dict[str, object]:
    return {
        "hosts": {
            "server": {
                "drives": {f"d{n}": {"serial": f"S{n:02}", "rated": {"read_iops": 610_200.0, "write_iops": None}} for n in range(drives)}
            }
        }
    }


def test_a_report_holds_drives_against_their_rating_fewer_of_them_and_other_arrays():
    names = [f"server:d{n}" for n in range(32)]
    groups = [
        measured("raw", tuple(names), 9_999_000), measured("raw", tuple(names[:16]), 5_380_000), measured("other", tuple(names), 10_100_000),
        measured("raw", (names[0],), 610_000),
    ]  # fmt: skip
    row, half, _, one = drive_limits(groups, DriveLadders(bed(32), {}), {})
    assert "path" in row.words and row.confidence == "likely", row
    assert all(any(words in e for e in row.evidence) for words in ("32 drives reach 51%", "16 drives reach 55%", "not the software"))
    assert "rated for" in one.words and one.confidence == "shown"
    assert half.links == "+".join(names[:16])


def test_mixes_and_drives_without_a_rating_have_no_verdict():
    assert drive_limits([measured("raw", ("server:d0",), 1e5, rw="randrw")], DriveLadders(bed(1), {}), {}) == ()
    assert drive_limits([measured("raw", ("server:d5",), 1e5)], DriveLadders(bed(1), {}), {}) == ()
    assert drive_limits([measured("raw", ("server:d0",), 1e5)], DriveLadders({}, {}), {}) == ()


def server(drives: int, *, speed: float = 8.0, behind: int = 8) -> dict[str, object]:
    """Facts of a host whose drives sit behind switches, each with so many of them and one x16 uplink; both ends of a link tell it."""

    def step(address: str, width: int) -> dict[str, object]:
        return {"address": address, "link_gts": speed, "link_width": width, "payload_bytes": 256}

    ways = {
        f"nvme{n}n1": [
            step(f"0000:{n:02x}:00.0", 4), step(f"0000:80:{n:02x}.0", 4), step(f"0000:90:{n // behind:02x}.0", 16), step(f"0000:00:{n // behind:02x}.1", 16),
        ]
        for n in range(drives)
    }  # fmt: skip
    return {"server": {"drives": {name: {"serial": f"S{n:02}", "pcie": way} for n, (name, way) in enumerate(ways.items())}}}


def test_the_topology_finds_two_to_one_and_gives_the_ladder_of_the_command():
    (section,) = drives_section(server(32))
    assert [table.first for table in section.tables] == ["", ""], "no column of modes: all is read before the first"
    rows = [dict(zip((c.head for c in section.tables[1].columns), row.cells, strict=True)) for row in section.tables[1].rows]
    own, *shared = rows
    assert (own["as trained"], own["drives"], own["4k reads a second"]) == ("Gen3 x4", "32: nvme0n1 to nvme31n1", "879 kIOPS")
    assert [(r["as trained"], r["oversubscription"]) for r in shared] == [("Gen3 x16", "2.00 : 1")] * 4
    assert own["oversubscription"] == "–"
    # The topology gives the ladder of the command.
    ways = {name: of["pcie"] for name, of in server(32)["server"]["drives"].items()}
    told = iops(ladder(32, era(), Load(4096), path=topology(ways)))
    assert told == pytest.approx(iops(ladder(32, era(), Load(4096), path=HALF_OF_THE_LANES)))
    # Links that a host does not tell make no rung.
    assert topology({"d0": [{"address": "a", "link_gts": None, "link_width": None}], "d1": []}).rungs(2, BlockLoad(4096, 1.0, 0.0)) == []
    assert [rung.name for rung in ladder(2, era(), Load(4096), path=topology({"d0": [], "d1": []})).rungs] == ["drives, added up"]


def test_what_comes_together_twice_passes_the_narrowest_way():
    link = {"link_gts": 8.0, "payload_bytes": None}
    near, far = ({"address": a, "link_width": w, **link} for a, w in (("near", 8), ("far", 16)))
    ways = {f"d{n}": [{"address": f"d{n}", "link_width": 4, **link}, *([near] if n < 4 else []), far] for n in range(6)}
    (own, shared) = topology(ways).rungs(6, BlockLoad(4096, 1.0, 0.0))
    lane = 8e9 * 128 / 130 / 8 / 4096
    assert (own.iops, shared.iops) == pytest.approx((24 * lane, 16 * lane)), "8 lanes of the near switch and 8 of two drives"
    ways["d5"][0]["link_width"] = 1
    assert topology(ways).rungs(6, BlockLoad(4096, 1.0, 0.0))[1].iops == pytest.approx(13 * lane)


def test_a_report_has_the_ladder_and_blames_the_uplinks_that_it_found():
    names = tuple(f"server:d{n}" for n in range(32))
    ladders = DriveLadders(bed(32), server(32))
    groups = [measured("raw", names, 13_900_000), measured("raw", (names[0],), 610_000)]
    (section,) = ladder_section(groups, ladders)
    columns = [c.head for c in section.tables[0].columns]
    assert "setting" not in [columns[i] for i in section.tables[0].shown], "nothing differs, and an empty column says so badly"
    whole, one = (dict(zip(columns, row.cells, strict=True)) for row in section.tables[0].rows)
    assert (whole["drives, added up"], whole["uplinks, of that"], whole["of the rating"]) == ("19.5 MIOPS", "72.0%", "71.2%")
    assert (whole["lowest rung"], whole["of it"]) == ("uplinks", "98.8%")
    assert (one["uplinks, of that"], one["lowest rung"]) == ("–", "drives, added up")
    row, _ = drive_limits(groups, ladders, {})
    assert "bus" in row.words or "path" in row.words, row
    assert row.confidence == "shown" and "uplinks" in row.evidence[0]


def test_memory_is_known_where_every_dimm_says_its_channel():
    dimms = [{"bank": f"P0 CHANNEL {c}", "place": f"DIMM {n}", "mts": 3200, "mts_now": 2933} for c in "ABCD" for n in (0, 1)]
    assert memory_of({"dimms": dimms}) == (2933.0, 4)
    assert memory_of(
        {"dimms": [{"bank": "", "place": "Channel A-DIMM0", "mts": 4800}, {"bank": "", "place": "Channel B-DIMM0", "mts": 4800}]}
    ) == (4800, 2)
    assert memory_of({"dimms": [*dimms, {"bank": "BANK 0", "place": "DIMM 9", "mts": 3200}]}) is None
    assert memory_of({}) is None
