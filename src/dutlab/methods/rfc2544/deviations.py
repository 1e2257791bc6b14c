"""Where a suite departs from the text of RFC 2544 and its successors, in sentences for the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_network

from dutlab.methods.ports import Directions, IPAddress
from dutlab.methods.rfc2544.asked import Asked, Benchmark
from dutlab.methods.rfc2544.recovery import LEAST_S, OVERLOAD_S
from dutlab.methods.rfc2544.stand import LEAST_DRAIN_S, RESIDUAL_S
from dutlab.methods.rfc2544.throughput import LINE_RATE

LATENCY_REPEATS = 20  # RFC 2544 section 26.2
BURST_REPEATS = 50  # RFC 2544 section 26.4
BENCHMARK_NETWORKS = (ip_network("198.18.0.0/15"), ip_network("2001:2::/48"))
"""RFC 2544 appendix C.2.2 and RFC 5180 section 8, as RFC 6890 corrects it."""
PRESCRIBED_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)  # RFC 2544 section 9.1


def deviations(asked: Asked, *, maximum_is: str, addresses: Iterable[IPAddress]) -> Iterator[str]:
    """One sentence each, for the tests that were asked for."""
    if asked.scale < 1:
        yield f"§24, §26: every duration is {asked.scale:g} of what is prescribed; a trial takes {asked.seconds(60):g} s, not 60 s"
    if asked.seconds(RESIDUAL_S) < LEAST_DRAIN_S:
        yield f"§23: residual frames are waited for {LEAST_DRAIN_S:g} s, however short the scale would make it"
    if maximum_is != LINE_RATE:
        yield f"§20, §26: the medium has no rate of its own; {maximum_is} stands for the highest rate"
    yield _addresses(list(addresses))
    if asked.directions is Directions.FORWARD:
        yield "§14: frames go one way"
    if len(asked.mix.parts) > 1 or asked.mix.parts[0][0] not in PRESCRIBED_SIZES:
        yield f"§9.1: {asked.mix.name} is not one of the frame sizes for Ethernet"
    yield "§11: no broadcast frames, management queries or routing updates are mixed in; filters are modes of the DUT (filter-1, filter-25)"
    yield "§12: one network and one flow a way, not 256 networks; the source port is constant"
    yield "§13: learning frames are test frames, sent before each trial; addresses are resolved before, not 5 s before each trial"
    yield from _of_tests(asked)


def _addresses(used: Sequence[IPAddress]) -> str:
    """Which scheme the addresses are of; said where it is followed too, since readers compare by it."""
    words = " and ".join(map(str, used))
    if all(any(address in network for network in BENCHMARK_NETWORKS) for address in used):
        return f"appendix C.2: no departure, the addresses are of the networks for benchmarks: {words}"
    return f"appendix C.2: the addresses are those of the testbed, {words}, not of 198.18.0.0/15 (IPv6: 2001:2::/48, RFC 5180 §8)"


def _of_tests(asked: Asked) -> Iterator[str]:
    tests = asked.tests
    if Benchmark.THROUGHPUT in tests:
        yield "§26.1: the rate is searched by RFC 9971, with short trials first (§24 allows them); a trial that lost frames is ended"
    if Benchmark.LATENCY in tests:
        yield "§26.2: not one frame is tagged after 60 s: every frame of the second 60 s is timed; before it sending pauses shortly"
        if asked.latency_repeats < LATENCY_REPEATS:
            yield f"§26.2: repeats: {asked.latency_repeats}, not {LATENCY_REPEATS}"
    if Benchmark.BACK_TO_BACK in tests:
        yield "§26.4, RFC 9004 §5.4: the search doubles the burst before it halves the gap, and ends at a hundredth of the burst"
        if asked.burst_repeats < BURST_REPEATS:
            yield f"§26.4: repeats: {asked.burst_repeats}, not {BURST_REPEATS}"
    if Benchmark.RECOVERY in tests:
        if asked.seconds(OVERLOAD_S) < LEAST_S:
            yield f"§26.5: the overload lasts {LEAST_S:g} s, however short the scale would make it"
        yield "§26.5: the last lost frame is known to within one reading of the generator's counters, as stated beside the figure"
    if Benchmark.RESET in tests:
        yield "§26.6, RFC 6201: process and software resets only; no power is cut and no hardware reset"
