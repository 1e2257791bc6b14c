"""Import of JSON from programs that test with TRex, by a table of fields for each: TRex's own `get_stats()`, nfvbench.

Formats: TRex v3.08 (interactive/trex: trex_port_stats.py, trex_stl_stats.py, astf/stats; src/stt_cp.cpp), nfvbench (traffic_client.py,
chain_runner.py; nfvbenchd.py answers with the same below `result`). A file may also have the dict as Python prints it, and a log several.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from dutlab.doubts import Doubt, DoubtKind
from dutlab.interop.field_table import Derived, Document, ResultForm, TableField, found_at, number_at, reader
from dutlab.interop.imported_run import BOTH, LINK, AssumedUnit, LeftOut, Omission, repair_doubts
from dutlab.tools.json_text import as_number, pieces_of, read_cut_object

_US = 1e3
_BRACE = re.compile("[{}]")


def _printed(data: bytes) -> tuple[Sequence[Document], list[str]]:
    """Read one object, in JSON or as Python prints it. Raises UnreadableError."""
    text = data.decode("utf-8", "replace")
    try:
        literal = ast.literal_eval(text[text.index("{") : text.rindex("}") + 1])
        value = json.loads(json.dumps(literal))  # keys are text, as in JSON
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        value = None
    if isinstance(value, dict):
        return [value], []
    document, repairs = read_cut_object(data)
    return [document], repairs


def _literals(text: str) -> Iterator[Document]:
    """Yield each object that Python printed in a text."""
    depth = begin = 0
    for brace in _BRACE.finditer(text):
        depth = max(0, depth + (1 if brace[0] == "{" else -1))
        if depth == 1 and brace[0] == "{":
            begin = brace.start()
        elif depth == 0 and brace[0] == "}" and "packets" in text[begin : brace.end()]:
            with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                value = json.loads(json.dumps(ast.literal_eval(text[begin : brace.end()])))
                if isinstance(value, dict):
                    yield value


def _readings(data: bytes) -> tuple[Sequence[Document], list[str]]:
    """Read all counters of TRex in a file or log. Ports that were printed one by one are read in pairs, as TRex uses them.

    Raises UnreadableError.
    """
    pieces = [piece for piece in pieces_of(data) if piece.document is not None]
    objects = [piece.document for piece in pieces if piece.document is not None] or [*_literals(data.decode("utf-8", "replace"))]
    readings = [of for of in objects if _is_trex(of)]
    if not readings:
        ports = [of for of in objects if {"opackets", "ipackets"} <= of.keys()]
        readings = [_pair(*ports[n : n + 2]) for n in range(0, len(ports) - 1, 2)]
    if not readings:
        return _printed(data)
    repairs = [repair for piece in pieces for repair in piece.repairs]
    return [of if len(readings) == 1 else {**of, "reading": n} for n, of in enumerate(readings, 1)], repairs


def _pair(one: Document, other: Document) -> Document:
    """Return the counters of two ports as TRex writes those of all ports."""
    numbers = ((key, as_number(of), as_number(other.get(key))) for key, of in one.items())
    total = {key: mine + theirs for key, mine, theirs in numbers if mine is not None and theirs is not None}
    return {"0": one, "1": other, "total": total, "global": {}}


def _answered(data: bytes) -> tuple[Sequence[Document], list[str]]:
    """Read a result of nfvbench, the answer of its server that contains one, or a page of OPNFV's database of results (behave_tests)."""
    (document,), repairs = _printed(data)
    pages = [answer for _, answer in found_at(document, "results.*.details.results.*.*.output.result")]
    answers = pages or [document.get("result")]
    return [answer for answer in answers if isinstance(answer, Mapping)] or [document], repairs


def _is_trex(document: Document) -> bool:
    return (
        isinstance(document.get("total"), Mapping)
        and isinstance(document.get("global"), Mapping)
        and number_at(document, "total.opackets") is not None
    )


def _ports_that_sent(result: Document) -> int:
    return sum(1 for (port,), sent in found_at(result, "*.opackets") if port.isdecimal() and as_number(sent))


_PORT_RATES = (
    TableField("total.tx_pps", "offered_pps"),
    TableField("total.rx_pps", "received_pps"),
    TableField("total.tx_bps", "offered_bps_l2"),
    TableField("total.rx_bps", "received_bps_l2"),
    TableField("total.tx_bps_L1", "offered_bps_l1"),
    TableField("total.rx_bps_L1", "received_bps_l1"),
)


