"""JSON objects in the output of another program, complete or broken: the one object of a report, or all objects in a text.

Known faults of programs that are handled here: `-nan` as a number (esnet/iperf#613), text before or after the object (#1143), a truncated
object (#1776).
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dutlab.bounds import LARGEST_NUMBER, OUTPUT_BYTES

_MOST_DIGITS = 30
_NOT_JSON_NUMBER = re.compile(r"(?P<before>[:\[,]\s*)[-+]?(?:nan|inf(?:inity)?)(?:\([^)\n]{0,40}\))?(?=\s*[,}\]])", re.IGNORECASE)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""String. One that is never closed reaches to the end of the text, so the text is scanned only once."""
_TOKEN = re.compile(
    r'\s*(?:(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)|(?P<key>"(?:[^"\\]++|\\.)*+"\s*:)'
    r'|(?P<value>"(?:[^"\\]++|\\.)*+"|(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?=[\s,}\]])))',
    re.DOTALL,
)
_CLOSER = {"{": "}", "[": "]"}
_OPENS = re.compile(r'\{\s*["}]')
_NEXT = re.compile(r'^\{\s*["}]', re.MULTILINE)
"""Start of an object after one that cannot be read."""


class Unreadable(enum.Enum):
    """Reason why an output holds no result."""

    EMPTY = "nothing was printed"
    NOT_JSON = "it is something else than JSON"
    INVALID = "JSON that is not valid"
    CUT = "JSON that has no end"
    TOO_LARGE = "longer or deeper than any report"
    REPORTED = "the program itself reports an error"
    LACKING = "a report without what is asked of it"


class UnreadableError(Exception):
    """The output holds no result. The text is a clause with the reason."""

    def __init__(self, what: str, why: Unreadable = Unreadable.LACKING) -> None:
        super().__init__(what)
        self.why = why


@dataclass(frozen=True)
class JsonPiece:
    """Part of a text: an object, an object that cannot be read, or the text between objects."""

    line: int
    """Number of its first line, from 1."""
    document: Mapping[str, Any] | None = None
    repairs: Sequence[str] = ()
    fault: str = ""
    """Reason why the object cannot be read."""
    text: str = ""


def read_object(output: bytes, *, again: str = "") -> tuple[dict[str, Any], list[str]]:
    """Return the one JSON object in `output`, and the repairs that were needed to read it.

    A key that occurs a second time in its object gets the suffix `again`; without `again` the last value counts. Raises UnreadableError.
    """
    return _read(output, cut="refused", again=again)


def read_cut_object(output: bytes) -> tuple[dict[str, Any], list[str]]:
    """Read an object that is truncated, or has garbage inside, up to that line. Raises UnreadableError."""
    return _read(output, cut="kept")


def pieces_of(output: bytes, *, again: str = "") -> Iterator[JsonPiece]:
    """Yield all of `output` in order: every object, and the text around them; `again` as in read_object(). Raises UnreadableError."""
    if len(output) > OUTPUT_BYTES:
        raise UnreadableError(f"it has {len(output)} bytes, more than any report", Unreadable.TOO_LARGE)
    text = output.decode("utf-8", "replace")
    at, line = 0, 1
    while opens := _OPENS.search(text, at):
        begin = opens.start()
        if between := text[at:begin].strip("\ufeff \t\r\n,[]"):
            yield JsonPiece(line, text=between)
        line += text.count("\n", at, begin)
        piece, at = _piece(text, begin, line, again)
        yield piece
        line += text.count("\n", begin, at)
    if rest := text[at:].strip("\ufeff \t\r\n,[]"):
        yield JsonPiece(line, text=rest)


def _piece(text: str, begin: int, line: int, again: str) -> tuple[JsonPiece, int]:
    """Return the object at `begin`, and the index of its end."""
    try:
        document, end = _decode(text, begin, again)
        return JsonPiece(line, document), end
    except (ValueError, UnreadableError):
        after = _NEXT.search(text, begin + 1)
        end = after.start() if after else len(text)
        repair_doubts = _without_nan(text[begin:end])
    try:
        document, length = _decode(repair_doubts, 0, again)
    except ValueError:
        return JsonPiece(line, fault=str(_not_json(repair_doubts.rstrip()))), end
    except UnreadableError as error:
        return JsonPiece(line, fault=str(error)), end
    repairs = ["invalid numbers (nan, inf) were left out"]
    repairs += [f"text after the report: {rest[:80]!r}"] if (rest := repair_doubts[length:].strip()) else []
    return JsonPiece(line, document, repairs), end


