"""Destinations over 256 networks (RFC 2544 section 12): which they are, what is asked of DUT and generator, what the report says beside."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_address, ip_network

import pytest
from pydantic import ValidationError

from cells import setting_of
from dutlab.choices import Benchmark
from dutlab.errors import MeasurementError
from dutlab.methods.dut_tables import LinkEnd
from dutlab.methods.ports import Bench
from dutlab.methods.rfc2544 import suite
from dutlab.methods.rfc2544.deviations import deviations
from dutlab.methods.rfc2544.networks import BEHIND, spreads
from dutlab.plan.cell import Cell
from dutlab.report.gather import gather
from dutlab.spec.generators import ENGINE, GENERATORS
from dutlab.spec.shape import LinkBounds
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.rfc2544 import Rfc2544Workload
from dutlab.units import BpsL1
from run_records import new_run, trial_record
from simulated import Dut, Simulation
from simulated_tables import Routes

NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)
ADDRESSES = {"a": (ip_address("198.18.1.2"), ip_address("198.19.1.2")), "b": (ip_address("198.18.2.2"), ip_address("198.19.2.2"))}


async def no_sleep(_):
    """Time is nobody's here."""


def cells(**body):
    given = {"links": [["a"]], "scale": 0.05, "tests": ["throughput", "frame-loss"], "networks": [1, 256], **body}
    settings = Rfc2544Workload.model_validate(given).drives(["a", "b"])
    return [Cell(mode="router", factors={"mode": "router"}, tool="engine", links=s.links, setting=s.setting, repeat=1) for s in settings]


def bench(routes, capacity_pps=400_000):
    return Bench(Simulation(Dut(capacity_pps)), {"a": BpsL1(1e9), "b": BpsL1(1e9)}, addresses=ADDRESSES, routes=routes)


def test_every_way_has_256_networks_of_its_own_beside_those_of_the_ports():
    asked = setting_of("rfc2544", tests=(), directions=Directions.BOTH, networks=256)
    found = {way: (link, end, spread) for way, link, end, spread in spreads(("a", "b"), asked, {"a": 4, "b": 4})}
    assert list(found) == ["a", "a.back", "b", "b.back"]
    assert found["b.back"][:2] == ("b", LinkEnd.SOURCE)
    parts = [spread.part(n) for _, _, spread in found.values() for n in range(256)]
    assert len(set(parts)) == 4 * 256 and all(part.subnet_of(ip_network("198.18.0.0/15")) for part in parts)
    ports = {ip_network(f"198.{net}.{number}.0/24") for net in (18, 19) for number in range(1, 65)}  # RFC 2544 appendix C.2.2
    assert not ports & {part.supernet(new_prefix=24) for part in parts}, "the DUT's ports are on these"
    one = {way: spread for way, _, _, spread in spreads(("a",), asked, {"a": 4})}
    assert [str(one["a"].part(n)) for n in (0, 255)] == ["198.19.128.0/25", "198.19.255.128/25"]
    six = {way: spread for way, _, _, spread in spreads(("a",), asked, {"a": 6})}
    assert str(six["a"].part(255)) == "2001:2:0:ffff::/64" and all(n.subnet_of(ip_network("2001:2::/48")) for n in BEHIND[6].values())


def test_all_sizes_come_with_one_network_before_any_with_256():
    made = cells(frame_sizes=[64, 512])
    assert [(c.params["networks"], c.params["frame_size"]) for c in made] == [(1, 64), (1, 512), (256, 64), (256, 512)]
    workload = Rfc2544Workload.model_validate({"networks": [1, 256]})
    assert workload.count(["a", "b"]) == len(list(workload.drives(["a", "b"]))) == 2 * 7 * 2
    with pytest.raises(ValidationError):
        Rfc2544Workload.model_validate({"networks": [2]})
    with pytest.raises(ValidationError, match="duplicate"):
        Rfc2544Workload.model_validate({"networks": [1, 1]})
    assert not list(workload.beyond(ENGINE, {"a": LinkBounds()}))
    refused = list(workload.beyond(GENERATORS["trafgen"].model_validate({}), {"a": LinkBounds()}))
    assert (("networks", 1), True) in [(loc, "several flows" in what) for loc, what in refused]


