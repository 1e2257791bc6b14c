"""Effects from cells as they are, against a published table whose answers can be checked by hand."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from itertools import product
from math import exp, nan, prod
from pathlib import Path

import pytest

from dutlab.analysis.cost import costs
from dutlab.analysis.factors import Analysis, FactorCell, analyse
from golden import Golden

DATA = Path(__file__).parents[1] / "data" / "apu2-openbsd-factors.csv"


def apu2() -> Analysis:
    with DATA.open() as f:
        rows = list(csv.DictReader(f))
    return analyse([FactorCell({k: v for k, v in r.items() if k != "mbytes_per_s"}, (float(r["mbytes_per_s"]),)) for r in rows])


def test_boost_and_pcie_power_management_were_only_changed_together() -> None:
    found = apu2()
    assert found.together == (("cpb", "pcie_power_mgmt"),)


def test_effects_are_the_geometric_means_of_pairs_that_differ_in_nothing_else() -> None:
    of = {e.name: e for e in apu2().effects}
    assert of["setperf"].pairs == 6
    assert of["setperf"].ratio == pytest.approx(prod([33.5 / 32.6, 36.5 / 32.5, 46.8 / 30, 55.7 / 38.9, 111 / 107, 111 / 109]) ** (1 / 6))
    both = of["cpb + pcie_power_mgmt"]
    assert both.ratio == pytest.approx(prod([30 / 32.6, 38.9 / 32.5, 46.8 / 33.5, 55.7 / 36.5]) ** (1 / 4))
    assert both.only_at == ("mtu 1500",)
    assert of["mtu"].ratio == pytest.approx(prod([107 / 30, 109 / 38.9, 111 / 46.8, 111 / 55.7]) ** (1 / 4))
    assert of["mtu"].only_at == ("cpb enabled", "pcie_power_mgmt disabled")
    assert all(e.sure.interval is not None for e in of.values()), "least squares leaves two degrees of freedom"


def test_interactions_are_ratios_of_ratios() -> None:
    of = {(i.effect, i.by): i for i in apu2().interactions}
    at = (46.8 / 30) / (33.5 / 32.6), (55.7 / 38.9) / (36.5 / 32.5)
    found = of["setperf", "cpb + pcie_power_mgmt"]
    assert found.at == (("disabled", "enabled"), ("enabled", "disabled"))
    assert found.ratio == pytest.approx((at[0] * at[1]) ** 0.5)
    assert of["mtu", "setperf"].ratio < 1  # jumbo frames gain less where the processor is fast


def test_every_effect_is_a_sentence_and_a_change_of_half_a_percent_or_what_has_no_ratio_is_in_it(golden: Golden) -> None:
    small = [
        FactorCell({"mode": mode}, tuple(rate * (1 + n / 1e5) for n in range(6))) for mode, rate in (("router", 1e6), ("nat", 0.995e6))
    ]
    said = [apu2(), analyse(small), analyse(ZEROS), analyse(jumbo()), analyse(half_of_four_factors(random.Random(1), a=1.5, d=0.8, ab=1.2))]
    golden.check("effects.txt", "\n".join("\n".join(found.sentences) + "\n" for found in said))


def measured(levels: dict[str, str], true: float, dice: random.Random, repeats: int = 4) -> FactorCell:
    return FactorCell(levels, tuple(100 * true * dice.gauss(1, 0.01) for _ in range(repeats)))


def half_of_four_factors(dice: random.Random, **effects: float) -> list[FactorCell]:
    """The 2^(4-1) design with d = a b c, of resolution IV."""
    out = []
    for a, b, c in product((-1, 1), repeat=3):
        signs = {"a": a, "b": b, "c": c, "d": a * b * c}
        true = prod(e for name, e in effects.items() if prod(signs[f] for f in name) > 0)
        out.append(measured({f: str(s) for f, s in signs.items()}, true, dice))
    return out


def test_half_a_design_has_main_effects_clear_of_interactions_of_two() -> None:
    found = analyse(half_of_four_factors(random.Random(1), a=1.5, d=0.8, ab=1.2))
    of = {e.name: e for e in found.effects}
    assert {name: round(e.ratio, 1) for name, e in of.items()} == {"a": 1.5, "b": 1.0, "c": 1.0, "d": 0.8}
    assert [e.sure.proven for e in of.values()] == [True, False, False, True]
    assert not any(e.mixed_with for e in of.values()), "of resolution IV"
    assert found.unseparated


def test_an_effect_that_is_mixed_with_an_interaction_names_it() -> None:
    dice = random.Random(2)
    cells = [measured({"a": str(a), "b": str(b), "c": str(a * b)}, 1.3 if a > 0 else 1.0, dice) for a, b in product((-1, 1), repeat=2)]
    of = {e.name: e.mixed_with for e in analyse(cells).effects}
    assert of == {"a": ("b × c",), "b": ("a × c",), "c": ("a × b",)}


def jumbo() -> list[FactorCell]:
    """Only `nat` with the largest frames is slower."""
    dice, pairs = random.Random(3), product(("router", "filter", "nat"), ("64", "512", "1518"))
    return [measured({"mode": m, "size": s}, 0.5 if (m, s) == ("nat", "1518") else 1.0, dice, 6) for m, s in pairs]


def test_interactions_are_asked_of_every_pair_of_levels() -> None:
    found = analyse(jumbo())
    assert len(found.interactions) == 4
    assert [(i.change[1], i.at) for i in found.interactions if i.sure.proven] == [(("nat",), (("512",), ("1518",)))]


def test_interactions_that_are_not_there_are_seldom_said() -> None:
    said = 0
    for seed in range(40):
        dice = random.Random(seed)
        cells = [measured({"mode": m, "size": s}, 1.0, dice) for m in "abcd" for s in ("64", "512", "1518")]
        said += any(i.sure.proven for i in analyse(cells).interactions)
    assert said <= 5, "of 40; every other one did when a ratio of 1.05 was enough"


def test_an_interaction_of_the_two_blocks_that_medians_come_from_is_none() -> None:
    """While a box slows down, the medians of all cells are of the two middle blocks; the other ten say the opposite, and all twelve nothing."""
    odd = [5.0 if block in (5, 6) else -1.0 for block in range(12)]
    cells = [
        FactorCell(
            {"mode": mode, "size": size},
            tuple(0.9**block * (1 + 0.01 * by * (mode == "nat") * (size == "64")) for block, by in enumerate(odd)),
        )
        for mode, size in product(("router", "nat"), ("1518", "64"))
    ]
    (interaction,) = analyse(cells).interactions
    assert interaction.ratio == pytest.approx(1, abs=0.001), "1.05 by the medians"
    assert not interaction.sure.proven


@pytest.mark.parametrize("level", [lambda block, dice: -0.02 * block, lambda block, dice: 0.03 * dice[block]], ids=["drift", "blocks"])
def test_intervals_hold_the_truth_whatever_moves_from_block_to_block(level: Callable[[int, list[float]], float]) -> None:
    held = 0
    for seed in range(150):
        dice = random.Random(seed)
        common = [dice.gauss(0, 1) for _ in range(12)]
        cells = [
            FactorCell({"mode": m, "size": s}, tuple(exp(level(b, common) + dice.gauss(0, 0.01)) for b in range(12)))
            for m, s in product(("router", "nat"), ("64", "1518"))
        ]
        held += sum(i is not None and i.low <= 1 <= i.high for i in (e.sure.interval for e in analyse(cells).effects))
    assert 0.92 <= held / 300 <= 0.98, "84 % where a block's level was left in the medians"


ZEROS = [FactorCell({"mode": m}, of) for m, of in (("nat", (0.0, 0.0, 100.0)), ("router", (100.0,) * 3), ("filter", (50.0,) * 3))]


def test_cells_with_zeros_have_no_ratio_and_are_named() -> None:
    found = analyse(ZEROS)
    assert found.sentences[-1:] == found.left_out and [e.after for e in found.effects] == [("filter",)]
    with pytest.raises(ValueError, match="mode nat"):
        analyse(ZEROS[:2])


def test_a_full_design_gives_back_what_it_was_made_of() -> None:
    true = {"a": 1.5, "b": 0.8, "c": 1.0}
    cells = [
        FactorCell(
            dict(zip("abc", levels, strict=True)), (100.0 * prod(true[f] for f, level in zip("abc", levels, strict=True) if level == "on"),)
        )
        for levels in product(("off", "on"), repeat=3)
    ]
    found = analyse(cells)
    assert {e.name: round(e.ratio, 9) for e in found.effects} == true
    assert all(i.ratio == pytest.approx(1) for i in found.interactions)
    assert found.together == found.unseparated == ()


def test_a_factor_without_a_pair_of_its_own_says_what_else_changes() -> None:
    found = analyse(
        [FactorCell(dict(zip("xyz", levels, strict=True)), (rate,)) for levels, rate in (("000", 1.0), ("110", 2.0), ("101", 3.0))]
    )
    assert found.effects == () and len(found.unseparated) == 3


def test_three_levels_are_two_steps_and_one_level_is_none() -> None:
    found = analyse([FactorCell({"size": s, "os": "x"}, (v, v * 1.01, v * 0.99)) for s, v in (("64", 1.0), ("512", 2.0), ("1518", 8.0))])
    assert [(e.before, e.after, round(e.ratio, 6)) for e in found.effects] == [(("64",), ("512",), 2.0), (("512",), ("1518",), 4.0)]
    assert found.constant == ("os",)


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([], "at least two cells"),
        ([FactorCell({"a": "0"}, (0.0,)), FactorCell({"a": "1"}, (nan,))], "at least two cells"),
        ([FactorCell({"a": "0"}, (1.0,)), FactorCell({"a": "0"}, (2.0,))], "same levels"),
        ([FactorCell({"a": "0"}, (1.0,)), FactorCell({"b": "1"}, (2.0,))], "some cells lack a, b"),
    ],
)
def test_cells_that_tell_nothing_are_refused(cells: list[FactorCell], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        analyse(cells)


def test_a_mode_costs_the_time_that_it_adds_to_each_packet() -> None:
    found = costs({"nat": [0.5e6] * 4, "router": [1e6] * 4}, hertz=2e9)
    assert [(c.mode, c.ns, c.added_ns, c.cycles) for c in found] == [("router", 1000.0, 0.0, 0.0), ("nat", 2000.0, 1000.0, 2000.0)]
    assert found[1].interval is not None
    assert costs({"a": [1e6] * 3, "b": [2e6] * 3})[1].interval is None
    assert [c.added_ns for c in costs({"a": [1e6], "b": [2e6]}, barest="a")] == [-500.0, 0.0]


def test_a_mode_without_a_rate_has_no_cost() -> None:
    for bad in ([], [0.0], [-1.0], [nan]):
        with pytest.raises(ValueError, match="above zero in dead"):
            costs({"dead": bad, "alive": [1.0]})
    with pytest.raises(ValueError, match="no mode nowhere"):
        costs({"alive": [1.0]}, barest="nowhere")
