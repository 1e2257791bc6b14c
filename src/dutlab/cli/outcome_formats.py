"""Formats of a check or gate for CI systems: JUnit's XML, annotations of GitHub Actions, KTAP, Markdown and OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from dutlab.analysis.verdict import CheckKind
from dutlab.choices import CHECK_FORMATS
from dutlab.interop.metrics import Labels, metric_lines
from dutlab.printable import printable, printable_lines

if TYPE_CHECKING:
    from dutlab.report.questions.outcome import CheckOutcome

_WORDS = {CheckKind.PASS: "passes", CheckKind.FAIL: "**worse**", CheckKind.CANNOT_TELL: "cannot tell"}
_HELP = {
    "dutlab_gate_status": "0 passed, 1 worse, 2 cannot tell: the command's exit status.",
    "dutlab_gate_cell_status": "The same for each result.",
    "dutlab_gate_worse_ratio": "By how much the newer version is worse, as a share of the older one; below 0 it is better.",
    "dutlab_gate_older": "The older version's figure; its name ends in its unit.",
    "dutlab_gate_newer": "The newer version's figure; its name ends in its unit.",
    "dutlab_gate_function_instructions": "Instructions a frame that a function takes more in the newer version.",
}


def junit(of: CheckOutcome) -> str:
    """Return one suite, with a test case for each result.

    It has exactly the attributes and elements of a suite in Jenkins' xunit-plugin (junit-10.xsd) and Ant's JUnitReport.
    """
    kinds = [case.kind for case in of.cases]
    by_itself = of.kind is CheckKind.CANNOT_TELL and CheckKind.CANNOT_TELL not in kinds
    root = Element("testsuites")
    suite = SubElement(
        root, "testsuite", package="dutlab", id="0", name=printable(of.suite), timestamp=f"{of.ended:%Y-%m-%dT%H:%M:%S}",
        hostname=printable(of.testbed) or "unknown", tests=str(len(kinds) + by_itself), failures=str(kinds.count(CheckKind.FAIL)),
        errors=str(kinds.count(CheckKind.CANNOT_TELL) + by_itself), skipped="0", time="0",
    )  # fmt: skip
    properties = SubElement(suite, "properties")
    for name, value in (("first", of.first), ("second", of.second), ("verdict", of.sentence)):
        SubElement(properties, "property", name=name, value=_text(value))
    named = [(case.name, case.kind, case.words) for case in of.cases]
    for name, kind, words in [*named, *([(of.command, of.kind, of.sentence)] if by_itself else [])]:
        case = SubElement(suite, "testcase", name=_text(name), classname=f"dutlab.{_text(of.suite)}", time="0")
        if kind is not CheckKind.PASS:
            tag, type_ = ("failure", "worse") if kind is CheckKind.FAIL else ("error", "cannot tell")
            SubElement(case, tag, message=_text(words), type=type_).text = _text(words)
    SubElement(suite, "system-out").text = _text("\n".join(of.lines))
    SubElement(suite, "system-err")
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}'


def github(of: CheckOutcome) -> str:
    """Return an annotation for each failure and each warning (GitHub's workflow commands)."""
    lines = [_annotation("error", case.name, case.words) for case in of.cases if case.kind is not CheckKind.PASS]
    lines += [_annotation("warning", where, what) for where, what in of.warnings]
    return "\n".join([*lines, _annotation("notice" if of.kind is CheckKind.PASS else "error", of.command, of.sentence)])


def ktap(of: CheckOutcome) -> str:
    """Return the outcome as the kernel's tests print it (Documentation/dev-tools/ktap.rst, version 1)."""
    lines = ["KTAP version 1", f"1..{len(of.cases)}", *(f"# {printable(line)}" for line in of.lines)]
    for number, case in enumerate(of.cases, 1):
        result = "ok" if case.kind is CheckKind.PASS else "not ok"
        directive = f" # ERROR {_one_line(case.words)}" if case.kind is CheckKind.CANNOT_TELL else ""
        if case.kind is CheckKind.FAIL:
            lines.append(f"# {_one_line(case.words)}")
        lines.append(f"{result} {number} {_one_line(case.name)}{directive}")
    return "\n".join([*lines, f"# {_one_line(of.sentence)}"])


def markdown(of: CheckOutcome) -> str:
    """Return a comment for a pull request."""
    rows = [
        (_cell(case.name), _number(case.first), _number(case.second), _change(case.worse), _WORDS[case.kind], _cell(case.words))
        for case in of.cases
    ]
    heads = ["| result | older | newer | worse by | | |", "|---|---|---|---|---|---|"]
    table = [*heads, *(f"| {' | '.join(row)} |" for row in rows)]
    odd = [f"- {_cell(where)}: {_cell(what)}" for where, what in of.warnings]
    parts = [f"**{_cell(of.sentence)}**", f"{_cell(of.second)} against {_cell(of.first)}", "\n".join(table)]
    return "\n\n".join([*parts, *(["\n".join(odd)] if odd else [])])


def openmetrics(of: CheckOutcome) -> str:
    """Return OpenMetrics 1.0, for the textfile collector of a node exporter or for a push gateway."""
    base = (("experiment", of.suite), ("older", of.first), ("newer", of.second))
    cells = [((*base, ("result", case.name)), case) for case in of.cases]
    values: dict[str, list[tuple[Labels, float]]] = {
        "dutlab_gate_status": [(base, float(of.kind.exit_status))],
        "dutlab_gate_cell_status": [(labels, float(case.kind.exit_status)) for labels, case in cells],
        "dutlab_gate_worse_ratio": [(labels, case.worse) for labels, case in cells if case.worse is not None],
        "dutlab_gate_older": [(labels, case.first) for labels, case in cells if case.first is not None],
        "dutlab_gate_newer": [(labels, case.second) for labels, case in cells if case.second is not None],
        "dutlab_gate_function_instructions": [
            ((*labels, ("function", of.name)), of.change) for labels, case in cells for of in case.functions
        ],
    }
    return "\n".join([*(line for name, of_name in values.items() if of_name for line in metric_lines(name, _HELP[name], of_name)), "# EOF"])


_WRITERS: Mapping[str, Callable[[CheckOutcome], str]] = {
    "junit": junit, "github": github, "ktap": ktap, "markdown": markdown, "openmetrics": openmetrics,
}  # fmt: skip
FORMATS = {name: _WRITERS[name] for name in CHECK_FORMATS}


def _annotation(kind: str, title: str, text: str) -> str:
    """Return `::error title=…::…`, escaped as in GitHub's toolkit (actions/toolkit, command.ts)."""
    title = _escaped(printable(title)).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={title}::{_escaped(printable_lines(text))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _text(text: str) -> str:
    """Return text without characters that XML 1.0 forbids: control characters, which become `?`, and two code points."""
    return printable_lines(text).replace("\ufffe", "?").replace("\uffff", "?")


def _one_line(text: str) -> str:
    """Return one line for KTAP, in which `#` begins a directive."""
    return printable(text).replace("#", "?")


def _cell(text: str) -> str:
    """Return text for a Markdown table, with all special characters escaped."""
    shown = printable(text)
    for character in "\\|<>*_`[]":
        shown = shown.replace(character, f"\\{character}")
    return shown


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.6g}"


def _change(share: float | None) -> str:
    return "" if share is None else f"{share * 100:+.2g} %"
