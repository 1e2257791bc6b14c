"""Meters that tell by HTTP: a real server on this machine says what the makers document, and what breaks."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import keyring
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from keyrings.alt.file import PlaintextKeyring

from dutlab.errors import HostError
from dutlab.hosts.local import LocalHost
from dutlab.sensors import asked
from dutlab.sensors.asked import PolledSensor
from dutlab.sensors.meter import make
from dutlab.sensors.oddities import Amount, oddities
from dutlab.sensors.sensor import WATCH_COST, SensorSite, Watched
from dutlab.spec.sensors import MeterSensor
from golden import Golden
from meter_server import Answers, serve

SHELLY = '{"sys":{"uptime":9},"switch:0":{"id":0,"output":true,"apower":70.4,"voltage":231.0},"switch:1":{"id":1,"apower":15.1}}'
GEN1 = '{"relays":[{"ison":true}],"meters":[{"power":90.25,"is_valid":true,"timestamp":1792000000,"total":12}],"emeters":[]}'
TASMOTA = '{"StatusSNS":{"Time":"2026-11-22T10:00:00","ENERGY":{"Total":3.1,"Power":70,"Voltage":230}}}'
HERE = SensorSite(LocalHost("this-machine"))
TWO = '{"StatusSNS":{"ENERGY":{"Power":[70,15]}}}'


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def url(answers: Answers) -> Iterator[str]:
    with serve(answers) as url:
        yield url


async def read(spec: MeterSensor, enough: Callable[[PolledSensor], Any]) -> Watched:
    """What the meter told until there is `enough`."""
    sensor = make(spec, HERE)
    told = list[float]()
    await sensor.start(lambda _host, _name, values: told.append(values[spec.name]))
    began_s = sensor._began_s
    while not enough(sensor):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    found = await sensor.stop(began_s)
    assert told[:1] == [s.value for s in found.samples if s.name == spec.name][:1]
    return found


@pytest.mark.parametrize(
    ("model", "channel", "said", "watts", "path"),
    [
        ("shelly", 0, SHELLY, 70.4, "/rpc/Shelly.GetStatus"),
        ("shelly", 1, SHELLY, 15.1, "/rpc/Shelly.GetStatus"),
        ("shelly", 0, '{"em1:0":{"id":0,"act_power":231.5,"pf":0.9}}', 231.5, "/rpc/Shelly.GetStatus"),
        ("shelly-gen1", 0, GEN1, 90.25, "/status"),
        ("shelly-gen1", 0, '{"emeters":[{"power":12.5,"is_valid":true}]}', 12.5, "/status"),
        ("tasmota", 0, TASMOTA, 70.0, "/cm?cmnd=Status%208"),
        ("tasmota", 1, TWO, 15.0, "/cm?cmnd=Status%208"),
    ],
)
async def test_each_model_is_asked_and_understood_as_its_maker_documents_it(answers, url, model, channel, said, watts, path) -> None:
    answers.body = said.encode()
    found = await read(MeterSensor(name="wall", url=url, model=model, channel=channel, host="dut", every=0.1), lambda m: m._readings)
    sample = next(s for s in found.samples if s.name == "wall")
    assert (sample.host, sample.sensor, sample.unit, sample.value) == ("dut", "wall", "W", watts)
    assert answers.asked[0] == (path, "")
    assert found.faults == ()


async def test_any_json_has_a_number_somewhere_in_any_unit(answers: Answers, url: str) -> None:
    answers.body = b'{"outlets": [{"power_mw": 1}, {"power_mw": 70400}]}'
    spec = MeterSensor(name="pdu", url=f"{url}/api?x=1", value="outlets[1].power_mw", scale=0.001, every=0.1)
    found = await read(spec, lambda m: len(m._readings) > 1)
    assert {(s.host, s.value) for s in found.samples if s.name == "pdu"} == {("pdu", 70.4)}
    assert any(s.name == WATCH_COST and s.host == "this-machine" for s in found.samples)
    assert answers.asked[0][0] == "/api?x=1"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, "<html>log in</html>", "not JSON"),
        (200, "[" * 1_100_000, "1048576 bytes"),
        (200, "[" * 60_000, "not JSON"),
        (200, '{"switch:0":{"output":true}}', "pm1:0.apower or em1:0.act_power"),
        (200, '{"switch:0":{"apower":"70"}}', "no number at switch:0.apower"),
        (200, '{"switch:0":{"apower":true}}', "no number at switch:0.apower"),
        (302, "", "302"),
        (500, "", "500"),
    ],
)
async def test_what_is_no_number_is_a_fault_and_no_value(answers: Answers, url: str, status: int, body: str, said: str) -> None:
    answers.status, answers.body = status, body.encode()
    found = await read(MeterSensor(name="wall", url=url, model="shelly", every=0.1), lambda m: len(m._faults) > 1)
    assert not [s for s in found.samples if s.name == "wall"]
    assert found.faults[0].startswith("wall: ") and said in found.faults[0] and "times)" in found.faults[0]


async def test_what_calls_itself_not_valid_is_no_value(answers: Answers, url: str) -> None:
    answers.body = b'{"meters":[{"power":0.0,"is_valid":false}]}'
    found = await read(MeterSensor(name="wall", url=url, model="shelly-gen1", every=0.1), lambda m: m._faults)
    assert "meters[0].power is not valid" in found.faults[0]
    assert not [s for s in found.samples if s.name == "wall"]


async def test_a_meter_that_refuses_a_password_is_asked_once(answers: Answers, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUG_PASSWORD", "secret word")
    answers.status = 401
    spec = MeterSensor(name="wall", url=url, model="shelly-gen1", user="admin", password_from="PLUG_PASSWORD", every=0.1)
    sensor = make(spec, HERE)
    await sensor.start()
    while not sensor._faults:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    found = await sensor.stop(0.0)
    assert answers.asked == [("/status", "Basic YWRtaW46c2VjcmV0IHdvcmQ=")]
    assert "401" in found.faults[0] and "secret" not in repr(found) + repr(spec)
    answers.status = 403
    found_again = [await read(spec, lambda m: m._faults) for _ in range(4)]
    assert len(answers.asked) == 1, "nor in the next trials: a fourth wrong password might lock the account"
    assert {of.faults[0] for of in found_again} == {found.faults[0]}


async def test_a_shelly_that_asks_for_a_digest_gets_one(answers: Answers, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUG_PASSWORD", "secret word")
    answers.digest_of = ("admin", "secret word")
    answers.body = SHELLY.encode()
    spec = MeterSensor(name="wall", url=url, model="shelly", user="admin", password_from="PLUG_PASSWORD", every=0.1)
    found = await read(spec, lambda m: m._readings)
    assert next(s.value for s in found.samples if s.name == "wall") == 70.4
    assert found.faults == ()
    assert answers.asked[0][1] == "", "nothing is told before it is asked for"
    monkeypatch.setenv("PLUG_PASSWORD", "wrong")
    found = await read(spec.model_copy(update={"every": 0.2}), lambda m: m._faults)
    assert "401" in found.faults[0]


def test_a_password_may_lie_in_the_keyring_and_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("keyring.core._keyring_backend", PlaintextKeyring())  # whatever this machine would choose
    keyring.set_password("dutlab", "PDU_PASSWORD", "of the keyring")
    assert asked.secret("PDU_PASSWORD") == "of the keyring"
    monkeypatch.setenv("PDU_PASSWORD", "of the environment")
    assert asked.secret("PDU_PASSWORD") == "of the environment"
    with pytest.raises(HostError) as refused:
        asked.secret("UPS_PASSWORD")
    assert "keyring set dutlab UPS_PASSWORD" in (refused.value.remedy or "")


async def test_a_password_that_is_not_in_the_environment_is_named_before_anything_is_asked(answers: Answers, url: str) -> None:
    spec = MeterSensor(name="wall", url=url, model="shelly-gen1", user="admin", password_from="NO_SUCH_PASSWORD")
    with pytest.raises(HostError, match="NO_SUCH_PASSWORD"):
        await make(spec, HERE).start()
    assert answers.asked == []


async def test_a_slow_meter_holds_no_trial_up_and_is_a_fault(answers: Answers, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers.wait = threading.Event()
    found = await read(MeterSensor(name="wall", url=url, model="shelly"), lambda _: answers.asked)
    assert found.samples == []
    monkeypatch.setattr(asked, "PATIENCE_S", 0.2)
    answers.wait = threading.Event()
    found = await read(MeterSensor(name="wall", url=url, model="shelly", every=0.1), lambda m: m._faults)
    assert "0.2 s" in found.faults[0]


async def test_a_meter_that_is_gone_is_a_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = await read(MeterSensor(name="wall", url=f"http://127.0.0.1:{port}", model="shelly", every=0.1), lambda m: m._faults)
    assert "refused" in found.faults[0]


def _certificate(folder: Path) -> tuple[Path, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "meter")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    )  # fmt: skip
    path = folder / "meter.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path, hashlib.sha256(made.public_bytes(serialization.Encoding.DER)).hexdigest()


async def test_a_certificate_that_nobody_knows_is_refused_unless_it_is_pinned(answers: Answers, tmp_path: Path) -> None:
    answers.body = SHELLY.encode()
    path, pin = _certificate(tmp_path)
    with serve(answers, path) as url:
        found = await read(MeterSensor(name="wall", url=url, model="shelly", every=0.1), lambda m: m._faults)
        assert "not trusted" in found.faults[0]
        found = await read(MeterSensor(name="wall", url=url, model="shelly", certificate="0" * 64, every=0.1), lambda m: m._faults)
        assert pin in found.faults[0]
        assert answers.asked == [], "nothing is told to who is not known"
        found = await read(MeterSensor(name="wall", url=url, model="shelly", certificate=pin, every=0.1), lambda m: m._readings)
        assert next(s.value for s in found.samples) == 70.4


def _odd(values: list[float], *, every: float = 1.0, ended_s: float | None = None, unit: str = "W") -> list[str]:
    readings = [(float(at) * every, {"wall": Amount(value, unit)}) for at, value in enumerate(values)]
    return list(oddities(readings, 0.0, len(values) * every if ended_s is None else ended_s, every_s=every))


def test_what_makes_readings_doubtful_is_said_and_right_ones_have_no_doubt(golden: Golden) -> None:
    assert _odd([70.1, 70.3, 69.9, 90.2, 90.4, 15.0, 15.1]) == []
    assert _odd([70.0] * 100) == [], "a meter in whole watts may say the same for long"
    assert _odd([71.3] * 10) == []
    assert _odd([70.0, 0.0]) == []
    assert _odd([-12.0, -11.0], unit="degC") == []
    # What makes readings doubtful is said.
    odd: list[tuple[list[float], float | None]] = [
        ([70.0, -3.0], None),
        ([0.0, 0.0, 0.0], None),
        ([71.3] * 40, None),
        ([70.0, 900.0, 71.0], None),
        ([70.0, 0.0, 71.0], None),
        ([70400.0, 70500.0], None),
        ([70.0, 71.0], 13.0),
        ([], 10.0),
    ]
    said = [_odd(values, ended_s=ended_s) for values, ended_s in odd]
    assert [len(of) for of in said] == [1] * len(odd)
    golden.check("sensor-oddities.txt", "".join(f"{of[0]}\n" for of in said))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"url": "http://admin:x@192.0.2.1", "model": "shelly"}, "password-from: VARIABLE"),
        ({"url": "ftp://192.0.2.1", "model": "shelly"}, "http or https"),
        ({"url": "http://192.0.2.1:99999", "model": "shelly"}, "not an address"),
        ({"url": "http://192.0.2.1"}, "say either model"),
        ({"url": "http://192.0.2.1", "model": "shelly", "value": "a.b"}, "say either model"),
        ({"url": "http://192.0.2.1", "value": "a..b"}, "not a place in JSON"),
        ({"url": "http://192.0.2.1", "model": "shelly", "user": "x"}, "belong together"),
        ({"url": "http://192.0.2.1", "model": "shelly", "certificate": "0" * 64}, "certificate"),
        ({"url": "http://192.0.2.1", "model": "shelly", "scale": 0}, "a number other than 0"),
        ({"url": "http://192.0.2.1/a b", "model": "shelly"}, "a character"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_to_write(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        MeterSensor(name="wall", **keys)


async def test_a_connection_that_the_device_leaves_open_is_kept_and_made_anew_where_it_was_closed() -> None:
    said, met = SHELLY.encode(), list[int]()

    def serve_two(listener: socket.socket) -> None:
        """Two answers a connection, and then it is closed without a word."""
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            met.append(0)
            with line, line.makefile("rwb") as stream:
                for _ in range(2):
                    if not stream.readline():
                        break
                    while stream.readline().strip():
                        pass
                    stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said) + said)
                    stream.flush()
                    met[-1] += 1

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_two, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        found = await read(MeterSensor(name="wall", url=url, model="shelly", every=0.1), lambda m: len(m._readings) > 4)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)
    assert found.faults == () and {s.value for s in found.samples if s.name == "wall"} == {70.4}
    assert met[:2] == [2, 2], "no question was lost, and none had a connection of its own"
