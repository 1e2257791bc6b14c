"""Sensors as plugs: every kind has its module, a fault of one is a doubt, and a new one takes a settings class, a module and a line."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

import optic_outputs
from dutlab.by_path import named
from dutlab.doubts import DoubtKind
from dutlab.errors import HostError
from dutlab.events import Tell
from dutlab.hosts.local import LocalHost
from dutlab.runner.command_book import CommandBook
from dutlab.runner.stage import Stage
from dutlab.runner.trial import doubts_of, sensors_of
from dutlab.sensors import watch
from dutlab.sensors.command import CommandLoop
from dutlab.sensors.hwmon import HwmonLoop, readings
from dutlab.sensors.loop import ShellLoop
from dutlab.sensors.modules import OpticsLoop
from dutlab.sensors.modules import readings as readings_of_module
from dutlab.sensors.processor import ProcessorLoop, turn_of
from dutlab.sensors.sensor import THROTTLED, WATCH_COST, Sample, SensorSite, Watched
from dutlab.sensors.watch import Watch
from dutlab.spec.sensor import SensorSpec
from dutlab.spec.sensors import SENSORS, CommandSensor, CpuSensor, HwmonSensor, OpticsSensor, ProcessorSensor
from dutlab.spec.testbed import HostSpec
from dutlab.systems.optics import dbm, optic_of
from dutlab.systems.windows import WINDOWS
from outputs import output

pytestmark = pytest.mark.timing


def here() -> SensorSite:
    return SensorSite(LocalHost("here"))


def command(text: str, every: float = 0.1) -> CommandLoop:
    return CommandLoop(CommandSensor(name="wall", command=text, unit="W", every=every), here())


async def until(what: Callable[[], Any]) -> None:
    while not what():
        await asyncio.sleep(0.01)


def test_every_kind_that_can_be_written_has_a_module_and_cores_are_watched_where_they_can_be() -> None:
    for kind, spec in SENSORS.items():
        assert callable(named(spec.made_by)) and spec.measures, kind
    # A family whose cores cannot be watched has no such sensor.
    assert watch.make(CpuSensor(name="cpu"), SensorSite(LocalHost("dut", system=WINDOWS))) is None
    assert watch.make(CpuSensor(name="cpu"), SensorSite(LocalHost("dut"))) is not None


async def test_a_command_is_read_once_a_period_with_its_unit_and_its_cost(tmp_path: Path) -> None:
    (tmp_path / "watts").write_text("12.5\n")
    seen = list[tuple[str, str, Mapping[str, float]]]()
    sensor = command(f"cat {tmp_path}/watts")
    await sensor.start(lambda host, name, values: seen.append((host, name, values)))
    await until(lambda: len(seen) >= 2)
    (tmp_path / "watts").write_text("3e1\n")
    await until(lambda: seen[-1][2] == {"wall": 30.0})
    began_s = time.monotonic()
    await until(lambda: len(sensor._values) > len(seen) - 1 and sensor._values[-1][0] > began_s)
    found = await sensor.stop(began_s)
    values = [s for s in found.samples if s.name == "wall"]
    assert {(s.host, s.sensor, s.unit) for s in values} == {("here", "wall", "W")}
    assert [s.value for s in values][:2] == [12.5, 12.5]
    assert values[-1].value == 30.0
    assert values[0].t_s < 0 <= values[-1].t_s, "times count from the trial's start"
    assert all(s.unit == "%" and s.value >= 0 for s in found.samples if s.name == WATCH_COST)
    assert any(s.name == WATCH_COST for s in found.samples)
    assert found.faults == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo '<html>off</html>'", "'<html>off</html>'"),
        ("echo 12 W", "'12 W'"),
        ("echo nan", "'nan'"),
        ("true", "''"),
        ("echo 12; echo off >&2; exit 3", "ended with 3: '12\\noff'"),
        ("no-such-program-anywhere", "127"),
        ("kill -9 $$", "137"),
    ],
)
async def test_what_is_no_number_is_a_fault_and_no_value(text: str, said: str) -> None:
    sensor = command(text)
    await sensor.start()
    await until(lambda: len(sensor._faults) > 1)
    found = await sensor.stop()
    assert not [s for s in found.samples if s.name == "wall"]
    (fault,) = found.faults
    assert fault.startswith("wall: ") and said in fault and "times)" in fault
    (doubt,) = doubts_of(found)
    assert doubt.kind is DoubtKind.SENSOR_FAILED


async def test_watts_of_a_command_are_doubted_as_those_of_a_meter(tmp_path: Path) -> None:
    (tmp_path / "watts").write_text("-12.5\n")
    sensor = command(f"cat {tmp_path}/watts")
    await sensor.start()
    await until(lambda: len(sensor._values) > 1)
    found = await sensor.stop()
    assert {s.value for s in found.samples if s.unit == "W"} == {-12.5}
    (fault,) = found.faults
    assert "-12.5 W" in fault


async def test_a_command_that_hangs_holds_no_trial_up_and_leaves_no_process() -> None:
    sensor = command("sleep 987.125")
    await sensor.start()
    found = await sensor.stop()
    assert (found.samples, len(found.faults)) == ([], 1)


async def test_a_loop_that_somebody_ends_in_mid_trial_is_a_fault_and_what_it_read_stays() -> None:
    sensor = command("echo 5")
    await sensor.start()
    await until(lambda: sensor._values)
    assert sensor._process is not None
    await sensor._process.end()
    await until(lambda: sensor._reader and sensor._reader.done())
    found = await sensor.stop()
    assert len(found.faults) == 1
    assert next(s.value for s in found.samples if s.name == "wall") == 5.0


def monitors(sys_folder: Path) -> Path:
    lines = (line.partition(" ") for line in output("sensors", "hwmon").splitlines())
    write(sys_folder, {name: text for name, _, text in lines})
    return sys_folder


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")


async def test_processors_tell_watts_of_each_zone_frequency_and_throttling(tmp_path: Path) -> None:
    def at(package: int, dram: int, throttled: int) -> dict[str, str]:
        zones = {"0": ("package-0", package), "0:0": ("dram", dram)}
        files = {f"class/powercap/intel-rapl:{zone}/name": name for zone, (name, _) in zones.items()}
        files |= {f"class/powercap/intel-rapl:{zone}/energy_uj": str(uj) for zone, (_, uj) in zones.items()}
        files |= {f"class/powercap/intel-rapl:{zone}/max_energy_range_uj": "262143328850" for zone in zones}
        files |= {f"devices/system/cpu/cpu{n}/cpufreq/scaling_cur_freq": khz for n, khz in enumerate(("2400000", "1200000"))}
        of_cpu = "devices/system/cpu/cpu0/thermal_throttle"
        return files | {f"{of_cpu}/core_throttle_count": str(throttled), f"{of_cpu}/package_power_limit_count": str(throttled * 2)}

    write(tmp_path, at(1_000_000, 262_143_328_000, 3))
    sensor = ProcessorLoop(ProcessorSensor(name="cpu-power", every=0.3), here(), sys=str(tmp_path))
    await sensor.start()
    write(tmp_path, at(31_000_000, 9_999_150, 5))  # the second counter began again: 10 J in all
    await until(lambda: len(sensor._turns) > 2)
    found = await sensor.stop()
    totals = defaultdict[str, float](float)
    times = [turn.at_s for turn in sensor._turns]
    for sample, span_s in zip((s for s in found.samples if s.name == "package_0_watts"), (b - a for a, b in pairwise(times)), strict=True):
        totals["package"] += sample.value * span_s
    for sample, span_s in zip((s for s in found.samples if s.name == "dram_watts"), (b - a for a, b in pairwise(times)), strict=True):
        totals["dram"] += sample.value * span_s
    assert totals == pytest.approx({"package": 30.0, "dram": 10.0}, rel=0.01)
    assert {s.value for s in found.samples if s.name == "frequency_mhz"} == {1800.0}
    assert {s.value for s in found.samples if s.name == "lowest_frequency_mhz"} == {1200.0}
    assert sum(s.value for s in found.samples if s.name == THROTTLED) == 2
    assert [d.detail for d in doubts_of(found) if d.kind is DoubtKind.THROTTLED] == ["here: 2 times"]
    assert [d.detail for d in doubts_of(found) if d.kind is DoubtKind.POWER_LIMITED] == ["here: 4 times"]


def test_two_packages_keep_their_zones_apart() -> None:
    text = "\x1eenergy\nintel-rapl:0|package-0|5|9\nintel-rapl:0:0|core|6|9\nintel-rapl:1:0|core|7|9\nintel-rapl:2|psys|no|9\n"
    assert turn_of(0.0, text).energy_uj == {"package_0": (5, 9), "core_0_0": (6, 9), "core_1_0": (7, 9)}


async def test_processors_that_tell_nothing_are_a_fault(tmp_path: Path) -> None:
    sensor = ProcessorLoop(ProcessorSensor(name="cpu-power"), here(), sys=str(tmp_path))
    await sensor.start()
    assert "RAPL" in (await sensor.stop()).faults[0]


def test_a_bsd_tells_its_monitors_by_sysctl() -> None:
    openbsd = "hw.sensors.cpu0.temp0=48.00 degC\nhw.sensors.it0.fan0=1180 RPM\nhw.sensors.it0.volt0=1.20 VDC (VCORE_A)\n"
    openbsd += "hw.sensors.acpibat0.power0=12.50 W (rate), OK\nhw.sensors.softraid0.drive0=online (sd1), OK\n"
    freebsd = "dev.cpu.0.temperature: 45.0C\ndev.cpu.0.freq: 2400\ndev.cpu.1.temperature: 47.5C\nhw.acpi.thermal.tz0.temperature: 27.9C\n"
    freebsd += "hw.acpi.thermal.tz0._CRT: 105.1C\ndev.cpu.0.coretemp.tjmax: 100.0C\n"
    assert readings(f"\x1esysctl\n{openbsd}") == {
        "cpu0_temp0_celsius": ("degC", 48.0), "it0_fan0_rpm": ("rpm", 1180.0), "acpibat0_power0_watts": ("W", 12.5)
    }  # fmt: skip
    assert readings(f"\x1esysctl\n{freebsd}") == {
        "cpu_0_celsius": ("degC", 45.0), "cpu_1_celsius": ("degC", 47.5), "tz0_celsius": ("degC", 27.9),
        "tz0_limit_celsius": ("degC", 105.1),
    }  # fmt: skip


async def test_hardware_monitors_are_read_by_name_and_in_their_units(tmp_path: Path) -> None:
    sensor = HwmonLoop(HwmonSensor(name="heat", every=0.1), here(), sys=str(monitors(tmp_path)))
    seen = list[Mapping[str, float]]()
    await sensor.start(lambda _host, _sensor, values: seen.append(values))
    found = await sensor.stop()
    first = {s.name: (s.value, s.unit) for s in found.samples if s.name != WATCH_COST}
    assert first == {
        "k10temp_tctl_celsius": (61.25, "degC"), "nct6798_temp3_celsius": (-5.0, "degC"), "nct6798_fan2_rpm": (1180.0, "rpm"),
        "nct6798_power1_watts": (23.5, "W"), "k10temp_tctl_limit_celsius": (95.0, "degC"), "nvme_temp1_limit_celsius": (81.85, "degC"),
        "nvme_temp1_celsius": (40.0, "degC"), "nvme_temp1_2_celsius": (41.0, "degC"), "acpitz_celsius": (27.8, "degC"),
        "acpitz_limit_celsius": (119.0, "degC"),
    }  # fmt: skip
    assert seen[0]["nct6798_power1_watts"] == 23.5
    limits = [s for s in found.samples if s.name.endswith("_limit_celsius")]
    assert len(limits) == 3, "a limit is told once"
    assert found.faults == ()


async def test_modules_are_read_in_every_port_of_a_card_with_the_limit_that_they_name(tmp_path, monkeypatch) -> None:
    for port in ("eth4", "eth5"):
        (tmp_path / "sys/class/net" / port / "device").mkdir(parents=True)
    (tmp_path / "sys/class/net/veth0").mkdir()
    (tmp_path / "eth4").write_text(optic_outputs.SFP)
    program = tmp_path / "bin" / "ethtool"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = -m ] && exec cat "{tmp_path}/$2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    sensor = OpticsLoop(OpticsSensor(name="optics", every=0.1), here(), sys=str(tmp_path / "sys"))
    await sensor.start()
    await until(lambda: len(sensor._values) > 1)
    found = await sensor.stop()
    assert found.faults == ()
    of = {s.name: (s.value, s.unit) for s in found.samples if s.name != WATCH_COST}
    told = optic_of(optic_outputs.SFP)
    assert told is not None
    assert of["eth4_module_celsius"] == (told.values["temperature_c"][0], "degC")
    assert of["eth4_module_limit_celsius"] == (told.limits["temperature_c"]["high_alarm"], "degC")
    assert of["eth4_received_light_dbm"] == (pytest.approx(dbm(told.values["rx_power_mw"][0]), abs=0.005), "dBm")
    assert not [name for name in of if name.startswith(("eth5", "veth0"))]
    (tmp_path / "eth4").unlink()
    sensor = OpticsLoop(OpticsSensor(name="optics", every=0.1), here(), sys=str(tmp_path / "sys"))
    await sensor.start()
    await until(lambda: sensor._faults)
    assert len((await sensor.stop()).faults) == 1


@pytest.mark.parametrize(("text", "lanes"), [(optic_outputs.FREEBSD_QSFP, 1), (optic_outputs.OPENBSD, 1)])
def test_modules_of_a_bsd_are_read_too(text: str, lanes: int) -> None:
    optic = optic_of(text)
    assert optic is not None
    found = dict(readings_of_module("ixl0", optic))
    assert found["ixl0_module_celsius"].value == optic.values["temperature_c"][0]
    assert ("ixl0_module_limit_celsius" in found) == ("temperature_c" in optic.limits)
    assert "inf" not in str(found), "a lane that is dark tells nothing"
    assert len([name for name in found if "_received_light" in name]) == lanes


async def test_a_host_without_monitors_says_so(tmp_path: Path) -> None:
    sensor = HwmonLoop(HwmonSensor(name="heat"), here(), sys=str(tmp_path))
    await sensor.start()
    assert len((await sensor.stop()).faults) == 1
    assert readings("\x1ehwmon\nchip|temp1_input||not a number\nbroken\n\x1ezones\n") == {}


class Fake:
    """A sensor that does as it is told, and writes down when."""

    def __init__(self, name: str, *, vital: bool = False, start: Exception | None = None, stop: Exception | None = None) -> None:
        self.name, self.vital, self._start, self._stop = name, vital, start, stop

    log: list[str]

    async def start(self, tell: Tell) -> None:
        self.log.append(f"start {self.name}")
        if self._start:
            raise self._start

    async def stop(self, began_s: float) -> Watched:
        self.log.append(f"stop {self.name}")
        if self._stop:
            raise self._stop
        return Watched([Sample(began_s, "dut", self.name, self.name, "", 1.0)])


@pytest.fixture(autouse=True)
def log() -> list[str]:
    Fake.log = []
    return Fake.log


async def test_what_accounts_for_the_trial_is_read_inside_what_costs_time(log: list[str]) -> None:
    async with Watch([Fake("counters", vital=True), Fake("accounts", vital=True), Fake("wall")]) as watch:
        log.append("trial")
    assert log == ["start wall", "start counters", "start accounts", "trial", "stop accounts", "stop counters", "stop wall"]
    assert {s.sensor for s in watch.watched.samples} == {"counters", "accounts", "wall"}


@pytest.mark.parametrize("fault", [HostError("gone", host="dut"), ValueError("a fault of its own")])
@pytest.mark.parametrize("when", ["start", "stop"])
async def test_a_sensor_that_fails_is_a_doubt_and_never_a_failed_trial(fault: Exception, when: str) -> None:
    async with Watch([Fake("bad", **{when: fault}), Fake("good"), Fake("counters", vital=True)]) as watch:  # type: ignore[arg-type]
        pass
    assert {s.sensor for s in watch.watched.samples} >= {"good", "counters"}
    assert any(f.startswith("bad: ") for f in watch.watched.faults)
    assert [d.kind for d in doubts_of(watch.watched)] == [DoubtKind.SENSOR_FAILED]


async def test_a_vital_sensor_that_fails_is_its_hosts_fault_and_the_others_are_ended(log: list[str]) -> None:
    for when in ("start", "stop"):
        log.clear()
        with pytest.raises(HostError, match="gone"):
            async with Watch([Fake("wall"), Fake("counters", vital=True, **{when: HostError("gone", host="dut")})]):  # type: ignore[arg-type]
                pass
        assert "stop wall" in log


async def test_the_fault_of_a_trial_is_not_hidden_by_one_of_a_sensor(log: list[str]) -> None:
    with pytest.raises(KeyError, match="the trial's"):
        async with Watch([Fake("wall"), Fake("counters", vital=True, stop=HostError("gone", host="dut"))]):
            raise KeyError("the trial's")
    assert "stop wall" in log


async def test_a_new_kind_is_a_settings_class_and_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    class UptimeSensor(SensorSpec):
        kind = "uptime"
        made_by = "thrown_away:make"
        measures = "seconds since the host's start"

    class Uptime(ShellLoop):
        def _turn(self, at_s: float, text: str) -> None:
            self.found = (at_s, float(text.partition("\n")[2].split()[0]))

        def _samples(self, began_s: float) -> list[Sample]:
            return [Sample(self.found[0] - began_s, self.host, self.name, "uptime_s", "s", self.found[1])]

    script = "printf '\\036uptime\\n'; cat /proc/uptime; printf '\\036end\\n'; sleep 1000"
    module = ModuleType("thrown_away")
    module.make = lambda spec, site: Uptime(spec.name, site, script)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "thrown_away", module)
    sensor = watch.make(UptimeSensor(name="up"), here())
    assert sensor is not None
    async with Watch([sensor]) as watching:
        pass
    (sample,) = watching.watched.samples
    assert (sample.sensor, sample.unit) == ("up", "s")
    assert sample.value > 0


def test_a_trial_has_its_testbeds_sensors_and_those_that_are_watched_on_the_dut_each_once() -> None:
    hosts = {name: HostSpec(name=name, local=True) for name in ("source", "dut", "sink")}
    testbed = SimpleNamespace(
        hosts=hosts,
        sensors={
            "wall": CommandSensor(name="wall", command="echo 1", unit="W"),
            "heat": HwmonSensor(name="heat", host="dut"),
            "far": CpuSensor(name="far", host="sink"),
            "gone": HwmonSensor(name="gone", host="elsewhere"),
        },
    )
    reached = {name: LocalHost(name) for name in hosts}
    stage = cast(
        "Stage",
        SimpleNamespace(
            testbed=testbed, hosts=reached, dut=reached["dut"], device=SimpleNamespace(mode=None), accounts=None, watch_cpu=None
        ),
    )
    made = [s for s in sensors_of(stage, ["cpu", "hwmon"], CommandBook()) if isinstance(s, ShellLoop)]
    assert [(s.name, s.host) for s in made] == [("wall", "this-machine"), ("heat", "dut"), ("far", "sink"), ("cpu", "dut")]
    vital = [s for s in sensors_of(stage, [], CommandBook()) if s.vital]
    assert [s.name for s in vital] == ["counters", "counters", "counters", "interference"]
