"""Output of `dutlab limits`: ceilings with their formulas and sources, and ladders."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from dutlab.cli.terminal import say, say_words, table
from dutlab.errors import InputError
from dutlab.units import si

if TYPE_CHECKING:
    from dutlab.physics.ceilings.ceiling import Ceiling
    from dutlab.physics.ceilings.ladder import Ladder

T = TypeVar("T")


def computed(make: Callable[[], T]) -> T:
    """Return the result of `make`. A ValueError becomes an InputError."""
    try:
        return make()
    except ValueError as error:
        raise InputError(str(error)) from None


def say_ceilings(ceilings: Sequence[Ceiling], *, as_json: bool) -> None:
    """Print ceilings as a table with its sources, or as JSON."""
    if as_json:
        say(json.dumps({"schema_version": 1, "ceilings": [asdict(c) for c in ceilings]}, indent=1, ensure_ascii=False))
        return
    sources = list(dict.fromkeys(c.source for c in ceilings))
    before = ["", *(c.about for c in ceilings)]
    rows = [
        ("" if c.about == last else c.about, c.what, c.words, f"= {c.formula}", f"[{sources.index(c.source) + 1}]")
        for c, last in zip(ceilings, before, strict=False)
    ]
    for line in table(("of", "figure", "at most", "formula", "source"), rows, right={2}):
        say(line)
    say()
    for number, source in enumerate(sources, 1):
        say_words(f"[{number}] {source}")


def say_ladder(ladder: Ladder, measured: float | None, *, as_json: bool) -> None:
    """Print each rung with its share of the drives' rating, and the lowest rung."""
    if as_json:
        rungs = [{**asdict(rung), "bytes_per_s": rung.iops * ladder.block, "share": ladder.share(rung.iops)} for rung in ladder.rungs]
        say(
            json.dumps(
                {"schema_version": 1, "rungs": rungs, "binds": ladder.binds.name, "measured_iops": measured}, indent=1, ensure_ascii=False
            )
        )
        return
    rows = [
        (r.name, si(r.iops, "IOPS", 5), si(r.iops * ladder.block, "B/s", 4), f"{ladder.share(r.iops):.1%}", f"= {r.formula}")
        for r in ladder.rungs
    ]
    if measured is not None:
        rows.append(("measured", si(measured, "IOPS", 5), si(measured * ladder.block, "B/s", 4), f"{ladder.share(measured):.1%}", ""))
    for line in table(("rung", "at most", "bytes", "of the drives", ""), rows, right={1, 2, 3}):
        say(line)
    say()
    binds = ladder.binds
    say_words(f"The lowest rung: {binds.name}{'' if measured is None else f'; measured is {measured / binds.iops:.1%} of it'}.")
