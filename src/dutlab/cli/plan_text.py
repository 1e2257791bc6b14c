"""Text of a plan for people."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from dutlab.plan.plan import Plan, Trial
from dutlab.plan.proof import proof_words
from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.words import SIZES, alike_names, asked_words, duration_words, in_order, plural, setting_words, size_order
from dutlab.report.pages.terminal import terminal_table
from dutlab.spec.factors import MODE
from dutlab.spec.testbed import HostSpec, Testbed
from dutlab.spec.untried import untried
from dutlab.subject import apart
from dutlab.systems.modes import AS_FOUND
from dutlab.units import RFC2544_FRAME_SIZES, line_rate, si
from dutlab.workloads import plug_of

_NAMED = 4
"""Most drives that one line lists by name."""
LONGEST_NAMES = 120
"""Most characters of the names of links or drives in a row; more are counted."""
MOST_SPELLED, MOST_ROWS = 3, 12
"""Most rows of a workload: if each row states all settings, and if settings of all rows are stated once."""


def plan_lines(plan: Plan, testbed: Testbed, *, width: int = 80, each: bool = False) -> Iterator[str]:
    """Yield the plan's work, its duration, and the highest rates of the links; with `each`, every trial in its order."""
    for words in _heads(plan, testbed):
        yield from textwrap.wrap(words, width, subsequent_indent="  ", break_on_hyphens=False)
    common, table = _summary(plan)
    for words in common:
        yield from textwrap.wrap(words, width, subsequent_indent="  ", break_on_hyphens=False)
    yield ""
    yield from terminal_table(table, width=width)
    if not each:
        yield f"--trials lists all {len(plan.trials)} in their order; --json has everything"
        return
    yield ""
    for trial in plan.trials:
        cell = trial.cell
        params = " ".join(f"{k}={v}" for k, v in cell.params.items() if v is not None)
        factors = "".join(f"{k}={v} " for k, v in cell.factors.items() if k != "mode")
        yield f"{trial.number:5d}  {cell.mode:<16} {factors}{cell.workload:<8} {cell.link_label:<4} #{cell.repeat}  {params}"


def _heads(plan: Plan, testbed: Testbed) -> Iterator[str]:
    groups = plural(len({t.group for t in plan.trials}), "application")
    counted = f"{plural(plan.cells, 'cell')}, {plural(len(plan.trials), 'trial')} in {groups} of a mode"
    yield f"{counted}: about {duration_words(plan.estimate_s)}; order seed {plan.seed}"
    if plan.repeat_rule is not None:
        yield f"at most: each cell is {plan.repeat_rule.rule.words}"
    yield from _touched(plan, testbed)
    yield from _factors(plan)
    yield proof_words(plan)
    if plan.repeat_disturbed:
        longest = plan.estimate_s + plan.repeat_disturbed * sum(t.estimate_s for t in plan.trials)
        again = f"{plan.repeat_disturbed} times" if plan.repeat_disturbed > 1 else "once"
        yield f"disturbed trials are repeated, at most {again} each: about {duration_words(longest)} if all are"
    yield from _writes(plan, testbed)
    if unknown := ", ".join(untried(testbed, plan.generators)):
        from dutlab.doubts import DoubtKind

        yield f"untried: {unknown}: {DoubtKind.UNTRIED.text}; {DoubtKind.UNTRIED.remedy}"
    for link in testbed.links.values():
        if link.speed is None:
            yield f"link {link.name}: no speed known, so no ceiling"
        else:
            rates = ", ".join(f"{size} B {si(line_rate(link.speed, size), 'pps')}" for size in RFC2544_FRAME_SIZES)
            yield f"link {link.name}: {si(link.speed, 'b/s')} L1; at most {rates}"
        if link.is_distant:
            yield f"link {link.name}: {link.distance_words}, one way, before {' and '.join(map(str, link.distance_ports))}"


def _touched(plan: Plan, testbed: Testbed) -> Iterator[str]:
    """Yield the hosts that the run uses, and what it changes on them."""
    if testbed.lab is not None:
        yield f"hosts: {', '.join(testbed.hosts)}, in lab {testbed.lab} on this machine"
    else:
        yield f"hosts: {', '.join(f'{name} ({_where(host)})' for name, host in testbed.hosts.items())}"
    modes = [mode for mode in dict.fromkeys(t.cell.mode for t in plan.trials) if mode != AS_FOUND.name]
    changed = [f"mode ({', '.join(modes)})"] if modes else []
    changed += [name for name in dict.fromkeys(name for t in plan.trials for name in t.cell.factors) if name != MODE]
    if by_hand := [name for name in changed if name in plan.hand_factors]:
        yield f"asks a person to change: {', '.join(by_hand)}"
    if by_us := [name for name in changed if name not in plan.hand_factors]:
        yield f"changes: {', '.join(by_us)}{f' of {testbed.dut}' if testbed.dut else ''}; each change is undone at its end"
    elif not by_hand:
        yield "changes nothing: the DUT is measured as it is found"


def _where(host: HostSpec) -> str:
    if host.netns:
        return f"namespace {host.netns} of this machine"
    return host.ssh or ("this machine" if host.local else "no login")


def _factors(plan: Plan) -> Iterator[str]:
    """Yield the levels of factors other than the mode, and the number of combinations that are measured."""
    combinations = {tuple(trial.cell.factors.items()) for trial in plan.trials}
    levels: dict[str, dict[str, None]] = {}
    for name, level in sorted(pair for of in combinations for pair in of):
        levels.setdefault(name, {})[level] = None
    all_ = prod(map(len, levels.values()))
    if words := "; ".join(f"{name}: {' / '.join(of)}" for name, of in levels.items() if name != MODE):
        left_out = "" if len(combinations) == all_ else f", {all_ - len(combinations)} of {all_} left out"
        yield f"{plural(len(combinations), 'combination')} of levels{left_out}; besides the mode: {words}"


