"""YAML before any model sees it: syntax, duplicate keys, encodings, and files made to hurt."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dutlab.errors import SpecRefused
from dutlab.spec.yaml_source import MOST_BYTES, parse, read_file


def faults(raw):
    with pytest.raises(SpecRefused) as refused:
        parse(raw.encode() if isinstance(raw, str) else raw, "f.yaml")
    return [str(f) for f in refused.value.faults]


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
        ("links",): (2, 1),
        ("links", "a"): (3, 3),
        ("links", "a", "speed"): (3, 7),
        ("links", "a", "path"): (3, 19),
        ("links", "a", "path", 0): (3, 26),
        ("links", "a", "path", 1): (4, 5),
    }
    assert str(source.fault(("links", "a", "mtu"), "missing")) == "f.yaml:3:3: links.a.mtu: missing"
    assert str(source.fault((), "x")) == "f.yaml:1:1: file: x"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("", "f.yaml:1:1: file: empty"),
        ("# only a comment\n", "f.yaml:1:1: file: empty"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:2: file: not valid YAML: expected ',' or ']', but got ':' while parsing a flow sequence"),
        ("a: b: c\n", "f.yaml:1:5: file: not valid YAML: mapping values are not allowed here"),
        ("a: 1\n\tb: 2\n", "f.yaml:2:1: file: not valid YAML: a tab; indent with spaces"),
        ("a: *x\n", "f.yaml:1:4: file: not valid YAML: found undefined alias 'x'"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: file: not valid YAML: a second document begins here; write one in a file"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: a: duplicate; the first is in line 1"),
        ("p: {64: 1, '64': 2}\n", "f.yaml:1:12: p.64: duplicate; the first is in line 1"),
        ("a: {? [b] : c}\n", "f.yaml:1:7: a: a key must be text, not a list or mapping"),
        ("a: !!python/object/apply:os.system [id]\n", "f.yaml:1:4: a: the tag tag:yaml.org,2002:python/object/apply:os.system is not supported; leave it out"),
        ('a: "\\u0007"\n', "f.yaml:1:4: a: the control character '\\x07' is not allowed in a value"),
        ('a: "\\ud800"\n', "f.yaml:1:4: a: the control character '\\ud800' is not allowed in a value"),
        ('a: "\\U11111111"', "f.yaml:1:1: file: not readable YAML (ValueError)"),
        ("a: 1\nb: \x07\n", "f.yaml:2:4: file: not valid YAML: the character '\\x07' is not allowed here"),
        (b"a: 1\nb: caf\xe9\n", "f.yaml:2:7: file: not UTF-8: byte 0xe9; save the file as UTF-8"),
        ("a: 1\n".encode("utf-16"), "f.yaml:1:1: file: not UTF-8: byte 0xff; save the file as UTF-8"),
        (b"a: 1\n\0", "f.yaml:2:1: file: a NUL byte; this is not a text file"),
        ("[" * 10_000, "f.yaml:1:21: file: nested deeper than 20 levels"),
        ("- " * 10_000 + "x", "f.yaml:1:41: file: nested deeper than 20 levels"),
        ("a: [" + "1," * 20_000 + "]", "f.yaml:1:19999: file: more than 5000 values"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_where_it_stands(raw, expected):
    assert faults(raw) == [expected]


def test_a_byte_order_mark_is_no_fault():
    assert parse(b"\xef\xbb\xbfa: 1\n", "f").data == {"a": 1}


def test_an_alias_stands_for_what_it_names():
    assert parse(b"a: &x [1]\nb: *x\n", "f").data == {"a": [1], "b": [1]}


@pytest.mark.parametrize("levels", [9, 15])
def test_a_page_of_aliases_that_stands_for_gigabytes_is_refused_in_no_time(levels):
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"] + [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, levels)]
    began = time.process_time()
    assert any("more than 5000 values or 20 levels, aliases followed" in f for f in faults("\n".join(lines)))
    assert time.process_time() - began < 3


def test_an_alias_inside_itself_is_refused():
    assert any("aliases followed" in f or "not valid YAML" in f for f in faults("a: &a [*a]\n"))
    assert any("aliases followed" in f or "not valid YAML" in f for f in faults("a: &a {b: *a}\n"))


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    for path, why in (
        (tmp_path / "nosuch.yaml", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (Path("a\0b"), "embedded null byte"),
    ):
        with pytest.raises(SpecRefused, match=f"file: cannot be read: {why}"):
            read_file(path)


def test_a_file_far_too_large_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(SpecRefused, match="larger than 256 KiB; this is not an input file"):
        read_file(path)
    began = time.process_time()
    with pytest.raises(SpecRefused, match="larger than"):
        read_file(Path("/dev/zero"))
    assert time.process_time() - began < 1


def test_a_folded_text_is_as_it_was_written():
    assert parse(b"a: >-\n  x\n  y\n\n  z\nb: >\n  one\n  two\n", "f").data == {"a": "x y\nz", "b": "one two\n"}
    assert "control character" in faults('a: >-\n  x\nb: "\\u0007"\n')[0]
