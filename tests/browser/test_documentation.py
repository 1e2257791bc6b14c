"""The site of the documentation in a real browser, opened from a folder: its search finds pages, and no host is asked."""

from __future__ import annotations

import time
from pathlib import Path

from browser.chromium import Chromium, program
from capability import need
from documentation import site

ASK = """(() => { const box = document.querySelector('[data-md-component=search-query]'); box.focus(); box.value = 'flowtable';
  box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()"""
FINDS_WITHIN_S = 60
FOUND = "document.querySelectorAll('.md-search-result__item').length"


def test_the_search_works_from_a_folder(tmp_path: Path) -> None:
    need("chromium", program() is not None)
    assert site(tmp_path).returncode == 0
    with Chromium() as browser:  # a new one: in one that has shown the pages of `dutlab serve` before, the search finds nothing
        browser.open(tmp_path / "dist/site/docs/how-to/ci.html", width=1280)
        browser.evaluate(ASK)
        end = time.monotonic() + FINDS_WITHIN_S
        while not browser.evaluate(FOUND):
            assert time.monotonic() < end, browser.complaints
            time.sleep(0.1)
        assert (browser.complaints, [a for a in browser.requested if a.startswith("http")]) == ([], [])
