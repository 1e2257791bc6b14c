"""No code outside a workload's own files chooses by its name or its class: what differs between workloads is in their records."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import dutlab
from dutlab.spec.workloads import model_of
from dutlab.workloads import WORKLOADS, settable

SOURCE = Path(inspect.getfile(dutlab)).parent
OTHER_MEANINGS = {
    ("cli/export.py", "iperf3"): "a kind of file that is written",
    ("cli/main.py", "*"): "names of commands",
    ("cli/gate.py", "sweep"): "an experiment file that is made",
    ("cli/two_ports.py", "path-mtu"): "an experiment file that is made",
    ("report/questions/compared.py", "iperf3"): "the program",
    ("report/sections/pairs.py", "matrix"): "one of its own two workloads",
    ("report/sections/pairs.py", "path-mtu"): "one of its own two workloads",
    ("runner/examine.py", "iperf3"): "the program",
    ("systems/linux_facts/machine.py", "iperf3"): "the program",
    ("choices.py", "*"): "names of programs whose files are read",
    ("interop/csit_run.py", "soak"): "a test of CSIT",
    ("plan/trials.py", "iperf3"): "the program",
    ("spec/goals.py", "rfc2544"): "a preset of goals",
    ("spec/mixes.py", "rfc2544"): "a set of frame sizes",
    ("tools/raw_figures.py", "iperf3"): "the program",
}
"""File and word → what the word means there."""
PLAIN = {"exact", "latency", "routes", "search", "state", "steps"}
"""Words that mean much else: they count where a workload is asked for its name, and among other names."""
CLASSES = {c.__name__: name for name in settable() for c in (model_of(name), model_of(name).setting)}

MENTION = re.compile(rf"""["'](?:{"|".join(WORKLOADS)})["']|\b(?:{"|".join(CLASSES)})\b""")


def keys(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each string that something is looked up or compared by, and of each class in an isinstance()."""
    for node in ast.walk(tree):
        match node:
            case ast.Dict(keys=found):
                yield from strings(*(key for key in found if key is not None))
            case ast.Compare(left=left, comparators=others):
                yield from strings(left, *others, asked=[left, *others])
            case ast.Subscript(slice=index, value=value) if not (isinstance(value, ast.Name) and value.id == "Literal"):
                yield from strings(index)
            case ast.Match(subject=subject, cases=cases):
                values = [n.value for case in cases for n in ast.walk(case.pattern) if isinstance(n, ast.MatchValue)]
                yield from strings(*values, asked=[subject])
            case ast.Call(func=ast.Attribute(attr="get" | "startswith" | "endswith", value=of), args=[first, *_]):
                yield from strings(first, asked=[of])
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, of]):
                yield from ((n.lineno, n.id) for n in ast.walk(of) if isinstance(n, ast.Name) and n.id in CLASSES)


def strings(*nodes: ast.expr, asked: Sequence[ast.expr] = ()) -> Iterator[tuple[int, str]]:
    """Texts among `nodes`; plain words only beside another name, or where one of `asked` is a workload or a kind."""
    parts = [part for node in nodes for part in [node, *(node.elts if isinstance(node, ast.Tuple | ast.Set | ast.List) else ())]]
    texts = [(n.lineno, n.value) for n in parts if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    names = {getattr(n, "attr", getattr(n, "id", "")) for n in asked}
    every = bool(names & {"workload", "kind"}) or len({text for _, text in texts} & WORKLOADS.keys()) > 1
    yield from (found for found in texts if every or found[1] not in PLAIN)


@cache
def said_in(text: str) -> tuple[tuple[int, str], ...]:
    return tuple(keys(ast.parse(text))) if MENTION.search(text) else ()  # to parse a file takes long


def chosen_by(path: str, text: str) -> list[str]:
    out = []
    for line, word in said_in(text):
        workload = CLASSES.get(word, word)
        own = workload.replace("-", "_") in path.replace("-", "_")
        other = any(path.startswith(file) and said in {word, "*"} for file, said in OTHER_MEANINGS)
        if workload in WORKLOADS and not own and not other:
            out.append(f"{path}:{line}: chooses by {word}: put what differs into the record in dutlab/workloads.py")
    return out


def test_what_differs_between_workloads_is_in_their_records() -> None:
    files = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "workloads.py")
    assert [fault for path in files for fault in chosen_by(path.relative_to(SOURCE).as_posix(), path.read_text())] == []


def test_a_choice_by_name_is_found() -> None:
    for text in (
        'if cell.workload == "sweep": pass',
        'x = {"sweep": 1}',
        'x = workload in ("iperf3", "matrix")',
        'checks["path-mtu"]()',
        'x = table.get("soak")',
        'if cell.workload == "state": pass',
        'x = workload in ("steps",)',
        'x = {"latency": 1, "state": 2}',
        "x = isinstance(setting, ReconfSetting)",
        'match kind:\n case "fio": pass',
    ):
        assert chosen_by("runner/stage.py", text), text
    assert not chosen_by("report/sections/path_mtu.py", 'x = {"path-mtu": 1}')
    assert not chosen_by("runner/stage.py", 'x = row.get("state") or row["latency"]')
    assert not chosen_by("runner/stage.py", 'kind: Literal["sweep"] = "sweep"\nx = plug_of("sweep")')


def test_every_exception_is_used() -> None:
    for file, word in OTHER_MEANINGS:
        found = [
            said
            for path in SOURCE.rglob("*.py")
            if path.relative_to(SOURCE).as_posix().startswith(file)
            for _, said in said_in(path.read_text())
        ]
        assert set(found) & ({word} if word != "*" else WORKLOADS.keys()), (file, word)
