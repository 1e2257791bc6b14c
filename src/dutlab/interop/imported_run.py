"""Runs of imported results: each imported file is kept unchanged, and its trials are marked as imported.

An importer returns `Imported` objects: the cell, the figures, the parts that it left out and the units that it assumed. It returns figures
as in the file, also impossible ones (a loss below zero, a rate above the line rate). `importers.read_data` checks the figures of all
importers (`figure_checks.py`), and applies `--line-rate`. Values of each second go into the table `seconds`, which is checked for stalls.
"""

from __future__ import annotations

import enum
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from dutlab import outside
from dutlab.bounds import IMPORT, LARGEST_NUMBER
from dutlab.choices import Bed
from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.store.record import ASSUMED, LEFT_OUT, DoubtRecord, TrialRecord, measured_fields
from dutlab.store.run_folder import RunFolder
from dutlab.store.write import Sync
from dutlab.subject import Figures, back_of, joined
from dutlab.units import BpsL1

LINK = "a"
"""Name of the link for a file that names none."""
BACK, BOTH = back_of(LINK), joined((LINK, back_of(LINK)))
"""The reverse direction of that link, and both directions together."""
_DETAIL = 400
"""Most characters of a list of names. A file may have a thousand series."""


@dataclass(frozen=True)
class ImportOptions:
    """The user's options for facts that a file does not state."""

    line_rate: BpsL1 | None = None


class Omission(enum.Enum):
    """Reasons to leave a part of a file out of all figures. The value is part of a sentence."""

    WARM_UP = "warm-up"
    UNREADABLE = "cannot be read"
    UNFINISHED = "did not reach the end"
    SUPERSEDED = "repeated in a later report"
    SAME_TEST = "another report of the same test"
    COMPUTED = "computed from others that are here"
    BETWEEN_TESTS = "between two tests"
    SEVERAL_TESTS = "of several tests together"
    NO_MEASURE = "dutlab has no such measure"
    IMPOSSIBLE = "cannot be"


@dataclass(frozen=True)
class LeftOut:
    """A part of a file that was left out of all figures."""

    what: str
    """Kind of the part, in the plural: `seconds`, `tests`, `series`, `lines`."""
    why: Omission
    count: int = 1
    detail: str = ""
    """Names of the parts, or their lines in the file."""


@dataclass(frozen=True)
class AssumedUnit:
    """Assumed unit of a field without a unit in the file, with the reason."""

    field: str
    unit: str
    why: str


@dataclass(frozen=True)
class Imported:
    """One measurement, in the form of a trial. `raw` maps names to files that are kept in addition to `measured.raw`.

    A path in `raw` is read only when the run is written, since ten thousand files do not fit into memory.
    """

    cell: Cell
    measured: Measured
    raw: Mapping[str, bytes | Path] = field(default_factory=dict)
    started: datetime | None = None
    """Start of the test; None where the file does not state it. The record then has the time of the import."""
    ended: datetime | None = None
    why: str = ""
    """Reason for a missing result; empty for a trial with a result."""
    ceilings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Ceilings as in a record. An importer leaves them empty. The user's line rate sets them for each direction (`a`, `a.back`)."""
    apart: Mapping[str, str] = field(default_factory=dict)
    """Settings that are in the cell only if trials of one device differ in them (`distinguished`): hosts, and choices of a host."""
    test_ids: Sequence[str] = ()
    """Names of the test, the most reliable first. The reports of its two ends share at least one."""
    is_second: bool = False
    """True if the report of the other end has all that this one has (`once_each`)."""
    datagram_bytes: float | None = None
    """Payload of a UDP datagram in bytes; None for TCP, or if the file does not state the length."""
    left_out: Sequence[LeftOut] = ()
    """Parts that were left out. The first trial of a file also has those of the whole file."""
    assumed: Sequence[AssumedUnit] = ()

    @property
    def tables(self) -> dict[str, Sequence[Row]]:
        """Tables on the import for the record: parts left out, and assumed units."""
        left_out: list[Row] = [{"what": o.what, "why": o.why.value, "count": o.count, "detail": o.detail} for o in self.left_out]
        assumed: list[Row] = [{"field": a.field, "unit": a.unit, "why": a.why} for a in self.assumed]
        return {name: rows for name, rows in ((LEFT_OUT, left_out), (ASSUMED, assumed)) if rows}


