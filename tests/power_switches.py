"""Switches of power through the command `power`: what tests of servers and of plugs ask of every switch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from dutlab.cli.power import power
from dutlab.errors import DutlabError


def bed(folder: Path, switch: dict[str, Any] | None) -> Path:
    host: dict[str, Any] = {"ssh": "root@192.0.2.1"} | ({} if switch is None else {"power": switch})
    (path := folder / "testbed.yaml").write_text(json.dumps({"testbed": "bench", "hosts": {"dut": host}}), encoding="utf-8")
    return path


def said(folder: Path, switch: dict[str, Any] | None, action: str, host: str = "dut") -> Result:
    return CliRunner().invoke(power, [host, action, "--testbed", str(bed(folder, switch))])


ALL = (("off", "off"), ("on", "on"), ("off", "off"), ("cycle", "on"), ("status", "on"))
OF_SLOW = (("off", "off"), ("on", "on"))


def insist_on_switching(folder: Path, switch: dict[str, Any], actions: tuple[tuple[str, str], ...] = ALL) -> None:
    """Off, on, off and on; and nothing of it where the testbed does not allow it."""
    for action, then in actions:
        found = said(folder, {**switch, "may-switch": "yes", "off-for": "100ms"}, action)
        assert found.output == f"dut: {then}\n", (action, found.exception)
    refused = said(folder, switch, "off")
    assert isinstance(refused.exception, DutlabError)
    assert "does not allow to switch dut" in str(refused.exception) and "may-switch: yes" in str(refused.exception.remedy)
    assert said(folder, switch, "status").output == "dut: on\n"


def fault_of(found: Result) -> str:
    assert isinstance(found.exception, DutlabError), found.output
    return str(found.exception)
