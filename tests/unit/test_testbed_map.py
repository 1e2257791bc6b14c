"""Block diagrams of testbeds, and the specification of their hosts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dutlab.cli.main import dutlab
from dutlab.errors import SpecRefused
from dutlab.report.gather import gather
from dutlab.report.model.testbed_map import MOST_HOSTS, MOST_LINKS, map_of_testbed, neighbours, speed_words
from dutlab.report.plots.testbed_plot import plot_of_testbed
from dutlab.report.sections.device import device_section
from dutlab.spec.lab_files import description, lab_names
from dutlab.spec.loader import given_testbed
from dutlab.systems.linux_facts.machine import management_controller

ROOT = Path(__file__).parents[2]
BOX = """
testbed: e302-9d
hosts:
  source: {ssh: root@192.0.2.11, family: freebsd, cpus: {a: [1, 2], b: [3]}}
  dut:
    ssh: admin@192.0.2.1
    family: pfsense
    about: {model: Supermicro E302-9D, bmc: ASPEED AST2500, price: "1,079 USD (May 2020)", more: {chassis: fanless}}
  sink: {ssh: root@192.0.2.12, family: freebsd}
  conductor: {local: true}
links:
  a: {speed: 10G, path: [source:ixl2, dut:ixl2, dut:ixl0, sink:ix0],
      addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}
  b: {speed: 10G, path: [source:ixl3, dut:ixl3, dut:ixl1, sink:ix2],
      addresses: [172.16.1.2/24, 172.16.1.1/24, 172.16.11.1/24, 172.16.11.2/24]}
  c: {speed: 1G, path: [conductor:igb0, dut:igb0, dut:igb1, sink:igb1],
      addresses: [172.16.2.2/24, 172.16.2.1/24, 172.16.12.1/24, 172.16.12.2/24]}
sensors:
  wall: {kind: meter, model: shelly, url: "http://192.0.2.40", host: dut}
  room: {kind: command, command: "cat /tmp/degrees", unit: degC}
