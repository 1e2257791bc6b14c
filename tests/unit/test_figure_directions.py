"""Which side of a figure is better: the written list has every figure that is written, and without it there is no verdict."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mutated_imports import whole_files

import dutlab
from dutlab.analysis.answers import Contest, Entrant, decide
from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Pair
from dutlab.analysis.verdict import Verdict
from dutlab.choices import IMPORTS
from dutlab.cli.check import check
from dutlab.cli.compare import compare as compare_command
from dutlab.cli.effects import effects
from dutlab.cli.import_files import import_files
from dutlab.errors import DirectionUnknown, InputError
from dutlab.interop.imported_run import Imported, ImportOptions
from dutlab.measures import MEASURES, MeasureUnit, UnknownDirection, direction_of, side_of
from dutlab.report.model.words import better_of
from golden import Golden

ROOT = Path(dutlab.__file__).parent
UNITS = re.compile(
    r"[a-z{][a-z0-9_{}]*_(pps|bps|bps_l1|bps_l2|ns|percent|iops|bytes_per_s|bytes|per_s|cores|watts|per_w|j_per_gb|j_per_mpkt|w|c|s|ratio|frames"
    r"|count|depth|flows|connections|retransmits|events|steps|trials|rounds|per_cpu_s|loaded|hit)"
)
FIGURES = (
    *("retransmits", "retransmits.back", "jitter_ns.back", "run_2/goodput_bps", "run_3/real_s", "trials", "rounds", "routes_loaded"),
    *("clat_p9999_ns.read", "iops.trim", "lat_mean_ns", "healthy/clat_p99_ns", "degraded/least_iops", "r65_128k/bytes_per_s"),
    *("r0_4k/clat_max_ns", "steady/iops", "unsteady/iops", "fresh/iops", "peak/depth", "knee/clat_mean_ns", "least/bytes_per_s"),
    *("first_byte_p99_ns", "handshake_p50_ns", "response_p99_ns", "90%/loss_ratio", "64/between_bursts_ns", "99.5%/tl_ns"),
    *("50%/wcl_ns", "50%/pdv_ns", "100%/loss_ratio", "half/latency_p999_ns", "back/outage_max_ns", "forward/silence_s"),
    *("voice/received_pps", "voice/loss_ratio", "voice/latency_p99_ns", "full-load/watts", "idle/above_idle_w", "full-load/j_per_gb"),
    *("12.5%/pps_per_w", "erf/critical_pps", "ndr/conditional_bps_l1", "received_step_ratio", "offered_step_ratio", "rtt_p99_ns"),
    *("forward/lossless_ratio", "rate_pps", "gbps", "mbytes_per_s", "cpu_clk_unhalted/count", "rig_received_pps"),
    *("seq/bytes_per_s.read", "rand/iops.write", "all/clat_p99_ns.trim", "seq/fio_cpu_cores"),
)
"""Figures whose names are made of several parts, one of each kind."""
NOT_FIGURES = frozenset(
    [
        "active_range_percent", "range_ratio", "slope_ratio", "age_ns", "agreed_connections", "ahead_ns", "answered_flows", "answered_ns", "asked_connections", "asked_flows", "asked_per_s", "back_latest_ns", "back_ns", "back_within_s",
        "began_s", "begins_latest_ns", "begins_ns", "begun_connections", "begun_flows", "begun_ns", "body_bytes", "bw_bytes", "card_error_ns", "clat_ns", "closed_iops", "late_p99_ns",
        "concurrent_trials", "connection_trials", "cpu_percent", "cpu_utilization_percent", "datagram_bytes", "drain_s", "duration_ns",
        "dutlab_run_ended_trials", "dutlab_run_trials", "ended_s", "estimate_s", "fill_per_s", "first_monotonic_ns", "fixed_bytes",
        "for_s", "from_pps", "from_s", "gap_ns", "highest_pps", "hold_s", "interval_ns", "ipgen_latency_{}_ns", "ipgen_{}_pps",
        "jumped_ns", "known_loss_ratio", "lasted_s", "lat_ns", "latency_p90_less_p50_ns", "latency_sum_ns", "left_s", "length_bytes",
        "line_rate_bps_l1", "load_percent", "logical_sector_bytes", "loss_percent", "lost_percent", "lowest_pps", "max_ns", "mean_iops",
        "mean_ns", "memory_bytes", "message_bytes", "min_ns", "monotonic_ns", "mss_bytes", "ndr_loss_percent", "ndr_percent",
        "nf_conntrack_count", "offered_s", "omit_s", "open_max_connections", "overload_pps", "overload_s", "p50_ns", "p90_ns", "p999_ns",
        "arrived_connections", "c0_connections", "capacity_trials", "cs_connections", "ct_connections", "different_connections", "empty_s",
        "establishment_trials", "left_connections", "r0_per_s", "rs_per_s", "safe_per_s", "took_s", "validated_connections",
        "p99_ns", "pdr_loss_percent", "pdr_percent", "physical_sector_bytes", "rampup_s", "rate_percent", "reads_percent", "realtime_ns",
        "received_bytes", "received_monotonic_ns", "value_pps", "replied_monotonic_ns", "request_bytes", "reset_by_path_count", "reset_by_sink_count", "route_loss_ns",
        "response_bytes", "rtt_p{}_ns", "rx_bps", "rx_pps", "sent_bytes", "sent_s", "sequence_bytes", "server_answers_count", "server_bytes", "server_closed_count", "server_closes_count",
        "server_connections", "server_reset_count", "set_up_flows", "setup_trials",
        "share_percent", "sink_clock_ahead_ns", "size_bytes", "slat_ns", "started_s", "steady_s", "stopped_late_after_s", "t_s",
        "taken_flows", "target_percent", "threshold_percent", "to_pps", "to_s", "total_trials", "tracked_flows", "trial_s", "tx_bps",
        "tx_pps", "wait_s", "warmup_pps", "warmup_s", "watts_deviation_w", "window_bytes", "wire_bps", "without_power_ns", "wronged_frames", "{}_bps_l1",
        "{}_connections", "{}_count", "{}_cpu_percent", "{}_frames", "{}_iops", "{}_ns", "{}_pps", "{}_s", "{}_step_ratio",
        "{}bytes_per_s", "{}latency_{}_ns", "{}line_ratio", "{}received_bps_l1", "{}{}_bps_l1", "{}{}_pps",
    ]
)  # fmt: skip
"""Columns of tables, settings, keys of other programs and clocks; the last two lines are parts of names that FIGURES has whole."""


def test_the_page_of_measures_has_each_with_its_unit_and_side() -> None:
    page = (ROOT.parents[1] / "docs/reference/measures.md").read_text()
    absent = [m.name for m in MEASURES if f"| `{m.name}` | {m.unit.symbol} | {m.layer} | {m.better} | {m.words} |\n" not in page]
    assert not absent, f"run `make docs`: {absent}"


def test_the_unit_of_a_measure_is_the_ending_of_its_name() -> None:
    """Names say their unit; a declaration that says another one would be read as a fault of it."""
    wrong = [m.name for m in MEASURES if m.unit is not MeasureUnit.ends(m.name)]
    assert not wrong


def written() -> Iterator[str]:
    """Every text in the code that makes figures that ends in a unit; `{}` is what a name is filled with."""
    for path in (path for room in ("methods", "tools", "interop", "runner") for path in (ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
        for node in ast.walk(tree):
            text = ""
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                text = node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(str(value.value) if isinstance(value, ast.Constant) else "{}" for value in node.values)
            if UNITS.fullmatch(text):
                yield text


def test_the_list_has_every_figure_that_a_method_tool_or_importer_writes(golden: Golden) -> None:
    """A new figure gets its direction here, or is named among NOT_FIGURES."""
    names = {*written()} - NOT_FIGURES
    sides = {name: direction_of(name.replace("{}", "p50")) for name in (*names, *FIGURES)}
    assert [name for name, side in sides.items() if side is None] == []
    golden.check("directions.txt", "".join(f"{name}: {side or 'neither'}\n" for name, side in sorted(sides.items())))


def read(kind: str, data: bytes) -> list[Imported]:
    try:
        return IMPORTS[kind].importer("device.json", data, ImportOptions())
    except InputError:  # a test that was interrupted holds no result
        return []


_OWN_NAMES = ("figures", "ministat")
"""Kinds of files whose figures have the names that people gave them."""


def test_the_list_has_every_figure_of_imported_files() -> None:
    trials = [trial for kind, data in whole_files() if kind not in _OWN_NAMES for trial in read(kind, data)]
    figures = {figure for trial in trials for of in trial.measured.figures.values() for figure in of}
    assert len(figures) > 30  # the files hold results
    assert {figure for figure in figures if direction_of(figure) is None} == set()


@pytest.mark.parametrize("figure", ["corrupted_frames", "duplicated_frames", "reordered_frames"])
def test_frames_that_a_box_must_not_make_are_better_few(figure: str) -> None:
    assert better_of(figure) == "lower"


@pytest.mark.parametrize(
    "figure",
    ["clat_p99_ns.read", "first_byte_p50_ns", "failed_ratio", "failed_steps", "rebuild_s", "forward/silence_s", "handshake_p99_ns"],
)
def test_more_of_a_time_or_of_failures_is_worse(figure: str) -> None:
    low, high = (1.0, 1.01, 1.02, 1.03, 1.04, 1.05), (2.0, 2.01, 2.02, 2.03, 2.04, 2.05)
    assert [c.verdict for c in compare([Pair("a", figure, low, high), Pair("b", figure, high, low)])] == [Verdict.WORSE, Verdict.BETTER]
    (order,) = decide([Contest("drives", figure, (Entrant("slow", (high,)), Entrant("quick", (low,))))], least=0.01)
    assert [place.label for place in order.places] == ["quick", "slow"]


@pytest.mark.parametrize("figure", ["offered_pps", "lag", "my_latency", "loss"])
def test_there_is_no_verdict_where_no_side_is_known_to_be_better(figure: str) -> None:
    low, high = (1.0, 1.01, 1.02, 1.03, 1.04, 1.05), (2.0, 2.01, 2.02, 2.03, 2.04, 2.05)
    with pytest.raises(UnknownDirection) as refused:
        compare([Pair("a", "goodput_bps", low, high), Pair("a", figure, low, high)])
    assert refused.value.figures == (figure,)
    with pytest.raises(UnknownDirection):
        decide([Contest("a", figure, (Entrant("x", (low,)), Entrant("y", (high,))))], least=0.01)
    assert compare([Pair("a", figure, low, high, better="lower")])[0].verdict is Verdict.WORSE


def test_what_a_user_says_cannot_contradict_the_list() -> None:
    assert [side_of("lag", said) for said in ({}, {"lag": "lower"}, {"": "higher"}, {"other": "lower"})] == ["", "lower", "higher", ""]
    assert side_of("goodput_bps", {"lag": "lower"}) == "higher"
    with pytest.raises(ValueError, match="goodput_bps"):
        side_of("goodput_bps", {"": "lower"})


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Imported runs: `slow` has twice the times of `quick`; `both` has the two as modes."""
    folder = tmp_path_factory.mktemp("tables")
    runs = {}
    for name, modes in {"quick": {"raid": 1.0}, "slow": {"raid": 2.0}, "both": {"slow": 2.0, "quick": 1.0}}.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["workload", "mode", "repeat", "read_clat_p99_us", "lag_ms"])
            for repeat in range(1, 7):
                rows.writerows(["fio", mode, repeat, (996.6 + repeat) * by, (20 + repeat / 10) * by] for mode, by in modes.items())
        done = CliRunner().invoke(import_files, ["figures", str(folder / f"{name}.csv"), "--runs", str(folder / name)])
        assert done.exit_code == 0, done.output
        (runs[name],) = (folder / name).iterdir()
    return runs


