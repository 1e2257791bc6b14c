"""Goodput of each pair and the largest packet that passes make one verdict."""

from __future__ import annotations

import json

import pytest

from cells import cell_of
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.report.write import write_publication
from run_records import new_run, trial_record

HOSTS = ("pc1", "pc2")


def run_with(runs, goodput_bps, path_mtu, *, port_mtu=9000, speed=10e9, pairs=(HOSTS, HOSTS[::-1])):
    """A run of both pairs on a segment, in this order: its goodput, its path MTU and the MTU of both ports."""
    cells = [cell_of("matrix", mode="as-found", links=("lan",), tool="iperf3", client=a, server=b, duration_s=5) for a, b in pairs]
    cells.append(cell_of("path-mtu", mode="as-found", links=("lan",), tool="ping"))
    resolved = {
        "experiment": {"name": "x", "factors": {"mode": ["as-found"]}},
        "testbed": {"name": "home", "links": {"lan": {"speed": speed, "segment": [f"{h}:eth0" for h in HOSTS]}}},
        "command": ["dutlab", "run"],
    }
    run = new_run(runs, cells, resolved=resolved)
    for n, cell in enumerate(cells[:2], 1):
        run.write_trial(trial_record(n, cell, {"lan": {"goodput_bps": goodput_bps}}), {})
    rows = [{"link": "lan", "from": a, "to": f"{b}:eth0", "path_mtu_bytes": path_mtu, "payload_bytes": path_mtu - 28} for a, b in pairs]
    figures = {"lan": {"path_mtu_bytes": path_mtu, "payload_bytes": path_mtu - 28}}
    run.write_trial(trial_record(3, cells[2], figures, tables={"path_mtu": rows}), {})
    for host in HOSTS:
        run.write_host(host, {"interfaces": {"eth0": {"mtu": port_mtu}}})
    return run.path


@pytest.mark.parametrize(
    ("goodput_bps", "path_mtu", "port_mtu", "verdict"),
    [
        (9.86e9, 9000, 9000, "line rate"),
        (9.38e9, 1500, 1500, "line rate"),
        (9.38e9, 9000, 9000, "below line rate"),
        (1.12e9, 1500, 9000, "large packets do not pass"),
    ],
)
def test_goodput_and_packets_make_one_verdict(tmp_path, goodput_bps, path_mtu, port_mtu, verdict):
    run = run_with(tmp_path, goodput_bps, path_mtu, port_mtu=port_mtu)
    report = gather(run, run)
    (section,) = [s for s in report.sections if s.slug == "pairs"]
    (table,) = section.tables
    assert len(table.rows) == 2 and all(str(row.cells[-1]).startswith(verdict) for row in table.rows)
    for row in table.rows:
        share, goodput = row.cells[4], row.cells[2]
        assert isinstance(goodput, Figure) and share == pytest.approx(goodput_bps / (10e9 * (path_mtu - 52) / (path_mtu + 38)), rel=1e-6)
    assert any(verdict in words for words in report.answer.fast)


def test_without_a_speed_or_without_packets_there_is_no_verdict_of_the_line(tmp_path):
    slow = gather(path := run_with(tmp_path, 1e9, 1500, port_mtu=1500, speed=None), path)
    (section,) = [s for s in slow.sections if s.slug == "pairs"]
    assert all(str(row.cells[-1]).startswith("not known") for row in section.tables[0].rows)
    resolved = json.loads((path / "resolved.json").read_text())
    assert resolved["testbed"]["links"]["lan"]["speed"] is None


def test_pairs_are_in_the_order_of_the_hosts_whatever_the_order_of_the_trials(tmp_path):
    run = run_with(tmp_path / "runs", 1e9, 1500, pairs=(HOSTS[::-1], HOSTS))
    written = {path.name: path.read_text() for path in write_publication([run], style="matrix", formats=("csv",), out=tmp_path / "out")}
    assert written.keys() >= {"matrix-pairs.csv", "matrix-packets.csv"}
    for name in ("matrix-pairs.csv", "matrix-packets.csv"):
        assert [tuple(line.split(",")[:2]) for line in written[name].splitlines()[1:]] == [HOSTS, HOSTS[::-1]], name
    assert "1500" in written["matrix-packets.csv"]
