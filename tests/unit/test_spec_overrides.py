"""`--set KEY=VALUE`: what it changes, and the text of its own faults."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.errors import SpecRefused
from dutlab.spec.loader import load_experiment

TEXT = """\
experiment: x
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - iperf3: {links: [[a]]}
  - sweep: {frame_sizes: [64], links: [[a]]}
  - sweep: {frame_sizes: [128], links: [[a]]}
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("set") / "experiment.yaml"
    path.write_text(TEXT)
    return path


def faults(path, *sets):
    with pytest.raises(SpecRefused) as refused:
        load_experiment(path, sets)
    return [str(f) for f in refused.value.faults]


def test_a_list_is_written_with_commas_or_as_yaml_and_one_level_needs_neither(path):
    assert load_experiment(path, ["factors.mode=router,nat"]).factors["mode"] == ("router", "nat")
    assert load_experiment(path, ["factors.mode=[router, nat]"]).factors["mode"] == ("router", "nat")
    assert load_experiment(path, ["factors.mode=nat"]).factors["mode"] == ("nat",)
    assert load_experiment(path, ["factors.bios-turbo=on"]).factors["bios-turbo"] == ("on",)
    assert load_experiment(path, ["workloads.1.sweep.links=[[a, b]]"]).workloads[1].links == (("a", "b"),)


def test_a_value_is_taken_as_the_file_would_take_it(path):
    experiment = load_experiment(path, ["repeats=7", "order=as-written", "seed = 3"])
    assert (experiment.repeats, experiment.order, experiment.seed) == (7, "as-written", 3)


def test_the_name_of_a_workload_reaches_every_one_of_that_name(path):
    experiment = load_experiment(path, ["workloads.sweep.duration=2s", "workloads.iperf3.duration=3s", "workloads.2.sweep.drain=1s"])
    assert [w.duration for w in experiment.workloads] == [3, 2, 2]
    assert [w.drain for w in experiment.workloads[1:]] == [0.5, 1]


def test_a_place_of_thousands_of_digits_is_a_place_that_is_not_there(path):
    with pytest.raises(SpecRefused, match="workloads"):
        load_experiment(path, overrides=[f"workloads.{'9' * 5000}.duration=1s"])


def test_a_mapping_takes_the_place_of_a_value(path, tmp_path):
    file = tmp_path / "experiment.yaml"
    file.write_text(TEXT.replace("{lab: three-node}", "absent.yaml"))
    assert load_experiment(file, ["testbed.lab=three-node-ssh"]).testbed.lab == "three-node-ssh"
    assert (
        load_experiment(path, ["repeats=3", "repeats.until=2%", "repeats.most=12"]).repeats
        == load_experiment(path, ["repeats={until: 2%, most: 12}"]).repeats
    )
    assert faults(path, "order.first=a") == ["--set:1:1: order: must be 'shuffled' or 'as-written'"]


def test_later_ones_win_and_the_file_stays(path):
    assert load_experiment(path, ["repeats=7", "repeats=8"]).repeats == 8
    assert path.read_text() == TEXT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("factors.mode=ruter,nat", "--set:1:1: factors.mode.0: no mode 'ruter' for the DUT of lab three-node, of family linux (known: filter-1, filter-25, filter-default, filter-empty, filter-own, gre, ikev2, ikev2-3des-md5, ikev2-aes-cbc-sha1, ikev2-aes-cbc-sha2-512, ikev2-aes-gcm-256, ikev2-cbc, ikev2-chacha20-poly1305, ikev2-host, ikev2-null, ipip, ipsec, ipsec-3des-md5, ipsec-aes-cbc-sha1, ipsec-aes-cbc-sha2-512, ipsec-aes-gcm-256, ipsec-cbc, ipsec-chacha20-poly1305, ipsec-null, ipsec-require, nat, nat-open, router, vxlan, wireguard; did you mean router?)"),
        ("workloads.iperf3.duration=2", "--set:1:1: workloads.0.iperf3.duration: 2 has no unit; write it as in 30s"),
        ("repeat=2", "--set:1:1: repeat: unknown key (known: dear, disturbed, exclude, experiment, factors, generator, levels, modes, order, profile, repeat_disturbed, repeats, seed, testbed, watch, workloads; did you mean repeats?)"),
        ("repeats=", "--set:1:1: repeats: must be a whole number from 1 to 1000, or {until: 2%, most: 12}"),
        ("repeats", "--set:1:1: repeats: write KEY=VALUE, as in factors.mode=router,nat"),
        ("=2", "--set:1:1: file: write KEY=VALUE, as in factors.mode=router,nat"),
        ("workloads.fio.size=2", "--set:1:1: workloads.fio.size: no such place in the file"),
        ("workloads.9.sweep.drain=2s", "--set:1:1: workloads.9.sweep.drain: no such place in the file"),
        ("workloads.9=2s", "--set:1:1: workloads.9: no such place in the file"),
        ("experiment.x=2", "--set:1:1: experiment: must be text"),
        ("factors.mode=[router", "--set:1:1: factors.mode: not valid YAML: expected ',' or ']', but got '<stream end>' while parsing a flow sequence"),
    ],
)  # fmt: skip
def test_a_fault_of_an_option_is_placed_at_the_option(path, text, expected):
    assert faults(path, text) == [expected]
    assert faults(path, "repeats=2", text) == [expected.replace(":1:", ":2:", 1)]


@settings(max_examples=40)
@given(
    st.lists(st.one_of(st.text(max_size=30), st.from_regex(r"[a-z0-9.]{1,25}=[-\[\]{},:\"'a-z0-9 &*!|]{0,20}", fullmatch=True)), max_size=3)
)
def test_any_option_gives_an_experiment_or_faults(path, sets):
    try:
        load_experiment(path, sets)
    except SpecRefused as refused:
        for fault in refused.faults:
            assert str(fault).isprintable()
