"""Ubiquiti's mFi mPower, read and switched over HTTP: a server that lets in whom its form let in, as the published API has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

import pytest

from dutlab.errors import HostError
from dutlab.hosts.local import LocalHost
from dutlab.power import HostPower
from dutlab.sensors.asked import PolledSensor
from dutlab.sensors.meter import make
from dutlab.sensors.sensor import SensorSite, Watched
from dutlab.spec.power import PlugPower
from dutlab.spec.sensors import MeterSensor
from web_server import served

HERE = SensorSite(LocalHost("this-machine"))


class Strip:
    """A strip of two outlets, the login `lab` with the password `right`."""

    def __init__(self) -> None:
        self.output, self.enabled, self.sessions, self.logins = [1, 1], [1, 1], set[str](), 0

    def answer(self, method: str, path: str, cookie: str, form: dict[str, list[str]]) -> tuple[int, str]:
        if path == "/login.cgi":
            self.logins += 1
            if (form.get("username"), form.get("password")) != (["lab"], ["right"]):
                return 200, "<html>Invalid credentials.</html>"
            self.sessions.add(cookie)
            return 302, "/index.cgi"
        if cookie not in self.sessions:
            return 302, "/login.cgi?uri=/sensors"
        if method == "PUT":
            self.output[int(path.rpartition("/")[2]) - 1] = int(form["output"][0])
            return 200, '{"status":"success"}'
        rows = [
            {"port": n + 1, "output": on, "power": 70.25 * on + n, "enabled": self.enabled[n], "relay": on, "lock": 0}
            for n, on in enumerate(self.output)
        ]
        return 200, json.dumps({"sensors": rows, "status": "success"})


@pytest.fixture
def strip() -> Strip:
    return Strip()


@pytest.fixture
def url(strip: Strip, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("T_RIGHT", "right")
    monkeypatch.setenv("T_WRONG", "wrong")
    with strip_at(strip) as url:
        yield url


def strip_at(strip: Strip) -> AbstractContextManager[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
            status, said = strip.answer(self.command, self.path, self.headers.get("Cookie", ""), form)
            self.send_response(status)
            if status != 200:
                self.send_header("Location", said)
                said = ""
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said.encode())

        do_POST = do_PUT = do_GET  # noqa: N815 -- the server's names

    return served(Handler)


def spec(url: str, **keys: Any) -> MeterSensor:
    login = {"user": "lab", "password-from": "T_RIGHT"}
    return MeterSensor.model_validate({"name": "wall", "url": url, "model": "mfi", "every": 0.1, **login, **keys})


async def read(of: MeterSensor) -> Watched:
    sensor = make(of, HERE)
    assert isinstance(sensor, PolledSensor)
    await sensor.start()
    while not sensor._readings and not sensor._faults:
        await asyncio.sleep(0.01)
    return await sensor.stop(sensor._began_s)


async def test_an_outlet_is_read_after_a_login_that_is_made_once(strip: Strip, url: str) -> None:
    sensor = make(spec(url, channel=1), HERE)
    await sensor.start()
    while len(sensor._readings) < 3:
        await asyncio.sleep(0.01)
    found = await sensor.stop(sensor._began_s)
    assert {s.value for s in found.samples if s.unit == "W"} == {71.25}
    assert strip.logins == 1
    assert all(len(cookie.removeprefix("AIROS_SESSIONID=")) == 32 for cookie in strip.sessions)


async def test_a_session_that_ended_is_begun_anew(strip: Strip, url: str) -> None:
    sensor = make(spec(url), HERE)
    await sensor.start()
    while not sensor._readings:
        await asyncio.sleep(0.01)
    strip.sessions.clear()
    before = len(sensor._readings)
    while len(sensor._readings) < before + 2:
        await asyncio.sleep(0.01)
    assert not (await sensor.stop(sensor._began_s)).faults
    assert strip.logins == 2


async def test_a_wrong_password_is_tried_once_and_an_outlet_that_does_not_measure_has_no_value(strip: Strip, url: str) -> None:
    found = await read(spec(url, **{"password-from": "T_WRONG"}))
    assert len(found.faults) == 1
    found = await read(spec(url, **{"password-from": "T_WRONG"}))
    assert (strip.logins, found.samples) == (1, [])
    strip.enabled[0] = 0
    found = await read(spec(url))
    assert "sensors[0].power is not valid" in found.faults[0]


def test_an_outlet_is_switched(strip: Strip, url: str) -> None:
    login = {"user": "lab", "password-from": "T_RIGHT"}
    power = HostPower("dut", PlugPower.model_validate({"model": "mfi", "channel": 1, "url": url, "may-switch": True, **login}))
    power.turn(on=False)
    assert (strip.output, power.is_on()) == ([1, 0], False)
    power.turn(on=True)
    assert strip.output == [1, 1]
    gone = HostPower("dut", PlugPower.model_validate({"model": "mfi", "channel": 7, "url": url, **login}))
    with pytest.raises(HostError, match="outlet 7"):
        gone.is_on()


@pytest.mark.parametrize("made", [lambda keys: MeterSensor(name="wall", **keys), lambda keys: PlugPower(**keys)])
def test_who_has_no_login_is_told_what_to_write(made: Any) -> None:
    with pytest.raises(ValueError, match="password-from:"):
        made({"url": "http://192.0.2.1", "model": "mfi"})
