"""The service of the Debian package: its unit names a command that dutlab takes, and nothing but loopback."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

from dutlab.cli.serve import serve

ROOT = Path(__file__).parents[2]


def service() -> configparser.SectionProxy:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(ROOT / "scripts" / "dutlab-serve.service")
    return read["Service"]


def test_the_unit_serves_on_loopback_without_control() -> None:
    program, command, *options = shlex.split(service()["ExecStart"])
    assert (program, command) == ("/usr/bin/dutlab", "serve")
    asked = serve.make_context("serve", options).params
    assert asked["bind"] == "127.0.0.1"
    assert not asked["with_control"]
    assert service()["IPAddressDeny"] == "any"
    assert service()["IPAddressAllow"] == "localhost"


def test_the_lock_that_the_package_is_made_of_has_what_serving_needs() -> None:
    needed = re.search(r'^serve = \["(\w+)[^"]*", "(\w+)', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert needed is not None
    locked = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert set(needed.groups()) <= set(locked)


def test_the_folder_that_the_unit_shows_is_the_one_that_the_page_names() -> None:
    folder = shlex.split(service()["ExecStart"])[-1]
    assert f"--runs {folder} " in (ROOT / "docs/how-to/install.md").read_text()
