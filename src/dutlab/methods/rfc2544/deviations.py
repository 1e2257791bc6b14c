"""Deviations of a suite from the text of RFC 2544 and its successors, in sentences for the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_network

from dutlab.choices import Benchmark
from dutlab.methods.ports import IPAddress
from dutlab.methods.rfc2544.context import LEAST_DRAIN_S, RESIDUAL_S
from dutlab.methods.rfc2544.modifiers import routing_s
from dutlab.methods.rfc2544.recovery import LEAST_S, OVERLOAD_S
from dutlab.methods.rfc2544.reset import OFF_S
from dutlab.methods.rfc2544.throughput import LINE_RATE
from dutlab.spec.traffic import EXTENSION_SETS, HOP_BY_HOP, NO_HEADERS, Directions
from dutlab.spec.workloads.rfc2544 import Modifier, Rfc2544Setting
from dutlab.units import RFC2544_FRAME_SIZES, SHORTEST_IPV6_FRAME

LATENCY_REPEATS = 20  # RFC 2544 section 26.2
BURST_REPEATS = 50  # RFC 2544 section 26.4
BURST_LIMIT_S = 30.0  # RFC 9004 section 6.2
BENCHMARK_NETWORKS = (ip_network("198.18.0.0/15"), ip_network("2001:2::/48"))
"""Networks for benchmarks: RFC 2544 appendix C.2.2 and RFC 5180 section 8, as RFC 6890 corrects it."""
SECTION_12 = 256
"""Number of networks for destinations in RFC 2544 section 12."""
_WITHOUT = {
    Modifier.BROADCAST: "broadcast frames",
    Modifier.MANAGEMENT: "management queries",
    Modifier.ROUTING: "routing updates",
}
PRESCRIBED_SIZES = RFC2544_FRAME_SIZES
IPV6_SIZES = (*PRESCRIBED_SIZES, SHORTEST_IPV6_FRAME, 1522, 4096, 8192, 9216)  # RFC 5180 section 5.1.1


def deviations(
    setting: Rfc2544Setting, links: Sequence[str], *, maximum_is: str, addresses: Iterable[IPAddress], power_is_cut: bool = False
) -> Iterator[str]:
    """Yield one sentence for each deviation of the tests that were asked for."""
    if setting.scale < 1:
        yield f"§24, §26: every duration is {setting.scale:g} of what is prescribed; a trial takes {setting.seconds(60):g} s, not 60 s"
    if setting.seconds(RESIDUAL_S) < LEAST_DRAIN_S:
        yield f"§23: residual frames are waited for {LEAST_DRAIN_S:g} s, however short the scale would make it"
    if maximum_is != LINE_RATE:
        yield f"§20, §26: the medium has no rate; {maximum_is} replaces the highest rate"
    used = list(addresses)
    yield _addresses(used)
    if setting.directions is Directions.FORWARD:
        yield "§14: frames go one way"
    sizes = {4: PRESCRIBED_SIZES, 6: IPV6_SIZES}[max((address.version for address in used), default=4)]
    if len(setting.frame_size.parts) > 1 or setting.frame_size.parts[0][0] not in sizes:
        yield f"§9.1: {setting.frame_size.name} is not one of the frame sizes for Ethernet"
    yield "§8, appendix C.2.6: frames have a TTL or hop limit of 64, not 10, and a UDP checksum; their data begins with a probe of 18 bytes"
    yield from _of_modifiers(setting)
    yield from _of_ipv6(setting, used)
    yield from _of_networks(setting, used)
    if len(links) > 1:
        yield "§16: no mesh of ports: the frames of a link leave by the same link's other port"
    yield "§13: learning frames are test frames, sent before each trial; addresses are resolved before, not 5 s before each trial"
    if Benchmark.BURSTY not in setting.tests:
        yield "§21: loads are constant; none comes in bursts of 16 to 1024 frames (the test bursty was not asked for)"
    yield from _of_tests(setting)
    if Benchmark.RESET in setting.tests:
        yield from _of_resets(setting, power_is_cut=power_is_cut)


def _addresses(used: Sequence[IPAddress]) -> str:
    """Return the scheme of the addresses; also reported if there is no deviation, since readers compare by it."""
    words = " and ".join(map(str, used))
    if not used:
        return "appendix C.2: the addresses are not known"
    if all(any(address in network for network in BENCHMARK_NETWORKS) for address in used):
        return f"appendix C.2: no departure, the addresses are of the networks for benchmarks: {words}"
    return f"appendix C.2: the addresses are those of the testbed, {words}, not of 198.18.0.0/15 (IPv6: 2001:2::/48, RFC 5180 §8)"


def _of_networks(setting: Rfc2544Setting, addresses: Sequence[IPAddress]) -> Iterator[str]:
    if setting.networks > 1:
        yield f"§12: the pseudo-random order of destinations repeats: each {setting.networks} frames go to every network once"
        yield "§12, appendix C.2.4: all networks are behind one router, the tester's own address"
        if any(address.version == 4 for address in addresses):  # noqa: PLR2004 - the version number of the protocol itself
            yield "§12, appendix C.2.2: the networks are of 25 bits or more, because too few of 24 are free"
        if Benchmark.BACK_TO_BACK in setting.tests:
            yield f"§12: a burst of fewer than {setting.networks} frames goes to as many networks as it has frames"
    elif setting.networks == max(setting.all_networks):
        yield f"§12: one source and one destination address a way; not done again with destinations over {SECTION_12} networks"
    else:
        yield "§12: no departure, one source and one destination address a way; the tests with more networks are reported with these"
    yield "§12, appendix C.2.6: source and destination port are constant"


def _of_modifiers(setting: Rfc2544Setting) -> Iterator[str]:
    without = [words for kind, words in _WITHOUT.items() if kind not in setting.modifiers]
    yield f"§11: {', '.join(without)}: not mixed in" if without else "§11: every modifier at once, not one after the other"
    yield "§11.4: filters are modes of the DUT (filter-1, filter-25)"
    if Modifier.BROADCAST in setting.modifiers:
        yield "§11.1: 1 broadcast frame for each 100 test frames: test frames with that hardware address, which are not counted"
        yield "§11.1: loads without a set rate have no broadcast frames"
    if Modifier.MANAGEMENT in setting.modifiers:
        yield "§11.2: queries follow one another by a second and come from the source's own stack, not as the first frame of each second"
    if Modifier.ROUTING in setting.modifiers:
        yield f"§11.3: no routing protocol is spoken; sixteen routes of the DUT are turned by command, every {routing_s(setting.scale):g} s"


def _of_ipv6(setting: Rfc2544Setting, addresses: Sequence[IPAddress]) -> Iterator[str]:
    """Yield the deviations from RFC 5180, if links have IPv6 addresses."""
    versions = {address.version for address in addresses}
    if 6 not in versions:  # noqa: PLR2004 - the version number of the protocol itself
        return
    if setting.frame_size.parts[0][0] == SHORTEST_IPV6_FRAME:
        yield f"RFC 5180 §5: {SHORTEST_IPV6_FRAME} bytes replace 64; a shorter frame over IPv6 is too short for a probe"
    yield from _of_headers(setting)
    yield "RFC 5180 §5.2.2: destinations are of one prefix length, not of 48, 64, 126 and 128 bits"
    if Benchmark.BACK_TO_BACK in setting.tests:
        yield "RFC 5180 §7.4: back-to-back frames are measured, which is not recommended there"
    if len(versions) == 1:
        yield "RFC 5180: IPv6 alone, without IPv4"


def _of_headers(setting: Rfc2544Setting) -> Iterator[str]:
    if missing := [name for name in EXTENSION_SETS if name not in setting.all_extension_headers]:
        yield f"RFC 5180 §5.3: traffic with these extension headers has no trials: {', '.join(missing)}"
    if setting.extension_headers != NO_HEADERS:
        yield "RFC 5180 §5.3: of extension headers there are hop-by-hop, destination options, routing and fragment; no AH, ESP, mobility"
        yield "RFC 5180 §5.3: options are padding, the routing header is of type 2 with no segments left, the fragment is a whole packet"
    if setting.extension_headers == HOP_BY_HOP:
        yield "RFC 5180 §5.3: the DUT's resources are those in the trial's samples, as far as its family reports them"


def _of_tests(setting: Rfc2544Setting) -> Iterator[str]:
    tests = setting.tests
    if Benchmark.THROUGHPUT in tests:
        yield "§26.1: the rate is searched by RFC 9971, with short trials first (§24 allows them); a trial that lost frames is ended"
    if Benchmark.LATENCY in tests:
        yield "§26.2, RFC 1242 §3.8: latency is first-in-first-out, from the time in a frame to its arrival: the host's share is in it"
        yield "§26.2: not one frame is tagged after 60 s: every frame of the second 60 s is timed; before it sending pauses shortly"
        if setting.latency_repeats < LATENCY_REPEATS:
            yield f"§26.2: repeats: {setting.latency_repeats}, not {LATENCY_REPEATS}"
    if Benchmark.BACK_TO_BACK in tests:
        yield "§26.4, RFC 9004 §6.2: the search doubles the burst before it halves the gap, and ends at a hundredth of the burst"
        if setting.burst_limit_s != BURST_LIMIT_S:
            yield f"RFC 9004 §6.2: the time limit of a burst is {setting.burst_limit_s:g} s at a scale of 1, not {BURST_LIMIT_S:g} s"
        if setting.burst_repeats < BURST_REPEATS:
            yield f"§26.4: repeats: {setting.burst_repeats}, not {BURST_REPEATS}"
    yield from _of_outages(setting)


def _of_outages(setting: Rfc2544Setting) -> Iterator[str]:
    tests = setting.tests
    if Benchmark.RECOVERY in tests:
        if setting.seconds(OVERLOAD_S) < LEAST_S:
            yield f"§26.5: the overload lasts {LEAST_S:g} s, however short the scale would make it"
        if setting.recovery_repeats == 1:
            yield "§26.5: measured once, not repeated and averaged"
        yield "§26.5: the last lost frame is known to within one reading of the generator's counters, as stated with the figure"


def _of_resets(setting: Rfc2544Setting, *, power_is_cut: bool) -> Iterator[str]:
    yield "§26.6, RFC 6201 §4: forwarding and network configuration are reset; the required reset of the system's software is not made"
    yield f"§26.6, RFC 6201 §4: no part of the hardware is reset{'' if power_is_cut else ' and no power is cut'}"
    if power_is_cut and (off_s := setting.seconds(OFF_S)) < OFF_S:
        yield f"§26.6, RFC 6201 §4: the power is off for {off_s:g} s, or as long as the testbed says, not for {OFF_S:g} s"
    if setting.reset_repeats == 1:
        yield "§26.6, RFC 6201 §4: each reset is made once, not repeated and averaged"
