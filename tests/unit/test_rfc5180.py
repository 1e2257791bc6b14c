"""IPv6 extension headers (RFC 5180 section 5.3): what may be asked, what the generator is told, what the suite does with each set."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_address

import pytest
from pydantic import ValidationError

from dutlab.methods.ports import Bench, Offer
from dutlab.methods.rfc2544 import suite
from dutlab.plan.cell import Cell
from dutlab.report.gather import gather
from dutlab.spec.generators import GENERATORS
from dutlab.spec.links import Port
from dutlab.spec.mixes import frame_mix
from dutlab.spec.shape import LinkBounds
from dutlab.spec.traffic import EXTENSION_SETS, Traffic
from dutlab.spec.workloads.rfc2544 import Rfc2544Workload
from dutlab.spec.workloads.sweep import SweepWorkload
from dutlab.tools.engine.load import Direction, EngineLoad
from dutlab.units import BpsL1, Pps, Seconds
from run_records import new_run, trial_record
from simulated import Dut, Simulation
from simulated_tables import Routes

NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)
SIX = {"a": LinkBounds(ipv6=True)}
ENDS = (ip_address("2001:2:0:1::2"), ip_address("2001:2:0:8001::2"))


async def no_sleep(_):
    """Time is nobody's here."""


def cells(**body):
    given = {"links": [["a"]], "scale": 0.05, "tests": ["throughput", "frame-loss"], "frame_sizes": [128], **body}
    settings = Rfc2544Workload.model_validate(given).drives(["a"])
    return [Cell(mode="router", factors={"mode": "router"}, tool="engine", links=s.links, setting=s.setting, repeat=1) for s in settings]


def bench():
    return Bench(Simulation(Dut(400_000)), {"a": BpsL1(1e9)}, addresses={"a": ENDS}, routes=Routes())


def faults(workload, bounds):
    return [what for _, what in workload.incompatibilities(bounds)]


def test_the_chain_is_the_one_that_the_rfc_recommends():
    # RFC 5180 section 5.3: routing header 24 to 32 bytes, destination options 8, fragment 8; more than 32 together.
    assert EXTENSION_SETS["chain"] == ("routing", "destination-options", "fragment")
    assert Traffic(extension_headers=EXTENSION_SETS["chain"]).shortest(ipv6=True) == 64 + 20 + 24 + 8 + 8
    assert "hop-by-hop" not in EXTENSION_SETS["chain"]


def test_what_cannot_be_sent_is_refused_before_anything_is():
    chained = Rfc2544Workload.model_validate({"frame_sizes": [84, 128], "extension_headers": ["none", "chain"]})
    (fault,) = faults(chained, SIX)
    assert fault.startswith("84: ") and "124 bytes" in fault
    assert any("IPv6" in fault and "link a" in fault for fault in faults(chained, {"a": LinkBounds()}))
    (fault,) = faults(Rfc2544Workload.model_validate({}), SIX)
    assert fault.startswith("64: ") and "84 bytes" in fault
    by_name = Rfc2544Workload.model_validate({"frame_sizes": "rfc5180"})
    assert [mix.size for mix in by_name.frame_sizes] == [84, 128, 256, 512, 1024, 1280, 1518] and not faults(by_name, SIX)
    swept = SweepWorkload.model_validate({"frame_sizes": [128], "traffic": {"extension_headers": ["hop-by-hop", "routing"]}})
    assert not faults(swept, SIX) and len(faults(swept, {"a": LinkBounds()})) == 1
    with pytest.raises(ValidationError, match="be the first"):
        Traffic(extension_headers=("routing", "hop-by-hop"))
    with pytest.raises(ValidationError, match="at least 116 bytes"):
        SweepWorkload.model_validate({"frame_sizes": [115], "traffic": {"extension_headers": ["fragment", "routing"]}})
    (refused,) = [what for loc, what in swept.beyond(GENERATORS["trafgen"].model_validate({}), SIX) if "extension" in str(loc)]
    assert "IPv6 extension headers" in refused


def test_the_engine_is_told_of_the_headers_in_its_own_words():
    ports = Port(host="source", interface="p"), Port(host="sink", interface="q")
    direction = Direction("a", "a", *ports, *map(str, ENDS), "02:00:00:00:00:01", 49152, isolated=False)
    load = EngineLoad(Offer(("a",), frame_mix(128), Pps(1), Seconds(1), traffic=Traffic(extension_headers=EXTENSION_SETS["chain"])))
    (stream,) = load.send_plan(direction, 1)["streams"]
    assert stream["extension_headers"] == ["routing", "destination_options", "fragment"]
    (plain,) = EngineLoad(Offer(("a",), frame_mix(128), Pps(1), Seconds(1))).send_plan(direction, 1)["streams"]
    assert "extension_headers" not in plain


async def test_each_set_of_headers_has_its_trials_and_hop_by_hop_a_test_of_its_own(tmp_path):
    made = cells(extension_headers=["none", "chain", "hop-by-hop"], networks=[1, 256])
    assert [(c.params["extension_headers"], c.params["networks"]) for c in made] == [
        (headers, count) for headers in ("none", "chain", "hop-by-hop") for count in (1, 256)
    ]
    run = new_run(tmp_path, made)
    for number, cell in enumerate(made, 1):
        at = bench()
        found = await suite.measure(at, cell, sleep=no_sleep)
        wanted = EXTENSION_SETS[cell.params["extension_headers"]]
        carried = [t for o in at.generator.offers for t in (o.traffic_of.values() if cell.params["networks"] > 1 else [o.traffic])]
        assert {t.extension_headers for t in carried} == {wanted}
        texts = [row["text"] for row in found.tables["deviations"]]
        assert any(text.startswith("RFC 5180 §5.3: ") and text.endswith("destination-options, routing, fragment") for text in texts)
        if wanted == ("hop-by-hop",):
            rows = found.tables["hop_by_hop"]
            assert [row["offered_share_ratio"] for row in rows] == [0.01, 0.1, 0.5] and "throughput" not in found.tables
            # 128 bytes at 1 Gbit/s: 844 594 frames a second (RFC 5180 appendix A); the DUT forwards 400 000.
            assert found.figures["a"]["50%/loss_ratio"] == pytest.approx(1 - 400_000 / 422_297, rel=1e-3)
            assert found.figures["a"]["10%/loss_ratio"] == 0
        run.write_trial(trial_record(number, cell, found.figures, tables=found.tables), {}, [])
    (section,) = gather(run.path, tmp_path).sections
    grids = {grid.slug: grid for grid in section.tables}
    named = ["a", "a, 256 networks", "a, headers chain", "a, 256 networks, headers chain"]
    assert [row.cells[0] for row in grids["rfc2544-throughput"].rows] == named
    assert [row.cells[2] for row in grids["rfc2544-variants"].rows] == ["256 networks", "headers chain", "256 networks, headers chain"]
    assert len(grids["rfc2544-hop-by-hop"].rows) == 6 and len({row.cells[0] for row in grids["rfc2544-hop-by-hop"].rows}) == 2
