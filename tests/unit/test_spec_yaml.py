"""YAML before any model sees it: syntax, duplicate keys, encodings, and files made to hurt."""

from __future__ import annotations

from functools import cache

import pytest

from dutlab.bounds import INPUT
from dutlab.errors import FaultKind, SpecRefused
from dutlab.spec.yaml_source import parse, read_file
from spec_faults import brief


@cache
def faults(raw):
    with pytest.raises(SpecRefused) as refused:
        parse(raw.encode() if isinstance(raw, str) else raw, "f.yaml")
    assert {fault.file for fault in refused.value.faults} == {"f.yaml"}
    return refused.value.faults


def test_values_are_those_of_yaml_1_2():
    source = parse(b"{a: 1, b: -2.5, c: true, d: ~, e: yes, f: 1:30, g: 2026-11-21, h: 0x10, i: '7', j: .inf, k: 010, l: [x], <<: m}", "f")
    assert source.data == {
        "a": 1, "b": -2.5, "c": True, "d": None, "e": "yes", "f": "1:30", "g": "2026-11-21", "h": 16, "i": "7", "j": ".inf", "k": 10, "l": ["x"],
        "<<": "m",
    }  # fmt: skip


def test_every_key_and_item_has_its_place():
    source = parse("# é\nlinks:\n  a: {speed: 10G, path: [x,\n    y]}\n".encode(), "f.yaml")
    found = {loc: (p.line, p.column) for loc, p in source.places.items()}
    assert found == {
        ("links",): (2, 1), ("links", "a"): (3, 3), ("links", "a", "speed"): (3, 7), ("links", "a", "path"): (3, 19),
        ("links", "a", "path", 0): (3, 26), ("links", "a", "path", 1): (4, 5),
    }  # fmt: skip
    assert str(source.fault(("links", "a", "mtu"), "missing")) == "f.yaml:3:3: links.a.mtu: missing"
    assert str(source.fault((), "x")) == "f.yaml:1:1: file: x"


UNREADABLE = [
    ("", "1:1 file missing"),
    ("# only a comment\n", "1:1 file missing"),
    ("a: [1, 2\nb: 3\n", "2:2 file syntax"),
    ("a: b: c\n", "1:5 file syntax"),
    ("a: 1\n\tb: 2\n", "2:1 file syntax"),
    ("a: *x\n", "1:4 file syntax"),
    ("a: 1\n---\nb: 2\n", "2:1 file syntax"),
    ("a: 1\nb: 2\na: 3\n", "3:1 a duplicate"),
    ("p: {64: 1, '64': 2}\n", "1:12 p.64 duplicate"),
    ("a: {? [b] : c}\n", "1:7 a type"),
    ("a: !!python/object/apply:os.system [id]\n", "1:4 a syntax"),
    ('a: "\\u0007"\n', "1:4 a syntax"),
    ('a: "\\ud800"\n', "1:4 a syntax"),
    ('a: "\\U11111111"', "1:1 file syntax"),
    ("a: 1\nb: \x07\n", "2:4 file syntax"),
    (b"a: 1\nb: caf\xe9\n", "2:7 file syntax"),
    ("a: 1\n".encode("utf-16"), "1:1 file syntax"),
    (b"a: 1\n\0", "2:1 file syntax"),
    ("[" * 2_000, "1:21 file range"),
    ("- " * 2_000 + "x", "1:41 file range"),
    ("a: [" + "1," * 10_100 + "]", "1:19999 file range"),
]


@pytest.mark.parametrize(("raw", "expected"), UNREADABLE)
def test_what_cannot_be_read_is_refused_where_it_is(raw, expected):
    assert brief(faults(raw)) == [expected]


def test_what_is_said_of_each(golden):
    golden.check("refusals-yaml.txt", "".join(f"{raw[:60]!r}\n    {faults(raw)[0]}\n" for raw, _ in UNREADABLE))


def test_a_byte_order_mark_is_no_fault():
    assert parse(b"\xef\xbb\xbfa: 1\n", "f").data == {"a": 1}


def test_an_alias_stands_for_what_it_names():
    assert parse(b"a: &x [1]\nb: *x\n", "f").data == {"a": [1], "b": [1]}


@pytest.mark.parametrize("levels", [9, 15])
def test_a_page_of_aliases_that_stands_for_gigabytes_is_refused_before_it_is_followed(levels):
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"] + [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, levels)]
    assert [fault.kind for fault in faults("\n".join(lines))] == [FaultKind.RANGE]


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "a: &a {b: *a}\n"])
def test_an_alias_inside_itself_is_refused(text):
    assert {fault.kind for fault in faults(text)} <= {FaultKind.RANGE, FaultKind.SYNTAX}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("nosuch.yaml", FaultKind.UNREADABLE),
        ("", FaultKind.UNREADABLE),
        ("a\0b", FaultKind.UNREADABLE),
        ("big.yaml", FaultKind.SYNTAX),
        ("/dev/zero", FaultKind.UNREADABLE),  # which is not read to its end
    ],
)
def test_a_file_that_cannot_be_read_or_is_far_too_large_is_refused(tmp_path, path, kind):
    (tmp_path / "big.yaml").write_bytes(b"#" * (INPUT.most_bytes + 1))
    with pytest.raises(SpecRefused) as refused:
        read_file(tmp_path / path)
    assert [fault.kind for fault in refused.value.faults] == [kind]


def test_a_folded_text_is_as_it_was_written():
    assert parse(b"a: >-\n  x\n  y\n\n  z\nb: >\n  one\n  two\n", "f").data == {"a": "x y\nz", "b": "one two\n"}
    assert brief(faults('a: >-\n  x\nb: "\\u0007"\n')) == ["3:4 b syntax"]
