"""Import of a data file of flent (`.flent.gz`, `.flent`, older `.json.gz`).

The format is flent's doc/data-format.rst: `x_values` in seconds, `results` with series → values or null, `metadata` with the unit of each
series. Since version 2 `raw_values` has each value with its own time; `results` has them interpolated onto `x_values`.

Figures are from the raw values if there are any, with three rules:

* The unit of a series decides its figure. In a file that names units, a series without one has no figure: cwnd, bytes of a queue, load of
  a processor, sampled with a stream as SERIES::what. A series that flent computed from others (sum, average, fairness) has none either.
* Raw values are in the unit of the tool until flent 2: transactions a second of netperf's UDP_RR, seconds of http-getter. The same series
  in `results` has flent's unit, so the conversion is the one that makes the two agree.
* A mean is the tool's own mean of the whole test (MEAN_VALUE, for rates), or weighted by the length of each sample.

The loss of a stream of D-ITG (VoIP) is from its packets. Its delay needs clocks that agree, so it is in the table only.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf, isfinite, log
from pathlib import PurePath
from typing import Any

from dutlab.bounds import OUTPUT_BYTES
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import (
    BACK,
    LINK,
    Imported,
    ImportOptions,
    Omission,
    imported_cell,
    left_out_of,
    moment,
    moment_in,
    repair_doubts,
)
from dutlab.methods.ports import Measured, Row
from dutlab.spec.workloads.setting import Value
from dutlab.subject import joined
from dutlab.tools.json_text import UnreadableError, member, number, read_cut_object

_GZIP = b"\x1f\x8b"
_COMPUTED = (" avg", " sum", " totals", " total", " fairness")
_COMPUTING_RUNNERS = ("AverageRunner", "SmoothAverageRunner", "SumRunner", "DiffMinRunner", "FairnessRunner")
"""Runners that compute series from others (flent/runners.py). Files since version 3 name them."""
_SCALES = {"Mbits/s": 1e6, "Kbits/s": 1e3, "bits/s": 1.0, "Mbit/s": 1e6}
_OLD_RATE = re.compile(r"(TCP|UDP|SCTP|Upload|Download)\b")
"""Names of rate series in a file from before 2014, which has no units."""
_RTT = ("rtt_min_ns", "rtt_mean_ns", "rtt_p50_ns", "rtt_p99_ns", "rtt_max_ns")
_LATENCY = ("latency_min_ns", "latency_mean_ns", "latency_p50_ns", "latency_p99_ns", "latency_max_ns")
_LOST_STREAM = 10.0
_ALIKE, _SAME_UNIT = 2.0, 300.0
"""Factors. Raw values within the first factor of `results` agree with them. A mean beyond the second factor of the samples is in another
unit, which differs by a factor of 1000."""
_NO_TIME = 1e9
_MOST_PARAMETERS = 20
_LEFT_OUT = (Omission.COMPUTED, Omission.NO_MEASURE)
_STAGGERED = 1.1
"""Ratio of the time of all streams to that of the longest one, above which they did not run at the same time."""

Convert = Callable[[float], float]
_CONVERSIONS: Sequence[Convert] = (
    lambda value: value,
    lambda value: value * 1e3,
    lambda value: value / 1e3,
    lambda value: value / 1e6,
    lambda value: 1e3 / value if value > 1 / _NO_TIME else inf,  # transactions a second: milliseconds of one (transformers.rr_to_ms)
)


@dataclass(frozen=True)
class _Series:
    """One series in flent's unit. `unit` is empty if the file does not name it."""

    name: str
    unit: str
    values: Sequence[float]
    mean: float
    why: Omission | None
    """Reason to leave it out of the figures: computed from others, or without a measure; None if it has figures."""
    has_total: bool
    """True if the tool gave the mean of the whole test."""
    span_s: tuple[float, float] | None
    """Start and end of its samples, by the file's clock."""

    @property
    def is_measured(self) -> bool:
        """True if the series has figures: a stream or a ping."""
        return self.why is None


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read the file `name`. The device is named after the file, without its endings. Raises InputError."""
    try:
        text, cut = _unpacked(data)
        document, repairs = read_cut_object(text)
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy="import the data file that flent leaves, .flent or .flent.gz") from error
    metadata = member(document, "metadata")
    series = [one for key in member(document, "results") if (one := _series(document, key))]
    figures, losses = _figures(series), _losses(document)
    if losses:
        place = next(iter(figures), LINK)
        figures[place] = figures.get(place, {}) | {f"{name.lower()}/loss_ratio": loss for name, loss in losses.items()}
    if not figures:
        raise InputError(f"{name}: has no series of rates or times", remedy="import the data file that flent leaves, .flent or .flent.gz")
    measured = Measured(
        figures=figures,
        doubts=(*repair_doubts([*cut, *repairs, *_doubts(series)]), *(Doubt(DoubtKind.STALLED, words, LINK) for words in _stalls(series))),
        facts={"flent_version": str(metadata.get("FLENT_VERSION", "unknown"))},
        notes=[*([f"note of the file: {note}"] if (note := metadata.get("NOTE")) else []), *_notes(series)],
        tables={"series": [_row(one) for one in series]},
    )
    params = {"test": str(metadata.get("NAME", "not stated")), "duration_s": number(metadata, "LENGTH"), **_asked(metadata)}
    cell = imported_cell(PurePath(name).name.split(".")[0], workload="flent", tool="flent", params=params)
    began, lasted_s = moment_in(metadata.get("TIME")), number(metadata, "TOTAL_LENGTH")
    hosts = metadata.get("HOSTS")
    apart = {"client": str(metadata.get("LOCAL_HOST") or ""), "server": " ".join(map(str, hosts)) if isinstance(hosts, list) else ""}
    ended = moment(began.timestamp() + lasted_s) if began and lasted_s else None
    return [
        Imported(
            cell,
            measured,
            started=began,
            ended=ended,
            apart={name: host for name, host in apart.items() if host},
            left_out=[
                out
                for why in _LEFT_OUT
                for out in left_out_of(
                    "series", why, [one.name for one in series if one.why is why and one.name.removesuffix("::loss") not in losses]
                )
            ],
        )
    ]


def _asked(document: Mapping[str, Any]) -> dict[str, Value]:
    """Return other settings of the test: the version of IP, and the values of `--test-parameter`."""
    version = number(document, "IP_VERSION")
    parameters: dict[str, Value] = {
        str(key): value for key, value in member(document, "TEST_PARAMETERS").items() if isinstance(value, str | int | float)
    }
    settings: dict[str, Value] = {"ip": str(int(version))} if version else {}
    return settings | {name: parameters[name] for name in sorted(parameters)[:_MOST_PARAMETERS]}


def _unpacked(data: bytes) -> tuple[bytes, list[str]]:
    """Return the text as far as it can be unpacked, and a sentence if it was cut. Raises UnreadableError."""
    if not data.startswith(_GZIP):
        return data, []
    unpacker = zlib.decompressobj(wbits=31)  # 31: a gzip file
    try:
        text = unpacker.decompress(data, OUTPUT_BYTES)
    except zlib.error as error:
        raise UnreadableError(f"is not a whole gzip file ({error})") from error
    if unpacker.unconsumed_tail:
        raise UnreadableError(f"unpacks to more than {OUTPUT_BYTES} bytes, more than any test has")
    return text, [] if unpacker.eof else ["the packed file was cut"]


def _series(document: Mapping[str, Any], name: str) -> _Series | None:
    """Return a series of the file; None if it has no values."""
    metadata, results, raw = (member(document, key) for key in ("metadata", "results", "raw_values"))
    about = member(member(metadata, "SERIES_META"), name)
    shown = [value for value in _numbers(results.get(name)) if value is not None]
    unit = _unit(metadata, name)
    samples = _samples(raw.get(name), of_times=unit == "ms")
    convert = _conversion([value for value, _ in samples], shown)
    values = [converted for value, _ in samples if isfinite(converted := convert(value))] if convert else shown
    if not values:
        return None
    mean = _mean(values)
    if convert and (weights := [lasted_s for _, lasted_s in samples if lasted_s is not None]) and len(weights) == len(samples):
        # Computed in the tool's unit: all transactions ÷ the whole time, not a mean of means.
        whole = convert(fsum(value * weight for (value, _), weight in zip(samples, weights, strict=True)) / fsum(weights))
        mean = whole if isfinite(whole) else mean
    total = number(about, "MEAN_VALUE") if unit in _SCALES else None
    has_total = total is not None and _distance(total, mean) < log(_SAME_UNIT)
    base, separator, detail = name.rpartition("::")
    is_interleaved_with = (
        bool(separator) and not detail.isdecimal() and (about.get("RUNNER") == "NullRunner" or base in raw or base in results)
    )
    is_computed = name.endswith(_COMPUTED) or about.get("RUNNER") in _COMPUTING_RUNNERS
    mean = total if total is not None and has_total else mean
    why = Omission.COMPUTED if is_computed else Omission.NO_MEASURE if is_interleaved_with or unit not in {*_SCALES, "ms"} else None
    return _Series(name, unit, values, mean, why, has_total, _span(raw.get(name)))


def _numbers(values: object) -> list[float | None]:
    return [number({"val": value}, "val") for value in values] if isinstance(values, list) else []


def _samples(raw: object, *, of_times: bool) -> list[tuple[float, float | None]]:
    """Return the values, each with its length in seconds, or None if the tool does not state it.

    For times (`of_times`), samples of ten times the usual length or more, or a tenth or less, are left out: netperf reports such a sample
    when it has lost the stream. flent leaves them out too since version 2 (NetperfDemoRunner.parse()).
    """
    entries = [e for e in raw if isinstance(e, Mapping)] if isinstance(raw, list) else []
    samples = [(value, number(e, "dur") or None) for e in entries if (value := number(e, "val")) is not None]
    lasted = sorted(lasted_s for _, lasted_s in samples if lasted_s)
    if not of_times or not lasted:
        return samples
    usual_s = _quantile(lasted, 50)
    return [(value, s) for value, s in samples if s is None or usual_s / _LOST_STREAM < s < usual_s * _LOST_STREAM]


def _conversion(raw: Sequence[float], shown: Sequence[float]) -> Convert | None:
    """Return the conversion after which the raw values agree best with those in flent's unit; None without agreement or values."""
    if not raw or not shown:
        return None
    aims = [_quantile(sorted(shown), percent) for percent in (25, 50, 75)]

    def distance(convert: Convert) -> float:
        values = sorted(convert(value) for value in raw)
        return sum(_distance(_quantile(values, percent), aim) for percent, aim in zip((25, 50, 75), aims, strict=True)) / len(aims)

    best = min(_CONVERSIONS, key=distance)
    return best if distance(best) < log(_ALIKE) else None