def _trex(result: Document, figures: Mapping[str, float]) -> Derived:
    """Return the derived values. Loss comes from the counters of all ports; rates are those at the reading, left out without load."""
    sent, came, sent_bytes = (number_at(result, f"total.{name}") for name in ("opackets", "ipackets", "obytes"))
    idle = [] if figures.get("offered_pps") else [field.figure for field in _PORT_RATES if field.figure in figures]
    more = {"loss_ratio": (sent - came) / sent} if sent and came is not None else {}
    left_out = [LeftOut("rates", Omission.UNFINISHED, len(idle), "of a moment without traffic")] if idle else []
    notes = ["its rates are of the moment when it was read, its loss of all frames since the counters were cleared"]
    frame = {"frame_size": round(sent_bytes / sent)} if sent and sent_bytes else {}
    usable = {name: value for name, value in figures.items() if name not in idle}
    return Derived(
        usable | more, settings=frame, notes=notes, left_out=left_out, place=BOTH if _ports_that_sent(result) > 1 else LINK, replaces=True
    )


_STL = ResultForm(
    "TRex STL",
    "sweep",
    fields=[
        *_PORT_RATES,
        TableField("total.opackets", "sent_frames"),
        TableField("total.ipackets", "received_frames"),
        TableField("global.cpu_util", "generator_cpu_percent"),
        TableField("reading", setting="reading"),
        TableField("flow_stats.*.tx_pkts.total", "pg{}/sent_frames"),
        TableField("flow_stats.*.rx_pkts.total", "pg{}/received_frames"),
        TableField("latency.*.latency.average", "pg{}/latency_mean_ns", scale=_US),
        TableField("latency.*.latency.total_min", "pg{}/latency_min_ns", scale=_US),
        TableField("latency.*.latency.total_max", "pg{}/latency_max_ns", scale=_US),
        TableField("latency.*.latency.jitter", "pg{}/jitter_ns", scale=_US),
        TableField("latency.*.err_cntrs.dropped", "pg{}/lost_frames"),
        TableField("latency.*.err_cntrs.dup", "pg{}/duplicated_frames"),
        TableField("latency.*.err_cntrs.out_of_order", "pg{}/reordered_frames"),
    ],
    holds=lambda document: _is_trex(document) and not isinstance(document.get("traffic"), Mapping),
    documents=_readings,
    derive=_trex,
    assumed=(
        AssumedUnit("latency", "µs", "TRex counts so"),
        AssumedUnit("tx_bps, rx_bps", "bits of L2 with FCS", "tx_bps_L1 adds 20 bytes a frame"),
    ),
)


def _astf(result: Document, figures: Mapping[str, float]) -> Derived:
    """Return the derived values. Goodput is the sum received by both sides. Attempted connections that were not established have failed."""
    client = "traffic.client"
    tried, established = number_at(result, f"{client}.tcps_connattempt"), number_at(result, f"{client}.tcps_connects")
    got = [rate for side in ("client", "server") if (rate := number_at(result, f"traffic.{side}.m_rx_bw_l7_r")) is not None]
    more = {"goodput_bps": sum(got)} if any(got) else {}
    more |= {"failed_ratio": (tried - established) / tried} if tried and established is not None else {}
    derived = _trex(result, figures)
    faults = [f"{key}: {value}" for _, of in found_at(result, "traffic.*.err") if isinstance(of, Mapping) for key, value in of.items()]
    doubts = repair_doubts([f"TRex counts errors: {'; '.join(map(str, faults))[:300]}"] if faults else [])
    # With TCP the frames of both directions differ, so sent less received frames is not loss.
    usable = {name: value for name, value in derived.figures.items() if name != "loss_ratio"}
    return Derived(usable | more, doubts=doubts, notes=derived.notes[:1], left_out=derived.left_out, place=BOTH, replaces=True)


_ASTF = ResultForm(
    "TRex ASTF",
    "trex-astf",
    fields=[
        *_PORT_RATES,
        TableField("global.cpu_util", "generator_cpu_percent"),
        TableField("global.tx_cps", "completed_per_s"),
        TableField("reading", setting="reading"),
        TableField("traffic.client.m_rx_bw_l7_r", "client/goodput_bps"),
        TableField("traffic.server.m_rx_bw_l7_r", "server/goodput_bps"),
        TableField("traffic.client.tcps_connects", "established_connections"),
        TableField("traffic.*.tcps_sndrexmitpack", "{}/retransmits"),
        TableField("traffic.client.m_traffic_duration", setting="duration_s"),
        TableField("latency.*.hist.s_avg", "port{}/latency_mean_ns", scale=_US),
        TableField("latency.*.hist.min_usec", "port{}/latency_min_ns", scale=_US),
        TableField("latency.*.hist.max_usec", "port{}/latency_max_ns", scale=_US),
    ],
    holds=lambda document: _is_trex(document) and isinstance(document.get("traffic"), Mapping),
    documents=_readings,
    derive=_astf,
    assumed=(AssumedUnit("latency", "µs", "TRex counts so"),),
)
trex_stats = reader("import what json.dump() writes of the client's get_stats()", _STL, _ASTF)


