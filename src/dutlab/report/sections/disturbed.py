"""What a report says of trials that other work disturbed."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.analysis.disturbed import machine_too_busy
from dutlab.report.model.groups import Group
from dutlab.report.model.words import asked_words, numbers_words, plural
from dutlab.stats.summary import median
from dutlab.store.cell_figures import key_of
from dutlab.store.judged import DISTURBED
from dutlab.store.record import TrialRecord
from dutlab.units import si
from dutlab.workloads import plug_of

_PER_CPU = {"received_frames_per_cpu_s": "frames", "goodput_bits_per_cpu_s": "bit"}


def nearly_nothing_left(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord]) -> str:
    """That other work disturbed nearly every attempt, in words; empty if it did not. No answer is given of such a run."""
    attempts = [r for r in (*records, *set_aside) if r.status in ("measured", DISTURBED)]
    return machine_too_busy(attempts=len(attempts), disturbed=sum(r.status == DISTURBED for r in attempts))


def too_busy(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord]) -> str:
    """The same as a sentence with what to do. Cells that alone were disturbed hide no other figure: repeated() says how many."""
    busy = nearly_nothing_left(records, set_aside)
    return f"{busy}. Repeat the run on a quieter machine." if busy else ""


def repeated(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord]) -> str:
    """How many trials were disturbed and done again, in a sentence; empty where none was."""
    again = sorted({r.trial for r in set_aside if r.status == DISTURBED})
    left = sorted(r.trial for r in records if r.status == DISTURBED)
    if not again and not left:
        return ""
    said = f"Other work on the machine disturbed {plural(len({*again, *left}), 'trial')}; figures are of undisturbed trials only."
    if again:
        said += f" Done again: {numbers_words(again)}."
    said += f" Without an undisturbed attempt: {numbers_words(left)}." if left else ""
    measured = {key_of(r.cell) for r in records if r.status == "measured"}
    without = {key_of(r.cell) for r in records if r.status == DISTURBED} - measured
    return said + (f" No figure: {plural(len(without), 'cell')}." if without else "")


def per_cpu(groups: Sequence[Group], set_aside: Sequence[TrialRecord]) -> tuple[str, ...]:
    """Of each cell its rate per CPU second of the testbed's own threads, over all attempts; nothing where no trial was disturbed.

    Disturbed attempts are among them: what a frame costs depends less on other work than how fast it went.
    """
    records = [*(r for g in groups for r in g.records), *set_aside]
    if not any(r.status == DISTURBED for r in records):
        return ()
    out = []
    for group in groups:
        mine = [r.figures.get(r.cell.link_label, {}) for r in records if key_of(r.cell) == key_of(group.cell)]
        for figure, unit in _PER_CPU.items():
            if values := [figures[figure] for figures in mine if figure in figures]:
                asked = asked_words(group.cell.setting, group.cell.tool)
                what = f"{group.label}, {group.cell.workload} ({asked}), {plug_of(group.cell.workload).place} {group.cell.link_label}"
                of = f"median of {plural(len(values), 'attempt')}"
                out.append(f"{what}: {si(median(values), unit)} per CPU second of the testbed's threads, {of}")
    return tuple(out)