async def test_every_frame_of_the_suite_goes_to_networks_that_were_loaded_before():
    one, many = cells(directions="both", frame_sizes=[64])
    table = Routes()
    plain, spread = bench(table), bench(table)
    assert "networks" not in (await suite.measure(plain, one, sleep=no_sleep)).tables and not table.loads
    assert all(not offer.traffic_of for offer in plain.generator.offers)
    found = await suite.measure(spread, many, sleep=no_sleep)
    assert [(link, str(s.network), s.count, end) for link, s, end in table.loads] == [
        ("a", "198.19.128.0/17", 256, LinkEnd.SINK),
        ("a", "198.18.128.0/17", 256, LinkEnd.SOURCE),
    ]
    for offer in spread.generator.offers:
        flows = {way: traffic.flows for way, traffic in offer.traffic_of.items()}
        assert {way: str(f.destinations) for way, f in flows.items()} == {"a": "198.19.128.0/17", "a.back": "198.18.128.0/17"}
        assert {(f.count, f.destination_addresses, f.source_ports, f.destination_ports) for f in flows.values()} == {(256, 256, 1, 1)}
        assert all(f.seed is not None for f in flows.values()), "pseudo-random, and the same in every trial"
    assert [row["routes_loaded"] for row in found.tables["networks"]] == [256, 256]
    assert [row["behind"] for row in found.tables["networks"]] == ["sink", "source"]


async def test_a_dut_that_has_not_taken_its_routes_is_not_measured_and_one_that_cannot_be_told_is():
    (many,) = cells(networks=[256], frame_sizes=[64])
    with pytest.raises(MeasurementError, match="the DUT counts 255"):
        await suite.measure(bench(Routes(keeps=0.999)), many, sleep=no_sleep)
    found = await suite.measure(bench(None), many, sleep=no_sleep)
    assert any("198.19.128.0/17" in note for note in found.notes)
    assert found.tables["networks"][0]["routes_loaded"] is None and found.figures["a"]["throughput_pps"] > 0


def test_what_departs_from_section_12_depends_on_what_was_asked():
    asked = setting_of("rfc2544", tests=tuple(Benchmark))

    def said(**more):
        texts = deviations(asked.model_copy(update=more), ["a"], maximum_is="x", addresses=ADDRESSES["a"])
        return [text for text in texts if text.startswith("§12")]

    assert any("256" in text and "no departure" not in text for text in said())
    assert any("no departure" in text for text in said(all_networks=(1, 256)))
    over = said(networks=256, all_networks=(1, 256))
    assert any("pseudo-random order" in text for text in over) and any("fewer than 256" in text for text in over)


async def test_the_report_has_what_was_found_over_the_networks_beside_what_was_found_before(tmp_path):
    made = cells(frame_sizes=[64])
    run = new_run(tmp_path, made)
    for number, (cell, capacity) in enumerate(zip(made, (400_000, 300_000), strict=True), 1):
        found = await suite.measure(bench(Routes(), capacity), cell, sleep=no_sleep)
        run.write_trial(trial_record(number, cell, found.figures, tables=found.tables, notes=found.notes), {}, [])
    (section,) = gather(run.path, tmp_path).sections
    grid = next(g for g in section.tables if g.slug == "rfc2544-variants")
    assert "one destination address" in grid.caption and "durations × 0.05" in grid.caption
    assert any(words.startswith("Frames of all") and "0 twice" in words and "0 altered" in words for words in section.words)
    (row,) = grid.rows
    by = dict(zip((c.head for c in grid.columns), row.cells, strict=True))
    assert by["then"] == "256 networks"
    assert by["throughput"].median == pytest.approx(400_000, rel=0.01) and by["throughput, then"].median == pytest.approx(300_000, rel=0.01)
    (told,) = next(g for g in section.tables if g.slug == "rfc2544-networks").rows
    assert told.cells == ("a", "256", "198.19.128.0/17", "sink", "256", "64")
    (throughput,) = [c for c in section.curves if "throughput" in c.slug]
    assert [line.label for line in throughput.lines] == ["router", "router, 256 networks", "highest rate"]
