"""The oldest Rust that builds the engine is one figure, wherever it is said."""

import re
import tomllib
from pathlib import Path

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
