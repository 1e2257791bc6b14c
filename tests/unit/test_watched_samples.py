"""Whatever a sensor or tool read is in the report and can be drawn, without a line of code for its name."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dutlab.errors import InputError
from dutlab.report.gather import gather
from dutlab.report.model.course import CheckLine
from dutlab.report.model.run_tables import check_tables, fact_tables, limit_tables, unsuccessful_tables
from dutlab.report.pages.markdown import table_markdown
from dutlab.report.write import print_report, write_report, write_sample_plots
from dutlab.sensors.sensor import Sample
from dutlab.store.run_folder import RunFolder
from dutlab.store.samples import columns, means_of, write_samples
from fake_run import Wanted, build

SECONDS = 4
MODES = {"router": "router", "nat": "nat"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its trials were also watched by a thermometer, a meter of a made-up thing, and the tool itself."""
    made = build(tmp_path_factory.mktemp("runs"), Wanted(repeats=2, seconds=2, cores=0, sizes=(64,), bad_luck=False))
    first, *others = made.glob("trials/*")
    rows = [
        sample
        for t in range(SECONDS)
        for sample in (
            Sample(t + 0.1, "dut", "hwmon", "package_celsius", "°C", 40.0 + 2 * t),
            Sample(t + 0.1, "pdu", "meter", "noise", "dB", 30.0),
            Sample(t + 0.1, "a", "engine", "received_pps", "pps", 250_000.0),
            Sample(t + 0.1, "dut", "cpu", "cpu0_system_percent", "%", 50.0),
            Sample(t + 0.1, "dut", "wall", "wall", "W", 70.0),
        )
    ]
    write_samples(first / "samples.parquet", columns(rows))
    for trial in others:
        os.link(first / "samples.parquet", trial / "samples.parquet")
    for path in made.glob("trials/*/record.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "watched": means_of(rows)}))
    return made


@pytest.fixture(scope="module")
def written(run: Path) -> dict[str, str]:
    return {p.suffix: p.read_text() for p in write_report([run], formats=("html", "md", "csv", "json"), out=None)}


def test_a_table_a_sensor_and_place_has_every_name_with_its_unit(written: dict[str, str]) -> None:
    (section,) = [s for s in json.loads(written[".json"])["runs"][0]["sections"] if s["slug"] == "watched"]
    tables = {t["title"]: t for t in section["tables"]}
    assert set(tables) == {"hwmon, dut", "meter, pdu", "engine, a", "wall, dut"}  # cores are drawn apart
    values = [row["cells"][2] for row in tables["hwmon, dut"]["rows"]]
    assert {v["median"] for v in values} == {44.0}  # of the seconds after the first: 42, 44, 46
    assert all(v["n"] == 2 for v in values)
    for form in (".html", ".md"):
        assert "package celsius, °C" in written[form]
        assert "noise, dB" in written[form]
        assert "250.0" in written[form]  # kpps, as everywhere
    rows = [row for row in csv.DictReader(io.StringIO(written[".csv"])) if row["figure"] == "noise"]
    assert rows
    assert {float(row["median"]) for row in rows} == {30.0}


def test_watts_are_divided_by_what_was_done_with_them(run: Path, written: dict[str, str]) -> None:
    (section,) = [s for s in json.loads(written[".json"])["runs"][0]["sections"] if s["slug"] == "power"]
    (table,) = section["tables"]
    assert table["title"] == "wall of dut"
    heads = [column["head"] for column in table["columns"]]
    for row in table["rows"]:
        cells = dict(zip(heads, row["cells"], strict=True))
        assert cells["power"]["median"] == 70.0
        joules = cells["J per GB"] if cells["workload"] == "iperf3" else cells["J per million packets"]
        assert joules["median"] > 0
    rates = {r.trial: r for r in RunFolder.open(run).readable_records([])}
    sweep = next(row for row in table["rows"] if row["cells"][0] == "sweep")
    joules = next(cell for head, cell in zip(heads, sweep["cells"], strict=True) if head == "J per million packets")
    figures = rates[joules["trials"][0]].figures
    link = max(figures, key=lambda name: name.count("+"))
    low, high = sorted(70e6 / rates[trial].figures[link]["received_pps"] for trial in joules["trials"])
    assert low <= joules["median"] <= high
    assert "J per million packets" in written[".html"]


def test_any_name_is_drawn_over_time(run: Path, tmp_path: Path) -> None:
    drawn = write_sample_plots([run], ["package_celsius", "noise"], format="svg", out=tmp_path)
    names = {p.name for p in drawn}
    assert {"sample-package_celsius-sweep-hwmon-dut.svg", "sample-noise-iperf3-meter-pdu.svg"} <= names
    text = (tmp_path / "sample-package_celsius-sweep-hwmon-dut.svg").read_text()
    assert "package celsius, °C" in text
    assert all(f">{mode}<" in text for mode in ("router", "nat"))


def test_a_name_that_nothing_read_is_refused_with_those_that_were(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="watts: no such sample") as refused:
        write_sample_plots([run], ["watts"], format="svg", out=tmp_path)
    assert "noise, package_celsius" in str(refused.value.remedy)
    assert list(tmp_path.iterdir()) == []


def test_losses_counters_and_cores_are_tables_of_every_form(tmp_path: Path) -> None:
    run = build(tmp_path, Wanted(modes=MODES, repeats=1, seconds=2, cores=1, sizes=(64,), bad_luck=False))
    for path in run.glob("trials/*/record.json"):
        record = json.loads(path.read_text())
        for flow in record["flows"]:
            flow["places"] = {"source to DUT": 0, "DUT in": flow["sent_frames"] // 8, "sink's card": 0}
        path.write_text(json.dumps(record))
    written = {p.suffix: p.read_text() for p in write_report([run], formats=("html", "md", "json"), out=None)}
    made = json.loads(written[".json"])["runs"][0]
    (lost,), (counted,) = made["watched"]["losses"], made["watched"]["counters"]
    assert [c["head"] for c in lost["columns"]] == ["what", "DUT in"], "a place where nothing was lost has no column"
    assert {(row["cells"][0], round(row["cells"][1], 2)) for row in lost["rows"]} == {("64 bytes, link a", 12.5)}
    assert [c["head"] for c in counted["columns"]] == ["host", "counter", *made["labels"]]
    assert ["dut", "softirq_net_rx"] in [row["cells"][:2] for row in counted["rows"]]
    printed = "\n".join(print_report([run], width=100, colour=False, verbose=True))
    for text in (written[".html"], written[".md"], printed):
        assert "Lost, %" in text
        assert "12.50" in text
    for text in (written[".md"], printed):
        assert "Cores of dut" in text
    assert 'id="lost"' in written[".html"]
    assert "softirq_net_rx" in written[".html"]


def test_verdicts_checks_facts_and_trials_without_a_result_are_tables_of_the_one_writer(built: Callable[..., Path], tmp_path: Path) -> None:
    run = built(repeats=2, sizes=(64,), cores=0)
    page, text = (p.read_text() for p in write_report([run], formats=("html", "md"), out=tmp_path))
    report = gather(run, tmp_path)
    tables = (
        *limit_tables(report.limits, report.trials),
        *unsuccessful_tables(report.unsuccessful),
        *check_tables(report.conditions.checks),
        *fact_tables(report.conditions.facts, report.conditions.hosts),
    )
    assert [table.slug for table in tables] == ["limits", "unsuccessful", "checks", "facts", "other-facts"]
    for table in tables:
        assert f'aria-label="{table.caption}"' in page, table.slug
    for table in tables[:4]:
        assert table_markdown(table, report) in text, table.slug
    lost = tables[1].rows[0]
    assert f'<a href="{lost.cells[0].links[0][1]}">{lost.cells[0]}</a>' in page, "a trial's number leads to its row"
    assert f'<td class="status {lost.cells[2]}">' in page
    assert f'<td colspan="{len(report.conditions.hosts)}">' in page, "what is the same on all hosts is said once"


def test_a_check_that_did_not_hold_is_marked_and_shown_unasked() -> None:
    held, broke = (CheckLine("nat", what, passed, 2, "10 of 10") for what, passed in (("a", 2), ("b", 1)))
    assert check_tables([held])[0].folded
    (table,) = check_tables([held, broke])
    assert (table.folded, [row.broken for row in table.rows]) == (False, [False, True])
    assert re.findall(r"\d+", table.title) == ["2", "1"]
