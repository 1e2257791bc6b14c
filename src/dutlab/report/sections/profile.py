"""Profile of cycles: the top functions of each mode, a flame graph per mode, differences of two modes, and the profiler's cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from dutlab import outside
from dutlab.bounds import IMPORT
from dutlab.report.model.figures import figure_of
from dutlab.report.model.flame import Flame, Stacks, boxes, folded, own_and_total_shares
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import Section
from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.words import slug_of
from dutlab.report.sections.profile_cost import cost_tables
from dutlab.store.limit_trials import AT_LIMIT, profiled_host
from dutlab.store.run_folder import RunFolder

TOP = 12
LEAD = """Samples of all cores of the machine, by perf. `itself` is the share in which a function ran, `with callees` the one in which it or
a function that it called ran. In a lab of namespaces the machine is that of source and sink too."""


def profile_section(run: RunFolder, groups: Sequence[Group], labels: Sequence[str]) -> tuple[Section, ...]:
    """Return the section, with the trials of a mode added up; none without profiles."""
    profiles = _profiles(run, groups)
    if not profiles:
        return ()
    trials = {group.label: record.trial for group in groups for record in group.measured}
    tables, flames, taken = list[Table](), list[Flame](), list[str]()
    for (workload, host, which), by_label in profiles.items():
        place = f"{workload}-{host}{f'-{which}' if which else ''}".replace("_", "-")
        about = f"{workload}, {host}{', at the limit' if which == AT_LIMIT else ''}"
        named = [label for label in labels if label in by_label]
        tables.append(_table(slug_of(f"profile-{place}", taken), about, {label: by_label[label] for label in named}, trials))
        taken.append(tables[-1].slug)
        for label in named:
            title = f"Where the cycles went: {label}, {about}"
            flames.append(Flame(slug_of(f"flame-{place}-{label}", taken), title, tuple(boxes(by_label[label])), ""))
            taken.append(flames[-1].slug)
        for label in named[1:]:
            lead = f"Red boxes have a larger share in {label} than in {named[0]}, blue boxes a smaller one; widths are those of {label}."
            title = f"{label} against {named[0]}: {about}"
            flame_boxes = tuple(boxes(by_label[label], by_label[named[0]]))
            flames.append(Flame(slug_of(f"flame-difference-{place}-{label}", taken), title, flame_boxes, lead))
            taken.append(flames[-1].slug)
    tables += cost_tables(groups, count_disturbed=run.counts_disturbed, taken=taken)
    return (Section("profile", "", "Where the cycles went", LEAD.replace("`", ""), tuple(tables), flames=tuple(flames)),)


def _profiles(run: RunFolder, groups: Sequence[Group]) -> dict[tuple[str, str, str], dict[str, Stacks]]:
    """Return (workload, host, kind of its trials) → mode → stacks."""
    stacks_by_place: dict[tuple[str, str, str], dict[str, Counter[tuple[str, ...]]]] = defaultdict(lambda: defaultdict(Counter))
    for group in groups:
        for record in group.measured:
            for name in record.raw:
                if of := profiled_host(name.removeprefix("raw/")):
                    path = run.path / "trials" / f"{record.trial:04d}" / name
                    text = outside.read(path, IMPORT).decode("utf-8", "replace")
                    stacks_by_place[group.cell.workload, *of][group.label].update(Counter(folded(text)))
    return {place: dict(of) for place, of in stacks_by_place.items()}


def _table(slug: str, about: str, by_label: Mapping[str, Stacks], trials: Mapping[str, int]) -> Table:
    """Return a table of the functions with the largest share in any mode."""
    shares = {label: own_and_total_shares(stacks) for label, stacks in by_label.items()}
    most: dict[str, float] = {}
    for alone, _ in shares.values():
        for name, share in alone.items():
            most[name] = max(most.get(name, 0.0), share)
    rows = [
        Row(label, (name, figure_of({trials[label]: alone.get(name, 0.0)}, 1), figure_of({trials[label]: whole.get(name, 0.0)}, 1)))
        for name in sorted(most, key=lambda n: -most[n])[:TOP]
        for label, (alone, whole) in shares.items()
    ]
    columns = (Column("function"), Column("itself", "alone_ratio"), Column("with callees", "whole_ratio"))
    return Table(slug, f"Top functions: {about}", columns, tuple(rows))
