""""""

from __future__ import annotations

import csv
import json
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from cells import cell_of
from dutlab.cli import optics as command
from dutlab.cli.main import dutlab
from dutlab.errors import InputError
from dutlab.interop.figure_table import imported
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.report.sections.optics import optic_rows, optics_section
from dutlab.systems.optics import Optic, dbm, of_ethtool, of_freebsd, of_openbsd, optic_of
from optic_outputs import (
    CMIS,
    FREEBSD_QSFP,
    FREEBSD_SFP,
    JSON_CMIS,
    JSON_LATER,
    JSON_QSFP,
    JSON_SFP,
    NEW_RX,
    OLD_RX,
    OPENBSD,
    OPENBSD_QSFP,
    QSFP,
    SFP,
)
from run_records import new_run, trial_record

RAMP = {
    "frame_size": 64, "frame_mix": "64:1", "warmup_pps": 1000.0, "warmup_s": 5.0, "target_percent": 100.0, "rampup_s": 50.0, "hold_s": 5.0,
    "line_rate_bps_l1": None, "threshold_percent": 0.1, "drain_s": 0.5,
}  # fmt: skip


def test_values_of_an_sfp_are_judged_by_its_thresholds_not_by_its_flags() -> None:
    optic = of_ethtool(SFP)
    assert optic is not None
    assert (optic.vendor, optic.part, optic.wavelength_nm) == ("ACME OPTICS", "AC-10G-SR", 850.0)
    assert optic.values == {
        "tx_bias_ma": (6.5,), "tx_power_mw": (0.5,), "rx_power_mw": (0.02,), "temperature_c": (86.5,), "voltage_v": (3.3,),
    }  # fmt: skip
    assert optic.limits["temperature_c"] == {"high_alarm": 90.0, "high_warning": 85.0, "low_alarm": -10.0}
    assert [(f.quantity, f.lane, f.value, f.limit, f.threshold) for f in optic.findings()] == [
        ("rx_power_mw", 1, 0.02, "low_alarm", 0.0251),
        ("temperature_c", 1, 86.5, "high_warning", 85.0),
    ]


def test_lanes_of_a_qsfp_are_told_apart() -> None:
    optic = of_ethtool(QSFP)
    assert optic is not None
    assert optic.values == {"tx_bias_ma": (7.0, 0.0), "tx_power_mw": (1.0, 0.9)}
    assert [(f.quantity, f.lane, f.limit) for f in optic.findings()] == [("tx_bias_ma", 2, "low_alarm")]
    assert of_ethtool("netlink error: No such device\n") is None, "a port without a module"


@pytest.mark.parametrize("text", [JSON_SFP, JSON_LATER])
def test_json_of_an_sfp_keeps_value_and_thresholds_apart(text: str) -> None:
    optic = of_ethtool(text)
    assert optic is not None
    assert (optic.form, optic.kind, optic.connector, optic.serial, optic.made) == ("SFP", "1000BASE-LX", "LC", "A77", "2024-06-18")
    assert optic.values == {
        "tx_bias_ma": (15.604,), "tx_power_mw": (0.2461,), "rx_power_mw": (0.003,), "temperature_c": (26.5898,), "voltage_v": (3.3812,),
    }  # fmt: skip
    assert optic.limits["rx_power_mw"] == {"high_alarm": 0.5012, "low_alarm": 0.004, "low_warning": 0.005}
    assert [(f.quantity, f.lane, f.value, f.limit, f.threshold) for f in optic.findings()] == [
        ("rx_power_mw", 1, 0.003, "low_alarm", 0.004)
    ]


@pytest.mark.parametrize("received", [OLD_RX, NEW_RX])
def test_both_shapes_of_received_power_are_read(received: str) -> None:
    optic = of_ethtool(JSON_QSFP.replace('"RX"', received))
    assert optic is not None
    assert optic.values["rx_power_mw"] == (0.0388, 0.041, 0.0417, 0.0392)
    assert [(f.quantity, f.lane) for f in optic.findings()] == [("tx_bias_ma", 2)]


