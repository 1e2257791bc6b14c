"""Passwords: from a variable or from a real keyring to a real OpenSSH server that asks for one, and to nowhere else."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from keyrings.alt.file import PlaintextKeyring

from capability import have_sshd, need, need_program
from dutlab.hosts.host import Done
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NetnsHost
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from password_sshd import USER, start, stop
from processes import LIMIT_S
from refusal import refused

SECRET = "correct-horse-battery-staple-7f3a"
KEYRING = {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring"}
# What a step could see of others: the command line and the environment of every process of the machine.
LOOK = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"


@pytest.fixture
def door(request: pytest.FixtureRequest, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The ssh_config of a server that asks for SECRET, by the method that is the parameter."""
    need("sshd", have_sshd())
    need_program("openssl")
    asks = getattr(request, "param", "password")
    need("pam", asks == "password" or Path("/etc/pam.d/sshd").exists())
    subprocess.run(["ip", "-n", namespace, "link", "set", "dev", "lo", "up"], check=True)
    yield start(tmp_path_factory.mktemp("ssh") / "files", namespace, SECRET, asks=asks)
    stop(namespace)


@pytest.fixture
def login(door: Path) -> Login:
    return Login("box", "box", (door,), {"DUTLAB_PASSWORD_BOX": SECRET})


@pytest.fixture
def keyring_folder(tmp_path_factory: pytest.TempPathFactory, python: str, python_env: dict[str, str]) -> Path:
    """Where the keyring program keeps SECRET for host `box`, put there as its user would."""
    folder = tmp_path_factory.mktemp("keyring")
    keep = [python, "-m", "keyring", "set", "dutlab", "box"]
    subprocess.run(keep, env={**python_env, **KEYRING, "XDG_DATA_HOME": str(folder)}, input=SECRET, text=True, check=True)
    return folder


async def test_a_password_comes_from_its_variable_and_is_shown_by_nobody(login: Login) -> None:
    done: list[Done] = []
    host = SshHost(login, done.append)
    assert (await host.run(["id", "-un"])).text == f"{USER}\n"
    await host.close()
    assert SECRET not in repr(login) + repr(host.login) + repr(done)


@pytest.mark.parametrize("door", ["password", "keyboard-interactive"], indirect=True)
async def test_both_ways_to_ask_are_answered_and_a_wrong_password_is_not_repeated(login: Login) -> None:
    host = SshHost(login)
    assert (await host.run(["id", "-un"])).text == f"{USER}\n"
    await host.close()
    wrong = await refused(replace(login, environment={"DUTLAB_PASSWORD_BOX": SECRET[::-1]}))
    assert "no key or password was accepted" in wrong
    assert SECRET[::-1] not in wrong


async def test_a_keyring_that_cannot_be_read_is_named_when_it_was_needed(
    door: Path, keyring_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(keyring_folder))
    monkeypatch.setattr("keyring.core._keyring_backend", PlaintextKeyring())  # whatever this machine would choose
    (kept,) = keyring_folder.rglob("*.cfg")
    kept.write_text(SECRET)  # damaged: a line outside all sections, which the error of its reader repeats
    said = await refused(Login("box", "box", (door,), {}))
    assert "no key or password was accepted" in said
    assert "the keyring could not be read (MissingSectionHeaderError): check that `keyring get dutlab box` works" in said
    assert SECRET not in said


async def test_a_password_is_given_to_nothing_that_is_started(monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    monkeypatch.setenv("DUTLAB_PASSWORD_BOX", SECRET)
    for host in (LocalHost("here"), NetnsHost("there", namespace)):
        assert SECRET not in (await host.run(["env"])).text


@pytest.mark.parametrize("kept_in", ["variable", "keyring"])
def test_no_record_log_journal_process_or_environment_holds_the_password(
    kept_in: str, python: str, python_env: dict[str, str], door: Path, keyring_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(door.read_text())
    (tmp_path / "t.cfg").write_text("[Workers]\nbox: box.cfg\nhere: here.cfg\n")
    for role, step in (("box", "env"), ("here", f'sh -c "{LOOK}"')):
        (tmp_path / f"{role}.cfg").write_text(
            f"[Coordinator]\nplayer: x\n[Startup]\n[Run]\nstep1: {step}\nstep2: false\n[Collect]\n[Reset]\n"
        )
    argv = [python, "-m", "dutlab", "conductor", "run", "t.cfg", "--map", "box=ssh:box", "--map", "here=local", "--take-over"]
    secret = {"variable": {"DUTLAB_PASSWORD_BOX": SECRET}, "keyring": {**KEYRING, "XDG_DATA_HOME": str(keyring_folder)}}[kept_in]
    env = {**python_env, "HOME": str(tmp_path), **secret}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 1, done.stderr  # `false` failed, so the reasons of failures are written too
    raw = next(tmp_path.glob("runs/*/trials/0001/raw"))
    assert f"USER={USER}" in (raw / "box/run/01.out").read_text()  # it was let in, by the password alone
    seen = (raw / "here/run/01.out").read_text()
    assert "dutlab\nconductor\nrun" in seen and f"HOME={tmp_path}" in seen  # the controller itself was looked at
    if kept_in == "variable":  # who sets a variable shows it to root: in the controller's own environment, once, and in no other
        assert seen.count(SECRET) == 1
        (raw / "here/run/01.out").write_text(seen.replace(f"DUTLAB_PASSWORD_BOX={SECRET}", ""))
    written = [file.read_bytes() for folder in (tmp_path, door.parent) for file in folder.rglob("*") if file.is_file()]
    assert len(written) > 10
    for said in [*written, done.stdout.encode(), done.stderr.encode()]:
        assert SECRET.encode() not in said
        assert base64.b64encode(SECRET.encode()) not in said  # as this keyring keeps it
    for place in (Path("/var/tmp"), Path("/var/run")):
        assert not [lease for lease in place.glob("dutlab-lease-*") if lease.stat().st_uid != os.getuid()]
