"""Files and logs of other programs that lack any one of their members: each is read without it, or the fault names what is wrong."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import pytest

from dutlab.choices import IMPORTS
from dutlab.errors import InputError, ToolFailed
from dutlab.hosts.host import Done
from dutlab.interop.imported_run import ImportOptions
from dutlab.tools.generators import trafgen
from dutlab.tools.generators.ipgen_log import parse_answer, parse_log
from dutlab.tools.generators.pkt_gen_log import parse as parse_pkt_gen
from dutlab.tools.generators.pktgen import read_results
from dutlab.tools.steps.figures import step_figures
from generator_files import PKT_GEN_NOW, PKT_GEN_OF_2015, PKT_GEN_THEN, PKTGEN_DOCUMENTED, TRAFGEN_TWO_CORES
from import_files import FIO, conductor, ndr

DATA = Path(__file__).parents[1] / "data"
PORT = {"tx_pps": 1e5, "rx_pps": 1e5, "tx_util": 6.7, "rx_util": 6.7}
RAMP = {
    "vars": {
        "warmup_mult": "1kpps", "warmup_duration": 1, "rampup_target": 100, "rampup_duration": 2, "hold_duration": 0,
        "profile_file": "imix.py", "unidirectional": False,
    },
    "stats": {"1000.5": {"0": PORT, "1": PORT}, "1001.5": {"0": PORT, "1": PORT}},
}  # fmt: skip
FILES = {
    "fio": FIO.read_bytes(),
    "trex-ndr": ndr(),
    "conductor": conductor(),
    "loadtest": json.dumps(RAMP).encode(),
    "iperf3": min(
        (f for p in (DATA / "iperf3").glob("*.json") if b"sum_received" in (f := p.read_bytes()) and b'"error"' not in f), key=len
    ),
}
MOST = 150
"""Members that are left out of one file; of longer ones every so manieth."""
IPGEN_SIDE = {"packetsize": 46, "TX": 1000, "RX": 990, "TXpps": 1000, "RXpps": 990, "RXdup": 0, "RXreorder": 0}
IPGEN_SECOND = {"time": 1.0, "statistics": [IPGEN_SIDE | {"latency-min": 0.1, "latency-avg": 0.2, "latency-max": 0.3}, IPGEN_SIDE]}


def lacking(whole: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every member."""
    for key, value in whole.items() if isinstance(whole, dict) else enumerate(whole) if isinstance(whole, list) else ():
        yield (*at, key)
        yield from lacking(value, (*at, key))


def without(whole: Any, place: tuple[Any, ...]) -> Any:
    """`whole` without the member at `place`."""
    out = inner = copy.deepcopy(whole)
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    return out


@pytest.mark.parametrize("kind", sorted(FILES))
def test_a_file_that_lacks_any_one_member_is_read_or_refused_by_its_name(kind: str) -> None:
    whole = json.loads(FILES[kind])
    places = list(lacking(whole))
    for place in places[:: 1 + len(places) // MOST]:
        fault, trials = "", []
        try:
            trials = IMPORTS[kind].importer("box.json", json.dumps(without(whole, place)).encode(), ImportOptions())
        except InputError as refused:
            fault = str(refused)
        assert trials or "box.json" in fault, place
        assert all(isfinite(v) for t in trials for of in t.measured.figures.values() for v in of.values()), place


def test_a_line_or_an_answer_of_ipgen_that_lacks_any_one_member_is_read_or_what_is_wrong_is_named() -> None:
    for place in lacking(IPGEN_SECOND):
        seconds, faults = parse_log(json.dumps(without(IPGEN_SECOND, place)))
        assert bool(seconds) != bool(faults), place
        assert all(fault.startswith("line 1: ") for fault in faults), place
    answer = {"framesize": {"64": {"bps": "1", "curpps": "2", "limitpps": "3"}}}
    for key in ("curpps", "limitpps"):
        with pytest.raises(ValueError, match=f"KeyError.*{key}"):
            parse_answer(json.dumps(without(answer, ("framesize", "64", key))))


def test_the_output_of_a_step_that_lacks_any_one_member_of_iperf3_gives_the_other_figures() -> None:
    whole = json.loads(FILES["iperf3"])
    assert step_figures(FILES["iperf3"], b"")
    for place in list(lacking(whole["end"], ("end",))):
        assert all(isfinite(v) for v in step_figures(json.dumps(without(whole, place)).encode(), b"").values())


def shorter(text: str) -> Iterator[str]:
    """`text` without each of its words, without each of its lines, and cut before each word."""
    for match in re.finditer(r"\S+", text):
        yield text[: match.start()] + text[match.end() :]
        yield text[: match.start()]
    lines = text.splitlines(keepends=True)
    yield from ("".join(lines[:n] + lines[n + 1 :]) for n in range(len(lines)))


def trafgen_said(text: str) -> tuple[float, ...]:
    return trafgen.read_end(Done("source", ("timeout",), 124, text.encode(), b"", 0.0, 2.0), host="source", raw={})


@pytest.mark.parametrize(
    ("read", "text"), [(lambda text: read_results(text, 1, host="source", raw={}), PKTGEN_DOCUMENTED), (trafgen_said, TRAFGEN_TWO_CORES.decode())]
)  # fmt: skip
def test_an_output_that_lacks_any_word_or_line_gives_figures_or_one_named_fault(read, text) -> None:
    whole, faults = read(text), list[str]()
    for less in shorter(text):
        try:
            frames, seconds = read(less)
        except ToolFailed as fault:
            faults.append(str(fault))
            continue
        assert isfinite(frames) and seconds >= 0, less
        assert frames <= whole[0], less
    assert faults, "some of its words are needed"
    assert all(re.match("source: (pktgen|trafgen): .", fault) for fault in faults)


@pytest.mark.parametrize("line", [PKT_GEN_OF_2015, PKT_GEN_THEN, PKT_GEN_NOW])
def test_a_report_of_pkt_gen_that_lacks_any_word_is_read_or_passed_over_or_named(line: str) -> None:
    for less in shorter(line):
        read = parse_pkt_gen(less)
        assert all(isfinite(v) for r in read.reports for v in (r.end_s, r.seconds, r.pps, r.packets)), less