def left_out_of(what: str, why: Omission, names: Iterable[str]) -> tuple[LeftOut, ...]:
    """Return one entry for all of `names`; an empty tuple without names."""
    all_names = list(names)
    return (LeftOut(what, why, len(all_names), "; ".join(dict.fromkeys(all_names))[:_DETAIL]),) if all_names else ()


def imported_cell(device: str, *, workload: str, tool: str, link: str = LINK, params: Mapping[str, str | float | int | None]) -> Cell:
    """Return the cell of a trial on one link, with `device` as its mode. Infinite and undefined numbers become `not stated`."""
    return Cell(
        mode=device,
        factors={"mode": device},
        tool=tool,
        links=(link,),
        setting=ImportedSetting(of=workload, said={name: _said(value) for name, value in params.items()}),
        repeat=1,
    )


def _said(value: float | str | None) -> float | str | None:
    return value if not isinstance(value, int | float) or abs(value) <= LARGEST_NUMBER else "not stated"


def once_each(trials: Sequence[Imported]) -> list[Imported]:
    """Return the trials without second reports of the same test. The files of a second report are kept with the first one.

    A second report stays if the first one has no result.
    """
    first_of: dict[str, list[int]] = {}
    for n, trial in enumerate(trials):
        for test_id in () if trial.is_second or trial.why else trial.test_ids:
            first_of.setdefault(test_id, []).append(n)
    trial_by_number: dict[int, Imported] = dict(enumerate(trials))
    taken = set[int]()
    for n, second in enumerate(trials):
        among = (at for test_id in second.test_ids for at in first_of.get(test_id, ()) if at not in taken)
        if not second.is_second or (at := next(among, None)) is None:
            continue
        taken.add(at)  # an end reports a test once
        del trial_by_number[n]
        first = trial_by_number[at]
        raw = {name if name not in first.raw else f"second-{name}": data for name, data in second.raw.items()}
        left_out = (*first.left_out, *left_out_of("reports", Omission.SAME_TEST, [second.cell.mode]))
        measured = _with_arrivals(first.measured, second.measured)
        trial_by_number[at] = replace(first, measured=measured, raw={**first.raw, **raw}, left_out=left_out)
    return list(trial_by_number.values())


_MORE_LOST = 0.005
"""Difference of the losses of both ends above which datagrams were lost at the end of a test."""


def _with_arrivals(first: Measured, second: Measured) -> Measured:
    """Return the figures of the client's report with the arrivals of the server's, where these are fewer.

    The client of iperf3 before 3.11 computes goodput from the loss. That loss lacks the datagrams after the last one that arrived.
    """
    figures, doubts = dict(first.figures), list[Doubt]()
    for place, counted in second.figures.items():
        own = figures.get(place, {})
        known = {"goodput_bps", "loss_ratio"} <= own.keys() & counted.keys()
        if known and counted["loss_ratio"] > own["loss_ratio"] + _MORE_LOST and counted["goodput_bps"] < own["goodput_bps"]:
            figures[place] = {**own, "goodput_bps": counted["goodput_bps"], "loss_ratio": counted["loss_ratio"]}
            why = "datagrams were lost at the end of the test: goodput is what the receiver counted, the loss lacks them"
            doubts.append(Doubt(DoubtKind.TOOL_INCOMPLETE, why, place))
    return replace(first, figures=figures, doubts=(*first.doubts, *doubts))


def distinguished(trials: Sequence[Imported]) -> list[Imported]:
    """Separate trials of a device with the same settings that differ in `apart`: add the difference to their cells.

    They are then not repeats. A value that all trials of a device share is not added, so devices at different addresses can be compared.
    """
    bare = [_with_said(trial.cell, without=trial.apart) for trial in trials]
    values: dict[tuple[str, str], set[str]] = {}
    for trial, cell in zip(trials, bare, strict=True):
        for name, value in trial.apart.items():
            values.setdefault((_asked(cell), name), set()).add(value)
    out = []
    for trial, cell in zip(trials, bare, strict=True):
        differ = {name: value for name, value in trial.apart.items() if len(values[_asked(cell), name]) > 1}
        out.append(replace(trial, cell=_with_said(cell, differ)) if differ else trial)
    return out


def _with_said(cell: Cell, more: Mapping[str, str] = MappingProxyType({}), *, without: Iterable[str] = ()) -> Cell:
    if not isinstance(cell.setting, ImportedSetting):
        return cell
    settings = {name: value for name, value in cell.setting.said.items() if name not in without} | dict(more)
    return cell.model_copy(update={"setting": cell.setting.model_copy(update={"said": settings})})


def _asked(cell: Cell) -> str:
    return cell.model_copy(update={"repeat": 1}).model_dump_json()


