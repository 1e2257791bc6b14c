"""YAML as plain data, with the position of every key. Any bytes lead to a Source or to SpecRefused, never to another exception.

Only a part of YAML is allowed: one document without tags, and a limited number of anchors and aliases. It is YAML 1.2, so `yes`, `on` and
`1:30` are text.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, ScalarEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from dutlab import outside
from dutlab.bounds import INPUT
from dutlab.errors import Fault, FaultKind, SpecRefused
from dutlab.outside import AtLink, AtPipe, Unfit, UnfitFile
from dutlab.spec.model import Loc

MOST_NODES = 5_000
"""Most values of a file with its aliases expanded: a page of aliases could otherwise expand beyond the memory."""
DEEPEST = 20
_OF_SHELLS = frozenset(map(Path, ("/dev", "/dev/fd", "/proc/self/fd")))
"""Folders of the shell's paths `/dev/stdin` and `<(…)`."""
_LONGEST_FAULT = 2_000
"""Most characters of a fault's text; a wrong value can be as long as a file."""

_WHOLE = r"[-+]?[0-9]{1,18}"
_BASED = r"0x[0-9a-fA-F]{1,15}|0o[0-7]{1,20}"
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_TAG + t for t in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")}


@dataclass(frozen=True)
class SourcePosition:
    """Position of a key or item; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass
class Source:
    """A file as plain data: dict, list, str, int, float, bool, None."""

    file: str
    data: Any = None
    places: dict[Loc, SourcePosition] = field(default_factory=dict)
    """Path → position of its key, or of its list item."""

    def fault(self, loc: Loc, what: str, kind: FaultKind = FaultKind.INVALID) -> Fault:
        """Return a fault at `loc`; where `loc` is not in the file, at the nearest parent that is."""
        known = next((loc[:n] for n in range(len(loc), 0, -1) if loc[:n] in self.places), ())
        place = self.places.get(known, SourcePosition(self.file, 1, 1))
        return Fault(place.file, place.line, place.column, path_text(loc), printable(_shortened(what)), kind)


def path_text(loc: Loc) -> str:
    """Return a path as text: `links.a.path.2`, or `file` for the whole file."""
    return printable(".".join(str(part) for part in loc if part != "[key]")) or "file"


def _shortened(what: str) -> str:
    """Return the text of a fault, without its middle where it is too long."""
    half = _LONGEST_FAULT // 2
    return what if len(what) <= _LONGEST_FAULT else f"{what[:half]} … {what[-half:]}"


def printable(text: str) -> str:
    """Return the text on one line, with escapes for characters that are not printable."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode("ascii") for c in text)


def folder_of(path: Path) -> Path:
    """Return the base of relative paths in an input file: its folder, or the working directory for a pipe of a shell."""
    return Path() if path.parent in _OF_SHELLS else path.parent


def read_file(path: Path, pipes: AtPipe = AtPipe.REFUSED) -> bytes:
    """Return the contents of an input file. Raises SpecRefused when it cannot be read or is too large."""
    try:
        return outside.read(path, INPUT, AtLink.FOLLOWED, pipes)
    except UnfitFile as error:
        what, kind = error.what.removeprefix(f"{path}: "), FaultKind.SYNTAX if error.kind is Unfit.TOO_LARGE else FaultKind.UNREADABLE
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        what, kind = f"cannot be read: {getattr(error, 'strerror', None) or error}", FaultKind.UNREADABLE
    raise SpecRefused([Fault(printable(str(path)), 1, 1, "file", what, kind)])


def parse(raw: bytes, file: str) -> Source:
    """Return the YAML document in `raw`. Raises SpecRefused with the first syntax fault, or all duplicate keys and unsupported values."""
    text = _decode(raw, file)
    yaml = YAML(typ="rt", pure=True)
    try:
        _bound(text, file)
        node = yaml.compose(text)
    except SpecRefused:
        raise
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise SpecRefused(
            [Fault(file, line, column, "file", printable(f"not valid YAML: {_syntax_words(error)}"), FaultKind.SYNTAX)]
        ) from error
    except ReaderError as error:
        line, column = _line_column(text, error.position)
        what = f"not valid YAML: the character {text[error.position]!r} is not allowed here"
        raise SpecRefused([Fault(file, line, column, "file", printable(what), FaultKind.SYNTAX)]) from error
    except Exception as error:  # ruamel also raises others, such as a ValueError for an escape beyond Unicode
        raise SpecRefused([Fault(file, 1, 1, "file", f"not readable YAML ({type(error).__name__})", FaultKind.SYNTAX)]) from error
    if node is None:
        raise SpecRefused([Fault(file, 1, 1, "file", "empty", FaultKind.MISSING)])
    reader = _Reader(Source(file))
    reader.source.data = reader.plain(node, ())
    if reader.faults:
        raise SpecRefused(reader.faults)
    return reader.source