def _distance(one: float, other: float) -> float:
    """Return the distance of two magnitudes: the logarithm of their ratio; 0 for equal values."""
    if one == other:
        return 0.0
    return abs(log(one / other)) if one > 0 and other > 0 and one / other > 0 else log(_SAME_UNIT)


def _span(raw: object) -> tuple[float, float] | None:
    entries = [e for e in raw if isinstance(e, Mapping) and number(e, "val") is not None] if isinstance(raw, list) else []
    times = [at for e in entries if (at := number(e, "t")) is not None]
    if not times or len(times) < len(entries):
        return None
    return min(at - (number(e, "dur") or 0.0) for at, e in zip(times, entries, strict=True)), max(times)


def _unit(document: Mapping[str, Any], series: str) -> str:
    """Return the unit that flent writes. Files from before 2014 have no units; there it follows from the name of the series."""
    about = member(document, "SERIES_META")
    if any(member(about, key).get("UNITS") for key in about):
        return str(member(about, series).get("UNITS") or "")
    return "ms" if series.startswith("Ping") else "Mbits/s" if _OLD_RATE.match(series) else ""


def _figures(series: Sequence[_Series]) -> dict[str, dict[str, float]]:
    """Return the figures of upload and download, as far as the file has them, and of the whole, which has the times too."""
    streams = [one for one in series if one.is_measured and one.unit in _SCALES]
    arrived = [one for one in streams if not _is_sent(one)]
    ways = {
        place: {"goodput_bps": _together(of)}
        for word, place in (("upload", LINK), ("download", BACK))
        if (of := [one for one in arrived if word in one.name.lower()])
    }
    figures = {"goodput_bps": _together(arrived)} if arrived else {}
    if sent := [one for one in streams if _is_sent(one)]:
        figures["sent_bps"] = _together(sent)
    times = [one for one in series if one.is_measured and one.unit == "ms"]
    figures |= _times(_RTT, [one for one in times if one.name.startswith("Ping")])
    figures |= _times(_LATENCY, [one for one in times if not one.name.startswith("Ping")])
    whole = joined(ways) or LINK
    return ({whole: figures} if figures else {}) | {place: of for place, of in ways.items() if place != whole}


