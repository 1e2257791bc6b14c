"""A sensor that nobody knew before takes its settings, a module and a line in a list; a lab's run reads it, reports it and answers SQL."""

from __future__ import annotations

import importlib
import json
from unittest.mock import patch

from dutlab.spec.sensors import SENSORS
from run_records import records_below

BACKLOG = r'''
from dutlab.sensors.loop import ShellLoop
from dutlab.sensors.sensor import Sample
from dutlab.spec.sensors import SENSORS
from dutlab.spec.sensor import SensorSpec
from dutlab.systems.watched import loop_of, sections


class BacklogSensor(SensorSpec):
    """Programs that run or wait for a core."""

    kind = "backlog"
    made_by = "throw_away_sensor:BacklogLoop"
    measures = "the mean number of programs that run or wait, over a minute"


class BacklogLoop(ShellLoop):
    """Reads /proc/loadavg (proc_loadavg(5)) in a loop on its host."""

    def __init__(self, spec, site):
        super().__init__(spec.name, site, loop_of("printf '\\036load\\n'; cat /proc/loadavg"), interval_s=spec.every)
        self.values = []

    def _turn(self, at_s, text):
        self.values.append((at_s, float(sections(text)["load"].split()[0])))

    def _samples(self, began_s):
        for at_s, value in self.values:
            yield Sample(round(at_s - began_s, 3), self.host, self.name, "backlog_programs", "", value)
        yield from self._costs(began_s)


SENSORS["backlog"] = BacklogSensor
'''
EXPERIMENT = """
experiment: watched-lab
testbed:
  lab: back-to-back
  sensors:
    queue: {kind: backlog, host: sink, every: 200ms}
    wall: {kind: command, command: echo 42, unit: W, every: 200ms}
factors: {mode: [as-found]}
workloads: [sweep: {frame_sizes: [64], rates: [1kpps], duration: 1s, warmup: 0s, drain: 100ms}]
repeats: 2
"""


def test_a_sensor_is_its_settings_a_module_and_a_line_and_a_run_in_a_lab_reads_it(dutlab, tmp_path, monkeypatch):
    (tmp_path / "throw_away_sensor.py").write_text(BACKLOG)
    (tmp_path / "wrong.yaml").write_text(EXPERIMENT.replace("host: sink", "host: sinc"))
    (tmp_path / "right.yaml").write_text(EXPERIMENT)
    monkeypatch.syspath_prepend(tmp_path)
    with patch.dict(SENSORS):
        importlib.import_module("throw_away_sensor")
        wrong = dutlab("run", "wrong.yaml")
        assert wrong.returncode == 2 and "sensors.queue.host: there is no host 'sinc'" in wrong.stderr, wrong.stderr
        done = dutlab("run", "right.yaml")
        assert done.returncode == 0, done.stderr
    records = records_below(tmp_path)
    assert [r["status"] for r in records] == ["measured"] * 2
    assert not [d for r in records for d in r["doubts"] if d["kind"] == "SENSOR_FAILED"]
    asked = "SELECT trial, sensor, host, unit, count(*) > 2 AS many, min(value) >= 0 AS real FROM samples "
    asked += "WHERE name IN ('backlog_programs', 'wall') GROUP BY ALL ORDER BY ALL"
    rows = json.loads(dutlab("query", asked, "--format", "json").stdout)
    assert [(r["trial"], r["sensor"], r["host"], r["unit"]) for r in rows] == [
        (trial, *sensor) for trial in (1, 2) for sensor in (("queue", "sink", ""), ("wall", "this-machine", "W"))
    ]
    assert all(r["many"] and r["real"] for r in rows), rows
    (report,) = tmp_path.glob("runs/*/report/report.md")
    assert "backlog programs" in report.read_text()
