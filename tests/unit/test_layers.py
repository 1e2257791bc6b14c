"""scripts/layers and tests/layers.toml: which layers of tests a change needs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import Counter
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from shares import dealt

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "tests" / "layers.toml").read_text())
FOLDERS = {
    "faults": "tests/faults",
    "browser": "tests/browser",
    "servers": "tests/servers",
    "devices": "tests/devices",
    "vm": "tests/vm",
    "exact": "tests/vm",
    "busy": "tests",
}


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
        (["engine/xdp/src/lib.rs", "src/dutlab/store/object_store.py"], {"vm", "exact", "servers", "faults"}),
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


# ---- Long tests begin first on every process, and short ones are left for the end


TESTS = Path("/tests")


def collected(**files: int) -> list[SimpleNamespace]:
    """So many tests of each file, in the order of the files; `netns_a` is /tests/netns/a."""
    return [SimpleNamespace(path=TESTS / name.replace("_", "/"), name=f"{name}-{n}") for name, count in files.items() for n in range(count)]


@pytest.mark.parametrize("processes", [2, 3, 4, 7])
@pytest.mark.parametrize(
    "files",
    [{"netns_a": 9, "netns_b": 1, "netns_c": 4, "netns_d": 2, "unit_a": 50, "unit_b": 41}, {"netns_a": 5, "netns_b": 2}, {"unit_a": 9}, {}],
)
def test_every_test_runs_once_and_the_tests_of_a_long_file_stay_together(files: dict[str, int], processes: int) -> None:
    items = collected(**files)
    order = dealt(items, processes, [TESTS / "netns"])  # type: ignore[arg-type]
    assert Counter(i.name for i in order) == Counter(i.name for i in items)
    for name, count in files.items():
        at = [n for n, item in enumerate(order) if item.name.startswith(f"{name}-")]
        if name.startswith("netns") and count:
            assert at == list(range(at[0], at[0] + count))


def test_each_process_begins_with_long_tests_of_a_file_that_has_few() -> None:
    order = dealt(collected(netns_a=9, netns_b=1, netns_c=4, netns_d=2, unit_a=84), 2, [TESTS / "netns"])  # type: ignore[arg-type]
    first, second = order[:50], order[50:]
    assert [len([i for i in part if "netns" in i.path.parts]) for part in (first, second)] == [9, 7]
    assert second[0].name == "netns_b-0" and second[1].name == "netns_d-0"
    assert all("unit" in i.path.parts for i in (*first[9:], *second[7:]))
