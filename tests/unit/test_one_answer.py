"""One rule for answers: over 200 simulated runs, everything that compares cells says the same of the same cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

import dutlab
from dutlab.analysis.answers import AnswerKind
from dutlab.analysis.comparison import Comparison, turned
from dutlab.analysis.verdict import CheckKind, Reason, Verdict
from dutlab.publish.site import SiteRequest, publish
from dutlab.report.gather import gather
from dutlab.report.model.contests import CompareRequest
from dutlab.report.model.groups import group, labels_of
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, RunReport
from dutlab.report.pages.terminal import terminal_answer
from dutlab.report.questions.cells import effects_of_run
from dutlab.report.questions.checked import Checked
from dutlab.report.questions.claims import cards_of
from dutlab.report.questions.compared import ComparedPair, compare_modes, compare_runs
from dutlab.report.questions.ordered import ordered
from dutlab.report.questions.sides import ComparedRun, open_run
from dutlab.report.sections.sweep import section as sweep
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from simulated_runs import SimulatedRun

RUNS = 200
Pairs = dict[tuple[str, str, str], Comparison]
"""(size, first mode, second mode) → the comparison of the second against the first."""


def compared(run: ComparedRun) -> tuple[Pairs, dict[tuple[str, str], ComparedPair]]:
    """What `compare` says with each mode as the baseline."""
    pairs: Pairs = {}
    whole: dict[tuple[str, str], ComparedPair] = {}
    for base in run.modes:
        for found in compare_modes(run, baseline=base):
            whole[base, found.second] = found
            pairs |= {(c.pair.label.split(" · ")[0].split()[1], base, found.second): c for c in found.comparisons}
    return pairs, whole


def plain(c: Comparison) -> tuple[object, ...]:
    inside = None if c.ratio is None else c.ratio.interval
    numbers = (None if c.ratio is None else c.ratio.ratio, inside and inside.low, inside and inside.high, c.p)
    return (c.verdict, c.reason, *(None if v is None else float(f"{v:.9g}") for v in numbers))


def insist_on_compare_whatever_the_baseline(pairs: Pairs) -> None:
    for (size, a, b), found in pairs.items():
        assert plain(turned(found)) == plain(pairs[size, b, a])


def insist_on_order(run: ComparedRun, pairs: Pairs) -> None:
    for standing in ordered([run]):
        size = standing.contest.label.split(" · ")[0].split()[1]
        for a, b in combinations([e.label for e in standing.contest.entrants], 2):
            found = pairs[size, a, b]
            (pair,) = (of for of in standing.pairs if {of.better, of.worse} == {a, b})
            assert pair.proven is (found.verdict in {Verdict.BETTER, Verdict.WORSE})
            if pair.proven:
                assert (pair.better, pair.worse) == ((a, b) if found.verdict is Verdict.WORSE else (b, a))
        best = [label for label in {e.label for e in standing.contest.entrants} if beats_all(label, size, pairs)]
        assert (standing.kind is AnswerKind.FASTEST) is bool(best) and list(standing.best) == (best or list(standing.best))


def beats_all(mode: str, size: str, pairs: Pairs) -> bool:
    return all(c.verdict is Verdict.WORSE for (of, a, _), c in pairs.items() if (of, a) == (size, mode))


def headlines_of(simulated: SimulatedRun, records: Sequence[TrialRecord]) -> tuple[Headline, ...]:
    """The headlines of a report, without the rest of it."""
    cells = {r.trial: r.cell for r in records}
    labels = labels_of(cells.values(), {"mode": list(simulated.modes)})
    groups = group(cells, records, labels)
    return sweep(None, groups, list(dict.fromkeys(labels.values())), NoteBook(groups)).headlines  # type: ignore[arg-type]  # no file is read


def insist_on_headline(headline: Headline, pairs: Pairs) -> None:
    size = headline.about.split("-byte")[0].split()[-1]
    top, low = (of.label for of in headline.figures)
    ends = pairs[size, top, low]
    assert [m for m in {a for _, a, _ in pairs} if beats_all(m, size, pairs)] == ([headline.fastest] if headline.fastest else [])
    assert (headline.reason or None) == (ends.reason.value if ends.reason else None)
    verdict, reason, *numbers = plain(ends)
    said = (headline.ratio, headline.ratio_low, headline.ratio_high, headline.p)
    assert [None if v is None else float(f"{v:.9g}") for v in said] == numbers
    if headline.fastest:
        assert verdict is Verdict.WORSE and reason is None
        assert min(len(ends.pair.first), len(ends.pair.second)) > 1
        assert headline.ratio_low is not None and headline.ratio_high is not None and not headline.ratio_low <= 1 <= headline.ratio_high
    once = headline.reason == Reason.ONE_REPEAT.value and "each measured once" in headline.sentence
    assert headline.sentence.split(" ")[0] in {headline.fastest or "no", "no"} or (once and not headline.fastest)


def insist_on_effects(run: ComparedRun, pairs: Pairs, whole: dict[tuple[str, str], ComparedPair]) -> None:
    try:
        found = effects_of_run(run, "received_pps", CompareRequest())
    except ValueError:  # fewer than two cells
        return
    for effect in (e for e in found.effects if e.factors == ("mode",)):
        before, after = effect.before[0], effect.after[0]
        sizes = [size for size, a, b in pairs if (a, b) == (before, after)]
        if len(sizes) == 1 and effect.pairs:
            c = pairs[sizes[0], before, after]
            assert (effect.sure.verdict, effect.sure.p) == (c.verdict, c.p) and c.ratio is not None
            assert effect.ratio == pytest.approx(c.ratio.ratio)
            assert (effect.sure.interval is None) is (c.ratio.interval is None)
        elif effect.sure.verdict is not None:
            together = whole[before, after].together
            assert together is not None
            assert (effect.sure.verdict, effect.sure.p, effect.ratio) == (together.verdict, together.p, pytest.approx(together.ratio))


def said(report: RunReport) -> list[str]:
    return [f"{h.about}: {h.sentence}" for h in report.headlines]


def insist_on_all_cells(run: ComparedRun, report: RunReport) -> None:
    """The answer names the fastest over all cells where `compare` has it before every other mode, whichever is the baseline."""
    _, whole = compared(run)
    proven = {modes: of.together.verdict for modes, of in whole.items() if of.together is not None}
    assert all(turned_verdict(verdict) is proven[b, a] for (a, b), verdict in proven.items())
    best = [m for m in run.modes if proven and all(v is Verdict.WORSE for (a, _), v in proven.items() if a == m)]
    overall = [sentence for sentence in report.answer.fast if sentence.startswith("All ")]
    assert [m for m in run.modes if any(f": {m} is the fastest" in sentence for sentence in overall)] == best
    assert bool(overall) is (Verdict.WORSE in proven.values())


def turned_verdict(verdict: Verdict) -> Verdict:
    return {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}.get(verdict, verdict)


def insist_on_claims_and_terminal(path: Path, report: RunReport) -> None:
    assert list(report.answer.fast[: len(report.headlines)]) == said(report)
    cards = cards_of(RunFolder.open(path), report, path)
    assert [card.claim for card in cards.values()] == said(report)
    shown = " ".join(" ".join(terminal_answer(report.answer, name=report.name, folder="runs/x", width=200)).split())
    assert all(" ".join(h.sentence.split()) in shown for h in report.headlines)


def insist_on_disturbances(pairs: Pairs, simulated: SimulatedRun) -> None:
    disturbed = {a for (size, a, _), c in pairs.items() for flag in c.flags if flag.startswith("first: other work disturbed 1 of ")}
    assert disturbed == ({simulated.modes[0]} if simulated.disturbed and pairs else set())


def insist_on_check(first: ComparedRun, second: ComparedRun) -> None:
    pair = compare_runs([first], [second])
    checked = Checked(pair, None)
    worse = any(c.verdict is Verdict.WORSE for c in pair.comparisons)
    together = pair.together is not None and pair.together.verdict is Verdict.WORSE
    assert (checked.kind is CheckKind.FAIL) is (worse or together or bool(pair.only_first))
    if checked.kind is CheckKind.PASS:
        assert checked.seen is not None and checked.seen <= checked.allowed
    if min(len(of) for c in pair.comparisons for of in (c.pair.first, c.pair.second)) == 1:
        assert checked.kind is not CheckKind.PASS, "one repeat shows no spread"


def test_everything_says_the_same_of_the_same_cells() -> None:
    kinds = Counter[str]()
    for seed in range(RUNS):
        simulated = SimulatedRun.drawn(seed)
        records = simulated.records()
        run = ComparedRun(f"run-{seed}", tuple(records), simulated.resolved)
        pairs, whole = compared(run)
        insist_on_compare_whatever_the_baseline(pairs)
        insist_on_order(run, pairs)
        (headline,) = headlines_of(simulated, records)
        insist_on_headline(headline, pairs)
        insist_on_effects(run, pairs, whole)
        insist_on_disturbances(pairs, simulated)
        other = replace(simulated, seed=seed + RUNS, steps=tuple(step * 0.8 for step in simulated.steps))
        insist_on_check(run, replace(run, name="other", records=tuple(other.records())))
        kinds[headline.kind] += 1
    assert set(kinds) == {"fastest", "shared", "not proven"} and min(kinds.values()) >= RUNS // 20, "the runs differ in what may be said"


def test_claims_site_terminal_and_python_interface_say_what_the_headline_says(tmp_path: Path) -> None:
    made = [SimulatedRun.drawn(seed) for seed in range(0, RUNS, 20)]
    paths = [simulated.written(tmp_path / "runs") for simulated in made]
    shown = {run.name: run for run in publish(paths, SiteRequest(tmp_path / "site")).runs}
    for simulated, path in zip(made, paths, strict=True):
        report = gather(path, path)
        assert report.headlines == tuple(
            replace(h, limits=report.headlines[0].limits) for h in headlines_of(simulated, simulated.records())
        )
        insist_on_claims_and_terminal(path, report)
        insist_on_all_cells(open_run(path), report)
        assert shown[report.name].fast == report.answer.fast
        assert [claim.card.claim for claim in shown[report.name].claims] == said(report)
        assert all(line in dutlab.Run(path).answer.splitlines() for line in report.answer.fast)
    pair = dutlab.compare(paths[0], SimulatedRun.drawn(0).written(tmp_path / "again")).pair
    again = compare_runs([open_run(paths[0])], [open_run(next((tmp_path / "again").iterdir()))])
    assert pair.comparisons == again.comparisons
