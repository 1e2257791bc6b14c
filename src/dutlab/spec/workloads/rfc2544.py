"""Workload `rfc2544`: the benchmarks of RFC 2544, one trial per frame size."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.choices import ALL_TESTS, USUAL_TESTS, Benchmark
from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.traffic import EXTENSION_SETS, HOP_BY_HOP, NO_HEADERS, Directions, Traffic
from dutlab.spec.wire_form import NAT64, VLAN
from dutlab.spec.workloads.base import LONGEST_TRIAL, Need, WorkloadDrive
from dutlab.spec.workloads.frames import FrameWorkload, each_once, outside
from dutlab.spec.workloads.search_loads import (
    CHOICE_OF_LOADS,
    ExpectedRates,
    ExpectedSaid,
    LoadsBy,
    LoadsBySaid,
    expectation_faults,
    expected_of,
)
from dutlab.spec.workloads.setting import SCALE, DirectedSetting, Identity, Positive, SecondsLong, Setting, Words, identity_of
from dutlab.units import RFC2544_FRAME_SIZES, Seconds

HeaderSet = Literal["none", "destination-options", "routing", "fragment", "chain", "hop-by-hop"]


class Modifier(enum.Enum):
    """Modifiers of RFC 2544 section 11, in the words of the experiment file. Filters (section 11.4) are modes of the DUT."""

    BROADCAST = "broadcast"
    MANAGEMENT = "management"
    ROUTING = "routing"


NEEDS_THROUGHPUT = frozenset(ALL_TESTS) - {Benchmark.THROUGHPUT, Benchmark.FRAME_LOSS, Benchmark.BURSTY}
SMALLEST_SCALE = 0.001
SHORTEST_BURST_LIMIT = Seconds(0.1)
MOST_REPEATS = 1000
_Repeats = Annotated[int, Field(ge=1)]
_AROUND_S = 1.5
"""Seconds in which the generator begins and ends a trial."""
_SEARCH_S, _SEARCH_TRIALS = 120.0, 14
"""Estimate for a throughput search: about two long trials and the short ones before them."""
_LATENCY_S, _LOSS_S, _LOSS_TRIALS, _BURST_TRIALS, _RECOVERY_S, _RESETS_S = 120.0, 300.0, 6, 14, 90.0, 120.0
_HOPS, _HOP_S, _BURST_LENGTHS = 3, 60.0, 4
_TRIAL_S = 60.0
_WAITS_S = 9.0
"""Learning frames, residual frames, restabilising: 2 s, 2 s and 5 s."""


class Rfc2544Setting(DirectedSetting):
    """Setting of a trial: the tests of one frame size."""

    kind: Literal["rfc2544"] = "rfc2544"
    left_out: ClassVar[frozenset[str]] = frozenset({"generator", "modifiers"}) | CHOICE_OF_LOADS

    tests: Annotated[tuple[Benchmark, ...], Words("tests: {}")]
    scale: Annotated[Positive, SCALE]
    """Factor for the durations that RFC 2544 prescribes."""
    width_ratio: Annotated[Positive, Words("bounds closer than {} of the upper")]
    """Largest width of the throughput's bounds, as a share of the upper one."""
    latency_repeats: Annotated[_Repeats, Words("{} repeats of latency", {1: "1 repeat of latency"})]
    burst_repeats: Annotated[_Repeats, Words("{} bursts", {1: "1 burst"})]
    burst_limit_s: Annotated[SecondsLong, Words("bursts of {} s at most")]
    """Longest burst that is tried first; `scale` applies to it too."""
    recovery_repeats: Annotated[_Repeats, Words("{} repeats of recovery", {1: "1 repeat of recovery"})]
    reset_repeats: Annotated[_Repeats, Words("{} repeats of the reset", {1: "1 repeat of the reset"})]
    networks: Annotated[int, Field(ge=1), Words("networks {}", {1: ""}, place=1)] = 1
    """Number of destination networks in each direction (section 12)."""
    extension_headers: Annotated[HeaderSet, Words("extension headers {}", {NO_HEADERS: ""}, place=1)] = "none"
    """IPv6 extension headers of the frames (RFC 5180 section 5.3)."""
    all_extension_headers: Annotated[tuple[HeaderSet, ...], Words("all extension headers {}", {NO_HEADERS: ""}, place=1)] = ("none",)
    """Extension headers of all trials of the experiment with these frames; `all_networks` is the same for networks."""
    all_networks: Annotated[tuple[int, ...], Words("all networks {}", {"1": ""}, place=1)] = (1,)
    modifiers: Annotated[tuple[Modifier, ...], Words("modifiers: {}")] = ()
    loads_by: LoadsBySaid = LoadsBy.LIBRARY
    expected_pps: ExpectedSaid = None
    """Throughput that the search expects in each direction and tries first; None without one."""

    @cached_property
    def identity(self) -> Identity:
        """Values that distinguish it; the expected rate only changes the order of trials, so results with different ones compare."""
        return identity_of(self.params, without={"expected_pps"})

    @property
    def at_limit_s(self) -> Seconds:
        """Duration of a trial by section 24, with its waits."""
        return self.seconds(_TRIAL_S + _WAITS_S)

    @property
    def on_dut(self) -> tuple[str, ...]:
        """Programs for the reset, and for changes of routes."""
        of = "dutlab.hosts.programs:"
        reset = (f"{of}IP", f"{of}NFT", f"{of}SYSCTL") if Benchmark.RESET in self.tests else ()
        return (*reset, *((f"{of}IP",) if Modifier.ROUTING in self.modifiers else ()))

    @property
    def at_source(self) -> tuple[str, ...]:
        """Program for management queries."""
        return ("dutlab.hosts.programs:PYTHON3",) if Modifier.MANAGEMENT in self.modifiers else ()

    def seconds(self, prescribed: float) -> Seconds:
        """Return the scaled duration for `prescribed` seconds of the RFC."""
        return Seconds(prescribed * self.scale)

    @property
    def traffic(self) -> Traffic:
        """Frames with their extension headers; the destinations of `networks` are not included."""
        return Traffic(extension_headers=EXTENSION_SETS[self.extension_headers])

    @property
    def flows(self) -> int:
        """Number of flows, one per network and direction."""
        return self.networks * len(self.directions.backs)

    @property
    def variant(self) -> str:
        """Differences of its frames from plain ones, in words; empty if there are none."""
        networks = f"{self.networks} networks" if self.networks > 1 else ""
        headers = f"headers {self.extension_headers}" if self.extension_headers != NO_HEADERS else ""
        return ", ".join(filter(None, (networks, headers)))


