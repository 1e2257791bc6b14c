"""effects and cost, of runs and of tables made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dutlab.cli.effects import cost, effects
from dutlab.cli.import_files import import_files as import_command
from dutlab.errors import InputError
from dutlab.report.questions.cells import rates_by_mode
from dutlab.report.questions.sides import open_run
from dutlab.store.record import TrialRecord
from fake_run import Wanted, build

APU2 = Path(__file__).parents[1] / "data" / "apu2-openbsd-factors.csv"


def said(command: object, *words: object) -> Result:
    return CliRunner().invoke(command, [str(w) for w in words])  # type: ignore[arg-type]


def refused(command: object, *words: object) -> InputError:
    error = said(command, *words).exception
    assert isinstance(error, InputError)
    return error


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("runs"), Wanted(repeats=4, sizes=(64, 1518), cores=0, bad_luck=False))


def test_a_published_table_names_what_it_cannot_separate() -> None:
    text = said(effects, APU2, "--figure", "mbytes_per_s").output
    assert "cpb and pcie_power_mgmt" in text
    assert "2.622" in text


def test_the_same_table_imported_has_the_same_effects(tmp_path: Path) -> None:
    """20 of its 32 cells are missing; pf is the mode."""
    made = json.loads(said(effects, APU2, "--figure", "mbytes_per_s", "--json").output)
    file = Path(__file__).parents[2] / "examples" / "published" / "apu2-openbsd.csv"
    assert (done := said(import_command, "figures", file, "--line-rate", "1G", "--runs", tmp_path)).exit_code == 0, done.output
    (run,) = tmp_path.glob("*figures*")
    found = json.loads(said(effects, run, "--figure", "goodput_bps", "--json").output)
    by_name = {tuple("pf" if f == "mode" else f for f in e["factors"]): e for e in found["effects"]}
    assert set(by_name) == {tuple(e["factors"]) for e in made["effects"]}
    for e in made["effects"]:
        same = by_name[tuple(e["factors"])]
        assert (same["before"], same["after"]) == (e["before"], e["after"])
        assert same["ratio"] == pytest.approx(e["ratio"])
        assert same["sure"]["interval"] == pytest.approx(e["sure"]["interval"])


def test_modes_and_frame_sizes_of_a_run_are_factors(run: Path) -> None:
    found = json.loads(said(effects, run, "--json").output)
    of = {(tuple(e["factors"]), tuple(e["after"])): e["ratio"] for e in found["effects"]}
    assert of[("mode",), ("nat",)] == pytest.approx(0.35 / 0.61, rel=0.05)
    assert (("frame_size",), ("1518",)) in of


def test_costs_are_by_frame_size_against_the_fastest(run: Path) -> None:
    found = json.loads(said(cost, run, "--hertz", "2.2G", "--json").output)["costs"]
    nat = next(c for c in found if (c["mode"], c["frame_size"]) == ("nat", "64"))
    assert nat["added_ns"] == pytest.approx((1e9 / 0.35e6 - 1e9 / 0.61e6) / (1 - 64 / 12000), rel=0.05)
    assert nat["interval"]["low"] < nat["added_ns"] < nat["interval"]["high"]
    assert nat["cycles"] == pytest.approx(nat["added_ns"] * 2.2)
    assert "router" in said(cost, run).output.splitlines()[2]
    heads = [said(cost, run, *words).output.splitlines()[0].split()[-1] for words in ([], ["--hertz", "2.2G"])]
    assert heads == ["interval", "cycles"], "no column of cycles without a frequency"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'v'"), ("a,b\n1,2\n", "'v'"), ("a,v\n1,x\n", ":2: 'x'"), ("a,v\n1\n", ":2: "), ("a,v\n1,2,3\n", ":2: "),
        ("a,v\n1,2\n", "two cells"), ("a,v\n1,nan\n2,inf\n", "two cells"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_used_is_refused_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    (path := tmp_path / "made.csv").write_text(text)
    assert why in str(refused(effects, path, "--figure", "v"))


def test_a_figure_that_a_run_has_not_is_refused_with_those_it_has(run: Path) -> None:
    assert "goodput_bps" in str(refused(effects, run, "--figure", "watts"))
    assert "no mode bare" in str(refused(cost, run, "--barest", "bare"))


def test_a_run_without_packets_is_read_by_what_it_is_judged_by(tmp_path: Path) -> None:
    published = Path(__file__).parents[2] / "examples" / "published" / "e302-9d-iperf3.csv"
    assert said(import_command, "figures", published, "--runs", tmp_path).exit_code == 0
    (path,) = tmp_path.glob("*e302*")
    found = json.loads(said(effects, path, "--json").output)
    assert found["figure"] == "goodput_bps" and {e["factors"][0] for e in found["effects"]} == {"mode", "links"}
    refused(cost, path)


def test_the_cost_of_a_ramp_is_that_of_its_best_second(tmp_path: Path) -> None:
    published = Path(__file__).parents[2] / "examples" / "published" / "apu6-loadtest.csv"
    assert said(import_command, "figures", published, "--runs", tmp_path).exit_code == 0
    (path,) = tmp_path.glob("*apu6*")
    costs = json.loads(said(cost, path, "--json").output)["costs"]
    assert next(c["ns"] for c in costs if (c["mode"], c["frame_size"]) == ("danos", "64b")) == pytest.approx(1e9 / 2.3e6, rel=1e-4)


def test_a_table_needs_the_name_of_its_column_of_values() -> None:
    assert "mbytes_per_s" in str(refused(effects, APU2))


def test_each_level_of_a_factor_has_a_cost_of_its_own(run: Path) -> None:
    measured = open_run(run)

    def in_level(record: TrialRecord) -> TrialRecord:
        level = {"flowtable": "software" if record.cell.repeat % 2 else "off"}
        return record.model_copy(update={"cell": record.cell.model_copy(update={"factors": {**record.cell.factors, **level}})})

    plain = rates_by_mode(measured)
    split = rates_by_mode(replace(measured, records=[in_level(record) for record in measured.records]))
    for place, of in plain.items():
        assert set(split[place]) == {f"{mode} · flowtable {level}" for mode in of for level in ("off", "software")}