def _writes(plan: Plan, testbed: Testbed) -> Iterator[str]:
    """Yield a line for each set of drives with equal writes."""
    if not testbed.drives:
        return
    from dutlab.plan.drive_writes import drive_writes
    from dutlab.spec.workloads.on_drives import DriveSetting

    drives = [trial.cell.setting for trial in plan.trials if isinstance(trial.cell.setting, DriveSetting)]
    if not drives:
        return
    yield from dict.fromkeys(setting.not_taken for setting in drives if setting.not_taken)
    alike: dict[str, list[str]] = {}
    for name, written in drive_writes(plan, testbed).items():
        alike.setdefault(written.words, []).append(name)
    for words, names in alike.items():
        which = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} drives from {names[0]} to {names[-1]}, each"
        yield f"written to {which}: {words}"
    if not alike:
        yield "nothing is written to any drive"


def _summary(plan: Plan) -> tuple[list[str], Table]:
    """Return the settings that all rows of a workload share, a line each, and a table with a row per workload and other settings.

    A row has modes, links or drives, number of trials, and duration. A workload with many combinations of settings has one row with
    the values of each.
    """
    common, trials_by_row = list[str](), dict[str, list[Trial]]()
    for trials in _by_workload(plan):
        rows, shared = _rows_of(trials)
        trials_by_row |= rows
        common += [shared] if shared else []
    rows_of_table = []
    for words, trials in trials_by_row.items():
        cells = [t.cell for t in trials]
        sizes = sorted({c.setting.size for c in cells} - {""}, key=size_order)
        labels = sorted({c.mode for c in cells})
        links = sorted({c.link_label for c in cells if c.links}, key=lambda link: (len(apart(link)), link))
        cell_count = sum(1 for c in cells if c.repeat == 1)
        duration = duration_words(sum(t.estimate_s for t in trials))
        rows_of_table.append((words, ", ".join(labels), _places(links), ", ".join(sizes), str(cell_count), str(len(trials)), duration))
    places = {plug_of(t.cell.workload).place for t in plan.trials}
    heads = ["what", "modes", " and ".join(sorted(f"{place}s" for place in places)) or "links", "frames", "cells", "trials", "time"]
    shown = [n for n, head in enumerate(heads) if head != "frames" or any(row[n] for row in rows_of_table)]
    columns = tuple(Column(heads[n], align="right" if heads[n] in {"cells", "trials", "time"} else "left") for n in shown)
    return common, Table("plan", "", columns, tuple(Row("", tuple(row[n] for n in shown)) for row in rows_of_table), first="")


def _by_workload(plan: Plan) -> list[list[Trial]]:
    of: dict[str, list[Trial]] = {}
    for trial in plan.trials:
        of.setdefault(trial.cell.workload, []).append(trial)
    return list(of.values())


def _rows_of(trials: Sequence[Trial]) -> tuple[dict[str, list[Trial]], str]:
    """Return the trials of one workload by the text of their row, and the text of their common settings; empty if each row states all."""
    cell, workload = trials[0].cell, trials[0].cell.workload
    rows, words = dict[str, list[Trial]](), dict[int, str]()
    for trial in trials:
        setting = trial.cell.setting  # one object for all repeats and modes
        if id(setting) not in words:
            words[id(setting)] = f"{workload}: {asked_words(setting, trial.cell.tool, without=SIZES)}"
        rows.setdefault(words[id(setting)], []).append(trial)
    if len(rows) <= MOST_SPELLED:
        return rows, ""
    settings = [trial.cell.setting for trial in trials]
    alike = alike_names(settings)
    shared = f"{workload}, in every row: {asked_words(cell.setting, cell.tool, without={*cell.params, *SIZES} - alike)}"
    if len(rows) <= MOST_ROWS:
        named: dict[str, list[Trial]] = {}
        for trial in trials:
            named.setdefault(f"{workload}: {setting_words(trial.cell.setting, without={*alike, *SIZES})}", []).append(trial)
        return dict(sorted(named.items(), key=lambda of: in_order(of[0]))), shared
    varied = [name for name in dict.fromkeys(name for s in settings for name in s.params) if name not in alike and name not in SIZES]
    values = (dict.fromkeys(setting_words(s, without=s.params.keys() - {name}) for s in settings) for name in varied)
    return {f"{workload}: {'; '.join(_all_of(words) for words in values)}": list(trials)}, shared


def _all_of(words: Iterable[str]) -> str:
    """Return the values of a setting; words with which all begin are written once: `depth 1`, `depth 2` → `depth 1, 2`."""
    values = sorted(filter(None, words), key=in_order)
    head, _, _ = values[0].rpartition(" ") if values else ("", "", "")
    alike = head and all(value.startswith(f"{head} ") for value in values)
    return f"{head} {', '.join(value.removeprefix(f'{head} ') for value in values)}" if alike else ", ".join(values)


def _places(names: Sequence[str]) -> str:
    """Return links or sets of drives; of very many names their numbers: `each of 32, 2 sets of 16, all 32`."""
    if sum(map(len, names)) <= LONGEST_NAMES:
        return ", ".join(names)
    sizes = Counter(len(apart(name)) for name in names)
    whole = len({place for name in names for place in apart(name)})
    return ", ".join(_of_size(size, count, whole) for size, count in sorted(sizes.items()))


def _of_size(size: int, count: int, whole: int) -> str:
    if size == 1:
        return f"each of {count}" if count > 1 else "one"
    if count == 1:
        return f"all {size} together" if size == whole else f"{size} together"
    return f"{count} sets of {size}"