def ask(command: object, *words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])  # type: ignore[arg-type]


def test_a_check_fails_where_a_latency_grew(tables: dict[str, Path]) -> None:
    figure = ("--figure", "clat_p99_ns.read")
    worse = ask(check, tables["slow"], "--baseline", tables["quick"], *figure)
    better = ask(check, tables["quick"], "--baseline", tables["slow"], *figure)
    assert (worse.exit_code, better.exit_code) == (1, 0)
    told = json.loads(ask(compare_command, tables["both"], "--order", *figure, "--json").output)
    assert [place["label"] for place in told["orders"][0]["places"]] == ["quick", "slow"]


def test_a_figure_of_the_users_own_has_a_verdict_only_where_its_direction_is_given(tables: dict[str, Path]) -> None:
    words = (tables["slow"], "--baseline", tables["quick"], "--figure", "lag_ns")
    for command, asked in ((check, words), (compare_command, (tables["both"], "--order", "--figure", "lag_ns"))):
        refused = ask(command, *asked).exception
        assert isinstance(refused, DirectionUnknown)
        assert (refused.figures, refused.exit_status) == (("lag_ns",), 2)
        assert "--better lag_ns=lower" in refused.remedy
    assert [ask(check, *words, "--better", said).exit_code for said in ("lower", "lag_ns=lower", "higher")] == [1, 1, 0]
    for said in ("sideways", "lag_ns", "clat_p99_ns.read=higher"):
        given = ("--better", said, "--figure", "clat_p99_ns.read")
        assert isinstance(ask(check, *words, *given).exception, InputError)


def test_effects_have_colours_only_where_the_direction_is_known(tables: dict[str, Path], tmp_path: Path) -> None:
    def drawn(*more: str) -> str:
        done = ask(effects, tables["both"], "--figure", "lag_ns", "--plot", tmp_path / "effects.svg", *more)
        assert done.exit_code == 0, done.output
        return (tmp_path / "effects.svg").read_text()

    plain, worse, better = drawn(), drawn("--better", "higher"), drawn("--better", "lower")
    assert len({plain, worse, better}) == 3
