"""Energy models: a box with known terms behind a meter with noise, plans that cannot tell a term apart, and bad meters."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dutlab.analysis.energy import DeviceLoad, EnergyModel, NoModel, PhaseWatts, Term, energy_model
from dutlab.errors import InputError
from dutlab.report.gather import gather
from dutlab.report.model.energy import interval_text, quantity
from dutlab.report.questions.energy import energy_of_runs, load_of
from dutlab.spec.mixes import Mix
from dutlab.spec.model import FILE_CONTEXT
from dutlab.stats.summary import Interval
from power_box import PHASES, PowerBox, measured, phase, power_run

TRUE = {Term.BASE: 40.0, Term.PORT: 4.0, Term.FRAME: 200e-6, Term.BIT: 20e-9, Term.TRANSCEIVER: 1.5}
IMIX = Mix.model_validate("imix", context=FILE_CONTEXT).mean


def model_of(run):
    (of,) = energy_of_runs([run])
    assert isinstance(of.model, EnergyModel), of.model
    return of.model


def phases_of(levels, watts=lambda load: 40.0 + 4.0 * load.ports + 200e-6 * load.pps + 20e-9 * load.bps):
    """Phases of exact watts; a level is (ports, frames a second, size)."""
    loads = [DeviceLoad(pps, pps * 8 * size, ports) for ports, pps, size in levels]
    return [PhaseWatts("trial 1", f"p{n}", load, watts(load) + 1e-3 * (-1) ** n) for n, load in enumerate(loads)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_known_terms_are_found_behind_a_meter_with_noise(tmp_path, seed):
    model = model_of(power_run(tmp_path, PowerBox(seed=seed)))
    assert [e.term for e in model.estimates] == [Term.BASE, Term.PORT, Term.FRAME, Term.BIT]
    for e in model.estimates:
        assert e.value == pytest.approx(TRUE[e.term], rel=0.02), e
        assert e.interval is not None and e.interval.low < e.interval.high
    for load in (DeviceLoad(8000.0, 8000 * 8 * IMIX, 4), DeviceLoad(10_000.0, 10_000 * 8 * 1024.0, 2)):
        true = 40.0 + 4.0 * load.ports + 200e-6 * load.pps + 20e-9 * load.bps
        p = model.predict(load)
        assert p.watts == pytest.approx(true, rel=0.03) and not p.outside
        assert p.interval is not None and p.interval.low <= true <= p.interval.high
    assert model.frame_joules(512).value == pytest.approx(200e-6 + 512 * 8 * 20e-9, rel=0.02)


def test_watts_count_only_while_frames_are_sent(tmp_path):
    """The generator of this box is silent for 3 of 63 s in each phase. Counted, that would take a tenth off the energy of a frame."""
    box = PowerBox(noise=0.0)
    model = model_of(power_run(tmp_path, box))
    for e in model.estimates:
        assert e.value == pytest.approx(TRUE[e.term], rel=1e-4)


def test_links_are_set_down_as_the_phases_say_and_are_up_at_the_end():
    box = PowerBox()
    found = measured(box, 64).measured
    assert box.changes == [("b",), (), ("b",), ()] and box.down == ()
    rows = {row["phase"]: row for row in found.tables["phases"]}
    assert [rows[p.name]["ports_up"] for p in PHASES] == [4, 2, 4, 4, 2]
    assert rows["one-link"]["down"] == "b" and rows["idle"]["down"] is None
    assert {row["phase"] for row in found.tables["loads"]} == {"half", "full", "one-link"}


def test_transceivers_are_a_factor_and_their_watts_a_term(tmp_path):
    runs = [power_run(tmp_path / str(n), PowerBox(transceivers=n, seed=n)) for n in (1, 4)]
    (of,) = energy_of_runs(runs)
    assert isinstance(of.model, EnergyModel)
    by_term = {e.term: e.value for e in of.model.estimates}
    assert by_term[Term.TRANSCEIVER] == pytest.approx(1.5, rel=0.06) and by_term[Term.BASE] == pytest.approx(40.0, rel=0.02)
    assert of.model.predict(DeviceLoad(0.0, 0.0, 4, 2)).watts == pytest.approx(59.0, rel=0.01)
    without = power_run(tmp_path / "0", PowerBox())
    (mixed,) = energy_of_runs([*runs, without])
    assert isinstance(mixed.model, NoModel) and "transceivers" in mixed.model.why
    (alone,) = energy_of_runs(runs[:1])
    assert isinstance(alone.model, EnergyModel)
    (why,) = [e.why for e in alone.model.estimates if e.term is Term.TRANSCEIVER]
    assert "factor `transceivers`" in why


IDLE, DOWN = (4, 0.0, 64), (2, 0.0, 64)
PLANS = {
    "one size": ([IDLE, DOWN, (4, 1e4, 64), (4, 2e4, 64), (2, 1e4, 64)], {Term.FRAME: "frame_sizes", Term.BIT: "frame_sizes"}),
    "one rate": ([(4, 1e4, 64), (2, 1e4, 64), (4, 1e4, 512), (2, 1e4, 512)], {Term.BASE: "without load", Term.FRAME: "without load"}),
    "no load": ([IDLE, DOWN, IDLE, DOWN], {Term.FRAME: "share", Term.BIT: "share"}),
    "ports": ([IDLE, (4, 1e4, 64), (4, 2e4, 64), (4, 1e4, 512), (4, 2e4, 512)], {Term.BASE: "down:", Term.PORT: "down:"}),
    "together": ([IDLE, (2, 1e4, 64), (2, 1e4, 512), (4, 0.0, 64)], {Term.BASE: "together", Term.PORT: "together", Term.FRAME: "together"}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_a_term_that_the_plan_does_not_determine_says_which_level_must_vary(name):
    levels, untold = PLANS[name]
    model = energy_model(phases_of(levels))
    assert isinstance(model, EnergyModel)
    for e in model.estimates:
        if e.term in untold:
            assert e.value is None and e.interval is None and untold[e.term] in e.why, e
        else:
            assert e.value == pytest.approx(TRUE[e.term], rel=0.01), e


def test_one_size_still_predicts_that_size_and_no_other():
    model = energy_model(phases_of(PLANS["one size"][0]))
    assert isinstance(model, EnergyModel)
    assert model.predict(DeviceLoad(15_000.0, 15_000 * 8 * 64.0, 4)).watts == pytest.approx(
        40 + 16 + 15_000 * (200e-6 + 512 * 20e-9), rel=1e-3
    )
    assert model.frame_joules(64).value == pytest.approx(200e-6 + 512 * 20e-9, rel=0.01)
    other = model.predict(DeviceLoad(15_000.0, 15_000 * 8 * 512.0, 4))
    assert other.watts is None and "frame_sizes" in other.why


def test_a_load_outside_of_what_was_measured_is_marked():
    model = energy_model(phases_of([IDLE, DOWN, (4, 1e4, 64), (4, 2e4, 64), (2, 1e4, 1518), (4, 2e4, 1518)]))
    assert isinstance(model, EnergyModel)
    assert not model.predict(DeviceLoad(1e4, 1e4 * 8 * 512.0, 4)).outside
    assert len(model.predict(DeviceLoad(1e5, 1e5 * 8 * 64.0, 8)).outside) >= 2
    with pytest.raises(ValueError, match="port"):
        model.predict(DeviceLoad(1e4, 1e4 * 8 * 64.0))


def test_a_term_of_one_phase_has_no_interval():
    model = energy_model(phases_of([IDLE, (4, 1e4, 64), (4, 2e4, 64), (4, 1e4, 512), (4, 2e4, 512), DOWN]))
    assert isinstance(model, EnergyModel)
    (port,) = [e for e in model.estimates if e.term is Term.PORT]
    assert port.value == pytest.approx(4.0, rel=0.01) and port.interval is None and "trial 1, p5" in port.why


def test_without_a_meter_or_with_one_that_is_stuck_nothing_is_told(tmp_path):
    for box, why in ((PowerBox(silent=True), "no reading"), (PowerBox(stuck_at_w=51.3), "stuck")):
        (of,) = energy_of_runs([power_run(tmp_path / why, box)])
        assert isinstance(of.model, NoModel) and why in of.model.why and of.model.remedy
    assert isinstance(energy_model(phases_of([IDLE, DOWN])), NoModel), "no error can be estimated"
    assert isinstance(energy_model([]), NoModel)


def test_a_trial_whose_meter_is_stuck_and_phases_with_loss_are_left_out(tmp_path):
    good = phases_of([IDLE, DOWN, (4, 1e4, 64), (4, 2e4, 64), (2, 1e4, 1518), (4, 2e4, 1518)])
    stuck = [replace(p, trial="trial 2", watts=51.0, deviation_w=0.0) for p in good]
    model = energy_model([*good, *stuck])
    assert isinstance(model, EnergyModel) and model.phases == tuple(good) and "trial 2" in model.left_out[0]
    (of,) = energy_of_runs([power_run(tmp_path, PowerBox(loss=0.05))])
    assert isinstance(of.model, EnergyModel)
    assert len(of.model.left_out) == 9 and all(p.load.pps == 0 for p in of.model.phases)


def test_residuals_that_follow_a_fan_are_told():
    levels = [IDLE, DOWN, (4, 1e4, 64), (4, 2e4, 64), (2, 1e4, 1518), (4, 2e4, 1518)] * 2
    phases = [
        replace(p, watts=p.watts + (3.0 if n >= 6 else 0.0), conditions={"dut: fan, rpm": 5000.0 if n >= 6 else 3000.0})
        for n, p in enumerate(phases_of(levels))
    ]
    model = energy_model(phases)
    assert isinstance(model, EnergyModel)
    (fan,) = model.conditions
    assert (fan.low, fan.high, fan.follows) == (3000.0, 5000.0, True)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ports", "KEY=VALUE"), ("ports=4 ports=2", "twice"), ("watts=3", "KEY=VALUE"), ("rate=8kpps", "which size"),
        ("rate=8 size=64", "pps"), ("rate=8kpps size=huge", "size"), ("ports=-1", "number"), ("size=", "KEY=VALUE"),
    ],
)  # fmt: skip
def test_a_load_that_is_not_understood_is_refused(text, part):
    with pytest.raises(InputError, match=part):
        load_of(text)


def test_a_load_is_read_as_it_is_written():
    load, mode = load_of("ports=4 rate=8kpps size=imix transceivers=2 mode=nat")
    assert (load.ports, load.pps, load.transceivers, mode) == (4.0, 8000.0, 2.0, "nat")
    assert load.bps == pytest.approx(8000 * 8 * IMIX)
    assert load_of("ports=2") == (DeviceLoad(0.0, 0.0, 2.0, None), "")


def test_numbers_have_the_digits_that_their_interval_allows():
    assert quantity(203.4e-6, "J", Interval(199e-6, 208e-6, 0.95)) == "203 µJ"
    assert interval_text(203.4e-6, "J", Interval(199.2e-6, 207.6e-6, 0.95)) == "199 to 208"
    assert quantity(20.04e-9, "J", Interval(19.5e-9, 20.6e-9, 0.95)) == "20.0 nJ"
    assert quantity(0.04, "W", Interval(-0.1, 0.2, 0.95)) == "0.04 W"
    assert interval_text(1.0, "W", None) == "none"


def test_the_command_prints_terms_predictions_and_json(tmp_path, command):
    run = str(power_run(tmp_path, PowerBox()))
    code, out, _ = command("energy", run, "--predict", "ports=4 rate=8kpps size=imix", "--residuals")
    assert code == 0 and "a port" in out and "a bit" in out and "trial 3, one-link" in out
    code, out, _ = command("energy", run, "--json", "--predict", "ports=4 rate=8kpps size=imix", "--predict", "ports=4 rate=9Mpps size=64")
    told = json.loads(out)
    (mode,) = told["energy"]
    assert code == 0 and [t["kind"] for t in mode["terms"]] == ["ESTIMATE"] * 4 and len(mode["phases"]) == 15
    assert [p["kind"] for p in told["predictions"]] == ["PREDICTION", "OUTSIDE"]
    assert mode["measured"]["ports"] == {"low": 2.0, "high": 4.0} and mode["conditions"][0]["name"] == "dut: fan, rpm"
    assert command("energy", run, "--predict", "rate=8kpps size=64")[0] == 2, "how many ports?"
    assert command("energy", run, "--predict", "ports=4 mode=nat")[0] == 2


def test_the_command_refuses_runs_without_watts(tmp_path, command, built):
    code, out, _ = command("energy", str(power_run(tmp_path, PowerBox(stuck_at_w=50.0))), "--json")
    assert code == 2 and "stuck" in json.loads(out)["error"]
    assert command("energy", str(built(seconds=2, cores=0, sizes=(64,))))[0] == 2


def test_the_cost_of_modes_has_the_joules_of_a_frame_beside_it(tmp_path, command, built):
    rates, power = str(built(seconds=2, cores=0, sizes=(64,))), str(power_run(tmp_path, PowerBox()))
    costs = json.loads(command("cost", rates, "--energy", power, "--json")[1])["costs"]
    by_mode = {cost["mode"]: cost for cost in costs}
    assert by_mode["router"]["energy_j"] == pytest.approx(200e-6 + 512 * 20e-9, rel=0.02)
    assert by_mode["router"]["energy_interval"]["low"] < by_mode["router"]["energy_j"]
    assert all(cost["energy_j"] is None for mode, cost in by_mode.items() if mode != "router"), "its watts were not measured"
    assert all(cost["energy_j"] is None for cost in json.loads(command("cost", rates, "--json")[1])["costs"])
    assert "µJ" in command("cost", rates, "--energy", power)[1] and "energy" not in command("cost", rates)[1]


def test_the_report_has_the_terms_the_residuals_and_the_range(tmp_path):
    run = power_run(tmp_path, PowerBox())
    (section,) = [s for s in gather(run, run).sections if s.slug == "soak-power"]
    tables = {t.slug: t for t in section.tables}
    assert [row.cells[0] for row in tables["soak-power-energy"].rows] == ["base", "a port", "a frame", "a bit"]
    assert len(tables["soak-power-energy-frames"].rows) == 3 and len(tables["soak-power-energy-residuals"].rows) == 15
    assert any("2 to 4 ports" in words for words in section.words)


def test_phases_of_the_same_state_are_enough_for_a_rough_model(tmp_path):
    run = power_run(tmp_path, PowerBox(), sizes=(64,), phases=(phase("idle"), phase("full", 1.0), phase("again"), phase("half", 0.5)))
    model = model_of(run)
    assert model.estimates[0].value is None and "down:" in model.estimates[0].why
    assert model.predict(DeviceLoad(0.0, 0.0, 4)).watts == pytest.approx(56.0, rel=0.01)
