"""Commands `effects` and `cost`: effects of factors, and cost of modes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.compare import BETTER, sides_of
from dutlab.cli.quantities import AMOUNT
from dutlab.cli.terminal import say, say_words, table
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.analysis.energy import TermEstimate

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")


@click.command()
@click.argument("source", metavar="RUN|FILE.csv", type=click.Path(path_type=Path, exists=True))
@click.option("--figure", metavar="NAME", help="Figure of a run, or column of a file.  [received_pps, or the run's main figure]")
@BETTER
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Draw them: FILE.svg or FILE.png.")
@_JSON
def effects(*, source: Path, figure: str | None, betters: tuple[str, ...], plot: Path | None, as_json: bool) -> None:
    """\b
    Example:
      dutlab effects apu2-openbsd-factors.csv --figure mbytes_per_s --plot effects.svg
    """
    from dutlab.analysis.factors import analyse
    from dutlab.report.model.contests import CompareRequest
    from dutlab.report.questions.cells import cells_of_table, effects_of_run, judged_by
    from dutlab.report.questions.sides import open_run
    from dutlab.stats.rank import p_words

    asked = CompareRequest(better=sides_of(betters))
    try:
        if source.is_dir():
            run = open_run(source)
            figure = figure or judged_by(run)
            analysis = effects_of_run(run, figure, asked)
        else:
            analysis = analyse(cells_of_table(source, figure))
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None
    better = asked.side_of(figure or "")
    if plot is not None:
        from dutlab.report.questions.ratio_rows import effects_plot
        from dutlab.report.write import write_image

        write_image(replace(effects_plot(analysis, figure or "", better), source=f"{source.resolve().name} · dutlab"), plot)
    if as_json:
        plain = {"schema_version": 1, "figure": figure, **asdict(analysis), "sentences": analysis.sentences}
        say(json.dumps(plain, indent=1, default=lambda of: of.value))
        return
    if figure:
        say_words(f"effects on {figure}")
    rows = []
    for e in analysis.effects:
        change, of = f"{' + '.join(e.before)} → {' + '.join(e.after)}", e.sure
        interval = f"{of.interval.low:.3f} to {of.interval.high:.3f}" if of.interval else "none"
        known = "not tested" if of.p is None else p_words(of.p) if of.proven else f"not proven, {p_words(of.p)}"
        rows.append((e.name, change, f"{e.ratio:.3f}", interval, known, ", ".join([*e.only_at, *(f"or {m}" for m in e.mixed_with)])))
    for line in table(("factor", "change", "ratio", "95 % interval", "proven", "seen only at"), rows, right={2}):
        say(line)
    say()
    for sentence in analysis.sentences:
        say_words(sentence)
    say_words(analysis.rests_on)


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--barest", metavar="MODE", help="The baseline mode.  [the fastest]")
@click.option("--hertz", type=AMOUNT, help="The processor's frequency, as in 2.2G; adds costs in cycles.")
@click.option("--exact", "counted", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Run of exact with the instructions a frame of the same mode and size.  [the processor's counters]")  # fmt: skip
@click.option("--energy", "powered", metavar="RUN", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Run of soak-power with the joules a frame of the same mode.  [this run]")  # fmt: skip
@_JSON
def cost(*, run: Path, barest: str | None, hertz: float | None, counted: Path | None, powered: tuple[Path, ...], as_json: bool) -> None:
    """\b
    Example:
      dutlab cost runs/2026-11-21T0801Z-firewall-modes-3f2a --hertz 2.2G
    """
    from dutlab.analysis.cost import costs
    from dutlab.report.model.words import size_order
    from dutlab.report.questions.cells import instructions_by_mode, rates_by_mode
    from dutlab.report.questions.energy import frame_energy
    from dutlab.report.questions.sides import open_run

    measured = open_run(run)
    by_place, notes = rates_by_mode(measured), list[str]()
    instructions = instructions_by_mode(measured if counted is None else open_run(counted))
    for place, rates in by_place.items():
        for mode in [mode for mode, values in rates.items() if min(values) <= 0]:
            values = rates.pop(mode)
            notes.append(
                f"{mode}, {' '.join(filter(None, place))}: no cost, {sum(v <= 0 for v in values)} of {len(values)} repeats received nothing"
            )
    try:
        costs_by_place = {place: costs(rates, barest=barest, hertz=hertz) for place, rates in by_place.items()}
    except ValueError as error:
        raise InputError(f"{run}: {error}") from None
    ordered = sorted(costs_by_place.items(), key=lambda item: (item[0][1], size_order(item[0][0])))
    joules = frame_energy(powered or (run,), {(c.mode, size) for (size, _), of in ordered for c in of})
    if as_json:
        records = [
            {"frame_size": size, "links": links, **asdict(c), "instructions": instructions.get((c.mode, size)),
             "energy_j": (e := joules.get((c.mode, size))) and e.value, "energy_interval": e and e.interval and asdict(e.interval)}
            for (size, links), of in ordered
            for c in of
        ]  # fmt: skip
        say(json.dumps({"schema_version": 1, "costs": records, "left_out": notes}, indent=1))
        return
    rows = [
        (size, links, c.mode, f"{c.ns:.1f}", f"{c.added_ns:+.1f}",
         f"{c.interval.low:+.1f} to {c.interval.high:+.1f}" if c.interval else "" if c.added_ns == 0 else "none",
         *([f"{c.cycles:+.0f}"] if c.cycles is not None else []),
         *([f"{of_frame:,.1f}" if (of_frame := instructions.get((c.mode, size))) is not None else ""] if instructions else []),
         *(_joules(joules.get((c.mode, size))) if joules else ()))
        for (size, links), of in ordered for c in of
    ]  # fmt: skip
    heads = ("frame size", "link", "mode", "ns a packet", "added ns", "95 % interval", *(("cycles",) if hertz else ()),
             *(("instructions a frame",) if instructions else ()),
             *(("energy a frame", "95 % interval of it") if joules else ()))  # fmt: skip
    for line in table(heads, rows, right={3, 4, 6, 7}):
        say(line)
    if any(c.interval is None and c.added_ns for of in costs_by_place.values() for c in of):
        notes.append("no interval: fewer than 4 repeats")
    for note in notes:
        say_words(note)
    if joules:
        say_words("The energy of a frame is that of one more frame, without the watts that the box takes anyway; see `dutlab energy`.")
    say_words("Costs of the whole box at the received rate; where a link or the generator was the limit, a mode costs less.")


def _joules(estimate: TermEstimate | None) -> tuple[str, str]:
    from dutlab.report.model.energy import interval_text, quantity

    if estimate is None or estimate.value is None:
        return "", ""
    return quantity(estimate.value, "J", estimate.interval), interval_text(estimate.value, "J", estimate.interval)
