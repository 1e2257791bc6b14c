"""A common importer for files of many tools: a form describes the place of the results, a table the meaning of their fields.

A form (`ResultForm`) converts a file, JSON or not, into objects, and finds the results in each. Every result is a trial. A `TableField`
has the path of a field in a result and its meaning: a figure with its factor, or a setting of the test. Numbers without a field in the
table are counted as left out. A path is dotted. `*` matches any key, or any index of a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from dutlab.doubts import Doubt
from dutlab.errors import InputError
from dutlab.interop.imported_run import (
    LINK,
    AssumedUnit,
    Imported,
    ImportOptions,
    LeftOut,
    Omission,
    imported_cell,
    left_out_of,
    moment,
    moment_in,
    repair_doubts,
)
from dutlab.methods.ports import Measured, Table
from dutlab.spec.workloads.setting import Value
from dutlab.tools.json_text import UnreadableError, as_number, read_cut_object

_MOST_RESULTS = 10_000
"""Most results of a file. A campaign has some hundreds."""
_MOST_LETTERS = 200
"""Most characters of a setting that is text."""
Document = Mapping[str, Any]


@dataclass(frozen=True)
class TableField:
    """A field of a result, with its meaning: a figure or a setting."""

    path: str
    figure: str = ""
    """Our name of the figure, with `{}` for each key that matches a `*` of the path; empty for a setting."""
    setting: str = ""
    """Our name of the setting; empty for a figure."""
    place: str = ""
    """Subject of the figure; empty for the whole test."""
    scale: float = 1.0
    """Factor that converts the value to our unit."""
    units: Mapping[str, float] = field(default_factory=dict)
    """Factors by unit, instead of `scale`. The field `unit_at` of the result names the unit; with an unknown unit the field is left out."""
    unit_at: str = ""


@dataclass(frozen=True)
class Derived:
    """Values of a result that are computed from several fields."""

    figures: Mapping[str, float] = field(default_factory=dict)
    """Figures that are added to those of the table, or with `replaces` replace them."""
    replaces: bool = False
    settings: Mapping[str, Value] = field(default_factory=dict)
    doubts: Sequence[Doubt] = ()
    left_out: Sequence[LeftOut] = ()
    notes: Sequence[str] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)
    why: str = ""
    """Reason for a missing result, as the tool states it."""
    place: str = LINK
    """Subject of the figures of the whole test; BOTH if they are the sum of both directions."""
    places: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Figures of single directions."""
    datagram_bytes: float | None = None


def _json(data: bytes) -> tuple[Sequence[Document], list[str]]:
    document, repairs = read_cut_object(data)
    return [document], repairs


@dataclass(frozen=True)
class ResultForm:
    """Form of the files of a tool."""

    tool: str
    workload: str
    fields: Sequence[TableField]
    holds: Callable[[Document], bool]
    """Function that returns True for an object of this form, False for one of another tool."""
    results: str = ""
    """Path of each result; empty for the object itself."""
    keys: Sequence[str] = ()
    """Names of the settings that the keys at each `*` of `results` are."""
    of_all: Sequence[TableField] = ()
    """Fields of the object that contains the results."""
    documents: Callable[[bytes], tuple[Sequence[Document], list[str]]] = _json
    """Function that returns the objects of a file, and the repairs that it needed. Raises UnreadableError."""
    derive: Callable[[Document, Mapping[str, float]], Derived] = lambda _result, _figures: Derived()
    assumed: Sequence[AssumedUnit] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about the tool: name → path in the object that contains the results."""
    names_all: bool = False
    """True if the table has all fields of the objects. Then no number counts as left out."""
    started: str = ""
    """Path of the start time of the test, in ISO 8601 or seconds since the epoch: in the result, else in the object."""


def reader(remedy: str, *forms: ResultForm) -> Callable[[str, bytes, ImportOptions], list[Imported]]:
    """Return an importer for `forms`. `remedy` is the advice for a file of no such form: which file to import."""

    def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
        trials, repairs, fault = list[Imported](), list[str](), ""
        for documents in dict.fromkeys(form.documents for form in forms):
            try:
                objects, repairs = documents(data)
            except UnreadableError as error:
                fault = fault or str(error)
                continue
            ours = [form for form in forms if form.documents is documents]
            trials = [trial for one in objects for form in ours if form.holds(one) for trial in _trials(form, name, one)]
            if trials:
                break
        if not trials or len(trials) > _MOST_RESULTS:
            what = f"has {len(trials)} results" if trials else fault or f"holds no result of {forms[0].tool}"
            raise InputError(f"{name}: {what}", remedy=remedy)
        doubts = (*trials[0].measured.doubts, *repair_doubts(repairs))
        return [replace(trials[0], measured=replace(trials[0].measured, doubts=doubts)), *trials[1:]]

    return imported


def _trials(form: ResultForm, name: str, document: Document) -> Iterator[Imported]:
    of_all = _taken(form.of_all, document)
    facts = {name: str(value)[:_MOST_LETTERS] for name, path in form.facts.items() for _, value in found_at(document, path)}
    for keys, result in found_at(document, form.results):
        if not isinstance(result, Mapping):
            continue
        taken = _taken(form.fields, result)
        places, settings = _figures(taken)
        figures = places.pop("", {})
        derived = form.derive(result, figures)
        figures = dict(derived.figures) if derived.replaces else {**figures, **derived.figures}
        params = {**dict(zip(form.keys, map(_setting, keys), strict=False)), **_figures(of_all)[1], **settings, **derived.settings}
        if not figures and not places and not derived.why:
            continue
        yield Imported(
            imported_cell(PurePath(name).stem, workload=form.workload, tool=form.tool, params={k: v for k, v in params.items() if v != ""}),
            Measured(
                figures={derived.place: figures, **places, **derived.places},
                doubts=tuple(derived.doubts),
                notes=derived.notes,
                facts=facts,
                tables=derived.tables,
            ),
            started=_moment(next((v for of in (result, document) for _, v in found_at(of, form.started)), None)) if form.started else None,
            why=derived.why,
            datagram_bytes=derived.datagram_bytes,
            left_out=(
                *derived.left_out,
                *left_out_of("numbers", Omission.UNREADABLE, taken.odd),
                *(() if form.names_all else _unread(result, taken.seen)),
            ),
            assumed=form.assumed,
        )


def found_at(document: object, path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value at a path, with the keys that match its `*`."""
    yield from ((keys, value) for keys, _, value in _walk(document, path.split(".") if path else [], (), ()))


