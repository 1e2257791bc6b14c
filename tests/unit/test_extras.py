"""What dutlab says where a package is missing: a command for how this dutlab was installed, of the packages that pyproject.toml has."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from capability import have_root, need
from dutlab import extras

ROOT = Path(__file__).parents[2]
ASKED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
FOR_USERS = sorted(ASKED.keys() - {"build", "dev"})


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home" / "venvs" / "dutlab-night"
    made.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(made))
    return made


@pytest.mark.parametrize("extra", FOR_USERS)
def test_an_extra_is_named_by_its_packages_because_no_index_has_dutlab(extra: str) -> None:
    assert sorted(extras.packages_of(extra)) == sorted(ASKED[extra])
    command = extras.extra_install_command(extra)
    assert "dutlab[" not in command
    assert shlex.split(command)[-len(ASKED[extra]) :] == extras.packages_of(extra)


def test_a_clone_takes_the_pip_of_its_own_environment() -> None:
    assert shlex.split(extras.install_command("keyring>=25")) == [sys.executable, "-m", "pip", "install", "keyring>=25"]


def test_pipx_injects_into_the_environment_by_its_name_and_where_it_is(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (environment / "pipx_metadata.json").touch()
    home = environment.parents[1]
    assert extras.install_command("keyring>=25") == f"env PIPX_HOME={home} pipx inject dutlab-night 'keyring>=25'"
    monkeypatch.setattr(extras.pwd, "getpwuid", lambda _: type("Entry", (), {"pw_dir": str(home.parent)}))
    assert extras.install_command("keyring>=25") == "pipx inject dutlab-night 'keyring>=25'"


def test_uv_installs_into_the_environment_of_its_tool(environment: Path) -> None:
    (environment / "uv-receipt.toml").touch()
    assert extras.install_command("paho-mqtt>=2") == f"uv pip install --python {environment} 'paho-mqtt>=2'"


def test_an_environment_without_pip_takes_the_systems(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert extras.install_command("keyring>=25") == f"python3 -m pip --python {sys.executable} install 'keyring>=25'"


def test_root_lets_the_user_install_whose_dutlab_it_is(environment: Path) -> None:
    need("root", have_root())
    (environment / "pipx_metadata.json").touch()
    os.chown(environment, 1, 1)
    owner = environment.owner()
    assert extras.install_command("keyring>=25").startswith(f"sudo -u {owner} ")
    os.chown(environment, 54321, 54321)  # whom nobody knows here, as in a container
    assert extras.install_command("keyring>=25").startswith("sudo env PIPX_HOME=")


def test_no_message_and_no_page_tells_users_to_ask_an_index_for_dutlab() -> None:
    asks = re.compile(r"(pip|pipx|uv)\b[^`\n]*(install|inject)[^`\n]*\bdutlab\[")
    pages = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert not [str(path) for path in pages if asks.search(path.read_text(encoding="utf-8"))]


def test_the_pages_name_the_packages_that_the_metadata_has() -> None:
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
    injected = {tuple(shlex.split(command)[3:]) for command in re.findall(r"`(pipx inject dutlab [^`]+)`", page)}
    assert injected == {tuple(ASKED[extra]) for extra in FOR_USERS}
    for other in ("many-machines", "watch-runs"):
        told = re.findall(r"`(pipx inject dutlab [^`]+)`", (ROOT / f"docs/how-to/{other}.md").read_text(encoding="utf-8"))
        assert told
        assert {tuple(shlex.split(command)[3:]) for command in told} <= injected


def test_a_command_that_lacks_its_packages_names_the_command_that_adds_them() -> None:
    without = "import sys; sys.modules['distributed'] = None; from dutlab.cli.main import main; main()"
    told = subprocess.run([sys.executable, "-c", without, "campaign", "scheduler"], capture_output=True, text=True, timeout=300)
    assert told.returncode == 2
    assert extras.extra_install_command("fleet") in told.stderr
