"""Sentences that users read have at most 25 words: in commands, reports and pages. Decisions and the changelog stay as they were written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_WORDS = 25
_PAGES = (
    "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/how-to/*.md", "docs/method/*.md", "docs/reference/*.md",
    "examples/**/*.md",
)  # fmt: skip
_NOT_PROSE = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9µ%][\w’'./-]*")


def words(sentence: str) -> int:
    """Code counts as one word, a link as its text."""
    return len(_WORD.findall(re.sub(r"`[^`]*`", "X", re.sub(r"\]\([^)]*\)", "]", sentence))))


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings of a module that are no docstrings, and the docstrings of commands, which are their help."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            is_command = isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(d) for d in node.decorator_list)
            first = node.body[0] if node.body else None
            if not is_command and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                skipped.add(id(first.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def sentences(text: str) -> Iterator[str]:
    """Of prose: not of tables, headings, quotes and examples; a colon or semicolon ends one as a full stop does."""
    for block in re.split(r"\n\s*\n|\x08", _NOT_PROSE.sub("", text)):
        prose = "\n".join(line for line in block.splitlines() if not line.lstrip().startswith(("|", "#", ">", "dutlab ")))
        for item in re.split(r"\n\s*(?:[-*]|\d+\.)\s+|\n(?= {4})| · ", f"\n{prose}"):
            yield from re.split(r"(?<=[.!?:;])\s+", " ".join(item.split()))


def test_a_sentence_of_a_command_or_a_report_is_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{line}: {sentence}"
        for room in ("cli", "report")
        for path in sorted((ROOT / "src" / "dutlab" / room).rglob("*.py"))
        for line, text in texts(ast.parse(path.read_text()))
        if "SELECT" not in text
        for sentence in sentences(text)
        if words(sentence) > MOST_WORDS
    ]
    assert not long


def test_a_sentence_of_a_page_is_short() -> None:
    pages = [path for pattern in _PAGES for path in sorted(ROOT.glob(pattern))]
    assert len(pages) > 60, "the pages are where this test looks for them"
    long = [f"{p.relative_to(ROOT)}: {s}" for p in pages for s in sentences(p.read_text()) if words(s) > MOST_WORDS]
    assert not long, "\n".join(long)


def test_a_long_sentence_is_found() -> None:
    assert max(map(words, sentences("Short one. " + "word " * 26 + "end; short"))) == MOST_WORDS + 2