def test_freebsds_words_old_and_new() -> None:
    old, new = of_freebsd(FREEBSD_QSFP), of_freebsd(FREEBSD_SFP)
    assert old is not None
    assert new is not None
    assert (old.form, old.kind, old.connector, old.part) == ("QSFP+", "40GBASE-LR4", "MPO Parallel Optic", "OP-QSFP-40G-LR4")
    assert old.values["rx_power_mw"] == (0.4775, 0.0)
    assert old.values["tx_power_mw"] == (2.7925, 2.799)
    assert (new.vendor, new.serial, new.made) == ("ACME OPTICS", "A1", "2019-08-07")
    assert new.values == {"temperature_c": (-3.5,), "voltage_v": (3.3,), "rx_power_mw": (0.5,), "tx_bias_ma": (6.5,)}
    assert new.findings() == []
    assert "no thresholds" in new.note
    page = bytearray(128)
    page[60:62] = (850).to_bytes(2, "big")
    lines = [page[i : i + 16].hex(" ").upper() for i in range(0, 128, 16)]
    dumped = of_freebsd(FREEBSD_SFP + "".join(f"\t{line}\n" for line in lines))
    assert dumped is not None
    assert dumped.wavelength_nm == 850.0
    ended = of_freebsd((FREEBSD_SFP + "\n".join(f"\t{line}" for line in lines)).strip())
    assert ended is not None
    assert ended.wavelength_nm == 850.0, "the dump ends the output, without a blank behind its last byte (ifconfig_netlink.c)"
    page[8] = 0x04
    cable = of_freebsd(FREEBSD_SFP + "".join(f"\t{page[i : i + 16].hex(' ')}\n" for i in range(0, 128, 16)))
    assert cable is not None and cable.wavelength_nm is None, "of copper"


def test_limits_that_are_all_zero_are_those_of_a_module_without_any_and_dbm_is_relative_to_one_milliwatt() -> None:
    none = dict.fromkeys(("high_alarm", "low_alarm", "high_warning", "low_warning"), 0.0)
    for limits, found in ((none, []), (none | {"low_alarm": 3.3}, ["high_alarm"])):
        assert [f.limit for f in Optic(values={"voltage_v": (3.25,)}, limits={"voltage_v": limits}).findings()] == found
    assert (dbm(1.0), dbm(0.0)) == (0.0, float("-inf"))


def test_openbsds_words_are_judged_by_their_limits_not_by_its_alarms() -> None:
    optic = of_openbsd(OPENBSD)
    assert optic is not None
    assert (optic.form, optic.connector, optic.wavelength_nm) == ("SFP", "LC", 850.0)
    assert (optic.vendor, optic.part, optic.serial, optic.made) == ("FINISAR CORP.", "FTLX8571D3BCL", "AQG28W3", "2013-10-19")
    assert optic.values["voltage_v"] == (3.36,)
    assert [(f.quantity, f.limit) for f in optic.findings()] == [("rx_power_mw", "low_alarm")]


def test_openbsds_channels_are_lanes_and_uncalibrated_values_are_left_out() -> None:
    optic = of_openbsd(OPENBSD_QSFP)
    assert optic is not None
    assert (optic.part, optic.serial) == ("AC-100G", "B1")
    assert optic.values["tx_bias_ma"] == (6.5, 0.0)
    assert [(f.quantity, f.lane) for f in optic.findings()] == [("tx_bias_ma", 2), ("rx_power_mw", 2)]
    external = of_openbsd(OPENBSD.replace("\tvoltage", "\tcalibration: external (WARNING: needs more code)\n\tvoltage"))
    assert external is not None
    assert external.values == {}
    assert "calibration" in external.note


@given(st.text() | st.text('[]{}":, \n\t()-.0123456789abcdefRXTdBmin', max_size=200))
def test_any_text_ends_in_an_optic_or_none(text: str) -> None:
    optic = optic_of(text)
    assert optic is None or json.dumps(optic.to_json(), allow_nan=False)


@given(st.sampled_from([SFP, QSFP, JSON_SFP, JSON_LATER, FREEBSD_QSFP, FREEBSD_SFP, OPENBSD, OPENBSD_QSFP]), st.data())
def test_real_output_that_was_cut_or_damaged_ends_in_an_optic_or_none(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text('0123456789.-:{}[]()" \tNaIinfdBm', max_size=6)) + text[at + data.draw(st.integers(0, 5)) :]
    optic = optic_of(damaged)
    assert optic is None or json.dumps(optic.to_json(), allow_nan=False)


