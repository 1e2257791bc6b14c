"""Import of wrk's output: requests a second, bytes a second, latency, failures.

Sizes are in powers of 1024, counts in powers of 1000, times in us, ms, s, m or h (src/units.c). Transfer counts the bytes read from the
sockets, headers included. The deviation of a latency is left out: dutlab has no measure for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dutlab.interop.field_table import Derived, Document, ResultForm, TableField, reader
from dutlab.interop.imported_run import LeftOut, Omission
from dutlab.tools.json_text import UnreadableError, as_number

_COUNT, _SIZE = (
    {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12},
    {f"{p}B": 8 * 1024.0**n for n, p in enumerate(("", "K", "M", "G", "T", "P"))},
)
_TIME = {"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
_BEGIN = re.compile(r"^[ \t]*Running (?P<time>[\d.]{1,30})(?P<time_unit>us|ms|s|m|h) test @ (?P<url>\S+)", re.MULTILINE)
_LATENCY = r"(?P<{0}>[\d.]{{1,30}})(?P<{0}_unit>us|ms|s|m|h)"
_PERCENTILES = {"p50": "50", "p90": "90", "p99": "99", "p999": r"99\.9", "p9999": r"99\.99"}
"""Name → share in percent. wrk2 prints three decimals and the last two."""
_PARTS = (
    r"(?P<threads>\d{1,18}) threads and (?P<connections>\d{1,18}) connections",
    rf"^[ \t]+Latency +{_LATENCY.format('mean')} +[\d.]+(?:us|ms|s|m|h) +{_LATENCY.format('max')}",
    *(rf"^[ \t]+{percent}\.?0*% +{_LATENCY.format(name)}" for name, percent in _PERCENTILES.items()),
    r"^[ \t]+(?P<requests>\d{1,18}) requests in [\d.]+\w+, [\d.]+\w+ read",
    r"^[ \t]*Requests/sec: +(?P<rate>[\d.]{1,30})(?P<rate_unit>[kMGT]?)",
    r"^[ \t]*Transfer/sec: +(?P<bytes>[\d.]{1,30})(?P<bytes_unit>[KMGTP]?B)",
    r"Socket errors: connect (?P<connect>\d{1,18}), read (?P<read>\d{1,18}), write (?P<write>\d{1,18}), timeout (?P<timeout>\d{1,18})",
    r"Non-2xx or 3xx responses: (?P<refused>\d{1,18})",
)
_SOCKETS = ("connect", "read", "write", "timeout")


def _documents(data: bytes) -> tuple[Sequence[Document], list[str]]:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    begins = list(_BEGIN.finditer(text))
    ends = [*(begin.start() for begin in begins), len(text)][1:]
    tests = [_test(begin, text[begin.end() : end]) for begin, end in zip(begins, ends, strict=True)]
    whole = [test for test in tests if "rate" in test]
    if not whole:
        raise UnreadableError("it ended before its totals" if begins else "no test of wrk is in it")
    cut = len(tests) - len(whole)
    return whole, [f"{cut} of {len(tests)} tests ended before their totals"] if cut else []


def _test(begin: re.Match[str], body: str) -> Document:
    parts = (re.search(part, body, re.MULTILINE) for part in _PARTS)
    words = {name: word for match in (begin, *parts) if match for name, word in match.groupdict().items()}
    return {name: _number(word) for name, word in words.items()}


def _number(word: str) -> float | int | str:
    try:
        return int(word) if word.isdecimal() else float(word)
    except ValueError:
        return word


def _derive(result: Document, figures: Mapping[str, float]) -> Derived:
    requests, refused, errors = result.get("requests"), result.get("refused", 0), {name: result.get(name, 0) for name in _SOCKETS}
    detail = ", ".join(f"{name} {count}" for name, count in errors.items() if count)
    return Derived(
        figures={"failed_ratio": refused / requests} if requests else {},
        settings={} if (time := as_number(result["time"])) is None else {"duration_s": time * _TIME[str(result["time_unit"])] / 1e9},
        notes=["its rate counts answers of any status"] if refused else [],
        left_out=[LeftOut("socket errors", Omission.NO_MEASURE, sum(errors.values()), detail)] if detail else [],
    )


imported = reader(
    "import what wrk prints",
    ResultForm(
        "wrk",
        "wrk",
        fields=[
            TableField("url", setting="url"),
            TableField("threads", setting="threads"),
            TableField("connections", setting="connections"),
            TableField("rate", "transactions_per_s", units=_COUNT, unit_at="rate_unit"),
            TableField("bytes", "goodput_bps", units=_SIZE, unit_at="bytes_unit"),
            TableField("mean", "latency_mean_ns", units=_TIME, unit_at="mean_unit"),
            TableField("max", "latency_max_ns", units=_TIME, unit_at="max_unit"),
            *(TableField(name, f"latency_{name}_ns", units=_TIME, unit_at=f"{name}_unit") for name in _PERCENTILES),
        ],
        holds=bool,
        documents=_documents,
        derive=_derive,
        names_all=True,
    ),
)