def number_at(document: object, path: str) -> float | None:
    """Return the first number at a path; None without one."""
    return next((number for _, value in found_at(document, path) if (number := as_number(value)) is not None), None)


def _walk(
    here: object, path: Sequence[str], keys: tuple[str, ...], at: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], Any]]:
    if not path:
        yield keys, at, here
        return
    inside = here if isinstance(here, Mapping) else {str(n): of for n, of in enumerate(here)} if isinstance(here, list) else {}
    if path[0] == "*":
        for key, value in inside.items():
            yield from _walk(value, path[1:], (*keys, str(key)), (*at, str(key)))
    elif path[0] in inside:
        yield from _walk(inside[path[0]], path[1:], keys, (*at, path[0]))


@dataclass
class _Taken:
    fields: list[tuple[TableField, tuple[str, ...], Any, float]] = field(default_factory=list)
    """Fields with their keys, value and factor."""
    seen: set[tuple[str, ...]] = field(default_factory=set)
    """Places of all values that the table has a field for."""
    odd: list[str] = field(default_factory=list)
    """Fields with an unknown unit."""


def _taken(fields: Sequence[TableField], of: Document) -> _Taken:
    taken = _Taken()
    for one in fields:
        scale: float | None = one.scale
        unit = next((str(value) for _, value in found_at(of, one.unit_at)), "") if one.units else ""
        if unit:
            scale = one.units.get(unit)
        for keys, at, value in _walk(of, one.path.split("."), (), ()):
            taken.seen.add(at)
            if scale is None:
                taken.odd.append(f"{one.path} in {unit[:20]!r}")
            else:
                taken.fields.append((one, keys, value, scale))
    return taken


def _figures(taken: _Taken) -> tuple[dict[str, dict[str, float]], dict[str, Value]]:
    """Return the figures by place, and the settings. Figures that are not numbers are left out."""
    figures, settings = dict[str, dict[str, float]](), dict[str, Value]()
    for one, keys, value, scale in taken.fields:
        if one.setting:
            settings[one.setting] = _setting(value)
        elif (number := as_number(value)) is not None:
            figures.setdefault(one.place, {})[one.figure.format(*keys)] = number * scale
    return figures, settings


def _setting(value: object) -> Value:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and value.isdecimal() and len(value) < len(str(2**53)):
        return int(value)
    return value if isinstance(value, int | float) and as_number(value) is not None else str(value)[:_MOST_LETTERS]


def _unread(result: Document, seen: set[tuple[str, ...]]) -> Iterator[LeftOut]:
    """Yield the count of numbers without a field, by the first key of their path."""
    counts: Counter[str] = Counter()
    stack: list[tuple[tuple[str, ...], Any]] = [((), result)]
    while stack:
        at, here = stack.pop()
        inside = here.items() if isinstance(here, Mapping) else enumerate(here) if isinstance(here, list) else ()
        stack += [((*at, str(key)), value) for key, value in inside]
        if at and at not in seen and isinstance(here, int | float) and not isinstance(here, bool):
            counts[at[0]] += 1
    if counts:
        yield LeftOut("numbers", Omission.NO_MEASURE, counts.total(), ", ".join(f"{key} ({n})" for key, n in counts.most_common(12)))


def _moment(value: object) -> Any:  # noqa: ANN401 -- a datetime or None
    seconds = as_number(value)
    return moment(seconds) if seconds is not None else moment_in(value)
