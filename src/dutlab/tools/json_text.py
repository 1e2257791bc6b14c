"""The one JSON object in what another program wrote, whole or broken.

Seen in the wild and read here: `-nan` as a number (esnet/iperf#613), text before or after the object (#1143), one that was cut (#1776).
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from dutlab.bounds import LARGEST_NUMBER, OUTPUT_BYTES

_MOST_DIGITS = 30
_NOT_JSON_NUMBER = re.compile(r"(?P<before>[:\[,]\s*)[-+]?(?:nan|inf(?:inity)?)(?:\([^)\n]{0,40}\))?(?=\s*[,}\]])", re.IGNORECASE)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""One that is never closed reaches to the end of the text, which is therefore looked through once."""
_TOKEN = re.compile(
    r'\s*(?:(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)|(?P<key>"(?:[^"\\]++|\\.)*+"\s*:)'
    r'|(?P<value>"(?:[^"\\]++|\\.)*+"|(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?=[\s,}\]])))',
    re.DOTALL,
)
_CLOSER = {"{": "}", "[": "]"}


class Unreadable(enum.Enum):
    """Why an output holds no result."""

    EMPTY = "nothing was printed"
    NOT_JSON = "it is something else than JSON"
    INVALID = "JSON that is not valid"
    CUT = "JSON that has no end"
    TOO_LARGE = "longer or deeper than any report"
    REPORTED = "the program itself reports an error"
    LACKING = "a report without what is asked of it"


class UnreadableError(Exception):
    """The output holds no result; the text is the part of a sentence that says why."""

    def __init__(self, what: str, why: Unreadable = Unreadable.LACKING) -> None:
        super().__init__(what)
        self.why = why


def read_object(output: bytes) -> tuple[dict[str, Any], list[str]]:
    """The one JSON object in `output`, and what was mended to get at it.

    Raises UnreadableError.
    """
    return _read(output, cut="refused")


def read_cut_object(output: bytes) -> tuple[dict[str, Any], list[str]]:
    """The same, but of an object that breaks off, or has garbage inside, all that is whole before that line. Raises UnreadableError."""
    return _read(output, cut="kept")


def member(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object that is `key` of `document`; empty where there is none."""
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def number(document: Mapping[str, Any], key: str) -> float | None:
    """The number from 0 on that is `key` of `document`; None for anything else, and for one that nothing could have counted."""
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if 0 <= found <= LARGEST_NUMBER else None


def _read(output: bytes, *, cut: Literal["refused", "kept"]) -> tuple[dict[str, Any], list[str]]:
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
        document, length = _decode(text)
    except ValueError:
        mended = _without_nan(text)
        try:
            document, length = _decode(mended)
        except ValueError:
            if cut == "refused":
                raise _not_json(mended) from None
            document, line = _whole_part(mended)
            line += output[: output.find(b"{")].count(b"\n")
            return document, [*repairs, f"line {line} cannot be read; what precedes it is kept"]
        text, repairs = mended, [*repairs, "invalid numbers (nan, inf) were left out"]
    if rest := text[length:].strip():
        repairs.append(f"text after the report: {rest[:80]!r}")
    return document, repairs


def _decode(text: str) -> tuple[dict[str, Any], int]:
    """The object that `text` begins with and its length. Raises ValueError, also for NaN and Infinity, which are not JSON."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        document, length = json.JSONDecoder(parse_constant=refuse, parse_int=_whole_number).raw_decode(text)
    except RecursionError:
        raise UnreadableError("its report is nested too deep to be one", Unreadable.TOO_LARGE) from None
    return document, length  # an object, because `text` begins with `{`


def _whole_number(digits: str) -> int | float:
    """One of more digits than anything counts is not an integer: sums of it would leave what a float holds."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _whole_part(text: str) -> tuple[dict[str, Any], int]:
    """Of an object that breaks off: all up to its last whole value, closed; and the line, from 1, where it breaks off."""
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
    return UnreadableError(f"its report is not valid JSON{where}", Unreadable.INVALID)


def _without_nan(text: str) -> str:
    """`-nan` and its kin as null, outside of strings only."""
    pieces, at = [], 0
    for string in _STRING.finditer(text):
        pieces += [_NOT_JSON_NUMBER.sub(r"\g<before>null", text[at : string.start()]), string[0]]
        at = string.end()
    return "".join([*pieces, _NOT_JSON_NUMBER.sub(r"\g<before>null", text[at:])])
