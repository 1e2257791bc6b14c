"""Job files of fio: their sections, the jobs that run at the same time, and the options that dutlab sets itself."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError

STONEWALL = ("stonewall", "wait_for_previous")
"""The two names of one option: the job waits for all earlier jobs of the file (fio's HOWTO)."""
WAIT_FOR = "wait_for"
ORDER = frozenset({*STONEWALL, WAIT_FOR})
"""Options that make jobs run one after another."""
GROUPED = "group_reporting"
TIMES = {"runtime": "duration", "timeout": "duration", "ramp_time": "ramp"}
"""fio option → the workload's key that sets it."""
_FIO_TIMES = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FIO_TIME = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|)")


class _JobFile(ConfigParser):
    """Parser that keeps the case of option names."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def sections(job: str) -> dict[str, dict[str, str]]:
    """Return the jobs of a job file by name, each with the options of [global]. Raises ValueError."""
    reader = _JobFile(
        delimiters=("=",), comment_prefixes=("#", ";"), allow_no_value=True, interpolation=None, default_section="global", strict=True
    )
    try:
        reader.read_string(job)
    except ConfigError as error:
        raise ValueError(str(error).replace("\n", " ")) from error
    return {name: {key: "1" if value is None else value for key, value in reader[name].items()} for name in reader.sections()}


def stages(job: str) -> tuple[tuple[str, ...], ...]:
    """Return the stages of a job file, in order: each has the names of jobs that run at the same time, and ends before the next begins.

    All jobs of a file run for the same time, so the jobs that wait for jobs of one stage begin together.
    Raises ValueError for text that is not a job file, and for a job that waits for one that is not before it.
    """
    place: dict[str, int] = {}
    first = 0
    for name, of in sections(job).items():
        if place and any(is_set(of, key) for key in STONEWALL):
            first = max(place.values()) + 1
        waitee = of.get(WAIT_FOR)
        if waitee is not None and waitee not in place:
            raise ValueError(f"[{name}] wait_for={waitee}: no earlier job has this name")
        place[name] = first if waitee is None else max(first, place[waitee] + 1)
    return tuple(tuple(name for name, at in place.items() if at == stage) for stage in sorted(set(place.values())))


def in_figures(name: str) -> str:
    """Return the form of a job's name in figures, such as `NAME/read_iops`."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()


def results(job: str) -> dict[str, tuple[str, ...]]:
    """Return name of a result → jobs whose sum it is. Only jobs that run at the same time are added.

    A file with one stage has the sum of all jobs under an empty name. In a file with several stages, a stage of several jobs has its sum,
    `stage_1`. Jobs of such a stage without `group_reporting` also have separate results.
    """
    of_sections, of_stages = sections(job), stages(job)
    jobs_by_result: dict[str, tuple[str, ...]] = {}
    for number, names in enumerate(of_stages, 1):
        if len(of_stages) == 1:
            jobs_by_result[""] = names
        elif len(names) > 1:
            jobs_by_result[f"stage_{number}"] = names
        alone = len(of_stages) > 1 and len(names) == 1
        several = len(names) > 1
        jobs_by_result |= {in_figures(name): (name,) for name in names if alone or (several and not is_set(of_sections[name], GROUPED))}
    return jobs_by_result


def is_set(options: Mapping[str, str], name: str) -> bool:
    """Return whether an option is present with a true value or without a value."""
    return options.get(name, "0") != "0"


def seconds_of(text: str) -> float | str:
    """Return the seconds of `500ms`, `2m` or `30` (fio's default unit is the second); any other text is returned unchanged."""
    match = _FIO_TIME.fullmatch(text)
    seconds = float(match[1]) * _FIO_TIMES[match[2]] if match else math.inf
    return seconds if math.isfinite(seconds) else text


def order_faults(job: str, *, duration_s: float, ramp_s: float) -> Iterator[str]:
    """Yield reasons why a job file cannot run as written: names, order, and times that `duration` and `ramp` set. Raises ValueError."""
    try:
        stages(job)
    except ValueError as error:
        yield str(error)
    names = [in_figures(name) for name in sections(job)]
    if taken := [name for name in names if not name or re.fullmatch(r"stage_\d+", name)]:
        yield f"has a job that figures would call {taken[0]!r}; rename it"
    if alike := sorted({name for name in names if names.count(name) > 1}):
        yield f"has several jobs that figures call {', '.join(alike)}"
    wanted, jobs_by_option = {"duration": duration_s, "ramp": ramp_s}, dict[tuple[str, str], list[str]]()
    for name, of in sections(job).items():
        for option, key in TIMES.items():
            if option in of and seconds_of(of[option]) != wanted[key]:
                jobs_by_option.setdefault((option, of[option]), []).append(name)
        if "startdelay" in of:
            yield f"[{name}] startdelay: jobs that begin at different times have no common result; separate them with stonewall"

    for (option, value), of_jobs in jobs_by_option.items():
        key, where = TIMES[option], "every job" if len(of_jobs) == len(names) else f"[{'], ['.join(of_jobs)}]"
        asked = value if value[-1:].isalpha() else f"{value}s"
        yield f"{where}: {option}={value}, but dutlab runs jobs as `{key}` says, {wanted[key]:g} s; write `{key}: {asked}` next to `job`"


def not_taken(job: str) -> str:
    """Return a sentence on the options of the file that dutlab sets itself, with their values; empty where there are none."""
    options = dict.fromkeys(
        f"{name}={value}"
        for of in sections(job).values()
        for name, value in of.items()
        if name in ("filename", "size", "name", "new_group", "per_job_logs") or (name == "time_based" and value == "0")
    )
    return f"not taken from the job file, since dutlab sets it: {', '.join(options)}" if options else ""