# ---- Modules with CMIS, as QSFP-DD and OSFP are: what ethtool prints of them


@pytest.mark.parametrize("said", [CMIS, JSON_CMIS], ids=["text", "json"])
def test_ethtools_words_are_read_without_the_lanes_that_the_module_has_not(said: str) -> None:
    optic = of_ethtool(said)
    assert optic is not None
    assert (optic.form, optic.connector, optic.part, optic.serial, optic.made, optic.wavelength_nm) == (
        "QSFP-DD", "MPO Parallel Optic", "AC-400G-DR4", "X4210", "2024-05-31", 1311.0,
    )  # fmt: skip
    assert optic.values["tx_bias_ma"] == (83.806, 81.878, 72.9, 131.1)
    assert optic.values["rx_power_mw"] == (2.2489, 1.8629, 0.0, 1.8215)
    assert (optic.values["temperature_c"], optic.values["voltage_v"]) == ((70.49,), (3.2186,))
    assert "lane 4" in optic.note
    assert sorted((f.quantity, f.lane, f.limit) for f in optic.findings()) == [
        ("rx_power_mw", 3, "low_alarm"), ("temperature_c", 1, "high_warning"), ("tx_bias_ma", 4, "high_alarm"),
    ]  # fmt: skip


def test_a_dead_lane_of_eight_is_no_absent_lane() -> None:
    lit = CMIS
    for lane, power in ((5, "1.5"), (6, "1.5"), (7, "1.5")):
        lit = re.sub(rf"(Transmit avg optical power \(Channel {lane}\)\s*: )0.0000 mW / -inf", rf"\g<1>{power}000 mW / 1.76", lit)
    optic = of_ethtool(lit)
    assert optic is not None
    assert ("tx_power_mw", 8, "low_alarm") in [(f.quantity, f.lane, f.limit) for f in optic.findings()]


@pytest.mark.parametrize(
    "said", [CMIS.replace("0x03 (ModuleReady)", "0x01 (ModuleLowPwr)"), JSON_CMIS.replace('"module_state": 3', '"module_state": 1')]
)
def test_a_sleeping_module_is_not_called_dark(said: str) -> None:
    optic = of_ethtool(said)
    assert optic is not None
    assert "rx_power_mw" not in optic.values
    assert "ModuleLowPwr" in optic.note


def test_each_bank_of_a_sixteen_lane_module_adds_its_lanes() -> None:
    bank = '"laser_tx_bias_current": [ 83.806,81.878,72.9,131.1,0,0,0,0 ],'
    two = JSON_CMIS.replace(bank, bank.replace("0,0,0,0 ]", "70,70,70,70 ]") * 2)
    optic = of_ethtool(two)
    assert optic is not None
    assert len(optic.values["tx_bias_ma"]) == 16


@given(st.sampled_from([CMIS, JSON_CMIS]), st.data())
def test_output_that_was_cut_or_damaged_ends_in_an_optic_or_none(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text('0123456789.-:{}[]()" \tNaIinfdBm', max_size=6)) + text[at + data.draw(st.integers(0, 5)) :]
    optic = of_ethtool(damaged)
    assert optic is None or json.dumps(optic.to_json(), allow_nan=False)


# ---- The table of transceivers: from facts, on the command line with an ethtool that prints literal output, and in a report


def facts(text: str, **card: object) -> dict[str, dict[str, Any]]:
    optic = optic_of(text)
    assert optic is not None
    return {
        "dut": {
            "interfaces": {"eth4": {"operstate": "up", "speed_mbps": 10_000, "optic": optic.to_json(), **card}, "eth5": {"optic": None}}
        }
    }


def test_a_row_says_what_is_beyond_the_modules_own_limits() -> None:
    (row,) = optic_rows(facts(SFP))
    assert (row.host, row.port, row.form, row.link, row.speed_mbps) == ("dut", "eth4", "SFP", "up", 10_000)
    assert (row.tx_power_dbm, row.rx_power_dbm, row.temperature_c) == ((-3.01,), (-16.99,), 86.5)
    rx_power, temperature = row.verdict.split("; ")
    assert "-16.99 dBm" in rx_power and "-16.00 dBm" in rx_power and "86.5" in temperature


