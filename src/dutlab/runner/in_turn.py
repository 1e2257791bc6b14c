"""Several runs in turn: one block of each, then the next block of each. The order is random, drawn for every round.

Drift and other changes of the machines affect all runs equally. Since the order is random, the blocks of a round may be compared as
a pair (stats.rounds). Each run has its own folder, as if it had been cut and resumed after each block. Its stage is opened for a block and
closed after it, so runs may share hosts, and at most one stage is open when they are cut.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

from dutlab.errors import InputError
from dutlab.plan.trials import TURNS, Turns, blocks_of
from dutlab.runner.execution import Execution, RunOptions
from dutlab.runner.journal import Journal
from dutlab.runner.leasing import begun
from dutlab.runner.progress import Progress, RunResult
from dutlab.runner.run import Work, resumable_work
from dutlab.runner.run_process import TimeIsOver, within
from dutlab.store.cell_figures import key_of
from dutlab.store.names import run_name
from dutlab.store.run_folder import RunFolder

Watch = Callable[[int], Progress]
"""Function from the place of a run among the runs in turn to the observer of its events."""


class NoFurtherRounds(TimeIsOver):
    """End of runs in turn, since no further round is needed."""

    what = "enough was measured"


async def run_in_turn(
    works: Sequence[Work], options: RunOptions, watch: Watch, *, enough: Callable[[Sequence[Path]], bool] = lambda _: False
) -> list[RunResult]:
    """Make a folder for each of two or more works, and carry all of them out. The seed of the first work sets the order of turns.

    `enough` is called after each round with the folders of the runs; if it returns True, all runs end.

    If their hosts are in use before the first trial, all folders are removed; otherwise all are kept. Raises as run() does.
    """
    now, mark, seed = datetime.now(UTC), secrets.token_hex(2), works[0].plan.seed
    tokens = [f"{mark}-{place}" for place in range(1, len(works) + 1)]
    names = tuple(run_name(work.experiment.name, now, token) for work, token in zip(works, tokens, strict=True))
    turns = [Turns(runs=names, place=place, seed=seed) for place in range(len(works))]
    folders = [
        work.new_folder(options, now=now, token=token, additions={TURNS: own.model_dump(mode="json")})
        for work, token, own in zip(works, tokens, turns, strict=True)
    ]
    with begun(folders) as journals:
        going = [work.started(folders[n], journals[n], watch(n)) for n, work in enumerate(works)]
        if not _shared_cells(works):
            going[0].events.note("these runs have no cell in common: `dutlab compare` will have nothing to compare")
        return await _run_all(going, turns[0], [options] * len(going), enough)


async def resume_in_turn(paths: Sequence[Path], options: Sequence[RunOptions], watch: Watch) -> list[RunResult]:
    """Resume runs that took turns: undo the changes of each, then run the trials without a record in turn. `options` has one for each run.

    Raises as resume() does, and InputError if the runs were not begun in turn or some of them are missing.
    """
    opened = [resumable_work(path, trusted=of.trusted) for path, of in zip(paths, options, strict=True)]
    turns = [Turns.of(folder.resolved) for folder, _ in opened]
    first = turns[0]
    if first is None or {None if t is None else (t.runs, t.seed) for t in turns} != {(first.runs, first.seed)}:
        raise InputError("these runs were not begun in turn with one another", remedy="resume each separately")
    places = [t.place for t in turns if t is not None]
    if sorted(places) != list(range(len(first.runs))):
        raise InputError(
            f"{len(first.runs)} runs took turns, {', '.join(first.runs)}", remedy="name each of them once, or resume one separately"
        )
    in_place = sorted(zip(places, opened, options, strict=True), key=lambda of: of[0])
    with ExitStack() as closing:
        going = list[Execution]()
        for place, (folder, work), _ in in_place:
            journal = Journal(folder.journal)
            closing.callback(journal.close)
            going.append(await work.resumed(folder, journal, watch(place)))
        return await _run_all(going, first, [of for _, _, of in in_place], lambda _: False)


def resumed_alone_warning(folder: RunFolder) -> str | None:
    """Return a warning for a run in turn that continues without the others; None if it did not take turns."""
    turns = Turns.of(folder.resolved)
    if turns is None:
        return None
    others = " and ".join(name for place, name in enumerate(turns.runs) if place != turns.place)
    together = " ".join(str(folder.path.parent / name) for name in turns.runs)
    return f"it continues alone, outside of the rounds that it shared with {others}; `dutlab resume {together}` continues them in turn"


async def _run_all(
    going: Sequence[Execution], turns: Turns, options: Sequence[RunOptions], enough: Callable[[Sequence[Path]], bool]
) -> list[RunResult]:
    """Carry out the runs round by round, in the random order of each round. A run with fewer blocks ends earlier.

    One budget covers all runs together. Trials left after it can be resumed in turn.
    """
    blocks = [blocks_of(run.plan) for run in going]
    results: dict[int, RunResult] = {}
    for place, run in enumerate(going):
        run.begin()
        if not run.records.left():
            results[place] = run.result()
    try:
        async with within(options[0].budget_s) as ends:
            for number in range(max(map(len, blocks))):
                for place in turns.order(number + 1):
                    run = going[place]
                    if place in results or number >= len(blocks[place]) or not (left := run.records.left(blocks[place][number])):
                        continue
                    run.journal.write("turn-began", round=number + 1)
                    await run.measure(left, options[place], ends=ends)
                    run.journal.write("turn-ended", round=number + 1)
                    if not run.records.left():
                        run.journal.write("run-finished")
                        results[place] = run.result()
                if len(results) < len(going):
                    _insist_on_more(enough([run.folder.path for run in going]))
    except BaseException as error:
        _say_cut(going, results, error)
        if not isinstance(error, TimeIsOver):
            raise
    return [results.get(place) or run.partial() for place, run in enumerate(going)]


def _insist_on_more(is_enough: bool) -> None:  # noqa: FBT001 -- an answer
    """Raise Enough if `is_enough`."""
    if is_enough:
        raise NoFurtherRounds


def _say_cut(going: Sequence[Execution], results: Collection[int], error: BaseException) -> None:
    """Report the cut in each run without a result."""
    together = " ".join(str(run.folder.path) for run in going)
    for place, run in enumerate(going):
        if place not in results:
            run.say_cut(error, f"`dutlab resume {together}` continues all of them in turn")


def _shared_cells(works: Sequence[Work]) -> bool:
    """Return whether any two plans have a cell in common."""
    cells = [{key_of(trial.cell) for trial in work.plan.trials} for work in works]
    return any(a & b for a, b in combinations(cells, 2))
