"""Devices on the network that drip, never end, or say numbers that nothing has: each exchange has a bound."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dutlab import power
from dutlab.bounds import ANSWER_BYTES, LARGEST_NUMBER, MESSAGE_BYTES, MESSAGES, QUANTITIES, RANGES
from dutlab.errors import HostError
from dutlab.hosts.bounded import run_bounded
from dutlab.hosts.local import LocalHost
from dutlab.power import HostPower
from dutlab.sensors import asked, mqtt, snmp
from dutlab.sensors.asked import PolledSensor
from dutlab.sensors.meter import Meter, make
from dutlab.sensors.oddities import Amount, FaultTally, in_range
from dutlab.sensors.sensor import SensorSite
from dutlab.spec.power import CommandPower, PlugPower, RedfishPower
from dutlab.spec.sensors import MeterSensor, MqttSensor, SnmpSensor
from processes import ended, eventually

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DRIPS = {
    "head": (HEAD, b"X"),
    "heads": (HEAD, b"X: y\r\n"),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunks": (CHUNKED, b"1\r\n \r\n"),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n"),
    "body": (HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
    "silence": (b"", b""),
}


@contextmanager
def dripping(begins: bytes, drop: bytes) -> Iterator[str]:
    """The address of a device that answers each question with `begins`, and then `drop` again and again."""
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(begins)
            while not over.wait(0.005):
                connection.sendall(drop)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listens.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listens:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listens.getsockname()[1]}"
        finally:
            over.set()
            listens.shutdown(socket.SHUT_RDWR)


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "PATIENCE_S", 0.3)
    monkeypatch.setattr(power, "_AGAIN_S", 0.0)


@pytest.mark.parametrize("drip", DRIPS)
def test_a_device_that_drips_has_one_deadline_for_the_whole_answer(drip: str) -> None:
    with dripping(*DRIPS[drip]) as url:
        meter = Meter(MeterSensor(name="wall", url=url, model="shelly"))
        with pytest.raises((TimeoutError, ValueError)) as refused:  # ValueError: more heads than HTTP has
            meter.read()
        meter.close()
        assert isinstance(refused.value, TimeoutError) or drip == "heads"


@pytest.mark.parametrize("drip", ["head", "continue", "trailers"])
def test_what_switches_power_on_again_has_a_limit_and_says_what_to_do_by_hand(drip: str) -> None:
    with dripping(*DRIPS[drip]) as url:
        spec = PlugPower.model_validate({"model": "shelly", "url": url, "channel": 0, "may-switch": True})
        with pytest.raises(HostError) as refused:
            HostPower("dut", spec).switch_on()
    assert refused.value.host == "dut" and "undo" in refused.value.remedy


def test_power_is_switched_on_by_a_switch_that_answers_the_last_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tries, script = tmp_path / "tries", tmp_path / "switch"
    script.write_text(f'echo >> {tries}; test "$(wc -l < {tries})" -ge 3 && echo on')
    spec = CommandPower.model_validate({"on": "true", "off": "true", "status": f"sh {script}", "may-switch": True})
    HostPower("dut", spec).switch_on()
    assert len(tries.read_text().splitlines()) == power.SWITCH_TRIES
    monkeypatch.setattr(power, "SWITCH_TRIES", 1)
    tries.unlink()
    with pytest.raises(HostError):
        HostPower("dut", spec).switch_on()


def test_a_switch_that_answers_other_json_than_documented_is_an_error_of_its_host() -> None:
    said = b'{"Actions": [], "Members": [{"@odata.id": "/redfish/v1/Systems/1"}], "PowerState": "Off"}'
    spec = RedfishPower.model_validate({"url": "http://127.0.0.1:1", "user": "u", "password-from": "PATH", "may-switch": True})
    with dripping(HEAD + b"Content-Length: %d\r\n\r\n" % len(said) + said, b"") as url, pytest.raises(HostError):
        HostPower("dut", spec.model_copy(update={"url": url})).turn(on=True)


def test_a_command_that_never_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        run_bounded(["sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/child; wait"], timeout_s=1.0, most_bytes=100)
    assert eventually(lambda: ended(int((tmp_path / "child").read_text())))
    with pytest.raises(ValueError, match="100 bytes"):
        run_bounded(["cat", "/dev/zero"], timeout_s=60.0, most_bytes=100)
    assert run_bounded(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=60.0, most_bytes=100) == (3, b"out\n", b"err\n")
    child = ["sh", "-c", f"sleep 1000 & echo $! >{tmp_path}/child; echo out; exit 4"]
    assert run_bounded(child, timeout_s=600.0, most_bytes=100) == (4, b"out\n", b""), "it has the pipes still"
    assert eventually(lambda: ended(int((tmp_path / "child").read_text())))
    ten = run_bounded(["head", "-c", "100000", "/dev/zero"], timeout_s=60.0, most_bytes=100_000, kept_bytes=10)
    assert ten.out == bytes(10)


@pytest.mark.parametrize("number", ["1" * 400, "1e999", "NaN", "-1e25", "-Infinity", "1" * 5000])
def test_a_number_that_no_meter_shows_is_a_fault_of_the_reading_and_not_the_end_of_the_thread(number: str) -> None:
    said = b'{"switch:0": {"apower": %s}}' % number.encode()
    with dripping(HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(said) + said, b"") as url:
        sensor = make(MeterSensor(name="wall", url=url, model="shelly", every=0.1), SensorSite(LocalHost("here")))
        found = asyncio.run(_watch(sensor))
    assert found.faults and not [s for s in found.samples if s.name == "wall"]


async def _watch(sensor: PolledSensor):
    await sensor.start()
    while len(sensor._faults) < 2:
        await asyncio.sleep(0.01)
    return await sensor.stop(0.0)


def test_readings_have_a_range_by_their_unit() -> None:
    for unit, (low, high) in (*RANGES.items(), ("VA", (-LARGEST_NUMBER, LARGEST_NUMBER))):
        good, odd = in_range(
            {"a": Amount(low, unit), "b": Amount(high, unit), "c": Amount(high * 1.01, unit), "d": Amount(float("nan"), unit)}
        )
        assert (list(good), len(odd)) == (["a", "b"], 2)


def test_a_device_with_a_crowd_of_readings_is_cut_and_faults_are_counted() -> None:
    good, odd = in_range({str(n): Amount(n, "") for n in range(QUANTITIES + 5)})
    assert (len(good), len(odd)) == (QUANTITIES, 1)
    faults = FaultTally()
    assert faults.words == []
    faults.add("one", "two")
    faults.add()
    faults.add("three")
    assert len(faults) == 3 and faults.words == ["one (3 times)"]


def test_a_broker_that_floods_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt.paho.Client, "connect", lambda *_: None)
    monkeypatch.setattr(mqtt.paho.Client, "loop_start", lambda *_: None)
    heard = mqtt.Subscription(MqttSensor(name="wall", address=("127.0.0.1", 1), topic="t"))
    for n in range(10 * MESSAGES):
        heard._hear(b"%d" % n)
    assert len(heard._heard) == MESSAGES
    assert heard.read() == {"wall": Amount(10 * MESSAGES - 1, "W")}
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x" * 100)
        heard._client._sock = ours
        assert heard._client._sock_recv(MESSAGE_BYTES)
        with pytest.raises(ConnectionError):
            heard._client._sock_recv(20_000_000)
    with pytest.raises(ValueError, match="20000000"):
        heard.read()
    heard._hear(b"1" * 400)
    with pytest.raises(ValueError, match="neither a number"):
        heard.read()


def test_garbage_is_no_answer_of_an_snmp_agent_and_nothing_on_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    garbage = itertools.cycle([b"\x30\x84\xff\xff\xff\xff", b"", b"\x30\x03\x02\x01", bytes(range(256)), b"\x30" * 1400])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))

        def answer() -> None:
            with suppress(OSError):
                while True:
                    _, who = agent.recvfrom(65536)
                    for _ in range(5):
                        agent.sendto(next(garbage), who)

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{agent.getsockname()[1]}"
        spec = SnmpSensor(name="pdu", address=address, oid="1.3.6.1.2.1.1.3.0")
        source = snmp.SnmpAgent(spec)
        with pytest.raises((TimeoutError, ValueError)):
            source.read()
        source.close()
    assert capfd.readouterr() == ("", "")


def test_an_answer_that_is_longer_than_any_is_refused() -> None:
    body = b"0" * 65536
    with dripping(HEAD + b"Content-Length: 100000000\r\n\r\n", body * 8) as url, pytest.raises((TimeoutError, ValueError)):
        Meter(MeterSensor(name="wall", url=url, model="shelly")).read()
    assert ANSWER_BYTES < 100_000_000
