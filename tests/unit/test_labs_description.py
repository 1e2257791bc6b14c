"""The lab's description and its recipe: words only, no namespace."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.errors import LabError
from dutlab.labs import description, recipe, state
from dutlab.labs.state import LabState, StateFolder
from dutlab.spec.lab_files import lab_names, lab_testbed, parse

THREE_NODE = description("three-node")


@given(
    usable=st.sets(st.integers(0, 300), min_size=1, max_size=64).map(sorted),
    layout=st.sampled_from(sorted(THREE_NODE.settings.layouts)),
)
def test_every_layout_fits_any_number_of_cores(usable: list[int], layout: str) -> None:
    roles, watch = THREE_NODE.settings.layouts[layout].on(usable)
    assert set(roles) == set(THREE_NODE.testbed.hosts)
    assert {cpu for cpus in roles.values() for cpu in cpus} | {watch} <= set(usable)


@pytest.mark.parametrize("name", lab_names())
def test_the_testbed_that_is_read_without_the_settings_is_that_of_the_whole_file(name: str) -> None:
    assert lab_testbed(name) == description(name).testbed


def test_with_more_than_one_core_sensors_stay_off_the_cores_of_the_generator() -> None:
    for count in range(2, 17):
        roles, watch = THREE_NODE.layout()[1].on(range(count))
        assert watch not in roles["source"]


@pytest.mark.parametrize(
    ("layout", "old", "new", "why"),
    [
        ("layout: nonsense", "", "", "layout"),
        ("layout: l", "source:0", "source:1", "beyond the 1"),
        ("layout: l", "links:", "lines:", "faulty"),
    ],
)
def test_a_faulty_description_says_what_is_wrong(layout: str, old: str, new: str, why: str) -> None:
    with pytest.raises(LabError, match=why):
        parse("x", _with(layout).replace(old, new))


def _with(layout: str) -> str:
    return f"""
testbed: x
hosts: {{source: {{}}, dut: {{}}, sink: {{}}}}
links:
  a: {{path: [source:e, dut:i, dut:o, sink:e], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.0.1.1/24, 10.0.1.2/24]}}
lab:
  gro: true
  tso: false
  {layout}
  layouts: {{l: {{about: x, napi_threads: [], cpus: {{1: source:0 dut:0 sink:0 watch:0}}}}}}
"""


def test_no_end_of_a_pair_is_ever_made_outside_the_lab() -> None:
    for line in recipe.veth_batch(THREE_NODE.testbed, state.namespaces_of("x", THREE_NODE.testbed.hosts)).splitlines():
        assert line.count(" netns dutlab-x-") == 2


def test_the_ports_of_a_lab_with_several_queues_use_one() -> None:
    lab = description("four-queues")
    assert "numrxqueues 4 numtxqueues 4" in recipe.veth_batch(lab.testbed, {host: host for host in lab.testbed.hosts}, lab.settings.queues)
    assert "ethtool -L in-a rx 1 tx 1" in recipe.setup_script(lab, "dut")
    assert "ethtool -L" not in recipe.setup_script(THREE_NODE, "dut")


def test_every_port_has_an_address_of_its_own() -> None:
    macs = {recipe.mac(link, port) for link in range(200) for port in range(4)}
    assert len(macs) == 800
    assert all(int(mac[:2], 16) & 0b11 == 0b10 for mac in macs)  # locally administered, unicast: IEEE 802 section 8.4


@given(st.from_regex(state.LABEL, fullmatch=True))
def test_a_label_makes_names_that_the_kernel_and_the_file_system_take(label: str) -> None:
    assert state.check_label(label) == label
    assert all(len(name) <= 255 and "/" not in name for name in state.namespaces_of(label, THREE_NODE.testbed.hosts).values())


def test_new_labels_are_labels_and_differ() -> None:
    labels = {state.check_label(state.new_label()) for _ in range(100)}
    assert len(labels) > 90


def test_a_cable_that_links_share_is_laid_and_addressed_once() -> None:
    lab = description("fan-in")
    batch = recipe.veth_batch(lab.testbed, {host: f"ns-{host}" for host in lab.testbed.hosts})
    assert batch.count("link add") == 5 and batch.count("name out netns ns-dut") == 1
    setup = recipe.setup_script(lab, "dut")
    assert setup.count("addr add 172.16.10.1/24 dev out") == 1 and setup.count("addr add") == 5
    (sink,) = recipe.addresses_of(lab.testbed, "sink").values()
    assert f"neigh replace 172.16.10.2 lladdr {sink} dev out" in setup
    back = [line for line in recipe.setup_script(lab, "sink").splitlines() if line.startswith("route add")]
    assert len(back) == len(set(back)) == 4, "a way back to each source"


# ---- State files of labs, whose folder another process removes with its last lab at any moment


class BesideOthers(StateFolder):
    """Its folder is removed again, some times, once it was made."""

    def __init__(self, path: Path, times: int) -> None:
        super().__init__(path)
        self.left = times

    def _make(self) -> None:
        super()._make()
        if self.left and not list(self.path.iterdir()):
            self.left -= 1
            self.path.rmdir()
            self.path.parent.rmdir()


@pytest.mark.parametrize("times", [0, 1, 7])
async def test_a_lab_is_claimed_while_others_forget_their_last_one(tmp_path: Path, times: int) -> None:
    folder = BesideOthers(tmp_path / "dutlab" / "labs", times)
    async with folder.lock():
        assert folder.left == 0
    folder.left = times
    folder.claim(LabState.unknown("mine"))
    assert folder.labels() == ["mine"]
    folder.forget("mine")
    folder.left = times
    folder.rewrite(LabState.unknown("mine"))
    assert folder.labels() == ["mine"]


def test_a_folder_that_never_stays_is_told(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="No such file"):
        BesideOthers(tmp_path / "dutlab" / "labs", 10_000).claim(LabState.unknown("mine"))


def test_a_label_that_is_taken_is_refused(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.claim(LabState.unknown("mine"))
    with pytest.raises(LabError, match="exists already"):
        folder.claim(LabState.unknown("mine"))
