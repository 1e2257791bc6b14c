"""Frame sizes: mixes by name with the averages that their sources print, genomes, orders and sweeps of one's own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dutlab.spec.genome import LETTERS, read_genome
from dutlab.spec.mixes import DRAWN_SIZES, NAMED_MIXES, Mix, frame_mix, sizes_in_words
from dutlab.spec.named_mixes import SOURCES
from dutlab.units import line_rate
from spec_faults import brief_of_model


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("imix", 361.83),
        ("imix-trex", 361.83),
        ("imix-trex-bench", 366.5),
        ("imix-trex-hlt", 353.83),
        ("imix-csit", 353.83),
        ("imix-csit-v6", 362.0),
        ("imix-spirent", 437.0),  # 457.02 with the 20 bytes of preamble and gap
        ("imix-trex-4-rates", (60 * 4 + 400 * 3 + 2000 * 2 + 8000) / 10 + 4),
        ("imix-web", (64 * 67 + 570 + 594 * 2 + 1518) / 71),
    ],
)
def test_the_average_of_a_named_mix_is_the_one_that_its_source_prints(name, printed):
    assert Mix.model_validate(name).mean == pytest.approx(printed, abs=0.03 if name == "imix-spirent" else 0.006)


def test_the_simple_imix_in_ip_lengths_averages_340_and_is_the_same_on_the_wire():
    sizes = SOURCES["imix-ip"].sizes
    assert sum(size * weight for size, weight in sizes) / sum(weight for _, weight in sizes) == pytest.approx(340.3, abs=0.05)
    assert NAMED_MIXES["imix-ip"] == NAMED_MIXES["imix"]


def test_line_rates_of_mixes_at_10g_are_the_printed_ones():
    assert line_rate(10e9, Mix.model_validate("imix").mean) == pytest.approx(3_273_680, abs=1)
    assert line_rate(10e9, Mix.model_validate("imix-csit").mean) == pytest.approx(3_343_736, abs=1)


def test_every_named_mix_is_one_that_can_be_written():
    for name, parts in NAMED_MIXES.items():
        mix = Mix.model_validate(name)
        assert (mix.name, mix.parts, mix.sequence, list(parts)) == (name, parts, None, sorted(parts))
    assert Mix.model_validate({"name": "web", "parts": {"1518": 1, "64": 7, "594": 4}}).text == "64:7,594:4,1518:1"


def test_a_genome_is_the_order_of_its_letters():
    mix = Mix.model_validate("aaafg")
    assert mix.sequence == (64, 64, 64, 1280, 1518)
    assert mix.parts == ((64, 3), (1280, 1), (1518, 1))
    assert mix.text == "64x3>1280x1>1518x1"
    assert Mix.model_validate("3afg").sequence == mix.sequence
    assert frame_mix("aaafg").sequence == mix.sequence


@pytest.mark.parametrize(
    ("written", "name", "sequence"),
    [
        ({"name": "mine", "genome": "aAz", "table": {"A": 100, "z": 1518}}, "mine", (64, 100, 1518)),
        ({"from": 64, "to": 70, "step": 2}, "64-to-70-by-2", (64, 66, 68, 70)),
        ({"name": "own", "sequence": [1518, 64, 64]}, "own", (1518, 64, 64)),
    ],
)
def test_letters_sweeps_and_orders_of_ones_own_keep_their_order(written, name, sequence):
    mix = Mix.model_validate(written)
    assert (mix.name, mix.sequence) == (name, sequence)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("imax", "unknown-name"),
        ("ak", "unknown-name"),
        ("aj", "range"),
        ("0a", "invalid"),
        ({"name": "m", "genome": "az"}, "invalid"),
        ({"name": "m", "genome": "aB"}, "invalid"),
        ({"name": "m", "genome": "a", "table": {"B": 64}}, "invalid"),
        ({"name": "m", "genome": "a7"}, "invalid"),
        ({"name": "m", "genome": ""}, "missing"),
        ({"name": "m", "genome": "99999a"}, "range"),
        ({"name": "m", "genome": "aA", "table": {"A": 63}}, "range"),
        ({"genome": "aA", "table": {"A": 65}}, "name missing"),
        ({"name": "m", "genome": "a", "letters": 1}, "letters unknown-key"),
        ({"name": "imix", "genome": "aaafg"}, "name duplicate"),
        ({"name": "abc", "parts": {64: 1}}, "name duplicate"),
        ({"from": 100, "to": 64, "step": 1}, "range"),
        ({"from": 64, "to": 100, "step": 0}, "range"),
        ({"from": 64, "to": "x", "step": 1}, "type"),
        ({"from": 100, "to": 64, "seed": 1}, "range"),
        ({"name": "m", "sequence": []}, "parts missing"),
        ({"name": "m", "sequence": [64, 9300]}, "range"),
    ],
)
def test_what_is_no_mix_is_refused(written, expected):
    with pytest.raises(ValidationError) as refused:
        Mix.model_validate(written)
    assert expected in brief_of_model(refused.value)


def test_sizes_are_said_as_frame_with_fcs_without_and_as_ip_length():
    assert sizes_in_words(NAMED_MIXES["imix"]) == "64/60/46 × 7, 594/590/576 × 4, 1518/1514/1500 × 1 (bytes with FCS/without/IP)"
    assert "3 more up to 74" in sizes_in_words([(n, 1) for n in range(64, 75)])


runs = st.lists(st.tuples(st.integers(1, 50), st.sampled_from("abcdefghi")), min_size=1, max_size=20)


@settings(max_examples=30)
@given(runs)
def test_runs_mean_the_same_as_their_letters_written_out(runs):
    short = "".join(f"{n}{letter}" for n, letter in runs)
    long = "".join(letter * n for n, letter in runs)
    assert read_genome(short) == read_genome(long) == tuple(LETTERS[letter] for letter in long)


@settings(max_examples=30)
@given(st.lists(st.integers(64, 9234), min_size=1, max_size=200))
def test_an_order_survives_its_text_and_json(sizes):
    mix = Mix.model_validate({"name": "own-order", "sequence": sizes})
    assert [int(size) for run in mix.text.split(">") for size, n in [run.split("x")] for _ in range(int(n))] == sizes
    assert Mix.model_validate(json.loads(mix.model_dump_json())) == mix


@settings(max_examples=30)
@given(st.text(max_size=20))
def test_no_text_is_more_than_refused(text):
    try:
        mix = Mix.model_validate(text)
    except ValidationError:
        return
    assert mix.parts
    assert Mix.model_validate(json.loads(mix.model_dump_json())) == mix


def test_sizes_drawn_from_a_range_are_those_of_their_seed():
    drawn = Mix.model_validate({"from": 64, "to": 1518, "seed": 7})
    assert drawn.name == "64-to-1518-seed-7"
    assert len(drawn.sequence) == DRAWN_SIZES
    assert 64 <= drawn.shortest < 80
    assert 1500 < drawn.longest <= 1518
    assert drawn.mean == pytest.approx((64 + 1518) / 2, rel=0.05)
    assert Mix.model_validate({"from": 64, "to": 1518, "seed": 7}) == drawn == Mix.model_validate(drawn.model_dump())
    assert Mix.model_validate({"from": 64, "to": 1518, "seed": 8}).sequence != drawn.sequence
