"""Command `energy`: the watts of a device as a sum of terms, and those of loads that were not measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutlab.cli.terminal import say, say_words, table
from dutlab.errors import InputError
from dutlab.units import si

if TYPE_CHECKING:
    from dutlab.analysis.energy import DeviceLoad, Prediction, TermEstimate
    from dutlab.report.model.energy import ModeEnergy


@click.command()
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--predict", "predicted", metavar="LOAD", multiple=True,
              help="A load, as 'ports=4 rate=8kpps size=imix': its watts, with the interval for a measurement of it. "
                   "The rate is of all links and directions together.")  # fmt: skip
@click.option("--residuals", is_flag=True, help="Also list each phase with its watts and those by the model.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def energy(*, runs: Sequence[Path], predicted: Sequence[str], residuals: bool, as_json: bool) -> None:
    """\b
    Example:
      dutlab energy runs/*-energy-* --predict "ports=4 rate=8kpps size=imix"
    """
    from dutlab.analysis.energy import NoModel
    from dutlab.report.questions.energy import energy_of_runs, load_of

    loads = [(text, *load_of(text)) for text in predicted]
    modes = energy_of_runs(runs)
    unknown = [of.model for of in modes if isinstance(of.model, NoModel)]
    if len(unknown) == len(modes):
        raise InputError(f"cannot tell: {unknown[0].why}", remedy=unknown[0].remedy)
    labels = [of.label for of in modes]
    for text, _, mode in loads:
        if mode and mode not in labels:
            raise InputError(f"--predict {text!r}: no mode {mode}", remedy=f"write one of {', '.join(labels)}")
    predictions = [
        (of, text, _predict(of, text, load))
        for of in modes
        for text, load, mode in loads
        if mode in ("", of.label) and not isinstance(of.model, NoModel)
    ]
    if as_json:
        say(json.dumps({
            "schema_version": 1,
            "energy": [_mode_json(of) for of in modes],
            "predictions": [{"mode": of.label, "asked": text, **_prediction_json(p)} for of, text, p in predictions],
        }, indent=1))  # fmt: skip
    else:
        for of in modes:
            _say_mode(of, residuals=residuals)
        if predictions:
            _say_predictions(predictions)


def _predict(of: ModeEnergy, text: str, load: DeviceLoad) -> Prediction:
    from dutlab.analysis.energy import NoModel

    assert not isinstance(of.model, NoModel)  # noqa: S101 -- the caller has checked it
    try:
        return of.model.predict(load)
    except ValueError as error:
        raise InputError(f"--predict {text!r}: {error}", remedy="write it, as in ports=4 transceivers=4") from None


def _say_mode(of: ModeEnergy, *, residuals: bool) -> None:
    from dutlab.analysis.energy import NoModel
    from dutlab.report.model.energy import validity
    from dutlab.report.sections.energy import frame_rows, term_rows

    if isinstance(of.model, NoModel):
        say_words(f"{of.label}: cannot tell: {of.model.why}; {of.model.remedy}")
        return
    suffix = " (simulated)" if of.simulated else ""
    say(f"{of.label}{suffix}")
    for line in table(("term", "estimate", "95 % interval", ""), list(term_rows(of)), right={1, 2}):
        say(line)
    say()
    for line in table(("one more frame of", "takes", "95 % interval", ""), list(frame_rows(of)), right={1, 2}):
        say(line)
    say()
    if residuals:
        rows = [
            (
                p.name,
                "" if p.load.ports is None else f"{p.load.ports:g}",
                si(p.load.pps, "pps"),
                f"{p.watts:.2f}",
                f"{by:.2f}",
                f"{rest:+.2f}",
            )
            for p, by, rest in of.model.rows
        ]
        for line in table(("phase", "ports", "received", "measured, W", "model, W", "residual, W"), rows, right={1, 2, 3, 4, 5}):
            say(line)
        say()
    for words in validity(of):
        say_words(words)
    say()


def _say_predictions(predictions: Sequence[tuple[ModeEnergy, str, Prediction]]) -> None:
    from dutlab.report.model.energy import interval_text, quantity

    rows = [
        (of.label, text, "cannot tell" if p.watts is None else quantity(p.watts, "W", p.interval),
         "" if p.watts is None else interval_text(p.watts, "W", p.interval), "; ".join(filter(None, (p.why, *p.outside))))
        for of, text, p in predictions
    ]  # fmt: skip
    for line in table(("mode", "load", "watts", "95 % interval of one phase", "beware"), rows, right={2, 3}):
        say(line)


def _mode_json(of: ModeEnergy) -> dict[str, Any]:
    from dutlab.analysis.energy import NoModel

    common = {"mode": of.label, "meter": of.meter, "meter_error_w": of.meter_error_w, "simulated": of.simulated}
    if isinstance(of.model, NoModel):
        return {**common, "kind": "CANNOT_TELL", "why": of.model.why, "remedy": of.model.remedy}
    model = of.model
    seen = {name: model.seen(name) for name in ("ports", "transceivers", "pps", "bps", "size")}
    return {
        **common,
        "kind": "MODEL",
        "terms": [{"term": e.term.word, "unit": e.term.unit, **_estimate_json(e)} for e in model.estimates],
        "frames": [{"frame_size": name, "unit": "J", **_estimate_json(model.frame_joules(size))} for name, size in of.sizes.items()],
        "deviation_w": model.fit.deviation,
        "freedom": model.fit.freedom,
        "phases": [
            {"phase": p.name, "ports": p.load.ports, "transceivers": p.load.transceivers, "received_pps": p.load.pps,
             "received_bps": p.load.bps, "watts": p.watts, "model_watts": by, "residual_w": rest}
            for p, by, rest in model.rows
        ],
        "measured": {name: None if of_name is None else {"low": of_name[0], "high": of_name[1]} for name, of_name in seen.items()},
        "conditions": [{"name": c.name, "low": c.low, "high": c.high, "residuals_follow": c.follows} for c in model.conditions],
        "left_out": list(model.left_out),
    }  # fmt: skip


def _estimate_json(e: TermEstimate) -> dict[str, Any]:
    interval = None if e.interval is None else {"low": e.interval.low, "high": e.interval.high, "confidence": e.interval.confidence}
    return {"kind": "CANNOT_TELL" if e.value is None else "ESTIMATE", "value": e.value, "interval": interval, "why": e.why}


def _prediction_json(p: Prediction) -> dict[str, Any]:
    interval = None if p.interval is None else {"low": p.interval.low, "high": p.interval.high, "confidence": p.interval.confidence}
    kind = "CANNOT_TELL" if p.watts is None else "OUTSIDE" if p.outside else "PREDICTION"
    return {"kind": kind, "watts": p.watts, "interval": interval, "why": p.why, "outside": list(p.outside)}
