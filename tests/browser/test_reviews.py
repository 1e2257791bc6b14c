"""The tables and figures of examples/reviews, made from published numbers by their own script, and its pages in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from browser.chromium import Chromium
from browser.looks import UNFOLD, faults_everywhere

REVIEWS = Path(__file__).parents[2] / "examples" / "reviews"
WITH_PAGES = ("apu2", "apu6", "home-network", "pfsense-box", "storage-server")


def make(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "DUTLAB": f"{sys.executable} -m dutlab", **variables}
    return subprocess.run([REVIEWS / "make", *words], capture_output=True, text=True, env=settings, timeout=300, check=False)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reviews")
    done = make(out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pages(out: Path) -> list[Path]:
    return sorted(page for page in out.rglob("*.html") if "runs" not in page.relative_to(out).parts)


def test_every_review_has_pages_tables_and_a_figure(out: Path, pages: list[Path]) -> None:
    for review in WITH_PAGES:
        assert any(page.is_relative_to(out / review) for page in pages), review
        assert [*(out / review).glob("*/*.csv")], review
    assert {figure.relative_to(out).parts[0] for figure in out.glob("*/**/*.svg")} >= {"apu2", "apu6", "pfsense-box", "storage-server"}


def test_axe_finds_nothing_and_no_page_is_wider_than_its_window(browser: Chromium, pages: list[Path]) -> None:
    assert faults_everywhere(browser, pages, [(390, "light"), (1280, "dark")]) == {}
    for page in pages:
        for width in (390, 1280, 1920):
            browser.open(page, width=width)
            browser.evaluate(UNFOLD)
            assert browser.evaluate("document.documentElement.scrollWidth") == width, page


def test_a_missing_command_is_named_by_every_review(tmp_path: Path) -> None:
    done = make(tmp_path / "out", DUTLAB="no-such-command-of-dutlab")
    assert done.returncode == 1
    assert done.stderr.count("no-such-command-of-dutlab") == len(WITH_PAGES)
