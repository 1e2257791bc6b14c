"""Options of measuring commands: confirmation of long runs, time limits and output format."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from dutlab.cli.quantities import DURATION
from dutlab.cli.terminal import answer, say, tell, terminal
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.cli.console import Console
    from dutlab.events import Event
    from dutlab.plan.plan import Plan
    from dutlab.report.model.run_report import RunReport
    from dutlab.runner.execution import RunOptions
    from dutlab.runner.progress import RunResult
    from dutlab.runner.run import Work
    from dutlab.spec.loader import LoadedExperiment

Form = Literal["text", "json", "json-lines"]
LONG_S = 3600.0
"""Expected duration, in seconds, above which a person at a terminal must confirm a run."""
SHARE_OF_TRIALS = 0.7
"""Share of the budget for trials; the rest is for the lab, the rig without the DUT, modes and the report."""


@dataclass(frozen=True)
class CommonOptions:
    """Options that every measuring command takes."""

    yes: bool = False
    budget_s: float | None = None
    form: Form = "text"
    wait_quiet_s: float = 0.0

    def console(self, name: str = "") -> Console:
        """Return the observer of events: lines on standard error, and JSON on standard output with --json-lines."""
        from dutlab.cli.console import Console

        return Console(name, also=_print_event if self.form == "json-lines" else None)

    def insist_on_time(self, plan: Plan) -> None:
        """Ask a person at a terminal to confirm a long run. Raises InputError if the person declines."""
        from dutlab.report.model.words import duration_words, plural

        if plan.estimate_s <= LONG_S or (self.budget_s is not None and self.budget_s <= LONG_S):
            return
        text = f"{plural(plan.cells, 'cell')}, {plural(len(plan.trials), 'trial')}: about {duration_words(plan.estimate_s)}"
        if self.yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
            tell(f"note: {text}; --budget TIME ends a command in time")
        elif not click.confirm(f"{text}. Begin?", err=True):
            raise InputError("nothing was measured", remedy="take fewer sizes, modes or repeats, a --scale, or give --budget TIME")

    def carry_out(self, given: LoadedExperiment, options: RunOptions) -> RunResult:
        """Run an experiment to its end or to the end of the budget. Raises as runner.run() does."""
        from dutlab.runner.run import Work

        return self.carry_out_work(Work.planned(given, unattended=options.unattended), options)

    def options(self, options: RunOptions) -> RunOptions:
        """Return `options` with this command's budget and wait."""
        return replace(options, budget_s=self.budget_s, wait_quiet_s=self.wait_quiet_s)

    def carry_out_work(self, work: Work, options: RunOptions, *, additions: Mapping[str, Any] | None = None) -> RunResult:
        """Carry out planned work."""
        from dutlab.cli.loop import run_in_order
        from dutlab.runner.run import carry_out_work

        self.insist_on_time(work.plan)
        return run_in_order(carry_out_work(work, self.options(options), self.console(), additions=additions))

    def in_time(self, kind: str, settings: Sequence[str], make: Callable[[Sequence[str]], LoadedExperiment]) -> LoadedExperiment:
        """Return the experiment that `make` makes of the settings. If the workload has a budget for each trial, set it to a share."""
        definition = make(settings)
        if self.budget_s is None or any(word.partition("=")[0].strip() == "budget" for word in settings):
            return definition
        from dutlab.plan.trials import make_plan
        from dutlab.spec.loader import testbed_of
        from dutlab.spec.workloads import model_of

        if "budget" not in model_of(kind).file_keys():
            return definition
        trials = len(make_plan(definition.experiment, testbed_of(definition)).trials)
        return make([*settings, f"budget={max(1, int(SHARE_OF_TRIALS * self.budget_s / trials))}s"])

    def finish(self, results: Sequence[RunResult]) -> None:
        """Write the report of each run, print the answers, and end the command with the worst exit status of the runs."""
        folders = [result.folder for result in results]
        reports = self.print_answers(folders)
        if len(folders) > 1 and self.form == "text":
            answer(f"Compare the runs:\n  dutlab compare {shlex.join(map(str, folders))}")
        click.get_current_context().exit(
            max(result.exit_status_of(answered=report.answered) for result, report in zip(results, reports, strict=True))
        )

    def print_answers(self, folders: Sequence[Path]) -> Sequence[RunReport]:
        """Write and return the reports of runs, and print the answer of each, or with --json all of their content."""
        from dutlab.cli.console import shown_meanwhile

        with shown_meanwhile("writing the report"):  # with thousands of trials it takes long
            from dutlab.report.pages.json_data import json_data
            from dutlab.report.write import report_finished

            reports = report_finished(folders)
        if self.form == "json":
            say(json_data(reports), nl=False)
        if self.form == "text":
            print_answers(folders, reports)
            for folder in folders:
                answer(f"report: {folder}/report/report.html")
        return reports


def print_answers(folders: Iterable[Path], reports: Sequence[RunReport]) -> None:
    """Print the answer of each run. Every command that measures or reads a run ends with this."""
    from dutlab.report.pages.terminal import terminal_answer

    width, colour = terminal()
    for folder, report in zip(folders, reports, strict=True):
        if len(reports) > 1:
            answer(f"{folder}:")
        for line in terminal_answer(report.answer, name=report.name, folder=shlex.quote(str(folder)), width=width, colour=colour):
            answer(line)


def _print_event(event: Event) -> None:
    """Print an event as JSON; ignore a closed pipe."""
    try:
        say(event.model_dump_json())
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_FORMS = (
    click.option("--json-lines", "as_lines", is_flag=True, help="Print events as JSON, a line each, as they happen."),
    click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, and nothing else on standard output."),
)
_TIMES = (
    click.option("--budget", "budget_s", type=DURATION, metavar="TIME", help="End the whole command after this, as in 10min.  [none]"),
    click.option(
        "--wait-quiet",
        "wait_quiet_s",
        type=DURATION,
        metavar="TIME",
        help="Wait at most this long until other programs of this machine are idle, as in 10min.  [do not wait]",
    ),
    click.option("-y", "--yes", is_flag=True, help="Begin a run of more than an hour without asking."),
)


def manner_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --yes, --budget, --wait-quiet, --json and --json-lines to `command`, which gets them as one Manner."""
    return _with_manner(command, (*_FORMS, *_TIMES))


def form_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add only --json and --json-lines."""
    return _with_manner(command, _FORMS)


def _with_manner(command: Callable[..., None], options: Sequence[Callable[..., Any]]) -> Callable[..., None]:
    @functools.wraps(command)
    def with_manner(**given: Any) -> None:  # noqa: ANN401 -- the options that click was given
        as_json, as_lines = given.pop("as_json"), given.pop("as_lines")
        if as_json and as_lines:
            raise click.UsageError("--json and --json-lines exclude one another")
        form: Form = "json-lines" if as_lines else "json" if as_json else "text"
        manner = CommonOptions(given.pop("yes", False), given.pop("budget_s", None), form, given.pop("wait_quiet_s", None) or 0.0)
        command(**given, manner=manner)

    for option in options:
        with_manner = option(with_manner)
    return with_manner
