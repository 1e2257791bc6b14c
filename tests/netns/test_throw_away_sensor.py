"""A sensor that nobody knew before takes its settings, a module and a line in two lists; a lab's run reads it, reports it and answers SQL."""

from __future__ import annotations

import json
import subprocess

from capability import need_program
from processes import LIMIT_S

BACKLOG = r'''
from dutlab.sensors import watch
from dutlab.sensors.loop import ShellLoop
from dutlab.sensors.sensor import Sample
from dutlab.spec.sensors import SENSORS, SensorSpec
from dutlab.systems.watched import loop_of, sections


class BacklogSensor(SensorSpec):
    """Programs that run or wait for a core."""

    kind = "backlog"
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


make = BacklogLoop
SENSORS["backlog"] = BacklogSensor
watch.MODULES["backlog"] = "throw_away_sensor"
'''
PROGRAM = "import throw_away_sensor; from dutlab.cli.main import main; main()"
EXPERIMENT = """
experiment: watched-lab
testbed:
  lab: back-to-back
  sensors:
    queue: {kind: backlog, host: sink, every: 200ms}
    wall: {kind: command, command: echo 42, unit: W, every: 200ms}
factors: {mode: [as-found]}
workloads: [iperf3: {streams: 1, omit: 0s, duration: 1s}]
repeats: 2
"""


def test_a_sensor_is_its_settings_a_module_and_two_lines_and_a_run_in_a_lab_reads_it(python, python_env, tmp_path):
    need_program("iperf3")
    (tmp_path / "throw_away_sensor.py").write_text(BACKLOG)
    path = f"{tmp_path}:{python_env.get('PYTHONPATH', '')}"

    def dutlab(*argv):
        command = [python, "-c", PROGRAM, *argv]
        return subprocess.run(
            command, cwd=tmp_path, env={**python_env, "PYTHONPATH": path}, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    (tmp_path / "wrong.yaml").write_text(EXPERIMENT.replace("host: sink", "host: sinc"))
    wrong = dutlab("run", "wrong.yaml")
    assert wrong.returncode == 2 and "sensors.queue.host: there is no host 'sinc'" in wrong.stderr, wrong.stderr
    (tmp_path / "right.yaml").write_text(EXPERIMENT)
    done = dutlab("run", "right.yaml")
    assert done.returncode == 0, done.stderr
    records = [json.loads(p.read_text()) for p in tmp_path.glob("runs/*/trials/*/record.json")]
    assert [r["status"] for r in records] == ["measured"] * 2
    assert not [d for r in records for d in r["doubts"] if d["kind"] == "SENSOR_FAILED"]
    said = dutlab(
        "query",
        "SELECT trial, sensor, host, unit, count(*) > 2 AS many, min(value) >= 0 AS real FROM samples "
        "WHERE name IN ('backlog_programs', 'wall') GROUP BY ALL ORDER BY ALL",
        "--format",
        "json",
    )
    assert said.returncode == 0, said.stderr
    rows = json.loads(said.stdout)

    assert [(r["trial"], r["sensor"], r["host"], r["unit"]) for r in rows] == [
        (trial, *sensor) for trial in (1, 2) for sensor in (("queue", "sink", ""), ("wall", "this-machine", "W"))
    ]
    assert all(r["many"] and r["real"] for r in rows), rows
    (report,) = tmp_path.glob("runs/*/report/report.md")
    assert "backlog programs" in report.read_text()