def _losses(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the loss of each stream of D-ITG, such as VoIP, from the numbers of the packets that arrived, as flent's `raw_seq_loss`.

    Packets lost before the first and after the last that arrived are not known.
    """
    losses = dict[str, float]()
    results, raw = member(document, "results"), member(document, "raw_values")
    for name, samples in raw.items():
        packets = [e for e in samples if isinstance(e, Mapping)] if isinstance(samples, list) else []
        arrived = {round(n) for e in packets if number(e, "size") and (n := number(e, "seq")) is not None}
        if f"{name}::loss" in results and len(arrived) > 1:
            losses[name] = 1 - len(arrived) / (max(arrived) - min(arrived) + 1)
    return losses


def _is_sent(stream: _Series) -> bool:
    """Return True if the samples count sent datagrams of a UDP client. The server's mean at the end counts arrivals (IperfCsvRunner)."""
    return stream.name.startswith("UDP") and not stream.has_total


def _staggered(streams: Sequence[_Series]) -> float | None:
    """Return the seconds from the start of the first stream to the end of the last; None if they ran at the same time."""
    spans = [one.span_s for one in streams if one.span_s is not None]
    if not spans or len(spans) < len(streams):
        return None
    whole_s, longest_s = max(end for _, end in spans) - min(begin for begin, _ in spans), max(end - begin for begin, end in spans)
    return whole_s if whole_s > longest_s * _STAGGERED > 0 else None


def _together(streams: Sequence[_Series]) -> float:
    """Return the bits a second of all streams; over the whole time if they did not run at the same time."""
    if whole_s := _staggered(streams):
        return sum(one.mean * _SCALES[one.unit] * (one.span_s[1] - one.span_s[0]) for one in streams if one.span_s) / whole_s
    return sum(one.mean * _SCALES[one.unit] for one in streams)


def _doubts(series: Sequence[_Series]) -> list[str]:
    sent = [one.name for one in series if one.is_measured and one.unit in _SCALES and _is_sent(one)]
    return [f"{', '.join(sent)}: the file has only what was sent, not what arrived"] if sent else []


def _stalls(series: Sequence[_Series]) -> list[str]:
    """Return sentences on streams with samples of 0 between others."""
    sentences = []
    for one in series:
        nonzero = [n for n, value in enumerate(one.values) if value] if one.is_measured and one.unit in _SCALES else []
        samples = one.values[nonzero[0] : nonzero[-1] + 1] if nonzero else []
        if zeros := sum(not value for value in samples):
            sentences.append(f"{one.name}: 0 in {zeros} of {len(samples)} samples")
    return sentences


def _notes(series: Sequence[_Series]) -> list[str]:
    whole_s = _staggered([one for one in series if one.is_measured and one.unit in _SCALES and not _is_sent(one)])
    return [f"the streams did not run at the same time: goodput is over the {whole_s:.1f} s from the first to the last"] if whole_s else []


def _times(names: Sequence[str], series: Sequence[_Series]) -> dict[str, float]:
    """Return least, mean, median, 99th percentile and greatest of all samples, under `names`. Each series has the weight of its samples."""
    values = sorted(value for one in series for value in one.values)
    if not values:
        return {}
    mean = fsum(one.mean * len(one.values) for one in series) / len(values)
    summary = (values[0], mean, _quantile(values, 50), _quantile(values, 99), values[-1])
    return {name: value * 1e6 for name, value in zip(names, summary, strict=True)}


def _row(series: _Series) -> Row:
    ordered = sorted(series.values)
    summary = {"min": ordered[0], "mean": series.mean, "p50": _quantile(ordered, 50), "p99": _quantile(ordered, 99), "max": ordered[-1]}
    return {"series": series.name, "unit": series.unit, "values": len(ordered), **summary}


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _quantile(ordered: Sequence[float], percent: int) -> float:
    """Return the value that `percent` of the values do not exceed (nearest rank)."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
