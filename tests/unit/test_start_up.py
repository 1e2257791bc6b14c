"""The parts that make a start short: objects by path, models without a schema, deferred metadata, the end of the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dutlab.by_path import ByPath, named
from dutlab.spec.generators import ENGINE
from dutlab.spec.generators.engine import EngineModel
from dutlab.spec.model import SpecModel
from dutlab.spec.sensor import DEFAULT_WATCH
from dutlab.spec.sensors import WATCHES
from dutlab.spec.testbed import AboutSpec, AccountSpec, ArraySpec, HostSpec
from dutlab.spec.traffic import FlowSet, Traffic

DEFERRED = """
import sys
from dutlab.cli.packages import defer_metadata
defer_metadata()
from importlib.metadata import entry_points
import importlib, importlib.metadata
assert not hasattr(sys.modules["importlib.metadata"], "__file__")
assert "email" not in sys.modules
"""


@pytest.mark.parametrize("model", [AboutSpec, AccountSpec, ArraySpec, EngineModel, FlowSet, Traffic], ids=lambda model: model.__name__)
def test_a_usual_model_is_the_one_that_is_checked(model: type[SpecModel]) -> None:
    usual, checked = model.usual(), model.model_validate({})
    assert usual == checked
    assert usual.model_dump_json() == checked.model_dump_json()


def test_a_host_shares_no_mutable_default_and_equals_one_with_its_defaults_written() -> None:
    one = HostSpec(name="a", ssh="b")
    assert one == HostSpec(name="a", ssh="b", array=ArraySpec(), account=AccountSpec(), about=AboutSpec())
    assert HostSpec.model_validate_json(one.model_dump_json()) == one
    assert EngineModel() == ENGINE


def test_the_sensors_of_every_experiment_can_be_watched_without_a_look_at_the_kinds() -> None:
    assert {*DEFAULT_WATCH} <= {*WATCHES}


def test_a_registry_imports_an_object_when_it_is_asked_for() -> None:
    registry = ByPath[object]({"decoder": "json:JSONDecoder.decode", "none": "no_such_module:x"})
    assert list(registry) == ["decoder", "none"] and len(registry) == 2 and "none" in registry and "other" not in registry
    assert registry["decoder"] is named("json:JSONDecoder.decode")
    assert registry.get("other") is None
    with pytest.raises(ImportError):
        registry["none"]
    with pytest.raises(KeyError):
        registry["other"]


@pytest.mark.parametrize(
    "use",
    [
        "assert importlib.metadata.version('click')",
        "assert entry_points(group='console_scripts') is not None",
        "from importlib.metadata import PackageNotFoundError; assert issubclass(PackageNotFoundError, ImportError)",
        "import inspect; inspect.getmodule(int); assert sys.modules['importlib.metadata'].version('click')",
    ],
)
def test_metadata_of_packages_is_imported_at_its_first_use(use: str) -> None:
    done = "assert importlib.metadata.__file__ and sys.modules['importlib.metadata'] is importlib.metadata"
    program = f"{DEFERRED}\n{use}\n{done}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("words", "status"), [(("--version",), 0), (("plan", "/no/such/file"), 2), (("no-such-command",), 2), (("limits", "ethernet"), 2)]
)
def test_the_process_ends_with_the_status_and_the_whole_output_of_the_command(words: tuple[str, ...], status: int) -> None:
    with_end, without = (
        subprocess.run([sys.executable, "-c", f"from dutlab.cli.main import {name}; {name}()", *words], capture_output=True, check=False)
        for name in ("program", "main")
    )
    assert (with_end.returncode, with_end.stdout, with_end.stderr) == (status, without.stdout, without.stderr)
    assert with_end.stdout or with_end.stderr


def test_exit_functions_run_before_the_process_ends_and_a_full_disk_is_a_failure() -> None:
    program = "import atexit; from dutlab.cli.main import program; atexit.register(print, 'last words'); program()"
    ended = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines()[1:] == [], "functions that were registered before main() are those of another program"
    late = "import click; from dutlab.cli.main import program, dutlab; import atexit\n"
    late += "dutlab.invoke = lambda ctx: atexit.register(print, 'last words')\nprogram()"
    ended = subprocess.run([sys.executable, "-c", late, "plan", "x"], capture_output=True, text=True, check=False)
    assert "last words" in ended.stdout, ended.stderr
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-m", "dutlab", "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1 and "No space left" in ended.stderr