"""


def words_of(svg: bytes) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def resolved(text: str) -> dict[str, Any]:
    return given_testbed(text.encode(), Path("testbed.yaml")).model_dump(mode="json")


def test_the_box_of_the_review_has_every_host_port_speed_and_sensor_in_its_picture() -> None:
    found = map_of_testbed(resolved(BOX))
    assert found is not None
    assert found.rows[:3] == (("source", "conductor"), ("dut",), ("sink",))
    words = words_of(plot_of_testbed(found).svg())
    for wanted in ("source", "dut", "sink", "conductor", "ixl2", "ix0", "igb1", "a · 10 Gb/s", "c · 1 Gb/s", "172.16.11.0/24"):
        assert wanted in words
    assert any("wall (meter)" in text for text in words)
    assert any("1, 2 for link a" in line and "3 for link b" in line for line in found.hosts[0].lines)
    assert any("room (command)" in text for text in words)
    assert [host.name for host in found.hosts if host.is_dut] == ["dut"]


@pytest.mark.parametrize("lab", lab_names())
def test_every_lab_has_a_picture_in_which_each_cable_joins_two_rows(lab: str) -> None:
    found = map_of_testbed(description(lab).testbed.model_dump(mode="json"))
    assert found is not None
    row_of = {host: n for n, row in enumerate(found.rows) for host in row}
    assert row_of.keys() == {host.name for host in found.hosts}
    assert all(row_of[c.near.host] != row_of[c.far.host] for link in found.links for c in link.cables)
    plot = plot_of_testbed(found)
    x, y, width, height = plot.box
    for place in re.findall(r'<text x="([-\d.]+)" y="([-\d.]+)"', plot.drawing.inline(plot.box, "")):
        assert x <= float(place[0]) <= x + width
        assert y <= float(place[1]) <= y + height


def test_a_cable_that_several_links_share_is_drawn_once() -> None:
    found = map_of_testbed(description("fan-in").testbed.model_dump(mode="json"))
    assert found is not None
    words = words_of(plot_of_testbed(found).svg())
    assert words.count("out") == 1
    assert "a+b+c+d" in words


def test_paths_in_a_circle_and_hosts_without_a_link_have_a_row() -> None:
    found = map_of_testbed({
        "hosts": {"x": {}, "y": {}, "alone": {}},
        "links": {"out": {"path": ["x:0", "y:0"]}, "home": {"path": ["y:1", "x:1"]}},
    })  # fmt: skip
    assert found is not None
    assert found.rows == (("x",), ("y",), ("alone",))
    assert plot_of_testbed(found).svg()


def test_a_segment_leads_to_each_of_its_hosts() -> None:
    lan = {
        "segment": ["nas:ix0", "desk:Ethernet 2", "box:eth1"],
        "speed": "10000000000bit/s",
        "mtu": 9000,
        "addresses": ["10.0.0.1/24"] * 3,
    }
    found = map_of_testbed({"hosts": {"nas": {}, "desk": {}, "box": {}}, "links": {"lan": lan}})
    assert found is not None
    words = words_of(plot_of_testbed(found).svg())
    assert {"nas", "desk", "box", "ix0", "Ethernet 2", "eth1"} <= set(words)
    assert any("10 Gb/s · MTU 9000 · 10.0.0.0/24" in text for text in words)


def test_more_hosts_than_a_page_holds_are_left_out_with_a_sentence() -> None:
    hosts: dict[str, object] = {f"h{n}": {} for n in range(MOST_HOSTS + 6)}
    links = {f"l{n}": {"path": ["h0:0", "h1:0"]} for n in range(MOST_LINKS + 2)}
    found = map_of_testbed({"hosts": hosts, "links": links})
    assert found is not None
    assert (len(found.hosts), len(found.links)) == (MOST_HOSTS, MOST_LINKS)
    assert found.left_out


json = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9), lambda inner: st.lists(
    inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["hosts", "links", "path", "segment", "addresses", "a:b", "sensors", "about", "speed", "host", "kind", "drives", "cpus", "x"]
    ), inner, max_size=5), max_leaves=30)  # fmt: skip


@given(st.fixed_dictionaries({"hosts": json, "links": json, "sensors": json}))
def test_a_testbed_of_any_other_form_never_fails(testbed: dict[str, Any]) -> None:
    found = map_of_testbed(testbed)
    if found is not None:
        ET.fromstring(plot_of_testbed(found).svg())


def test_the_specification_has_stated_and_read_properties_side_by_side() -> None:
    facts = {
        "dut": {
            "machine": {"vendor": "Supermicro", "product": "SYS-E302-9D"},
            "memory_bytes": 34e9,
            "dimms": [{"size_bytes": 8 << 30, "type": "DDR4", "mts": 2133}] * 4,
            "bmc": {"maker": "Super Micro", "firmware": "1.45"},
        }
    }
    (section,) = device_section(resolved(BOX), facts, "dut")
    (table,) = section.tables
    rows = {row.cells[0]: row.cells[1:] for row in table.rows}
    assert rows["model"] == ("Supermicro E302-9D", "Supermicro, SYS-E302-9D")
    assert rows["price"] == ("1,079 USD (May 2020)", "")
    assert rows["chassis"] == ("fanless", "")
    assert rows["memory"][0] == ""
    assert "4 × 8.59 GB DDR4 2133 MT/s" in str(rows["memory"][1])
    assert "Super Micro" in str(rows["management controller (BMC)"][1])


def test_an_unknown_key_of_the_specification_is_refused() -> None:
    with pytest.raises(SpecRefused) as refused:
        resolved(BOX.replace("bmc:", "bcm:"))
    assert refused.value.faults[0].path == "hosts.dut.about.bcm"


def test_the_controller_is_read_from_the_files_of_its_driver() -> None:
    lines = "ipmi_bmc.0/firmware_revision:1.45\nipmi_bmc.0/manufacturer_id:0x002a7c\nipmi_bmc.0/product_id:0x0951\n"
    assert management_controller(lines) == {"maker": "Super Micro", "product": "0x0951", "firmware": "1.45"}
    assert management_controller("ipmi_bmc.0/manufacturer_id:0x0000ff\n") == {"maker": "number 255"}
    assert management_controller("") is None


def test_the_command_draws_a_file_and_a_lab(tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text(BOX)
    for asked in (["--testbed", str(tmp_path / "box.yaml")], ["--lab", "three-node"]):
        result = CliRunner().invoke(dutlab, ["plot", *asked, "-o", str(tmp_path)], catch_exceptions=False)
        assert result.exit_code == 0
        assert "dut" in words_of((tmp_path / "testbed.svg").read_bytes())
    assert CliRunner().invoke(dutlab, ["plot"]).exit_code == 2
    assert CliRunner().invoke(dutlab, ["plot", "--lab", "three-node", "--sample", "x"]).exit_code == 2


def test_imported_figures_take_the_testbed_of_their_owner(tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text(BOX)
    table = ROOT / "examples/published/e302-9d-ipsec.csv"
    asked = ["import", "figures", str(table), "--testbed", str(tmp_path / "box.yaml"), "--runs", str(tmp_path / "runs")]
    assert CliRunner().invoke(dutlab, asked, catch_exceptions=False).exit_code == 0
    (run,) = (tmp_path / "runs").iterdir()
    found = gather(run, run)
    assert found.testbed == "e302-9d"
    assert [len(s.diagrams) for s in found.sections if s.slug == "device"] == [1]
    assert (run / "testbed.yaml").read_text() == BOX
    site = tmp_path / "site"
    assert CliRunner().invoke(dutlab, ["publish", str(run), str(site)], catch_exceptions=False).exit_code == 0
    (page,) = (site / "devices").glob("*.html")
    assert "<dt>bmc</dt><dd>ASPEED AST2500</dd>" in page.read_text()
    assert "<dt>price</dt><dd>1,079 USD (May 2020)</dd>" in page.read_text()


def test_runs_of_neighbours_and_speeds_in_words() -> None:
    assert neighbours([]) == []
    assert neighbours([0, 1, 3, 5, 6]) == [(0, 1), (3, 3), (5, 6)]
    assert [speed_words(of) for of in ("10000000000bit/s", 2.5e9, "100M", None, True, "fast")] == [
        "10 Gb/s",
        "2.5 Gb/s",
        "100 Mb/s",
        "",
        "",
        "",
    ]