def member(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object under `key` of `document`; empty if there is none."""
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def number(document: Mapping[str, Any], key: str) -> float | None:
    """Return the number under `key` of `document`, 0 or more; None for anything else, and for a number too large to be a count."""
    value = as_number(document.get(key))
    return value if value is not None and value >= 0 else None


def as_number(value: object) -> float | None:
    """Return a number, which may be negative; None for anything else, and for a number too large to be a count."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if abs(result) <= LARGEST_NUMBER else None


def _read(output: bytes, *, cut: Literal["refused", "kept"], again: str = "") -> tuple[dict[str, Any], list[str]]:
    if len(output) > OUTPUT_BYTES:
        raise UnreadableError(f"it printed {len(output)} bytes, more than any report has", Unreadable.TOO_LARGE)
    text = output.decode("utf-8", "replace").strip()
    if not text:
        raise UnreadableError("it printed nothing", Unreadable.EMPTY)
    begin = text.find("{")
    if begin < 0:
        raise UnreadableError(f"its output is not JSON: {text[:80]!r}", Unreadable.NOT_JSON)
    repairs = [f"text before the report: {text[:begin].strip()[:80]!r}"] if begin else []
    text = text[begin:]
    try:
        document, length = _decode(text, 0, again)
    except ValueError:
        repair_doubts = _without_nan(text)
        try:
            document, length = _decode(repair_doubts, 0, again)
        except ValueError:
            if cut == "refused":
                raise _not_json(repair_doubts) from None
            document, line = _whole_part(repair_doubts)
            line += output[: output.find(b"{")].count(b"\n")
            return document, [*repairs, f"line {line} cannot be read; what precedes it is kept"]
        text, repairs = repair_doubts, [*repairs, "invalid numbers (nan, inf) were left out"]
    if rest := text[length:].strip():
        repairs.append(f"text after the report: {rest[:80]!r}")
    return document, repairs


def _decode(text: str, at: int = 0, again: str = "") -> tuple[dict[str, Any], int]:
    """Return the object that begins at `at`, and the index of its end. Raises ValueError, also for NaN and Infinity, which are not JSON."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    def named(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value_by_key: dict[str, Any] = {}
        for key, value in pairs:
            value_by_key[f"{key}{again}" if key in value_by_key else key] = value
        return value_by_key

    try:
        decoder = json.JSONDecoder(parse_constant=refuse, parse_int=_whole_number, object_pairs_hook=named if again else None)
        document, end = decoder.raw_decode(text, at)
    except RecursionError:
        raise UnreadableError("its report is nested too deep to be one", Unreadable.TOO_LARGE) from None
    return document, end  # an object, because `text` begins with `{`


def _whole_number(digits: str) -> int | float:
    """Return an integer, or a float for more digits than any count has: sums of such integers would exceed the range of a float."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _whole_part(text: str) -> tuple[dict[str, Any], int]:
    """Return a truncated object up to its last complete value, closed; and the line, from 1, at which it is truncated."""
    at, open_, whole = 0, list[str](), 0
    while token := _TOKEN.match(text, at):
        if closed := token["close"]:
            if not open_ or open_[-1] != closed:
                break
            open_.pop()
        elif opened := token["open"]:
            open_.append(_CLOSER[opened])
        at = token.end()
        if token["open"] or token["close"] or token["value"]:
            whole = at  # commas and keys open and close nothing, so `open_` is what was open here
    try:
        document, _ = _decode(text[:whole] + "".join(reversed(open_)))
    except ValueError:
        raise _not_json(text) from None
    return document, text.count("\n", 0, at) + 1


def _not_json(text: str) -> UnreadableError:
    if not text.endswith("}"):
        return UnreadableError(f"its report is cut after {len(text)} characters", Unreadable.CUT)
    where = ""
    try:
        json.loads(text, parse_int=_whole_number)
    except json.JSONDecodeError as e:
        where = f" ({e.msg} at line {e.lineno}, character {e.pos})"
    except RecursionError:
        return UnreadableError("its report is nested too deep to be one", Unreadable.TOO_LARGE)
    return UnreadableError(f"its report is not valid JSON{where}", Unreadable.INVALID)


def _without_nan(text: str) -> str:
    """Return the text with `-nan` and its variants replaced by null, outside of strings."""
    pieces, at = [], 0
    for string in _STRING.finditer(text):
        pieces += [_NOT_JSON_NUMBER.sub(r"\g<before>null", text[at : string.start()]), string[0]]
        at = string.end()
    return "".join([*pieces, _NOT_JSON_NUMBER.sub(r"\g<before>null", text[at:])])