def test_what_a_module_does_not_tell_is_said_in_its_place() -> None:
    (dark,) = optic_rows(facts(QSFP.replace("0.9000 mW / -0.46 dBm", "0.0000 mW / -inf dBm")))
    assert dark.words()["tx_power_dbm"] == "0.00 / dark"
    bare = {"dut": {"interfaces": {"ix0": {"optic": Optic(form="SFP", vendor="ACME").to_json()}}}}
    assert optic_rows(bare)[0].verdict == "no readings"
    assert optic_rows(bare)[0].link == ""
    unlimited = of_openbsd("transceiver: SFP LC\n\ttemp: 34.60 C\n")
    assert unlimited is not None
    assert optic_rows({"dut": {"interfaces": {"ix0": {"optic": unlimited.to_json()}}}})[0].verdict == "no thresholds"


def test_a_report_has_the_table_only_where_there_is_a_module() -> None:
    assert optics_section({"dut": {"interfaces": {"eth5": {"optic": None}}}}) == ()
    (section,) = optics_section(facts(OPENBSD, speed_mbps=None))
    heads = [column.head for column in section.tables[0].columns]
    assert "wavelength, nm" in heads
    assert "speed, Mb/s" not in heads  # nobody tells it
    assert section.tables[0].rows[0].cells[heads.index("part")] == "FTLX8571D3BCL"
    assert section.tables[0].first == "", "no column of modes: all is read before the first"