class Rfc2544Workload(FrameWorkload):
    """Throughput, latency, frame loss rate, back-to-back frames, system recovery and reset (RFC 2544 section 26) at each frame size."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.TRANSIT})
    setting: ClassVar[type[Setting]] = Rfc2544Setting
    forms: ClassVar[frozenset[str]] = frozenset({NAT64, VLAN})

    tests: tuple[Benchmark, ...] = USUAL_TESTS
    frame_sizes: FrameSizes = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in RFC2544_FRAME_SIZES))
    scale: float = 1.0
    """Factor for all durations that RFC 2544 prescribes."""
    directions: Literal["forward", "both"] = "forward"
    width: float = 0.005
    """Largest width of the throughput's bounds, as a share of the upper one."""
    loads_by: LoadsBy = LoadsBy.LIBRARY
    """Rule that chooses the loads of the throughput's search."""
    expected: ExpectedRates | None = None
    """Expected throughput in each direction, which is tried first; only for loads by a fit."""
    modifiers: tuple[Modifier, ...] = ()
    """Modifiers: work of the DUT in addition to the test frames (RFC 2544 section 11)."""
    networks: tuple[Literal[1, 256], ...] = (1,)
    """Numbers of networks of the destinations (RFC 2544 section 12); each has separate trials, in this order."""
    extension_headers: tuple[HeaderSet, ...] = ("none",)
    """IPv6 extension headers of the frames (RFC 5180 section 5.3); each set has separate trials, in this order."""
    latency_repeats: int = 20
    burst_repeats: int = 50
    burst_limit: Duration = Seconds(30.0)
    """Longest burst of back-to-back frames; if it passes without loss, one four times as long is tried (RFC 9004 section 6.2)."""
    recovery_repeats: int = 3
    reset_repeats: int = 3

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that lists have values without duplicates, and that the numbers are in range and fit together."""
        yield from super().own_faults()
        yield from each_once("tests", [test.value for test in self.tests])
        if self.modifiers:
            yield from each_once("modifiers", [modifier.value for modifier in self.modifiers])
        yield from each_once("extension_headers", self.extension_headers)
        yield from each_once("networks", [str(n) for n in self.networks])
        yield from expectation_faults(self.expected, self.frame_sizes, self.loads_by)
        if Benchmark.HOP_BY_HOP in self.tests:
            yield fault(
                ("tests", self.tests.index(Benchmark.HOP_BY_HOP)),
                "comes with extension_headers: [hop-by-hop]; ask for these",
                FaultKind.CONFLICT,
            )
        if Benchmark.THROUGHPUT not in self.tests and (needing := [t.value for t in self.tests if t in NEEDS_THROUGHPUT]):
            yield fault(("tests",), f"{', '.join(needing)}: needs the throughput; add the test throughput", FaultKind.CONFLICT)
        numbers = [
            ("scale", self.scale, SMALLEST_SCALE, 1),
            ("width", self.width, 0.0001, 0.5),
            ("latency_repeats", self.latency_repeats, 1, MOST_REPEATS),
            ("burst_repeats", self.burst_repeats, 1, MOST_REPEATS),
            ("recovery_repeats", self.recovery_repeats, 1, MOST_REPEATS),
            ("reset_repeats", self.reset_repeats, 1, MOST_REPEATS),
        ]
        yield from outside(numbers, unit="")
        yield from outside([("burst_limit", self.burst_limit, SHORTEST_BURST_LIMIT, LONGEST_TRIAL)])

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return super().count(every_link) * len(self.networks) * len(self.extension_headers)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of extension headers, number of networks, set of links and size. Its tests run one after another.

        All sizes are measured with one number of networks before the next, as section 12 requires. Frames with a hop-by-hop header have one
        test, and only the shortest frames have the test reset (RFC 2544 section 26.6).
        """
        least = min(mix.mean for mix in self.frame_sizes)
        for headers, networks, (links, mix) in product(self.extension_headers, self.networks, list(self.sized(every_link))):
            tests: tuple[Benchmark, ...] = (Benchmark.HOP_BY_HOP,)
            if headers != HOP_BY_HOP:
                left_out = {Benchmark.RESET} if mix.mean > least else set[Benchmark]()
                tests = tuple(test for test in ALL_TESTS if test in self.tests and test not in left_out)
            setting = Rfc2544Setting(
                frame_size=mix,
                generator=self.generator,
                tests=tests,
                scale=self.scale,
                directions=Directions(self.directions),
                width_ratio=self.width,
                latency_repeats=self.latency_repeats,
                burst_repeats=self.burst_repeats,
                burst_limit_s=self.burst_limit,
                recovery_repeats=self.recovery_repeats,
                reset_repeats=self.reset_repeats,
                networks=networks,
                extension_headers=headers,
                all_extension_headers=self.extension_headers,
                all_networks=self.networks,
                modifiers=self.modifiers,
                loads_by=self.loads_by,
                expected_pps=expected_of(self.expected, mix),
            )
            yield WorkloadDrive(links, setting, self._seconds(tests), mix, self._offers(tests))

    def _seconds(self, tests: Iterable[Benchmark]) -> Seconds:
        """Return the approximate time of a frame size; the length of a search is not known in advance."""
        around = _AROUND_S + _WAITS_S * self.scale
        of_test = {
            Benchmark.THROUGHPUT: _SEARCH_S * self.scale + _SEARCH_TRIALS * around,
            Benchmark.LATENCY: self.latency_repeats * (_LATENCY_S * self.scale + around),
            Benchmark.FRAME_LOSS: _LOSS_S * self.scale + _LOSS_TRIALS * around,
            Benchmark.BACK_TO_BACK: self.burst_repeats * _BURST_TRIALS * around,
            Benchmark.RECOVERY: self.recovery_repeats * (_RECOVERY_S * self.scale + around),
            Benchmark.RESET: self.reset_repeats * (_RESETS_S * self.scale + 2 * around),
            Benchmark.BURSTY: _BURST_LENGTHS * (_SEARCH_S * self.scale + _SEARCH_TRIALS * around),
            Benchmark.HOP_BY_HOP: _HOPS * (_HOP_S * self.scale + around),
        }
        return Seconds(sum(of_test[name] for name in tests))

    def _offers(self, tests: Iterable[Benchmark]) -> int:
        """Return the approximate number of loads of these tests."""
        trials = {
            Benchmark.THROUGHPUT: _SEARCH_TRIALS,
            Benchmark.LATENCY: self.latency_repeats,
            Benchmark.FRAME_LOSS: _LOSS_TRIALS,
            Benchmark.BACK_TO_BACK: self.burst_repeats * _BURST_TRIALS,
        }
        return sum(trials.get(name, 1) for name in tests)

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield faults: frames longer than an MTU or too short for their headers, extension headers over IPv4, broadcast over IPv6."""
        yield from super().incompatibilities(bounds)
        if Modifier.BROADCAST in self.modifiers and (sixes := [name for name in self.driven(bounds) if bounds[name].ipv6]):
            reason = (
                f"link {sixes[0]} has IPv6 addresses, and IPv6 has no broadcast (RFC 5180 section 6); measure it without broadcast frames"
            )
            yield ("modifiers", self.modifiers.index(Modifier.BROADCAST)), reason
        if Modifier.BROADCAST in self.modifiers and (open_ones := [name for name in self.driven(bounds) if not bounds[name].isolated]):
            reason = f"broadcast frames reach all that is on link {open_ones[0]}: set `isolated: true` for it if nothing else is"
            yield ("modifiers", self.modifiers.index(Modifier.BROADCAST)), reason
        if max(self.networks) > 1 and (bridged := [name for name in self.driven(bounds) if bounds[name].is_transparent]):
            yield ("networks",), f"more networks than one take routes, and link {bridged[0]} goes through none that routes"
        for i, headers in enumerate(self.extension_headers):
            yield from self.misfits_of(Traffic(extension_headers=EXTENSION_SETS[headers]), bounds, ("extension_headers", i))

    def untried_forms(self) -> Iterator[tuple[Loc, str]]:
        """Yield the settings that change the DUT, or frames to addresses that are not those of the links."""
        if Benchmark.RESET in self.tests:
            yield (
                ("tests", self.tests.index(Benchmark.RESET)),
                "a reset removes and restores the DUT's own ports only; leave it out of tests",
            )
        for i, count in enumerate(self.networks):
            if count > 1:
                yield ("networks", i), "frames to several networks were not tried in another form; write networks: [1]"
        for i, headers in enumerate(self.extension_headers):
            if headers != NO_HEADERS:
                yield ("extension_headers", i), "extension headers were not tried in another form; leave them out"
        if self.modifiers:
            yield ("modifiers",), "modifiers were not tried with frames of another form; leave them out"

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Yield also the features of each test: rates, latency, a change of the rate, readings of each second, bursts."""
        yield from super().asks()
        yield (), GeneratorFeature.RATE
        of_test = {
            Benchmark.LATENCY: (GeneratorFeature.LATENCY,),
            Benchmark.RECOVERY: (GeneratorFeature.PROFILE, GeneratorFeature.READINGS),
            Benchmark.RESET: (GeneratorFeature.READINGS,),
            Benchmark.BURSTY: (GeneratorFeature.BURSTS,),
        }
        for i, test in enumerate(self.tests):
            for ask in of_test.get(test, ()):
                yield ("tests", i), ask
        if self.directions == "both":
            yield ("directions",), GeneratorFeature.BOTH_WAYS
        for i, count in enumerate(self.networks):
            if count > 1:
                yield ("networks", i), GeneratorFeature.FLOWS
        for i, headers in enumerate(self.extension_headers):
            if EXTENSION_SETS[headers]:
                yield ("extension_headers", i), GeneratorFeature.EXTENSIONS
