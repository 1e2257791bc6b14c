"""The site of the documentation in a real browser, opened from a folder: its search finds pages, and no host is asked."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from browser.chromium import PATIENCE_S, Chromium
from capability import need

ROOT = Path(__file__).parents[2]
ASK = """(() => { const box = document.querySelector('[data-md-component=search-query]'); box.focus(); box.value = 'flowtable';
  box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()"""
FOUND = "document.querySelectorAll('.md-search-result__item').length"


def test_the_search_works_from_a_folder(browser: Chromium, tmp_path: Path) -> None:
    need("mkdocs", (ROOT / ".venv/bin/mkdocs").exists())
    for path in (*ROOT.glob("*.md"), ROOT / "mkdocs.yml", ROOT / "LICENSE"):
        shutil.copy(path, tmp_path)
    for name in ("docs", "examples", "contracts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    subprocess.run([ROOT / "scripts/site"], cwd=tmp_path, check=True, capture_output=True)
    browser.open(tmp_path / "dist/site/docs/how-to/ci.html", width=1280)
    browser.evaluate(ASK)
    end = time.monotonic() + PATIENCE_S
    while not browser.evaluate(FOUND):
        assert time.monotonic() < end, browser.complaints
        time.sleep(0.1)
    assert (browser.complaints, [a for a in browser.requested if a.startswith("http")]) == ([], [])
