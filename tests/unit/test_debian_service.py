"""The services of the Debian package: their units name commands that dutlab takes; one serves loopback alone, the other has what measuring takes."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from pathlib import Path

from dutlab.cli.campaign import worker
from dutlab.cli.serve import serve

ROOT = Path(__file__).parents[2]


def service(name: str = "serve") -> configparser.SectionProxy:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(ROOT / "scripts" / f"dutlab-{name}.service")
    return read["Service"]


def test_the_unit_serves_on_loopback_without_control() -> None:
    program, command, *options = shlex.split(service()["ExecStart"])
    assert (program, command) == ("/usr/bin/dutlab", "serve")
    asked = serve.make_context("serve", options).params
    assert asked["bind"] == "127.0.0.1"
    assert not asked["with_control"]
    assert service()["IPAddressDeny"] == "any"
    assert service()["IPAddressAllow"] == "localhost"


def test_the_worker_takes_its_options_from_the_file_that_the_page_names() -> None:
    page = (ROOT / "docs/how-to/many-machines.md").read_text()
    asked = re.search(r"^ *DUTLAB_WORKER=(.+)$", page, re.MULTILINE)
    assert asked is not None
    program, *command, options = shlex.split(service("worker")["ExecStart"])
    assert (program, command, options) == ("/usr/bin/dutlab", ["campaign", "worker"], "$DUTLAB_WORKER")
    assert worker.make_context("worker", shlex.split(asked[1])).params["testbeds"]
    assert service("worker")["EnvironmentFile"] in page


def test_namespaces_that_the_worker_makes_are_the_machines() -> None:
    """Options of systemd.exec(5) that give a service mounts of its own: a lab made below them would be nobody else's to see or to remove."""
    apart = r"Private\w+|Protect\w+|Read\w+Paths|InaccessiblePaths|Bind\w+|TemporaryFileSystem|RootDirectory|DynamicUser|MountFlags|RestrictNamespaces"
    assert not [key for key in service("worker") if re.fullmatch(apart, key)]


def test_the_lock_that_the_package_is_made_of_has_what_serving_fleets_stores_and_sensors_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {re.split(r"[^\w-]", asked)[0] for name in ("serve", "fleet", "store", "power") for asked in extras[name]}
    locked = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert needed <= set(locked)


def test_both_locks_pin_one_version_of_each_package() -> None:
    pinned = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
    ours, tests = (dict(pinned.findall((ROOT / name).read_text())) for name in ("requirements.lock", "requirements-dev.lock"))
    assert {name: ours[name] for name in ours.keys() & tests.keys()} == {name: tests[name] for name in ours.keys() & tests.keys()}


def test_the_folder_that_the_unit_shows_is_the_one_that_the_page_names() -> None:
    folder = shlex.split(service()["ExecStart"])[-1]
    assert f"--runs {folder} " in (ROOT / "docs/how-to/install.md").read_text()
