"""Findings about versions of iperf3: hosts whose versions count differently, and versions that serve all streams with one thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, unknown_price
from dutlab.analysis.doctor.inventory import Inventory
from dutlab.analysis.iperf3_changes import CHANGES, changes_between

_READ = "iperf3 --version"
_THREADS = next(change for change in CHANGES if change.setting == "streams")


def iperf3_versions(p: Inventory) -> Iterator[Finding]:
    """Find hosts whose versions of iperf3 count differently.

    The direction decides which end counts, so with mixed versions directions differ too.
    """
    version_by_host = _found(p)
    measures = {name for change in CHANGES for name in change.measures}
    settings: list[Mapping[str, object]] = [{"protocol": "udp"}, {"omit_s": 1}, *({"streams": load.streams} for load in p.loads)]
    if changes := changes_between(version_by_host.values(), version_by_host.values(), measures, settings):
        words = "; ".join(f"since {change.since} (before, {change.words})" for change in changes)
        yield Finding(
            "iperf3-versions", "the hosts have versions of iperf3 that count differently", unknown_price(f"what changed: {words}"),
            tuple(version_by_host), tuple(Evidence(host, _READ, version) for host, version in version_by_host.items()),
            tuple(CureStep(host, "by hand: install the same version of iperf3 on all hosts") for host in version_by_host),
            tuple(CureStep(host, "by hand: install the version that was there") for host in version_by_host),
        )  # fmt: skip


def iperf3_threads(p: Inventory) -> Iterator[Finding]:
    """Find versions of iperf3 that serve all streams of a test with one thread, so on one core."""
    settings = [{"streams": load.streams} for load in p.loads]
    version_by_host = {
        host: version
        for host, version in _found(p).items()
        if _THREADS in changes_between([version], [_THREADS.since], _THREADS.measures, settings)
    }
    if version_by_host:
        yield Finding(
            "iperf3-one-thread", f"iperf3 before {_THREADS.since} serves all streams of a test with one thread",
            unknown_price("none where one core is enough for all streams"),
            tuple(version_by_host), tuple(Evidence(host, _READ, version) for host, version in version_by_host.items()),
            tuple(CureStep(host, f"by hand: install iperf3 {_THREADS.since} or later") for host in version_by_host),
            tuple(CureStep(host, "by hand: install the version that was there") for host in version_by_host),
        )  # fmt: skip


def _found(p: Inventory) -> dict[str, str]:
    return {host: version for host in p.facts if (version := p.text(host, "programs", "iperf3"))}