def repair_doubts(repairs: Sequence[str], about: str = LINK) -> tuple[Doubt, ...]:
    """Return the doubt that a file was incomplete; an empty tuple without repairs."""
    return (Doubt(DoubtKind.TOOL_INCOMPLETE, "; ".join(repairs), about),) if repairs else ()


def frame_words(trials: Iterable[Imported]) -> list[str]:
    """Return sentences on parts that were left out, with their count over all files, and on assumed units."""
    counts, details = Counter[tuple[str, Omission]](), dict[tuple[str, Omission], list[str]]()
    assumed = list[str]()
    for trial in trials:
        for one in trial.left_out:
            counts[one.what, one.why] += one.count
            details.setdefault((one.what, one.why), []).append(one.detail)
        assumed += [f"assumed: {one.field} is in {one.unit} ({one.why})" for one in trial.assumed]
    left_out = []
    for (what, why), count in counts.items():
        text = "; ".join(dict.fromkeys(filter(None, details[what, why])))[:_DETAIL]
        left_out.append(f"left out: {count} {what}, {why.value}{f': {text}' if text else ''}")
    return [*left_out, *dict.fromkeys(assumed)]


def moment(seconds: float | None) -> datetime | None:
    """Return the time of a number of seconds since the epoch; None for None and for an impossible time."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def moment_in(text: object) -> datetime | None:
    """Return the time of a text in ISO 8601; None for other text. A time without a zone counts as UTC."""
    try:
        instant = datetime.fromisoformat(str(text))
        return moment((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class StatedTestbed:
    """Testbed of imported figures, as its owner describes it."""

    text: bytes
    """Testbed file, unchanged."""
    resolved: Mapping[str, object]
    """Testbed.model_dump(mode="json")."""


def write_imported(
    runs: Path,
    name: str,
    trials: Sequence[Imported],
    *,
    command: Sequence[str],
    now: datetime,
    bed: Bed = "one",
    testbed: StatedTestbed | None = None,
) -> RunFolder:
    """Write a finished run under `runs`, called `name`. `bed` states whether all modes were in one testbed. Raises StoreError, OSError."""
    trials = distinguished(trials)
    cells = _repeats([trial.cell for trial in trials])
    run = RunFolder.create(
        runs,
        experiment=name,
        experiment_yaml=b"# Imported: there is no experiment file. The files that were read lie under trials/*/raw.\n",
        testbed_yaml=testbed.text if testbed else None,
        resolved={
            "experiment": {
                "name": name,
                "imported": True,
                "bed": bed,
                "order": "as-written",
                "factors": {"mode": list(dict.fromkeys(cell.mode for cell in cells))},
            },
            "testbed": dict(testbed.resolved) if testbed else {"name": "unknown (imported)"},
            "command": list(command),
        },
        plan={
            "imported": True,
            "trials": [{"number": n, "cell": cell.model_dump(mode="json"), "group": n} for n, cell in enumerate(cells, 1)],
        },
        now=now,
        sync=Sync.AT_END,
    )
    try:
        for number, (cell, trial) in enumerate(zip(cells, trials, strict=True), 1):
            files = {name: data if isinstance(data, bytes) else outside.read_given(data, IMPORT) for name, data in trial.raw.items()}
            run.write_trial(record_of(number, cell, trial, now), {**trial.measured.raw, **files})
        run.write_manifest()
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)  # no part of an import is kept; the imported files still exist
        raise
    return run


def _repeats(cells: Sequence[Cell]) -> list[Cell]:
    """Number equal cells as repeats of one another."""
    counts: Counter[str] = Counter()
    out = []
    for cell in cells:
        same = _asked(cell)
        counts[same] += 1
        out.append(cell.model_copy(update={"repeat": counts[same]}))
    return out


def record_of(number: int, cell: Cell, trial: Imported, now: datetime) -> TrialRecord:
    """Return the record of a trial. `cell` is its cell in the run."""
    measured = trial.measured
    return TrialRecord(
        trial=number,
        status="failed" if trial.why else "measured",
        why=trial.why,
        cell=cell,
        started=trial.started or now,
        ended=trial.ended or trial.started or now,
        ceilings=Figures({link: dict(of) for link, of in trial.ceilings.items()}),
        doubts=[DoubtRecord.of(d) for d in (Doubt(DoubtKind.IMPORTED), *measured.doubts)],
        **measured_fields(replace(measured, tables={**measured.tables, **trial.tables})),
    )
