"""Import of CSIT's JSON of a test, in its model UTI: version 1.5 (resources/model_schema, ExportResult.py) and the drafts of 2021.

The drafts (0.1.0, docs/TNM/examples/output_uti) have the same figures at other places: below `results` or `test.results`, sometimes with
`test` or `result` between. They are converted to the form of 1.5. Values that were not measured are -1 in the drafts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dutlab.interop.field_table import Derived, Document, ResultForm, TableField, found_at, reader
from dutlab.interop.imported_run import BACK, BOTH, LINK, LeftOut, Omission
from dutlab.stats.summary import median
from dutlab.tools.json_text import as_number, member, read_cut_object

_UTI_RATE, _UTI_BITS, _UTI_TIME = {"pps": 1.0, "cps": 1.0}, {"bps": 1.0}, {"us": 1e3, "ms": 1e6, "s": 1e9}
_BOUNDS, _TIMES = ("lower", "upper"), ("min", "avg", "max")


def _documents(data: bytes) -> tuple[Sequence[Document], list[str]]:
    document, repairs = read_cut_object(data)
    test = member(document, "test") or document
    if "result" in document or "results" not in test:
        return [document], repairs
    info = {**member(document, "metadata"), **test, **member(test, "execution")}
    fields = {key.replace("-", "_"): value for key, value in info.items()}
    name, kind = (str(fields.get(key, "")) for key in ("test_id", "test_type"))
    ours = {"test_name_long": name.rpartition(".")[2], "test_type": kind.lower(), "passed": fields.get("status") == "PASS"}
    ours |= {"dut_type": fields.get("sut_type"), "dut_version": fields.get("sut_version")}
    ours |= {"hosts": [testbed] if (testbed := fields.get("testbed")) else [], "result": _of_draft(test["results"], kind.lower())}
    return [{**fields, "version": document.get("version"), **ours}], repairs


def _of_draft(results: object, kind: str) -> dict[str, Any]:
    """Return the results of a draft with the keys of 1.5."""
    while (
        isinstance(results, Mapping) and (inside := next((results[key] for key in ("test", "result") if key in results), None)) is not None
    ):
        results = inside
    fields = {key.replace("-", "_"): value for key, value in results.items()} if isinstance(results, Mapping) else {}
    rates, unit = member(fields, "throughput") or fields, fields.get("unit") or member(fields, "throughput").get("unit") or "pps"
    record: dict[str, Any] = {"type": kind}
    samples = fields.get("samples", member(fields, "value").get("receive-rate"))
    if isinstance(samples, list):
        record["receive_rate"] = {"rate": {"unit": unit, "values": samples}}
    for goal in ("ndr", "pdr"):
        of = member(rates, goal)
        record[goal] = _bounds(member(of, "value") or member(of, "value_pps"), member(of, "value_gbps"), of.get("unit", unit))
    if kind == "soak":
        record["critical_rate"] = _bounds(member(fields, "critical_rate") or member(fields, "value") or rates, {}, unit)
    for way, loads in (member(fields, "latency") or member(fields, "hdrh")).items():
        record[f"latency_{way}"] = {load.replace("-", "_"): _times(of) for load, of in member({way: loads}, way).items()}
    if "loss" in fields:
        record["loss"] = {"packet": {"value": fields["loss"]}, "time": {"value": fields.get("time"), "unit": "s"}}
    got = [number for end in ("client", "server") if (number := as_number(member(fields, end).get("rx_bits_per_second"))) is not None]
    if (bps := as_number(fields.get("bits_per_second"))) is not None or got:
        record |= {
            "bandwidth": {"value": sum(got) if bps is None else bps, "unit": "bps"},
            "retransmits": {"value": fields.get("retransmits")},
        }
    return record


def _bounds(rates: Mapping[str, Any], gbps: Mapping[str, Any], unit: object) -> dict[str, Any]:
    """Return both bounds. Numbers may be in quotes."""
    bounds: dict[str, Any] = {}
    for bound in _BOUNDS:
        of = bounds.setdefault(bound, {})
        if (rate := _above(rates.get(bound))) is not None:
            of["rate"] = {"value": rate, "unit": unit}
        if (bits := _above(gbps.get(bound))) is not None:
            of["bandwidth"] = {"value": bits * 1e9, "unit": "bps"}
    return bounds


def _times(of: object) -> dict[str, Any]:
    """Return the times from a mapping, or from text `min/avg/max/histogram`."""
    fields = of if isinstance(of, Mapping) else dict(zip(_TIMES, str(of).split("/"), strict=False))
    return {"unit": "us"} | {word: us for word in _TIMES if (us := _above(fields.get(word))) is not None}


def _above(value: object) -> float | None:
    try:
        number = as_number(float(value) if isinstance(value, str) else value)
    except ValueError:
        return None
    return number if number is not None and number >= 0 else None


def _uti_bounds(path: str, part: str) -> list[TableField]:
    """Return the fields of both bounds: rates of both directions together, bandwidths at L1 (append_mrr_value, export_search_bound)."""
    return [
        field
        for bound in ("lower", "upper")
        for field in (
            TableField(f"{path}.{bound}.rate.value", f"{part}{bound}_pps", units=_UTI_RATE, unit_at=f"{path}.{bound}.rate.unit"),
            TableField(
                f"{path}.{bound}.bandwidth.value", f"{part}{bound}_bps_l1", units=_UTI_BITS, unit_at=f"{path}.{bound}.bandwidth.unit"
            ),
        )
    ]


def _uti_latency(way: str, place: str) -> list[TableField]:
    words = {"avg": "mean", "min": "min", "max": "max"}
    return [
        TableField(
            f"result.latency_{way}.{load}.{theirs}",
            f"{load}/latency_{ours}_ns",
            units=_UTI_TIME,
            unit_at=f"result.latency_{way}.{load}.unit",
            place=place,
        )
        for load in ("pdr_0", "pdr_10", "pdr_50", "pdr_90")
        for theirs, ours in words.items()
    ]


def _uti(result: Document, figures: Mapping[str, float]) -> Derived:
    """Return the derived values. CSIT counts frames that were not sent as lost. Rates in connections a second get names of connections."""
    failed = result.get("passed") is False
    rates = [number for _, value in found_at(result, "result.receive_rate.rate.values.*") if (number := as_number(value)) is not None]
    in_connections = any(value == "cps" for _, value in found_at(result, "result.*.*.rate.unit"))
    usable = {_renamed(name) if in_connections else name: value for name, value in figures.items()}
    if rates:
        usable["received_pps"] = median(rates)
    hosts: Any = result.get("hosts")
    testbed = {"testbed": ",".join(map(str, hosts))[:100]} if isinstance(hosts, list) else {}
    if failed:
        why = f"the test failed: {str(result.get('message', ''))[:200]}"
    else:
        why = "" if usable else f"a test of type {str(member(result, 'result').get('type', 'unknown'))[:40]} has no figures"
    note = "a lower bound is the median of what was forwarded in long trials; frames that were not sent count as lost"
    left_out = [LeftOut("trials", Omission.COMPUTED, len(rates), "the median is the figure")] if len(rates) > 1 else []
    return Derived(usable, settings=testbed, why=why, notes=[note] if usable else [], place=BOTH, replaces=True, left_out=left_out)


def _renamed(name: str) -> str:
    return name.replace("lower_pps", "connections_lower_per_s").replace("upper_pps", "connections_upper_per_s")


_UTI = ResultForm(
    "CSIT",
    "search",
    fields=[
        TableField("test_name_long", setting="test"),
        TableField("test_type", setting="type"),
        *_uti_bounds("result.ndr", "ndr/"),
        *_uti_bounds("result.pdr", "pdr/"),
        *_uti_bounds("result.critical_rate", "critical/"),
        *_uti_latency("forward", LINK),
        *_uti_latency("reverse", BACK),
        TableField("result.bandwidth.value", "goodput_bps", units=_UTI_BITS, unit_at="result.bandwidth.unit"),
        TableField("result.retransmits.value", "retransmits"),
        TableField("result.rate.value", "completed_per_s", units={"rps": 1.0, "cps": 1.0}, unit_at="result.rate.unit"),
        TableField("result.latency.value", "latency_ns", units=_UTI_TIME, unit_at="result.latency.unit"),
        TableField("result.loss.time.value", "outage_ns", units=_UTI_TIME, unit_at="result.loss.time.unit"),
        TableField("result.loss.packet.value", "lost_frames"),
        TableField("result.aggregate_rate.rate.value", "offered_pps"),
    ],
    holds=lambda document: isinstance(document.get("result"), Mapping) and "test_id" in document and "passed" in document,
    documents=_documents,
    derive=_uti,
    facts={name: name for name in ("version", "dut_type", "dut_version", "tg_type", "tg_version")},
    started="start_time",
)
imported = reader("import a test's JSON from CSIT's output folder, of its model UTI", _UTI)
