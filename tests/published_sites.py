"""Runs to publish, and the links of the pages that become of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from click.testing import CliRunner, Result

from dutlab.cli.publish import publish
from dutlab.interop.figure_table import imported
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.store.additions import add
from fake_run import Wanted, build
from raw_outputs import with_raw_outputs

PUBLISHED = Path(__file__).parents[1] / "examples" / "published"
SMALL = Wanted(repeats=3, seconds=2, sizes=(64,), cores=0, bad_luck=False, modes={"router": "router", "nat": "nat"})


def said(*words: object) -> Result:
    return CliRunner().invoke(publish, [str(w) for w in words], catch_exceptions=False)


def reviewed(runs: Path) -> list[Path]:
    """The published reviews."""
    return [
        write_imported(runs, f.stem, imported(f.name, f.read_bytes(), ImportOptions()), command=("dutlab", "import"), now=datetime(2026, 11, 21, tzinfo=UTC)).path
        for f in sorted(PUBLISHED.glob("*.csv"))
    ]  # fmt: skip


def measured_run(runs: Path) -> Path:
    """A run with a journal, and with a file that was added later."""
    run = with_raw_outputs(build(runs, SMALL))
    add(run, "The box", now=datetime(2026, 11, 21, tzinfo=UTC), file=PUBLISHED / "README.md")
    (run / "journal.jsonl").write_text('{"event": "run-started"}\n')
    return run


def index_of(site: Path) -> dict:
    return json.loads((site / "index.json").read_text())


class Links(HTMLParser):
    """Of a page: where it leads, what has a name there, and tags that load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.to, self.names, self.tags = list[str](), set[str](), set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in {"href", "src"} and value:
                self.to.append(value)
            if name == "id" and value:
                self.names.add(value)
            assert not name.startswith("on"), (tag, name)


def links_of(page: Path) -> Links:
    found = Links()
    found.feed(page.read_text())
    return found


def dead_links(site: Path) -> Iterator[str]:
    pages = {page: links_of(page) for page in site.rglob("*.html")}
    for page, found in pages.items():
        for to in found.to:
            parts = urlsplit(to)
            if parts.scheme == "data":
                continue
            assert not parts.scheme and not parts.netloc, to
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.is_file() or site.resolve() not in target.parents:
                yield f"{page.relative_to(site)}: {to}"
            elif parts.fragment and target in pages and parts.fragment not in pages[target].names:
                yield f"{page.relative_to(site)}: {to} (no such place)"
