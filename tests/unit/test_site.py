"""The documentation as a site: built whole and strictly, it asks no other host for anything, and a dead link ends the build."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from capability import need

ROOT = Path(__file__).parents[2]
SOURCES = ("mkdocs.yml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "LICENSE")
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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("mkdocs", (ROOT / ".venv/bin/mkdocs").exists())
    tree = tmp_path_factory.mktemp("site")
    for name in SOURCES:
        shutil.copy(ROOT / name, tree)
    for name in ("docs", "examples", "contracts"):
        shutil.copytree(ROOT / name, tree / name)
    (tree / ".venv").symlink_to(ROOT / ".venv")
    return tree


def build(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "scripts/site"], cwd=tree, capture_output=True, text=True, check=False)


def test_the_site_is_built_whole_and_loads_nothing_from_elsewhere(tree: Path) -> None:
    done = build(tree)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tree / "dist/site").rglob("*.html"))
    assert len(pages) >= len(list((tree / "docs").rglob("*.md")))
    seen = 0
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text())
        seen += len(loads.found)
        assert not [a for a in loads.found if a.startswith(("http:", "https:", "//"))], page
    assert seen > len(pages), "every page has a style sheet and a script"
    assert not [f for f in (tree / "dist/site").rglob("*.css") if "url(http" in f.read_text() or "@import" in f.read_text()]


def test_a_dead_link_ends_the_build(tree: Path) -> None:
    page = tree / "docs/dead.md"
    page.write_text("# Dead\n\n[gone](method/gone.md)\n")
    done = build(tree)
    page.unlink()
    assert done.returncode != 0
    assert "method/gone.md" in done.stdout + done.stderr


def test_a_page_that_loads_from_another_host_ends_the_build(tree: Path) -> None:
    page = tree / "docs/foreign.md"
    page.write_text("# Foreign\n\n![x](https://example.com/x.png)\n")
    done = build(tree)
    page.unlink()
    assert done.returncode != 0
    assert "https://example.com/x.png" in done.stderr
