"""scripts/layers and tests/layers.toml: which layers of tests a change needs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "tests" / "layers.toml").read_text())
FOLDERS = {"faults": "tests/faults", "browser": "tests/browser", "servers": "tests/servers", "vm": "tests/vm", "busy": "tests"}


@pytest.fixture(scope="module")
def layers() -> ModuleType:
    loader = SourceFileLoader("layers", str(ROOT / "scripts" / "layers"))
    spec = spec_from_loader("layers", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("changed", "whole"),
    [
        ([], set()),
        (["README.md"], set()),
        (["src/dutlab/report/pages/html.py"], {"browser"}),
        (["engine/xdp/src/lib.rs", "src/dutlab/store/object_store.py"], {"vm", "servers", "faults"}),
        (["Cargo.lock"], set(FOLDERS)),
        (["tests/layers.toml"], set(FOLDERS)),
    ],
)
def test_a_layer_is_whole_where_one_of_its_paths_changed(layers: ModuleType, changed: list[str], whole: set[str]) -> None:
    rows = list(layers.choices(TABLE, changed))
    assert {layer for layer, extent, _ in rows if extent == "whole"} == whole
    assert {layer for layer, _, _ in rows} == set(FOLDERS)


def test_every_path_of_the_table_is_there(layers: ModuleType) -> None:
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    match = layers.matches
    patterns = [*TABLE["everything"]["paths"], *(p for layer in TABLE["layers"].values() for p in layer["paths"])]
    assert [p for p in patterns if not any(match([p], files))] == []


def test_every_layer_has_a_smoke_test() -> None:
    missing = [
        layer
        for layer, folder in FOLDERS.items()
        if not any(re.search(r"mark\.smoke\b", path.read_text()) for path in (ROOT / folder).rglob("test_*.py"))
    ]
    assert missing == []


def test_an_unknown_base_runs_every_layer_whole_and_says_so(layers, monkeypatch, capsys) -> None:
    monkeypatch.delenv("CI_ALL", raising=False)
    monkeypatch.setattr("sys.argv", ["layers", "--since", "0" * 40])
    layers.main()
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {row[1] for row in rows} == {"whole"} and all("--since" in row[2] for row in rows)