def _delays(path: str, part: str) -> list[TableField]:
    words = {"avg": "mean", "min": "min", "max": "max"}
    return [TableField(f"{path}.{theirs}_delay_usec", f"{part}latency_{ours}_ns", scale=_US) for theirs, ours in words.items()]


def _bound(name: str) -> list[TableField]:
    """Return the fields of a search's result: the load of all ports together."""
    return [
        TableField(f"{name}.rate_pps", f"{name}/lower_pps"),
        TableField(f"{name}.rate_bps", f"{name}/lower_bps_l1"),
        TableField(f"{name}.stats.overall.drop_percentage", f"{name}/loss_ratio", scale=0.01),
        *_delays(f"{name}.stats.overall", f"{name}/"),
    ]


_SENT_AS_ASKED = 0.9
"""Share of the asked rate below which nfvbench warns (`compare_tx_rates`)."""


def _nfvbench(result: Document, figures: Mapping[str, float]) -> Derived:
    """Return the derived values. A search without a result has 0 in all its fields.

    The rate of a bound is the rate that nfvbench asked for. If its generator sent less, the bound is what was sent.
    """
    none = [name for name in ("ndr", "pdr") if figures.get(f"{name}/lower_pps") == 0]
    usable = {name: value for name, value in figures.items() if name.split("/")[0] not in none}
    starved = []
    for name in ("ndr", "pdr"):
        asked, sent = usable.get(f"{name}/lower_pps"), number_at(result, f"{name}.stats.total_tx_rate")
        if asked and sent and sent < asked * _SENT_AS_ASKED:
            starved.append(f"{name.upper()}: {sent:.0f} of {asked:.0f} frames a second were sent")
            usable[f"{name}/lower_pps"] = sent
            if bits := usable.get(f"{name}/lower_bps_l1"):
                usable[f"{name}/lower_bps_l1"] = bits * sent / asked
    counts = ("ndr.stats.1.tx_pkts", "pdr.stats.1.tx_pkts", "stats.1.tx.total_pkts")
    place = BOTH if any(number_at(result, path) for path in counts) else LINK
    doubts = [Doubt(DoubtKind.NO_LOWER_BOUND, f"nfvbench found no {name.upper()}", place) for name in none]
    asked, sent = usable.get("intended_pps"), usable.get("offered_pps")
    if asked and sent is not None and sent < asked * _SENT_AS_ASKED:
        starved.append(f"{sent:.0f} of {asked:.0f} frames a second were sent")
    doubts += [Doubt(DoubtKind.TX_STARVED, short, place) for short in starved]
    paths = ["warning", "*.warning", "*.stats.warning"]
    warnings = [] if starved else [str(value) for path in paths for _, value in found_at(result, path) if value]
    return Derived(usable, doubts=(*doubts, *repair_doubts(warnings)), place=place, replaces=True)


_NFVBENCH = ResultForm(
    "nfvbench",
    "search",
    fields=[
        *_bound("ndr"),
        *_bound("pdr"),
        TableField("ndr.load_percent_per_direction", setting="ndr_percent"),
        TableField("pdr.load_percent_per_direction", setting="pdr_percent"),
        TableField("run_config.direction-total.orig.rate_pps", "intended_pps"),
        TableField("run_config.direction-total.tx.rate_pps", "offered_pps"),
        TableField("run_config.direction-total.rx.rate_pps", "received_pps"),
        TableField("stats.overall.drop_rate_percent", "loss_ratio", scale=0.01),
        TableField("stats.overall.tx.total_pkts", "sent_frames"),
        TableField("stats.overall.rx.total_pkts", "received_frames"),
        *_delays("stats.overall.rx", ""),
    ],
    holds=lambda document: isinstance(document.get("benchmarks"), Mapping),
    documents=_answered,
    results="benchmarks.network.service_chain.*.result.result.*",
    keys=("service_chain", "frame_size"),
    of_all=[
        TableField("config.duration_sec", setting="duration_s"),
        TableField("config.flow_count", setting="flows"),
        TableField("config.service_chain_count", setting="chains"),
        TableField("config.rate", setting="rate"),
        TableField("config.measurement.NDR", setting="ndr_loss_percent"),
        TableField("config.measurement.PDR", setting="pdr_loss_percent"),
    ],
    derive=_nfvbench,
    facts={"version": "nfvbench_version"},
    assumed=(AssumedUnit("rate_bps", "bits of L1", "traffic_utils.py adds 20 bytes a frame"),),
)
nfvbench = reader("import what `nfvbench --json FILE` writes", _NFVBENCH)
