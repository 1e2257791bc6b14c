"""Settings: each workload's goes through a plan and a record unchanged, and is put into words by itself alone."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cells import cell_of, setting_of, shown_cell
from dutlab.choices import Benchmark
from dutlab.plan.cell import Cell
from dutlab.spec.generators import GENERATORS
from dutlab.spec.generators.ipgen import FrameWork
from dutlab.spec.goals import PRESETS, Goal
from dutlab.spec.mixes import Mix
from dutlab.spec.rates import AskedRate, RateUnit
from dutlab.spec.traffic import FlowSet, Traffic
from dutlab.spec.workloads import model_of
from dutlab.spec.workloads.bloat import LoadWay
from dutlab.spec.workloads.connections import ConnectionsTest
from dutlab.spec.workloads.convergence import ConvergenceEvent
from dutlab.spec.workloads.multi_stream import ChainSpec, StreamSpec
from dutlab.spec.workloads.rfc2544 import HeaderSet, Modifier
from dutlab.spec.workloads.search import AgainAtEnd, EarlyStop
from dutlab.spec.workloads.search_loads import LoadsBy
from dutlab.spec.workloads.setting import Setting
from dutlab.spec.workloads.soak_power import PowerPhase
from dutlab.spec.workloads.state import StateTest
from dutlab.spec.workloads.stateful_nat import NatTest
from dutlab.spec.workloads.steps import StepsWorkload
from dutlab.store.record import TrialRecord, record_schema
from dutlab.workloads import settable

NOW = datetime(2026, 11, 22, tzinfo=UTC)
seconds = st.floats(0.001, 1e5)
nought = st.floats(0, 600)
rates = st.floats(0.001, 1e9)
counts = st.integers(1, 100_000)
sizes = st.one_of(
    st.integers(64, 1518).map(str),
    st.sampled_from(["imix", "aaafg"]),
    st.dictionaries(st.integers(64, 1518), st.integers(1, 9), min_size=2, max_size=4).map(lambda parts: {"name": "mine", "parts": parts}),
    st.lists(st.integers(64, 1518), min_size=1, max_size=5).map(lambda order: {"name": "mine", "sequence": order}),
).map(Mix.model_validate)
asked_rates = (
    st.none()
    | st.builds(AskedRate, rates, st.sampled_from([RateUnit.PPS, RateUnit.BPS_L1, RateUnit.BPS_L2]))
    | st.builds(AskedRate, st.floats(0.001, 100), st.just(RateUnit.PERCENT))
)
traffic = st.builds(
    lambda transport, count, vlans: Traffic(transport=transport, flows=FlowSet(count=count, source_ports=count), vlans=vlans),
    st.sampled_from(["udp", "tcp", "icmp-echo"]), st.integers(1, 1000), st.lists(st.integers(1, 4094), max_size=2).map(tuple),
)  # fmt: skip
goals = st.one_of(
    st.sampled_from(list(PRESETS.values())),
    st.builds(lambda loss, s: (Goal("own", loss, 0.25, s, 4 * s, width=0.02, initial_s=s / 2),), st.floats(0, 0.01), st.floats(0.1, 60)),
)
FIELDS = {
    "frame_size": sizes, "duration_s": seconds, "warmup_s": nought, "drain_s": nought, "rate": asked_rates, "traffic": traffic,
    "generator": st.none() | st.sampled_from([model() for kind, model in GENERATORS.items() if kind in {"trafgen", "pktgen"}]),
    "directions": st.sampled_from(["forward", "both", "back"]), "streams": st.integers(1, 128), "rate_pps": rates, "idle_pps": rates,
    "shares_percent": st.lists(st.floats(0, 200), min_size=1, max_size=4).map(tuple), "share_percent": st.floats(0.001, 100),
    "threshold_percent": st.floats(0, 99), "target_loss_percent": st.none() | st.floats(1e-6, 10), "to": st.just("nat"),
    "changes": counts, "before_s": seconds, "after_s": seconds, "warmup_pps": nought, "target_percent": st.floats(0.1, 1000),
    "rampup_s": seconds, "hold_s": nought, "line_rate_bps_l1": st.none() | rates, "preset": st.none() | st.just("csit"), "goals": goals,
    "lowest_pps": st.none() | rates, "highest_pps": st.none() | rates, "budget_s": seconds,
    "early_stop": st.sampled_from(EarlyStop), "again_at_end": st.sampled_from(AgainAtEnd), "loads_by": st.sampled_from(LoadsBy),
    "expected_pps": st.none() | rates, "latency_s": seconds, "scale": st.floats(0.001, 1),
    "width_ratio": st.floats(0.001, 0.5), "loss_ratio": st.floats(0, 0.5), "latency_repeats": counts, "burst_repeats": counts,
    "burst_limit_s": seconds, "recovery_repeats": counts, "reset_repeats": counts, "networks": st.sampled_from([1, 256]),
    "extension_headers": st.sampled_from(HeaderSet.__args__), "modifiers": st.lists(st.sampled_from(Modifier), unique=True).map(tuple),
    "trial_s": seconds, "fill_pps": st.none() | rates, "most_flows": counts, "destination_ports": st.integers(1, 65535),
    "table_flows": st.none() | counts, "nat_ports": st.none() | st.just((1024, 2047)), "omit_s": st.integers(0, 60),
    "zerocopy": st.booleans(), "direction": st.sampled_from(["forward", "reverse", "bidir"]), "rate_bps": st.none() | rates, "client": st.just("dut"), "server": st.just("sink"), "protocol": st.sampled_from(["tcp", "udp"]),
    "length_bytes": st.integers(16, 1500), "lengths_bytes": st.lists(st.integers(16, 1500), min_size=1).map(tuple), "routes": counts,
    "failure": st.booleans(), "tunnels": st.integers(1, 1000),
    "steps": st.just(StepsWorkload.model_validate({"run": {"source": [{"run": "sleep 2", "timeout": "3s"}]}, "on_failure": "stop"})),
}  # fmt: skip
OF_WORKLOAD = {
    "rfc2544": {"tests": st.lists(st.sampled_from(Benchmark), unique=True).map(tuple)},
    "state": {"tests": st.lists(st.sampled_from(StateTest), unique=True).map(tuple)},
    "connections": {
        "tests": st.lists(st.sampled_from(ConnectionsTest), unique=True).map(tuple), "requests": counts, "request_bytes": counts,
        "response_bytes": st.integers(0, 10**6) | st.just("1024:60,102400:40"), "closes": st.sampled_from(["fin", "reset"]), "failed_ratio": st.floats(0, 0.5),
        "highest_per_s": rates, "most_connections": counts, "fill_per_s": st.none() | rates, "timeout_s": seconds,
        "sources": st.integers(1, 64), "to_ports": st.sampled_from(["", "8080", "8080-8095"]), "to_address": st.just("192.0.2.1"),
        "to_name": st.just("www.example"), "http": st.sampled_from(["1.1", "2"]), "tls": st.none() | st.sampled_from(["any", "1.3"]), "tls_ends": st.sampled_from(["both", "client"]),
        "tls_resumes": st.booleans(),
    },
    "stateful-nat": {
        "tests": st.lists(st.sampled_from(NatTest), unique=True).map(tuple), "directions": st.sampled_from(["forward", "both"]),
        "connections": counts, "source_ports": counts, "alpha_ratio": st.floats(0.001, 1), "beta_ratio": st.floats(0.001, 1),
        "gamma_ratio": st.floats(0.001, 1), "first_connections": counts, "most_connections": counts, "error_connections": counts,
        "table_connections": st.none() | counts, "expires_s": st.none() | seconds,
    },
    "loadtest": {"verify_traffic": st.booleans()},
    "routes": {"goals": st.none(), "preset": st.none(), "ipv6_network": st.none()},
    "fio": {
        "options": st.dictionaries(st.sampled_from(["rw", "bs", "iodepth"]), st.sampled_from(["randread", "4k", "16"]), max_size=3),
        "job": st.sampled_from(["", "[a]\nrw=read\n"]), "writes": st.booleans(), "ramp_s": nought,
    },
    "storage-limit": {
        "access": st.sampled_from(["random", "sequential"]), "bs": st.sampled_from(["512", "4k"]), "reads_percent": st.integers(0, 100),
        "jobs": st.integers(1, 64), "deepest": st.integers(1, 4096), "engine": st.just("libaio"), "writes": st.booleans(), "ramp_s": nought,
    },
    "storage-latency": {
        "access": st.sampled_from(["random", "sequential"]), "bs": st.sampled_from(["512", "4k"]), "reads_percent": st.integers(0, 100),
        "rates": st.sampled_from([("500",), ("500", "2.5%"), ("50%",)]), "order": st.sampled_from(["crossed", "as-written"]),
        "depth": st.integers(1, 4096), "writes": st.booleans(), "ramp_s": nought,
    },
    "array-failure": {
        "options": st.just({"rw": "randwrite", "bs": "4k"}), "writes": st.booleans(), "ramp_s": nought,
        "phase_s": seconds, "rebuild_s": seconds, "rebuild_bytes_per_s": st.none() | st.integers(1, 10**12),
    },
    "pts": {
        "test": st.sampled_from(["iops", "throughput", "latency", "write-saturation"]), "purge": st.sampled_from(["none", "blkdiscard"]),
        "active_range_percent": st.integers(1, 100), "write_cache": st.sampled_from(["as-found", "on", "off"]), "cell_s": nought,
        "interval_s": nought, "histogram_s": nought, "burst_s": nought, "loops": st.integers(0, 360), "waits_s": st.lists(seconds).map(tuple),
        "stimuli_s": st.lists(seconds).map(tuple), "threads": st.lists(st.integers(1, 1024)).map(tuple), "depths": st.lists(st.integers(1, 1024)).map(tuple),
        "prewrite_s": nought, "point_s": nought, "point_prewrite_s": nought, "most_latency_s": nought,
        "passes": st.integers(0, 10), "depth": counts, "jobs": counts, "block_sizes": st.just(("4k", "512")), "writes": st.booleans(),
        "reads_percent": st.lists(st.integers(0, 100), min_size=1).map(tuple), "most_rounds": st.integers(5, 25),
        "capacities": st.integers(0, 20),
    },
    "soak-power": {
        "phases": st.just((PowerPhase(name="full", share=0.9, links=("a",), until="stable"), PowerPhase(name="off", off=True))),
        "window_s": seconds, "meter": st.sampled_from([None, "wall"]),
    },
    "exact": {
        "offload": st.sampled_from(["none", "gro"]),
        "frames": st.integers(100, 10**6), "flow_count": st.integers(1, 50_000), "rules": st.integers(0, 50_000), "mtu": st.integers(1500, 9000),
        "routes": st.integers(0, 50_000), "kernel": st.none() | st.just("/boot/vmlinuz"), "limit_s": counts, "cpu": st.just("max"), "modules": st.none(), "profile": st.booleans(),
    },
    "convergence": {
        "event": st.sampled_from([{"name": "cut", "port": "dut:out-2"}, {"name": "end", "host": "far", "fail": ("kill 1",), "recover": ("true",)}]).map(ConvergenceEvent.model_validate),
        "flow_count": st.integers(1, 64), "times": st.integers(1, 1000),
    },
    "generators": {"sender": st.just("s1")}, "generation": {"duration_s": st.integers(1, 600), "work": st.sampled_from(FrameWork)},
    "multi-stream": {
        "streams": st.dictionaries(
            st.sampled_from(["syn", "data", "call"]), st.tuples(st.integers(128, 1518), st.none() | counts, traffic), min_size=1
        ).map(lambda of: tuple(StreamSpec(name=n, frame_size=str(m), frames=f, traffic=t) for n, (m, f, t) in of.items())),
        "chains": st.just((ChainSpec.model_validate({"steps": ["syn", {"stream": "data", "gap": 0.5}], "rounds": 3}),)),
    },
    "bloat": {
        "load": st.sampled_from(LoadWay), "streams": st.integers(1, 128), "probe_pps": rates, "connections_per_s": st.floats(0, 1000),
        "idle_s": seconds, "ramp_s": st.integers(1, 600), "duration_s": st.integers(1, 3600), "settle_s": seconds,
    },
    "iperf3": {"duration_s": st.integers(1, 86400), "ends_apart_s": st.integers(0, 60)}, "matrix": {"duration_s": st.integers(1, 86400)},
    "datagrams": {"duration_s": st.integers(1, 86400)},
}  # fmt: skip


@pytest.mark.parametrize("workload", settable())
@settings(max_examples=8)
@given(data=st.data())
def test_a_setting_comes_back_from_a_record_as_it_went_in(workload, data):
    model = model_of(workload).setting
    drawn = {**FIELDS, **OF_WORKLOAD.get(workload, {})}
    made = setting_of(workload, **{name: data.draw(drawn[name], label=name) for name in model.model_fields if name in drawn})
    cell = Cell(mode="router", factors={"mode": "router"}, tool="engine", links=("a",), setting=made, repeat=1)
    record = TrialRecord(trial=1, status="measured", cell=cell, started=NOW, ended=NOW, figures={})
    back = TrialRecord.model_validate_json(record.model_dump_json()).cell.setting
    assert type(back) is type(made) is model and back == made and back.params == made.params
    assert back.workload == workload == json.loads(cell.model_dump_json())["setting"]["kind"]
    assert all(value is None or isinstance(value, str | int | float) for value in back.params.values())


@pytest.mark.parametrize("workload", settable())
def test_every_setting_is_a_frozen_one_of_its_own_that_the_schema_knows_and_this_test_draws(workload):
    model = model_of(workload).setting
    assert issubclass(model, Setting) and [kind for kind in settable() if model_of(kind).setting is model] == [workload]
    defined = record_schema()["$defs"]
    assert {"$ref": f"#/$defs/{model.__name__}"} in defined["Setting"]["oneOf"]
    assert defined[model.__name__]["properties"]["kind"]["const"] == workload
    known = {*FIELDS, *OF_WORKLOAD.get(workload, {}), "kind", "network", "all_networks", "all_extension_headers"}
    assert set(model.model_fields) <= known, "a field that FIELDS does not draw would go untested"


IMPOSSIBLE = {
    "latency": [{"shares_percent": "0,x"}, {"shares_percent": "-5"}, {"shares_percent": ""}, {"duration_s": 0.0}, {"idle_pps": None}],
    "search": [{"highest_pps": 0}, {"highest_pps": -5.0}, {"lowest_pps": 0}, {"early_stop": "later"}, {"frame_size": 63}, {"goals": None}, {"goals": ()},
               {"goals": (Goal("a b", 0.0, 0.0, 1.0, 1.0),)}],
    "loadtest": [{"rampup_s": 0.0}, {"target_percent": 0.0}, {"target_percent": None}, {"threshold_percent": 100.0}],
    # iperf3 itself would silently read these as something else.
    "iperf3": [{"duration_s": 1.5}, {"omit_s": 0.5}, {"duration_s": 0}, {"duration_s": None}, {"streams": 0}, {"streams": 129}, {"omit_s": 61}],
    "reconf": [{"rate_pps": 0.0}, {"changes": 0}, {"after_s": 0.0}, {"rate_pps": "much"}],
}  # fmt: skip


@pytest.mark.parametrize(("workload", "given"), [(workload, given) for workload, of in IMPOSSIBLE.items() for given in of])
def test_a_setting_that_cannot_be_measured_cannot_be_made(workload, given):
    usual = {"preset": "csit"} if workload == "search" else {}
    with pytest.raises(ValueError, match=next(iter(given))):
        cell_of(workload, **(usual | given))


def test_a_copy_has_words_of_its_own_and_the_first_is_frozen():
    made = setting_of("sweep", rate_pps=5.0)
    assert (made.params["rate_pps"], made.model_copy(update={"rate": None}).params["rate_pps"]) == (5.0, None)
    with pytest.raises(ValidationError, match="frozen"):
        made.duration_s = 2.0


def test_what_an_import_says_is_kept_as_it_was():
    cell = shown_cell("fio", {"job": "read", "depth": 4, "rate": 0.5, "size": None})
    back = Cell.model_validate_json(cell.model_dump_json())
    assert back == cell and (back.workload, back.params) == ("fio", {"job": "read", "depth": 4, "rate": 0.5, "size": None})


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"kind": "swep"}, "did you mean sweep"), ({}, "unknown workload"), ("sweep", "unknown workload"),
        ({"kind": "sweep", "frame_size": "64"}, "duration_s"),
        ({"kind": "path-mtu", "frame_size": "64"}, "frame_size"),
    ],
)  # fmt: skip
def test_a_cell_whose_setting_is_none_is_refused(setting, said):
    whole = cell_of("path-mtu").model_dump(mode="json")
    with pytest.raises(ValidationError, match=said):
        Cell.model_validate({**whole, "setting": setting})
