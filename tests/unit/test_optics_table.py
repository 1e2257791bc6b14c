"""The table of transceivers: from facts, on the command line with an ethtool that prints literal output, and in a report."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dutlab.cli import optics as command
from dutlab.cli.main import dutlab
from dutlab.report.sections.optics import optic_rows, optics_section
from dutlab.systems.optics import Optic, of_openbsd, optic_of
from optic_outputs import OPENBSD, QSFP, SFP


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
    assert row.verdict.startswith("rx power of lane 1 is -16.99 dBm, below its low alarm threshold -16.00 dBm; temperature")


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
    assert told("--port", "lo").stdout.startswith("no transceiver found: no port reports a module\n")


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
    assert "--each needs one HOST and one --port" in str(result.exception)
