"""docs/glossary.md is the one list of terms: each is used, none has two meanings, and reports explain their column heads with it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from dutlab.report.model.glossary import MEANINGS, meaning

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/glossary.md").read_text().split("## Phrases to avoid")[0]
ROWS = re.findall(r"^\| (?!term \||---)([^|]+?) \| (.+?) \|$", PAGE, re.MULTILINE)
TERMS = [term for terms, _ in ROWS for term in terms.split(", ")]
PLAIN = {
    "", "1st percentile", "95 % interval", "99th percentile", "I/Os", "MTU", "all together", "at the knee", "by the model", "change", "client", "command", "connections", "cores of fio",
    "cores of the host", "cost per packet, ns", "count", "counter", "depth at the knee", "depth at the peak", "destination ports", "detail", "drives", "end", "ended with", "error",
    "error of the search", "estimate", "experiments", "factor", "first", "first frame of a flow", "first minute", "first of the window", "frames", "from", "from, ×", "generator and sink",
    "goodput down", "goodput up", "highest", "idle", "in phase", "its clock was ahead by", "jobs", "known within", "last", "lasted", "lasts", "latency at the knee", "latency there, mean",
    "least depth for 95 %", "least of a second", "limit", "links", "load", "lost or not taken", "max", "mean", "mean frame", "measured", "no later than", "no longer", "no sooner than",
    "not known because", "of", "of ceiling", "of line rate", "of the highest rate", "of what they allow, %", "offered in each direction", "only at", "output, by trial", "packets that pass, bytes",
    "part", "payload, bytes", "phase", "ports up", "power", "profile", "property", "proven", "range", "rate", "rate at its end", "ratio, ×", "rebuild took", "rebuilt", "recovered after", "result",
    "rounds", "router", "routes", "server", "share", "slope over it", "source ports", "state", "steady heat after", "step", "temperature", "term", "test", "then", "there", "threads",
    "throttled, times", "time", "to", "to, ×", "took", "under load", "way", "what", "without pause, after it", "without the command's own time", "work", "written",
}  # fmt: skip
"""Heads of columns that are everyday words, or name what the table itself explains."""


def elsewhere() -> str:
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("src/dutlab/**/*.py"), *ROOT.glob("src/dutlab/**/*.j2"), ROOT / "README.md"]
    return " ".join(" ".join(p.read_text().split()) for p in pages if p.name not in ("glossary.md", "glossary.py"))


def heads() -> set[str]:
    """First arguments of every Column(…) of the report's sections that are text."""
    calls = (
        node
        for path in ROOT.glob("src/dutlab/report/sections/*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Column" and node.args
    )
    return {str(c.args[0].value).replace("\u00ad", "") for c in calls if isinstance(c.args[0], ast.Constant)}


def test_each_term_of_the_glossary_is_used_elsewhere() -> None:
    text = elsewhere().lower()
    assert len(TERMS) > 120
    terms = [re.escape(term.split(" (")[0].lower()) for term in TERMS]
    assert [term for term in terms if not re.search(rf"{term}(?<=\b{term})", text)] == []


def test_no_term_has_two_meanings() -> None:
    assert not [term for term, n in Counter(t.casefold() for t in TERMS).items() if n > 1]


def test_reports_have_the_meanings_of_the_page() -> None:
    assert {term.casefold(): text.replace("`", "") for terms, text in ROWS for term in terms.split(", ")} == MEANINGS, "run scripts/docs"


def test_each_head_of_a_column_is_a_term_or_a_plain_word() -> None:
    assert len(heads()) > 60
    unknown = sorted(h for h in heads() if not meaning(h) and h not in PLAIN)
    assert not unknown, "add these to docs/glossary.md, run scripts/docs; or to PLAIN, if everybody knows them"


@pytest.mark.parametrize(
    ("head", "begins"), [("lost", "frames that were sent"), ("headroom", "how far"), ("goodput, Mb/s", "bits per second of payload")]
)
def test_a_head_is_explained_by_its_term(head: str, begins: str) -> None:
    assert meaning(head).startswith(begins)


def test_a_plain_word_is_not_explained() -> None:
    assert meaning("why") == ""
