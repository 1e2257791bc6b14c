"""Whatever bytes a file holds, it loads or is refused with printable faults that have a place: never a traceback."""

from __future__ import annotations

import copy
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from dutlab.errors import SpecRefused
from dutlab.spec.loader import load_experiment, load_testbed
from strategies import raw_experiments, raw_testbeds

odd_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12),
        st.sampled_from(["10 Gb", "10G", "5s", "-5s", "max", "0", "1e999", "a", "source:-x", "..", "::/0", "172.16.0.2/24", "\u202e", "\x85"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.text(max_size=6), st.integers()), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
FUZZ = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def as_yaml(data):
    out = io.StringIO()
    YAML(typ="safe", pure=True).dump(data, out)
    return out.getvalue()


def loads_or_is_refused(load, path, raw):
    path.write_bytes(raw)
    faults = None
    try:
        load(path)
    except SpecRefused as refused:
        faults = refused.faults
    if faults is None:
        return
    assert faults
    breaks = sum(raw.count(end.encode()) for end in ("\n", "\r", "\x85", "\u2028", "\u2029"))
    for fault in faults:
        assert str(fault).isprintable()
        assert 1 <= fault.line <= breaks + 2
        assert fault.column >= 1
        assert fault.what


SIGNS = st.text(alphabet="ab01-:,?[]{}#&*!|>'\"%@` \n\t\\", max_size=80)


@pytest.mark.parametrize("load", [load_experiment, load_testbed])
@FUZZ
@given(raw=st.one_of(st.binary(max_size=200), st.one_of(st.text(max_size=200), SIGNS).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_any_bytes_and_any_text_of_yaml_signs(load, tmp_path, raw):
    loads_or_is_refused(load, tmp_path / "f.yaml", raw)


@pytest.mark.parametrize("load", [load_experiment, load_testbed])
@FUZZ
@given(value=odd_values)
def test_any_value_in_place_of_the_file(load, tmp_path, value):
    loads_or_is_refused(load, tmp_path / "f.yaml", as_yaml(value).encode("utf-8", "replace"))


def spots(data, at=()):
    """The path of every value in `data`."""
    yield at
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from spots(value, (*at, key))


@st.composite
def changed(draw, raw):
    """A right file with one to three values replaced, removed or given a new neighbour."""
    data = copy.deepcopy(draw(raw))
    for _ in range(draw(st.integers(1, 3))):
        places = [p for p in spots(data) if p]
        if not places:
            break
        *parents, key = draw(st.sampled_from(places))
        holder = data
        for parent in parents:
            holder = holder[parent]
        match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
            case "remove":
                del holder[key]
            case "replace":
                holder[key] = draw(odd_values)
            case "add" if isinstance(holder, dict):
                holder[draw(st.text(max_size=8))] = draw(odd_values)
            case _:
                holder.append(draw(odd_values)) if isinstance(holder, list) else None
    return data


@pytest.mark.parametrize(("load", "right"), [(load_experiment, raw_experiments()), (load_testbed, raw_testbeds())])
@FUZZ
@given(data=st.data())
def test_a_right_file_with_any_change(tmp_path, load, right, data):
    loads_or_is_refused(load, tmp_path / "f.yaml", as_yaml(data.draw(changed(right))).encode("utf-8", "replace"))


@FUZZ
@given(data=raw_experiments(), at=st.floats(0, 1), noise=st.binary(min_size=1, max_size=4))
def test_a_right_file_with_bytes_thrown_in(tmp_path, data, at, noise):
    raw = as_yaml(data).encode()
    cut = int(at * len(raw))
    loads_or_is_refused(load_experiment, tmp_path / "f.yaml", raw[:cut] + noise + raw[cut:])


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(experiment=raw_experiments(), testbed=raw_testbeds())
def test_right_files_load(tmp_path, experiment, testbed):
    (tmp_path / "e.yaml").write_text(as_yaml(experiment))
    (tmp_path / "t.yaml").write_text(as_yaml(testbed))
    assert load_experiment(tmp_path / "e.yaml").name == experiment["experiment"]
    assert set(load_testbed(tmp_path / "t.yaml").links) == set(testbed["links"])