@pytest.fixture
def ethtool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that `ethtool -m` prints; an empty one is an empty cage."""
    said = tmp_path / "said"
    said.write_text(SFP)
    program = tmp_path / "ethtool"
    program.write_text(
        f"#!/bin/sh\n[ $1 = -m ] && cat {said} && [ -s {said} ] || {{ echo 'netlink error: No such device' >&2; exit 1; }}\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(command, "LINK_WAIT_S", 0.0)
    return said


def told(*argv: str, answers: str = "") -> Result:
    return CliRunner().invoke(dutlab, ["optics", *argv], input=answers, catch_exceptions=False)


def test_the_command_prints_a_table_and_the_same_as_json(ethtool: Path) -> None:
    done = told("--port", "lo")
    assert done.exit_code == 0
    assert "AC-10G-SR" in done.stdout
    (row,) = json.loads(told("--port", "lo", "--json").stdout)["optics"]
    assert (row["host"], row["part"], row["rx_power_dbm"]) == ("this-machine", "AC-10G-SR", [-16.99])
    ethtool.write_text("")
    assert told("--port", "lo").stdout.startswith("no transceiver found")


def test_a_box_of_modules_becomes_a_table_of_all_of_them(ethtool: Path, tmp_path: Path) -> None:
    file = tmp_path / "box.csv"
    done = told("--port", "lo", "--each", "--csv", str(file), answers="\n\nend\n")
    assert done.exit_code == 0
    with file.open(newline="") as written:
        rows = list(csv.DictReader(written))
    assert [row["part"] for row in rows] == ["AC-10G-SR", "AC-10G-SR"]
    assert rows[0]["rx_power_dbm"] == "-16.99"
    ethtool.write_text(SFP.replace("ACME OPTICS", "=1+1"))
    told("--port", "lo", "--csv", str(file))
    assert "'=1+1" in file.read_text()  # a spreadsheet takes it for text, not for a formula
    ethtool.write_text("")
    unread = told("--port", "lo", "--each", "--json", answers="\nend\n")
    assert json.loads(unread.stdout)["optics"][0]["form"] == "unreadable"


def test_each_needs_one_host_and_one_port() -> None:
    result = CliRunner().invoke(dutlab, ["optics", "--each"])
    assert isinstance(result.exception, InputError) or result.exit_code == 2
    assert "--each" in str(result.exception)


def _run_with_module(runs: Path, vendor: str, kpps: float) -> Path:
    text = f"mode,workload,link,frame_size,received_kpps,loss_percent\nrouter,sweep,a,64,{kpps},0.5\n"
    run = write_imported(
        runs, vendor.lower(), imported("x.csv", text.encode(), ImportOptions()), command=(), now=datetime(2026, 11, 21, tzinfo=UTC)
    )
    optic = {"form": "SFP", "vendor": vendor, "part": "SR", "serial": "1", "values": {"rx_power_mw": [0.5]}, "limits": {}, "findings": []}
    (run.path / "hosts").mkdir(exist_ok=True)
    (run.path / "hosts" / "dut.json").write_text(json.dumps({"interfaces": {"eth4": {"operstate": "up", "optic": optic}}}))
    return run.path


def test_modules_of_several_runs_and_what_passed_them_are_one_table(tmp_path: Path) -> None:
    runs = [_run_with_module(tmp_path, vendor, kpps) for vendor, kpps in (("ACME", 1488.0), ("Bolt", 744.0))]
    said = CliRunner().invoke(dutlab, ["optics", *map(str, runs), "--json", "--csv", str(tmp_path / "passed.csv")])
    rows = json.loads(said.output)["passed"]
    assert [row["received_pps"] for row in rows] == [1488e3, 744e3]
    assert ["ACME" in rows[0]["module"], "Bolt" in rows[1]["module"]] == [True, True] and rows[0]["rx power, dBm"] == "-3.01"
    assert len(list(csv.reader((tmp_path / "passed.csv").read_text().splitlines()))) == 3
    shown = CliRunner().invoke(dutlab, ["optics", *map(str, runs)])
    assert shown.exit_code == 0 and "Bolt" in shown.output
    refused = CliRunner().invoke(dutlab, ["optics", str(runs[0]), "root@192.0.2.1"])
    assert refused.exit_code == 2


def test_a_module_that_a_person_plugs_in_is_a_column_and_a_run_without_any_is_refused(tmp_path: Path) -> None:
    text = "mode,workload,link,frame_size,received_kpps\nrouter,sweep,a,64,1488\n"
    run = write_imported(
        tmp_path, "x", imported("x.csv", text.encode(), ImportOptions()), command=(), now=datetime(2026, 11, 21, tzinfo=UTC)
    ).path
    assert isinstance(CliRunner().invoke(dutlab, ["optics", str(run)]).exception, InputError)
    cells = [cell_of("loadtest", factors={"mode": "router", "module": level}, **RAMP) for level in ("A", "B")]
    made = new_run(tmp_path, cells)
    for n, cell in enumerate(cells, 1):
        made.write_trial(trial_record(n, cell, {"a": {"max_received_pps": 1e6 * n}}), {})
    rows = json.loads(CliRunner().invoke(dutlab, ["optics", str(made.path), "--json"]).output)["passed"]
    assert [(row["module"], row["max_received_pps"]) for row in rows] and {row["max_received_pps"] for row in rows} == {1e6, 2e6}


def test_another_page_in_place_of_the_diagnostics_gives_no_values() -> None:  # bnxt_en, newrushbolt/go-ethtool-metrics
    thresholds = {"temperature": (3.02, 7.06, 0.0, 0.25), "voltage": (0.0012, 0.0006, 2.6368, 0.0)}
    values = {"temperature": "0.00 degrees C / 32.00 degrees F", "voltage": "0.2287 V"}
    names = ("high alarm", "low alarm", "high warning", "low warning")
    text = "\tIdentifier : 0x03 (SFP)\n\tVendor PN : SFP-10GSR-85\n" + "".join(
        f"\tModule {what} : {value}\n"
        + "".join(f"\tModule {what} {name} threshold : {n}\n" for name, n in zip(names, thresholds[what], strict=True))
        for what, value in values.items()
    )
    optic = optic_of(text)
    assert optic is not None
    assert (optic.part, optic.values, optic.limits, optic.findings()) == ("SFP-10GSR-85", {}, {}, [])
    assert optic.note
    sloppy = optic_of(text.replace("0.2287 V", "3.29 V"))
    assert sloppy is not None
    assert (sloppy.values["voltage_v"], sloppy.limits) == ((3.29,), {})
    good = optic_of(text.replace(": 7.06", ": -5").replace(": 0.25", ": -1"))  # thresholds of one quantity alone may be wrong
    assert good is not None
    assert good.values["voltage_v"] == (0.2287,)