def _syntax_words(error: MarkedYAMLError) -> str:
    """Return the fault, with a remedy for common ones."""
    problem = str(error.problem or "")
    if "another document" in problem:
        return "a second document begins here; write one in a file"
    if r"'\t'" in problem:
        return "a tab; indent with spaces"
    return " ".join(str(part) for part in (problem, error.context) if part)


def _decode(raw: bytes, file: str) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _line_column(raw[: error.start].decode("utf-8", "replace"), error.start)
        what = f"not UTF-8: byte 0x{raw[error.start]:02x}; save the file as UTF-8"
        raise SpecRefused([Fault(file, line, column, "file", what, FaultKind.SYNTAX)]) from error
    if "\0" in text:
        line, column = _line_column(text, text.index("\0"))
        raise SpecRefused([Fault(file, line, column, "file", "a NUL byte; this is not a text file", FaultKind.SYNTAX)])
    return text


def _line_column(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _bound(text: str, file: str) -> None:
    """Check depth and size on YAML events, which need no recursion, before nodes are composed recursively."""
    depth = count = 0
    for event in YAML(typ="rt", pure=True).parse(text):
        if isinstance(event, CollectionStartEvent):
            depth += 1
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        count += isinstance(event, CollectionStartEvent | ScalarEvent | AliasEvent)
        if depth > DEEPEST or count > 2 * MOST_NODES:  # keys are events too
            what = f"nested deeper than {DEEPEST} levels" if depth > DEEPEST else f"more than {MOST_NODES} values"
            raise SpecRefused([Fault(file, event.start_mark.line + 1, event.start_mark.column + 1, "file", what, FaultKind.RANGE)])


class _TooMuch(Exception):
    pass


class _Reader:
    """Walks the nodes, and collects the position of each key and every fault."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.faults: list[Fault] = []
        self._nodes = 0

    def plain(self, node: Node, loc: Loc) -> Any:  # noqa: ANN401 YAML can hold anything
        """Return `node` as plain data; None, with a fault, where it is too large."""
        try:
            return self._value(node, loc)
        except _TooMuch:
            return None

    def _value(self, node: Node, loc: Loc) -> Any:  # noqa: ANN401
        self._nodes += 1
        if self._nodes > MOST_NODES or len(loc) > DEEPEST:
            self._fault(node, loc[:1], f"more than {MOST_NODES} values or {DEEPEST} levels, aliases followed", FaultKind.RANGE)
            raise _TooMuch
        if str(node.tag) not in _PLAIN_TAGS:
            self._fault(node, loc, f"the tag {node.tag} is not supported; leave it out", FaultKind.SYNTAX)
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, loc)
        if isinstance(node, SequenceNode):
            return self._sequence(node, loc)
        if isinstance(node, ScalarNode):
            return self._scalar(node, loc)
        raise TypeError(type(node))

    def _mapping(self, node: MappingNode, loc: Loc) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._fault(key_node, loc, "a key must be text, not a list or mapping", FaultKind.TYPE)
                continue
            key = self._text(key_node, loc)
            if key in entries:
                self._fault(
                    key_node, (*loc, key), f"duplicate; the first is in line {self.source.places[*loc, key].line}", FaultKind.DUPLICATE
                )
                continue
            self.source.places[*loc, key] = self._place(key_node)
            entries[key] = self._value(value_node, (*loc, key))
        return entries

    def _sequence(self, node: SequenceNode, loc: Loc) -> list[Any]:
        items = []
        for i, item in enumerate(node.value):
            self.source.places[*loc, i] = self._place(item)
            items.append(self._value(item, (*loc, i)))
        return items

    def _scalar(self, node: ScalarNode, loc: Loc) -> Any:  # noqa: ANN401
        text = self._text(node, loc)
        match str(node.tag).removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" if re.fullmatch(_WHOLE, text):
                return int(text)
            case "int" if re.fullmatch(_BASED, text):
                return int(text, 0)
            case "float":
                return _float(text)
        return text

    def _text(self, node: ScalarNode, loc: Loc) -> str:
        text = str(node.value)
        if node.style == ">":
            text = text.replace("\a", "")  # ruamel's mark of a folded line; an \a in the file itself was refused before
        if odd := [c for c in text if unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t"]:
            self._fault(node, loc, f"the control character {odd[0]!r} is not allowed in a value", FaultKind.SYNTAX)
            return ""
        return text

    def _place(self, node: Node) -> SourcePosition:
        return SourcePosition(self.source.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def _fault(self, node: Node, loc: Loc, what: str, kind: FaultKind) -> None:
        place = self._place(node)
        self.faults.append(Fault(place.file, place.line, place.column, path_text(loc), printable(_shortened(what)), kind))


def _float(text: str) -> float | str:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return text
    return value if math.isfinite(value) else text
