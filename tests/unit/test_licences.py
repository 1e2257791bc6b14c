"""Licences of what dutlab installs and links go with its own."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "licences"
goes = runpy.run_path(str(SCRIPT))["goes"]


def test_every_package_and_crate_has_a_licence_that_goes_with_apache_2() -> None:
    told = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "duckdb " in told.stdout
    assert "aya " in told.stdout
    assert "psycopg " in told.stdout, "under the LGPL, which goes with what is imported"


def test_a_library_under_the_lgpl_may_be_imported_but_not_linked() -> None:
    assert not goes("LGPL-3.0-only"), "as for crates"
    assert goes("LGPL-3.0-only", {"LGPL-3.0-only"})
    assert not goes("GPL-3.0-only", {"LGPL-3.0-only"})


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ("MIT", True), ("GPL-2.0-only", False), ("GPL-2.0-only OR MIT", True), ("MIT AND GPL-3.0-only", False), ("MIT/Apache-2.0", True),
        ("GPL-3.0-only OR MIT AND BSD-3-Clause", True), ("(MIT OR GPL-3.0-only) AND Unicode-3.0", True),
        ("Apache-2.0 WITH LLVM-exception", True), ("", False), ("MIT OR", False),
    ],
)  # fmt: skip
def test_a_choice_of_licences_fits_when_one_side_of_it_does(expression: str, fits: bool) -> None:
    assert goes(expression) is fits
