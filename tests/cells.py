"""Cells for tests of methods, tools and reports."""

from __future__ import annotations

from typing import Any, get_origin

from dutlab.plan.cell import Cell
from dutlab.spec.goals import goals_named
from dutlab.spec.rates import AskedRate, RateUnit
from dutlab.spec.workloads import model_of
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.setting import LoadSetting, Setting

_USUAL = {
    "frame_size": 64, "duration_s": 1.0, "warmup_s": 0.5, "drain_s": 0.5, "idle_pps": 1000.0, "share_percent": 100.0, "streams": 1,
    "threshold_percent": 0.1, "omit_s": 0, "changes": 1, "flow_count": 16, "times": 1, "event": {"name": "cut", "port": "dut:out-2"}, "before_s": 2.0, "after_s": 5.0, "warmup_pps": 1000.0, "target_percent": 100.0,
    "hold_s": 0.0, "scale": 1.0, "width_ratio": 0.005, "latency_repeats": 20, "burst_repeats": 50, "burst_limit_s": 30.0,
    "recovery_repeats": 1, "reset_repeats": 1, "length_bytes": 1448, "rate_pps": 1000.0, "rampup_s": 10.0, "shares_percent": (100.0,), "to": "reload", "sender": "source",
    "tests": (), "work": "frames", "client": "source", "server": "sink", "routes": 10, "network": "10.0.0.0/8", "trial_s": 0.5, "loss_ratio": 0.001,
    "most_flows": 4096, "destination_ports": 1, "budget_s": 60.0, "connections": 2000, "source_ports": 40_000, "alpha_ratio": 0.5,
    "beta_ratio": 0.1, "gamma_ratio": 0.4, "first_connections": 1024, "most_connections": 9000, "error_connections": 1,
    "load": "up", "probe_pps": 200.0, "connections_per_s": 20.0, "idle_s": 3.0, "ramp_s": 3, "settle_s": 5.0,
}  # fmt: skip


def setting_of(workload: str, **given: Any) -> Setting:
    """The setting of a workload, with usual values for what is not given."""
    model = model_of(workload).setting
    if issubclass(model, LoadSetting):
        if (rate := given.pop("rate_pps", None)) is not None:
            given["rate"] = AskedRate(float(rate), RateUnit.PPS)
        if (percent := given.pop("rate_percent", None)) is not None:
            given["rate"] = AskedRate(float(percent), RateUnit.PERCENT)
    if given.get("preset") is not None and "goals" in model.model_fields:
        given.setdefault("goals", goals_named(given["preset"]))
    given.pop("frame_mix", None)  # the size says it
    words = {name for name, field in model.model_fields.items() if get_origin(field.annotation) is tuple}
    given = {k: tuple(filter(None, v.split(","))) if k in words and isinstance(v, str) else v for k, v in given.items()}
    usual = {name: value for name, value in _USUAL.items() if name in model.model_fields and model.model_fields[name].is_required()}
    return model.model_validate(usual | given)


def cell_of(
    workload: str,
    *,
    mode: str = "router",
    links: tuple[str, ...] = ("a",),
    tool: str = "",
    repeat: int = 1,
    factors: dict[str, str] | None = None,
    **given: Any,
) -> Cell:
    """A trial of it."""
    setting = setting_of(workload, **given)
    return Cell(
        mode=mode,
        factors={"mode": mode, **(factors or {})},
        tool=tool or model_of(workload).tool,
        links=links,
        setting=setting,
        repeat=repeat,
    )


def shown_cell(
    workload: str, params: dict[str, Any], *, mode: str = "router", links: tuple[str, ...] = ("a",), tool: str = "engine", repeat: int = 1
) -> Cell:
    """A trial of which only the words matter."""
    setting = ImportedSetting(of=workload, said=params)
    return Cell(mode=mode, factors={"mode": mode}, tool=tool, links=links, setting=setting, repeat=repeat)
