"""Method of a run in sentences, from its records, for the method section of a paper."""

from __future__ import annotations

from dutlab.report.model.run_report import RunReport
from dutlab.report.model.words import duration_words, numbers_words, plural
from dutlab.subject import apart, subject_of
from dutlab.workload_plug import DRIVE
from dutlab.workloads import plug_of

_MOST_NAMED = 6
"""Most drives that a sentence names."""


def method_words(r: RunReport) -> tuple[str, ...]:
    """Return sentences on testbed, workloads, order, tools, checks, missing trials and manifest, in this order."""
    return tuple(words for words in (_where(r), *_what(r), _order(r), _tools(r), _checks(r), _lost(r), _proof(r)) if words)


def _where(r: RunReport) -> str:
    if any(n.kind == "IMPORTED" for n in r.notes):
        return "Imported, not measured by dutlab: the conditions are those of its source."
    if r.lab is not None:
        where = f"in the embedded lab {r.lab}: all hosts are network namespaces of one machine, so figures are relative"
    else:
        where = f"on testbed {r.testbed}" + (f" with hosts {', '.join(hosts)}" if (hosts := r.conditions.hosts) else "")
    return f"Measured {r.course.started} {where}."


def _what(r: RunReport) -> list[str]:
    """Return a sentence per workload: the settings that all its trials share, and the number of variants."""
    out = []
    for workload in dict.fromkeys(t.workload for t in r.trials):
        trials = [t for t in r.trials if t.workload == workload]
        asked = list(dict.fromkeys(t.asked for t in trials))
        parts = [words.split(", ") for words in asked]
        common = ", ".join(part for part in parts[0] if all(part in other for other in parts))
        varied = f", in {len(asked)} variants" if len(asked) > 1 else ""
        where = _links([links for links in dict.fromkeys(t.links for t in trials) if links], plug_of(workload).place)
        what = f"workload {workload}" if common == workload else f"{workload}: {common}"
        out.append(f"{what}{varied}{where and f', on {where}'}.")
    return out


def _links(names: list[str], place: str) -> str:
    """Return links or drives in words; of many drives their number."""
    counts = {name: len(apart(name)) for name in names}
    if place == DRIVE and sum(counts.values()) > _MOST_NAMED:
        return " and ".join(f"{plural(count, 'drive')}{' at once' if count > 1 else ''}" for count in dict.fromkeys(counts.values()))
    return " and ".join(f"{place}s {name} at once" if subject_of(name).is_sum else f"{place} {name}" for name in names)


def _order(r: RunReport) -> str:
    course = r.course
    done = sum(t.status == "measured" for t in r.trials)
    lasted = f" in {duration_words(course.seconds)}" if course.seconds else ""
    repeats = "" if course.repeat_rule else f", {plural(course.repeats, 'repeat')} each"
    rule = f" Each cell was {course.repeat_rule}." if course.repeat_rule else ""
    have = "has" if len(r.trials) == 1 else "have"
    return f"{done} of {plural(len(r.trials), 'trial')} {have} a result{lasted}{repeats}, order {course.order} (seed {course.seed}).{rule}"


def _tools(r: RunReport) -> str:
    return f"Tools: {'; '.join(f'{name} {version}' for name, version in tools)}." if (tools := r.conditions.tools) else ""


def _checks(r: RunReport) -> str:
    if not (checks := r.conditions.checks):
        return ""
    broken = [c for c in checks if c.broken]
    modes = len({c.mode for c in checks})
    pings = sum(c.by_ping for c in checks)
    on_drives = all(plug_of(t.workload).place == DRIVE for t in r.trials)
    how = "with pings where an end of a link does not run the engine" if pings else "with real frames"
    how = "by the state that the kernel reports" if on_drives else how
    sentence = f"Before its trials each of {plural(modes, 'mode')} was verified {how}, by {plural(len(checks), 'check')} in all"
    return f"{sentence}; {plural(len(broken), 'check')} did not hold at least once." if broken else f"{sentence}; all held."


def _lost(r: RunReport) -> str:
    numbers = [t.number for t in r.unsuccessful]
    return f"Without a result: {plural(len(numbers), 'trial')} ({numbers_words(numbers)})." if numbers else ""


def _proof(r: RunReport) -> str:
    return f"The SHA-256 of the run's manifest is {r.manifest}." if r.manifest else "The run has not finished and has no manifest."
