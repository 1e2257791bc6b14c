"""What CI systems read of a check: JUnit's XML, and the annotations of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from dutlab.printable import printable, printable_lines
from dutlab.report.questions.checked import CheckKind

if TYPE_CHECKING:
    from dutlab.analysis.comparison import Comparison
    from dutlab.report.questions.checked import Checked

_OVERALL = "all cells together"


def junit(found: Checked, *, suite: str, testbed: str, ended: datetime, sentence_of: str) -> str:
    """The check as one suite, a test case for each result, for `testbed`, whose last trial `ended`.

    Has every attribute and element that Jenkins' xunit-plugin (junit-10.xsd) and Ant's JUnitReport know of a suite, and no other.
    """
    cases = list(_cases(found))
    failures = sum(failure is not None for _, failure in cases)
    unknown = found.kind is CheckKind.CANNOT_TELL
    root = Element("testsuites")
    of = SubElement(
        root, "testsuite", package="dutlab", id="0", name=printable(suite), timestamp=f"{ended:%Y-%m-%dT%H:%M:%S}",
        hostname=printable(testbed) or "unknown", tests=str(len(cases) + unknown), failures=str(failures), errors=str(int(unknown)),
        skipped="0", time="0",
    )  # fmt: skip
    properties = SubElement(of, "properties")
    for name, value in (("first", found.pair.first), ("second", found.pair.second), ("verdict", found.sentence)):
        SubElement(properties, "property", name=name, value=_text(value))
    for label, failure in cases:
        case = SubElement(of, "testcase", name=_text(label), classname=f"dutlab.{_text(suite)}", time="0")
        if failure is not None:
            SubElement(case, "failure", message=_text(failure), type="worse").text = _text(failure)
    if unknown:
        case = SubElement(of, "testcase", name="dutlab check", classname=f"dutlab.{_text(suite)}", time="0")
        SubElement(case, "error", message=_text(found.sentence), type="cannot tell").text = _text(found.sentence)
    SubElement(of, "system-out").text = _text(sentence_of)
    SubElement(of, "system-err")
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}'


def github(found: Checked) -> Iterator[str]:
    """An annotation for each failure and for each result whose values look odd (GitHub's workflow commands)."""
    for label, failure in _cases(found):
        if failure is not None:
            yield _annotation("error", label, failure)
    for c in found.pair.comparisons:
        yield from (_annotation("warning", c.pair.label, flag) for flag in c.flags)
    yield from (_annotation("warning", "dutlab check", fault) for fault in found.pair.faults)
    yield _annotation("notice" if found.kind is CheckKind.PASS else "error", "dutlab check", found.sentence)


def _cases(found: Checked) -> Iterator[tuple[str, str | None]]:
    """Each result with what fails it, if it fails."""
    if found.pair.together is not None:
        yield _OVERALL, found.overall if found.all_worse else None
    for c in found.pair.comparisons:
        yield _name(c), found.words(c) if found.fails(c) else None
    for label in found.pair.only_first:
        yield label, "missing: only the baseline has it"


def _name(c: Comparison) -> str:
    return f"{c.pair.label} · {c.pair.figure}"


def _annotation(kind: str, title: str, text: str) -> str:
    """`::error title=…::…`, escaped as GitHub's own toolkit does it (actions/toolkit, command.ts)."""
    title = _escaped(printable(title)).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={title}::{_escaped(printable_lines(text))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _text(text: str) -> str:
    """Without what XML 1.0 cannot hold: control characters are `?` already, and two code points are left."""
    return printable_lines(text).replace("\ufffe", "?").replace("\uffff", "?")
