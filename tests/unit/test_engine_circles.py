"""No crate of the engine has modules that import each other in a circle. Cargo refuses circles of crates only."""

from __future__ import annotations

import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "engine"
CRATES = sorted(p.parent for p in ENGINE.glob("*/src"))
Module = tuple[str, ...]
# A path that begins at the crate, at this module or above it, up to its last part: a name or a list of names.
PATH = re.compile(r"\b(crate|self|super(?:::super)*)::((?:\w+::)*)(\w+|\{[^;]*?\}\s*;|\*)")


def modules(crate: Path) -> dict[Module, str]:
    """The text of each module without comments and tests, by its path in the crate."""
    found = {}
    for file in (crate / "src").rglob("*.rs"):
        parts = file.relative_to(crate / "src").with_suffix("").parts
        if parts[-1] in {"lib", "main", "mod"}:
            parts = parts[:-1]
        if parts[-1:] != ("tests",):
            text = re.split(r"#\[cfg\(test\)\]\s*mod tests", file.read_text())[0]
            found[parts] = re.sub(r"//.*", "", text)
    return found


def imports(module: Module, text: str, known: set[Module]) -> set[Module]:
    """The modules of its own crate that a module names."""
    named = set()
    for start, way, last in PATH.findall(text):
        base = {"crate": (), "self": module}.get(start, module[: len(module) - start.count("super")])
        path = base + tuple(re.findall(r"\w+", way))
        for name in re.findall(r"\w+", last) or [""]:
            at = (*path, name)
            while at not in known:
                at = at[:-1]
            named.add(at)
    return named


def circle(texts: dict[Module, str]) -> list[str] | None:
    """A circle among modules of one folder, where each stands for all that lies beneath it; None: there is none."""
    known = {(), *texts}
    named = {module: imports(module, text, known) for module, text in texts.items()}
    for folder in sorted({module[:n] for module in texts for n in range(len(module))}):
        depth = len(folder)
        graph: dict[str, set[str]] = {}
        for module, others in named.items():
            if module[:depth] == folder and len(module) > depth:
                beside = {o[depth] for o in others if o[:depth] == folder and len(o) > depth}
                graph.setdefault(module[depth], set()).update(beside - {module[depth]})
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as e:
            return ["::".join((*folder, name)) for name in e.args[1]]
    return None


def test_the_crates_are_found() -> None:
    assert {"agent", "measure", "port", "protocol", "wire", "xdp"} <= {crate.name for crate in CRATES}


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_no_module_is_imported_by_what_it_imports(crate: Path) -> None:
    assert circle(modules(crate)) is None


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({("a",): "use crate::b::B;", ("b",): "use crate::c;", ("c",): "fn f() { crate::a::g() }"}, {"a", "b", "c"}),
        ({("x", "a"): "use super::b::{B, C};", ("x", "b"): "use super::{\n    a,\n};"}, {"x::a", "x::b"}),
        ({("a",): "", ("a", "deep"): "use crate::b::B;", ("b",): "use crate::a::A;"}, {"a", "b"}),
        ({("a",): "use crate::b::B;", ("b",): "use std::a::A;", ("a", "deep"): "use super::A;"}, None),
    ],
)
def test_a_circle_is_found_where_there_is_one(texts: dict[Module, str], found: set[str] | None) -> None:
    assert (None if (names := circle(texts)) is None else set(names)) == found


# ---- The oldest Rust that builds the engine is one figure, wherever it is said


ROOT = Path(__file__).parents[2]
SAID = re.compile(r"\(?(?:rustc |Rust )?(1\.\d+) or newer")
PLACES = ("CONTRIBUTING.md", "README.md", "scripts/needs", "docs/how-to/install.md")


def test_every_place_says_what_cargo_is_told() -> None:
    told = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    said = {place: set(SAID.findall((ROOT / place).read_text())) for place in PLACES}
    assert {place: {told} for place in said if place != "README.md"} == {
        place: found for place, found in said.items() if place != "README.md"
    }
    assert said["README.md"] <= {told}


def test_no_crate_of_the_engine_has_a_figure_of_its_own() -> None:
    for manifest in (ROOT / "engine").glob("*/Cargo.toml"):
        assert tomllib.loads(manifest.read_text())["package"]["rust-version"] == {"workspace": True}, manifest
