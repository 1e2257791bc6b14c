"""The documentation as a site: built whole and strictly, it asks no other host for anything, and a dead link ends the build."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from documentation import site

ROOT = Path(__file__).parents[2]
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "link": "href"}
READ_ONLY = ("canonical", "next", "prev", "alternate")  # relations that name a page and load nothing


class Loads(HTMLParser):
    """Addresses that a browser would load for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {k: v or "" for k, v in attrs}
        if tag in LOADS and of.get("rel") not in READ_ONLY and (address := of.get(LOADS[tag])):
            self.found.append(address)


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]))
    pages = {
        str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
    }
    assert named == pages


def test_the_site_is_built_whole_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = site(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "dist/site").rglob("*.html"))
    assert len(pages) >= len(list((tmp_path / "docs").rglob("*.md")))
    seen = 0
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text())
        seen += len(loads.found)
        assert not [a for a in loads.found if a.startswith(("http:", "https:", "//"))], page
    assert seen > len(pages), "every page has a style sheet and a script"
    assert not [f for f in (tmp_path / "dist/site").rglob("*.css") if "url(http" in f.read_text() or "@import" in f.read_text()]


def test_a_dead_link_ends_the_build(tmp_path: Path) -> None:
    done = site(tmp_path, dead="# Dead\n\n[gone](method/gone.md)\n")
    assert done.returncode == 1 and "method/gone.md" in done.stderr


@pytest.mark.parametrize(
    "loads", ['<img alt=x src="https://example.com/x">', "<link rel=icon href=http://example.com/x>", "a { b: url(https://example.com/x) }"]
)
def test_a_page_that_loads_from_another_host_ends_the_build(tmp_path: Path, loads: str) -> None:
    builder = tmp_path / ".venv/bin/mkdocs"
    builder.parent.mkdir(parents=True)
    builder.write_text(f"#!/bin/sh\nmkdir -p dist/site; echo '{loads}' >dist/site/x.{'css' if loads[0] == 'a' else 'html'}\n")
    builder.chmod(0o755)
    done = site(tmp_path, foreign="# Foreign\n")
    assert done.returncode == 1 and "://example.com/x" in done.stderr
