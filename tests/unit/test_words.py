"""Texts that people read, against the phrases that docs/glossary.md bans. What to write instead is beside each phrase there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs/glossary.md"
HEAD, LIST = GLOSSARY.read_text().split("## Phrases to avoid")
BANNED = dict(re.findall(r"^\| `([^`]+)`[^|]*\| ([^|]+?) \|$", LIST, re.MULTILINE))
IS_NO = r"(?<!there )(?<!there it )\bis no (?!longer|more|less|better|worse|faster|slower|larger|smaller|way |other|one )"
PATTERNS = {
    phrase: re.compile(IS_NO if phrase == "is no" else rf"\b{re.escape(phrase)}\b".replace(r"\b%", "%"), re.IGNORECASE) for phrase in BANNED
}


def said(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text: of Python its strings, docstrings among them, and its comments; of other files every line."""
    text = path.read_text()
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    joined = " ".join(re.sub(r"[\"']\s*\n\s*[fr]?[\"']", "", text).replace("\\n", " ").split()).lower()
    if not any(phrase.lower() in joined for phrase in BANNED):
        return  # most files, and to parse one takes long
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for number, line in enumerate(text.splitlines(), 1):
        if "#" in line:
            yield number, line[line.index("#") :]


def faults(path: Path, texts: Iterable[tuple[int, str]]) -> list[str]:
    lines = [(line, " ".join(text.split())) for line, text in texts]
    whole = "\n".join(text for _, text in lines).lower()
    near = [(phrase, pattern) for phrase, pattern in PATTERNS.items() if phrase.lower() in whole]  # few: a pattern is slow to search
    return [
        f"{path}:{line}: {phrase!r}: write {BANNED[phrase]}" for line, text in lines for phrase, pattern in near if pattern.search(text)
    ]


FILES = {
    "command line and report": [*ROOT.glob("src/dutlab/**/*.py"), *ROOT.glob("src/dutlab/**/*.j2")],
    "engine": list(ROOT.glob("engine/*/src/**/*.rs")),
    "pages": [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")],
}


@pytest.mark.parametrize("where", FILES)
def test_no_text_has_a_banned_phrase(where: str) -> None:
    assert FILES[where]
    found = [f for path in FILES[where] if path != GLOSSARY for f in faults(path.relative_to(ROOT), said(path))]
    assert not found, "\n".join(found)


def test_the_terms_of_the_glossary_avoid_them_too() -> None:
    assert not faults(GLOSSARY, enumerate(HEAD.splitlines(), 1))


def test_each_phrase_is_found_where_it_is_written_and_there_is_no_x_is_plain_english() -> None:
    assert [phrase for phrase in BANNED if not faults(Path("x.md"), [(1, f"X {phrase}\nthing")])] == []
    assert not faults(Path("x.md"), [(1, "There is no lab; it is no longer here")])
