"""Workload `fio`: I/O on drives of the testbed, with any fio option. Each value in a list is a separate trial.

- fio:
    drives: [each, together]
    options: {rw: [randread, randwrite], bs: 4k, iodepth: [1, 8, 32], ioengine: libaio, direct: 1}
    ramp: 2s
    duration: 30s

`job` is a job file in place of `options`. With both, `options` are added to each job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.drives import is_size, parse_size
from dutlab.spec.fields import Duration
from dutlab.spec.model import Loc, did_you_mean, fault, fault_of_key
from dutlab.spec.workloads.base import LONGEST_TRIAL
from dutlab.spec.workloads.fio_job import ORDER, not_taken, order_faults, results, seconds_of, sections, stages
from dutlab.spec.workloads.fio_rate import most_write_bytes_per_s
from dutlab.spec.workloads.on_drives import DriveSetting, DriveWorkload, WritingTime, levels
from dutlab.spec.workloads.setting import ELSEWHERE, DurationSaid, Params, RampSaid, Setting, Words
from dutlab.units import Seconds, number_or_text

READS = frozenset({"read", "randread"})
"""Values of `rw` that do not change a drive (fio's HOWTO, `readwrite`)."""
WRITES = frozenset({"write", "randwrite", "rw", "readwrite", "randrw", "trim", "randtrim", "trimwrite", "randtrimwrite"})
_RANDOM = frozenset({"randwrite", "randrw"})
ENGINES = frozenset(
    {"sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "io_uring_cmd", "mmap", "splice", "sg", "null"}
)
"""fio's I/O engines that access only `filename`."""
OURS = frozenset({"runtime", "timeout", "ramp_time", "time_based"})
PASSED_OVER = OURS | {"filename", "group_reporting", "new_group", "name"}
"""Options of a job file that are ignored, since dutlab sets them itself."""
_ELSEWHERE = (
    r"filename\w*|directory|opendir|include|exec_\w+|trigger\w*|read_iolog|write_iolog|replay_\w+|write_\w+_log|log_\w+|output\w*|server|client"
    r"|allow_mounted_write|cgroup\w*|ioscheduler|verify_state\w*|kb_base|unit_base|create_only|unlink\w*|new_group|group_reporting|wait_for"
    r"|name|nrfiles|openfiles|file_service_type|file_append|zonemode|uid|gid|hostname|port|protocol"
)
_NOT_TAKEN = re.compile(_ELSEWHERE)
_PLACE_OR_LOG = re.compile(r"filename\w*|directory|output\w*|write_\w+_log|log_\w+")
DEFAULTS = {"direct": "1", "ioengine": "libaio"}
"""dutlab's defaults, since fio's would use the page cache with one request at a time."""
HOW = {"thread": "1", "allow_mounted_write": "0", "time_based": "1", "group_reporting": "1", "new_group": "1", "per_job_logs": "0"}
"""Options that dutlab sets in every job; they are not part of a setting, so cells do not differ by them."""
_KEY = re.compile(r"[a-z][a-z0-9_]{0,48}")
_VALUE = re.compile(r"[\w.,:%/+ =@*-]{1,200}", re.ASCII)
MOST_JOBS = 64


def _text(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return ("1" if value else "0") if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


Value = Annotated[str, BeforeValidator(_text, json_schema_input_type=str | int | float | bool)]


Levels = Annotated[tuple[Value, ...], BeforeValidator(levels, json_schema_input_type=Value | tuple[Value, ...])]


OPTIONS_SAID: Mapping[str, Words] = {
    "rw": Words(
        "rw {}",
        {
            "read": "sequential reads",
            "write": "sequential writes",
            "randread": "random reads",
            "randwrite": "random writes",
            "rw": "sequential reads and writes",
            "readwrite": "sequential reads and writes",
            "randrw": "random reads and writes",
        },
        place=-1,
    ),
    "iodepth": Words("depth {}"),
    "bs": Words("blocks of {}"),
    "ioengine": Words("by {}"),
}
"""Words of common options; others are shown by their names."""


class FioSetting(DriveSetting):
    """Setting of a trial: one job, or one job file, on one set of drives."""

    kind: Literal["fio"] = "fio"
    also: ClassVar[Mapping[str, Words]] = OPTIONS_SAID
    options: Annotated[dict[str, str], ELSEWHERE]
    """fio option → value, in the order in which they were written."""
    job: Annotated[str, Words("job {}", place=1)] = ""
    """Text of a job file; empty for one job with only `options`."""
    duration_s: DurationSaid
    ramp_s: RampSaid

    @property
    def loaded_s(self) -> Seconds:
        """Duration with the ramp, added up over the stages of a job file."""
        return Seconds((self.ramp_s + self.duration_s) * (len(stages(self.job)) if self.job else 1))

    @property
    def results(self) -> dict[str, tuple[str, ...]]:
        """Results of a job file: name → jobs whose sum it is. The name of the sum is empty where all jobs run at once."""
        return results(self.job) if self.job else {}

    @property
    def not_taken(self) -> str:
        """Sentence on the options of the job file that dutlab sets itself; empty without any."""
        return not_taken(self.job) if self.job else ""

    @property
    def writing(self) -> tuple[WritingTime, ...]:
        """Time of the writes with the ramp. Only random blocks of one size, without a job file, have a size."""
        if not self.writes:
            return ()
        each_s = self.ramp_s + self.duration_s
        if self.job:
            of = {name: {**options, **self.options} for name, options in sections(self.job).items()}
            every = [[of[name] for name in names if writes(of[name])] for names in stages(self.job)]
            return tuple(WritingTime(each_s, None, _sum([most_write_bytes_per_s(one, each_s) for one in jobs])) for jobs in every if jobs)
        way, size = self.options.get("rw", "").partition(":")[0], self.options.get("bs", "4k")
        plain = way in _RANDOM and not any(name.startswith(("bs", "blocksize")) and name != "bs" for name in self.options)
        block = parse_size(size) if plain and is_size(size) else None
        return (WritingTime(each_s, block, most_write_bytes_per_s(self.options, each_s)),)

    @cached_property
    def params(self) -> Params:
        """Each option under its own name; numbers are kept as numbers, so that depths are sorted by value."""
        times: dict[str, float] = {"ramp_s": self.ramp_s, "duration_s": self.duration_s}
        return {**({"job": " ".join(sections(self.job))} if self.job else {}), **params_of_options(self.options), **times}


def _sum(limits: Sequence[float | None]) -> float | None:
    """Return the sum; None if one of them is not known."""
    known = [limit for limit in limits if limit is not None]
    return sum(known) if len(known) == len(limits) else None


def params_of_options(options: Mapping[str, str]) -> dict[str, str | int]:
    """Return option → value, with whole numbers as numbers."""
    return {name: number_or_text(text) for name, text in options.items()}


def params_of(options: Mapping[str, str]) -> Params:
    """Return parameters from the job options in fio's report. If dutlab ran the job, they are those of the cell."""
    is_ours = options.get("allow_mounted_write") == HOW["allow_mounted_write"]
    rest = {
        name: text
        for name, text in options.items()
        if name not in PASSED_OVER and HOW.get(name) != text and not (name == "size" and is_ours) and not _PLACE_OR_LOG.fullmatch(name)
    }
    times = {key: seconds_of(options[name]) for name, key in (("ramp_time", "ramp_s"), ("runtime", "duration_s")) if name in options}
    return {**params_of_options(rest), "ramp_s": 0.0, **times}


class FioWorkload(DriveWorkload):
    """One trial per set of drives and combination of options."""

    setting: ClassVar[type[Setting]] = FioSetting

    options: Annotated[dict[str, Levels], Field(default_factory=dict)]
    job: str = ""
    ramp: Duration = Seconds(0.0)
    """Time of I/O before the measured time (fio's ramp_time)."""
    duration: Duration = Seconds(30.0)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that fio accepts the options, and that they access only these drives."""
        yield from super().own_faults()
        if not self.options and not self.job:
            yield fault(
                ("options",), "missing; write fio's options, as in {rw: randread, bs: 4k, iodepth: 32}, or a job", FaultKind.MISSING
            )
        if not 0 < self.duration <= LONGEST_TRIAL:
            yield fault_of_key("duration", f"must be above 0 and at most {LONGEST_TRIAL:g} s", FaultKind.RANGE)
        yield from faults_of_options(self.options)
        if not self.job and self.options and "rw" not in self.options:
            yield fault(("options", "rw"), f"missing; one of {', '.join(sorted(READS | WRITES))}", FaultKind.MISSING)
        yield from (fault(("job",), what) for what in _job_faults(self.job, self))

    def settings(self) -> Iterator[tuple[FioSetting, float]]:
        """Yield each combination of the options, with its duration."""
        for values in product(*self.options.values()):
            options = dict(zip(self.options, values, strict=True))
            changes = writes(options, self.job)
            if not self.job:
                options |= {key: value for key, value in DEFAULTS.items() if key not in options}
            setting = FioSetting(options=options, job=self.job, writes=changes, ramp_s=self.ramp, duration_s=self.duration)
            yield setting, setting.loaded_s

    def writing_key(self) -> Loc | None:
        """Return the place of `rw` if the workload writes; None otherwise."""
        values = self.options.get("rw", ("",))
        return ("options", "rw") if any(writes({"rw": rw} if rw else {}, self.job) for rw in values) else None


def access_options(reads: int, *, random: bool) -> dict[str, str]:
    """Return fio's options for `reads` percent of reads, the rest being writes."""
    way = {100: "read", 0: "write"}.get(reads, "rw")
    mix = {"rwmixread": str(reads)} if way == "rw" else {}
    return {"rw": f"rand{way}", "norandommap": "1", **mix} if random else {"rw": way, **mix}


def writes(options: Mapping[str, str], job: str = "") -> bool:
    """Return whether a job may write: true unless every job is known only to read."""
    if "rw" in options:
        return options["rw"].partition(":")[0] not in READS
    return any(of.get("rw", of.get("readwrite", "read")).partition(":")[0] not in READS for of in sections(job).values())


def faults_of_options(options: Mapping[str, Sequence[str]]) -> Iterator[InitErrorDetails]:
    """Yield faults of options and of their values."""
    for name, values in options.items():
        yield from (fault(("options", name), what) for what in dict.fromkeys(w for level in values for w in _option_faults(name, level)))
        if len(set(values)) < len(values) or not values:
            what, kind = ("a value is written twice", FaultKind.DUPLICATE) if values else ("empty; write a value", FaultKind.MISSING)
            yield fault(("options", name), what, kind)


def _option_faults(name: str, value: str) -> Iterator[str]:
    """Yield the reasons why an option with this value is refused."""
    if not _KEY.fullmatch(name):
        yield "not an option of fio; write it as fio's manual does, as in iodepth"
    elif name in OURS:
        yield "is set by `ramp` and `duration`"
    elif _NOT_TAKEN.fullmatch(name) and name not in ORDER:
        yield "is dutlab's, or leads to other files than the drives that are named, so it cannot be given"
    elif name in ORDER:
        yield "puts jobs one after another, and the jobs of drives run at once; write a `job` file"
    elif not _VALUE.fullmatch(value):
        yield f"{value!r} has characters that no value of fio needs"
    elif name in ("rw", "readwrite") and value.partition(":")[0] not in READS | WRITES:
        yield f"{value!r} is not a way to read or write {did_you_mean(value, READS | WRITES)}"
    elif name == "ioengine" and value not in ENGINES:
        yield f"{value!r} is not an engine that does I/O on drives only {did_you_mean(value, ENGINES)}"
    elif name == "readwrite":
        yield "write it as rw"


def _job_faults(job: str, made: FioWorkload) -> Iterator[str]:
    if not job:
        return
    try:
        jobs = sections(job)
    except ValueError as error:
        yield f"is not a job file of fio: {error}"
        return
    if not jobs or len(jobs) > MOST_JOBS:
        yield f"has {len(jobs)} jobs; 1 to {MOST_JOBS} are taken"
    for name, of in jobs.items():
        for key, value in of.items():
            if key not in PASSED_OVER | ORDER | {"startdelay"}:
                yield from (f"[{name}] {key}: {what}" for what in _option_faults(key, value))
    yield from order_faults(job, duration_s=made.duration, ramp_s=made.ramp)
