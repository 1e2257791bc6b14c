"""What may leave a machine: nothing without TLS, and no key that others can read. A real fleet with TLS is in tests/servers/test_fleet.py."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from distributed.comm import connect
from distributed.core import rpc
from pydantic import ValidationError

from dutlab.errors import InputError, TestbedError
from dutlab.runner.fence import Fence, facts_of, newest_token
from dutlab.runner.fleet.scheduler import schedule
from dutlab.runner.fleet.security import TLS, dask_address, security_for
from dutlab.runner.fleet.worker import offered, resource
from dutlab.runner.journal import Journal
from dutlab.spec.campaign import Campaign


@pytest.mark.parametrize(
    "address", ["tcp://192.0.2.1:8786", "tcp://controller.example:8786", "tcp://[2001:db8::1]:1", "tcp://0.0.0.0:8786"]
)
def test_without_tls_nothing_but_loopback_is_spoken_to(address: str) -> None:
    with pytest.raises(InputError, match="tls://"):
        security_for(address)
    with pytest.raises(ValidationError, match="tls://"):
        Campaign.model_validate({"campaign": "c", "experiments": ["e.yaml"], "fleet": address})


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tcp://[::1]:8786", "tcp://localhost:8786"])
def test_loopback_has_tls_with_a_key_of_the_user_that_no_other_can_read(address, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv(TLS, raising=False)
    first, again = security_for(address), security_for(address)
    assert first.require_encryption and dask_address(address) == address.replace("tcp", "tls")
    (kept,) = (tmp_path / "dutlab").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert {first.tls_ca_file, first.tls_client_key, again.tls_scheduler_key, again.tls_worker_cert} == {str(kept)}
    assert Campaign.model_validate({"campaign": "c", "experiments": ["e.yaml"], "fleet": address}).fleet.scheduler == address
    kept.chmod(0o644)
    with pytest.raises(InputError):
        security_for(address)


async def test_a_scheduler_on_loopback_answers_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    mine, told = security_for("tcp://127.0.0.1:0"), asyncio.Queue[str]()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "others"))
    other = security_for("tcp://127.0.0.1:0")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    serving = asyncio.create_task(schedule("tcp://127.0.0.1:0", None, told.put_nowait))
    try:
        address = (await told.get()).removesuffix(": ready for workers")
        assert address.startswith("tls://127.0.0.1:")
        async with rpc(address, connection_args=mine.get_connection_args("client")) as asked:
            assert (await asked.identity())["type"] == "Scheduler"
        strangers = [(address, other.get_connection_args("client")), (address.replace("tls", "tcp"), {})]
        for where, arguments in strangers:
            with pytest.raises(OSError):
                await connect(where, timeout=2, **arguments)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize(
    "fleet", ["controller", "tls://controller.example", "http://127.0.0.1:1", "tcp://127.0.0.1:99999", {"lease": "1s"}]
)
def test_a_fleet_that_cannot_be_is_refused(fleet: object) -> None:
    with pytest.raises(ValidationError):
        Campaign.model_validate({"campaign": "c", "experiments": ["e.yaml"], "fleet": fleet})


def test_certificates_must_be_there_and_the_key_must_be_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TLS, raising=False)
    with pytest.raises(InputError, match=f"{TLS} is not set"):
        security_for("tls://controller.example:8786")
    monkeypatch.setenv(TLS, str(tmp_path))
    (tmp_path / "ca.pem").touch()
    with pytest.raises(InputError, match=r"without cert\.pem, key\.pem"):
        security_for("tls://controller.example:8786")
    (tmp_path / "cert.pem").touch()
    (tmp_path / "key.pem").touch(0o644)
    with pytest.raises(InputError, match="others can read it"):
        security_for("tls://controller.example:8786")
    (tmp_path / "key.pem").chmod(0o600)
    assert security_for("tls://controller.example:8786").require_encryption


def test_a_worker_offers_a_testbed_to_its_own_version_alone() -> None:
    assert offered(resource("rack:1@2", "0.1.0")) == ("rack:1@2", "0.1.0")
    assert resource("rack", "0.1.0") != resource("rack", "0.2.0")
    assert offered("memory") is None


def test_a_run_whose_lease_another_took_ends_at_its_next_line_without_a_further_step(tmp_path, monkeypatch, capfd) -> None:
    mine, later = Fence(tmp_path / "fence", 9), Fence(tmp_path / "fence", 10)
    mine.put_up({"machine": "a"})
    for name, value in mine.environment.items():
        monkeypatch.setenv(name, value)
    ends = list[int]()

    def end(status: int) -> None:
        ends.append(status)
        raise SystemExit

    monkeypatch.setattr("dutlab.runner.fence.os._exit", end)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("begun")
    before = (tmp_path / "journal.jsonl").read_bytes()
    later.put_up({"machine": "b"})
    assert newest_token(tmp_path / "fence") == 10 and facts_of(tmp_path / "fence", 10) == {"machine": "b"}
    with pytest.raises(SystemExit):
        journal.write("mode-applying")
    journal.close()
    assert ends == [TestbedError.exit_status] and (tmp_path / "journal.jsonl").read_bytes() == before
    assert "another process" in capfd.readouterr().err
    assert not later.is_stale()
