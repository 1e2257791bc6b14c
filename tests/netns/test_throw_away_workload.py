"""A workload that nobody knew before takes its settings, a tool, a section and one entry in the registry, and nothing else."""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path
from unittest.mock import patch

from capability import need_program
from dutlab.workloads import WORKLOADS
from run_records import records_below

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"

ECHO = r'''
import re
from typing import Annotated, ClassVar, Literal

from dutlab.measures import Measure, MeasureUnit, declare
from dutlab.methods.ports import Measured
from dutlab.report.sections import tool_figures
from dutlab.spec.workloads.base import Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.setting import Setting, Words
from dutlab.units import Seconds
from dutlab.workloads import WORKLOADS
from dutlab.workload_plug import WorkloadPlug


class EchoSetting(Setting):
    """How many pings."""

    kind: Literal["echo"] = "echo"
    times: Annotated[int, Words("{} pings")]


class EchoWorkload(WorkloadModel):
    """Pings through the DUT, and how many came back."""

    tool: ClassVar[str] = "ping"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.PING})
    setting: ClassVar[type[Setting]] = EchoSetting

    times: int = 3

    def drives(self, every_link):
        for links in self.link_sets(every_link):
            yield WorkloadDrive(links, EchoSetting(times=self.times), Seconds(self.times))


async def echo(site, cell):
    (link,) = cell.links
    far = str(site.testbed.links[link].sink_address.ip)
    done = await site.hosts["source"].run(["ping", "-c", str(cell.setting_as(EchoSetting).times), "-i", "0.2", far])
    slowest = float(re.search(r"= [\d.]+/[\d.]+/([\d.]+)/", done.text)[1]) * 1e6
    return Measured(figures={link: {"answers_count": float(re.search(r"(\d+) received", done.text)[1]), "slowest_ns": slowest}})


declare(Measure("answers_count", MeasureUnit.ONE, "higher", "pings that were answered"))
declare(Measure("slowest_ns", MeasureUnit.NS, "lower", "the ping that took longest"))
section = tool_figures.section
WORKLOADS["echo"] = WorkloadPlug(
    "echo", says="Pings through the DUT.", settings="throw_away:EchoWorkload", tool="throw_away:echo", section="throw_away:section"
)
'''


def test_a_workload_is_its_settings_its_tool_its_section_and_one_entry_in_the_registry(dutlab, tmp_path, monkeypatch):
    need_program("ping")
    (tmp_path / "throw_away.py").write_text(ECHO)
    monkeypatch.syspath_prepend(tmp_path)
    with patch.dict(WORKLOADS):
        importlib.import_module("throw_away")
        plug = WORKLOADS["echo"]
        wrong = dutlab("measure", "echo", "time=4")
        assert wrong.returncode == 2 and "did you mean times?" in wrong.stderr, wrong.stderr
        assert "Pings through the DUT." in dutlab("measure", "--help").stdout
        done = dutlab("measure", "echo", "times=4", "--link", "a", "--mode", "router", "--repeats", "2")
        assert done.returncode == 0, done.stderr
    records = records_below(tmp_path)
    assert [r["figures"]["a"]["answers_count"] for r in records] == [4.0, 4.0]
    (report,) = tmp_path.glob("runs/*/report/report.json")
    (section,) = (s for s in json.loads(report.read_text())["runs"][0]["sections"] if s["workload"] == "echo")
    assert section["title"] == "echo"
    # In the source each part is a file, and each registry that a statement of the module adds to is one more.
    statements = ast.parse(ECHO).body
    registries = {
        ast.unparse(of.targets[0].value) for of in statements if isinstance(of, ast.Assign) and isinstance(of.targets[0], ast.Subscript)
    }
    registries |= {of.value.func.id for of in statements if isinstance(of, ast.Expr)}
    assert registries == {"WORKLOADS", "declare"}
    files = len({plug.settings, plug.tool, plug.section}) + len(registries)
    assert re.search(r"^\| workload .*? \| (\d+) \|", PAGE.read_text(), re.MULTILINE)[1] == str(files)
