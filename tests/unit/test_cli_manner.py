"""How measuring commands talk: the question before hours, the budget, and JSON for programs, also of errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from jsonschema import validate

from dutlab.cli.main import dutlab, main
from dutlab.cli.manner import CommonOptions
from dutlab.errors import InputError
from dutlab.plan.plan import Plan
from fake_run import Wanted, build
from processes import LIMIT_S

CONTRACTS = Path(__file__).parents[2] / "contracts"
LONG = Plan(experiment="e", testbed="t", order="as-written", seed=1, estimate_s=151_680.0, trials=())
Ended = tuple[int, str, str]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Ended]:
    """Runs the command in an empty folder: status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["dutlab", *argv])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code if isinstance(end.value.code, int) else 0, said.out, said.err

    return run


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, *, agrees: bool) -> list[str]:
    """Standard input and error are a terminal, where somebody answers; what was asked."""
    asked = list[str]()

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return agrees

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", confirm)
    return asked


def test_a_run_of_hours_is_begun_only_when_somebody_at_the_terminal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = at_a_terminal(monkeypatch, agrees=False)
    with pytest.raises(InputError, match="nothing was measured"):
        CommonOptions().insist_on_time(LONG)
    assert len(asked) == 1 and "42 h 08 min" in asked[0]
    at_a_terminal(monkeypatch, agrees=True)
    CommonOptions().insist_on_time(LONG)


def test_nobody_is_asked_with_yes_with_a_short_budget_or_of_an_hour_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = at_a_terminal(monkeypatch, agrees=False)
    CommonOptions(yes=True).insist_on_time(LONG)
    CommonOptions(budget_s=600.0).insist_on_time(LONG)
    CommonOptions().insist_on_time(LONG.model_copy(update={"estimate_s": 3600.0}))
    assert asked == []
    with pytest.raises(InputError):
        CommonOptions(budget_s=7200.0).insist_on_time(LONG)


def test_a_pipe_goes_on_and_says_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    CommonOptions().insist_on_time(LONG)
    said = capsys.readouterr()
    assert said.out == "" and "42 h 08 min" in said.err


@pytest.mark.parametrize("form", ["--json", "--json-lines"])
@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (("search", "--lab", "no-such-lab"), 2, "no-such-lab"),
        (("measure", "swep"), 2, "unknown workload"),
        (("search", "--preset", "quick", "--budget", "soon"), 2, "soon"),
        (("run", "absent.yaml"), 2, "absent.yaml"),
        (("resume", "absent"), 2, "absent"),
    ],
)
def test_an_error_is_json_too_with_the_same_exit_status(ended, form, argv, status, words) -> None:
    plain = ended(*argv)
    assert plain[0] == status and plain[1] == ""
    code, out, err = ended(*argv, form)
    assert code == status and err == plain[2]
    (line,) = out.splitlines()
    told = json.loads(line)
    validate(told, json.loads((CONTRACTS / "error.schema.json").read_text()))
    assert words in told["error"] + told["remedy"] and told["exit_status"] == status


@pytest.mark.parametrize("argv", [("demo", "--json", "--json-lines"), ("demo", "storage", "--quick")])
def test_what_does_not_go_together_is_refused(ended: Callable[..., Ended], argv: tuple[str, ...]) -> None:
    assert ended(*argv)[0] == 2


def test_an_imported_run_is_reported_as_json_on_standard_output_and_has_no_plots(ended: Callable[..., Ended]) -> None:
    figures = Path(__file__).parents[2] / "examples" / "published" / "era-drive-spec.csv"
    code, out, err = ended("import", "figures", str(figures), "--json")
    assert code == 0 and "1 imported" in err
    told = json.loads(out)
    validate(told, json.loads((CONTRACTS / "report.schema.json").read_text()))
    assert told["runs"][0]["answer"]["fast"]
    (run,) = Path("runs").iterdir()
    assert ended("report", str(run), "--format", "csv", "-o", "-")[1] == (run / "report" / "report.csv").read_bytes().decode()
    assert ended("report", str(run), "-o", "-")[0] == 2
    answered = ended("report", str(run), "--format", "md")[1].splitlines()
    assert any(line.startswith("How fast") for line in answered) and answered[-1].endswith("report.md")
    code, out, err = ended("plot", str(run))
    assert code == 0 and out == "" and err.startswith("no plots: ")


@pytest.mark.parametrize("name", ["demo", "run", "resume", "repeat", "test", "measure", "search", "loadtest", "matrix", "rfc2544"])
def test_every_measuring_command_takes_the_same_four_options(name: str) -> None:
    command = dutlab.get_command(click.Context(dutlab), name)
    assert command is not None
    assert {"yes", "budget_s", "as_json", "as_lines"} <= {param.name for param in command.params}


def test_a_plan_is_a_summary_in_80_columns_and_lists_its_trials_when_asked(ended: Callable[..., Ended]) -> None:
    file = str(Path(__file__).parents[2] / "examples" / "firewall-modes" / "experiment.yaml")
    code, out, _ = ended("plan", file)
    lines = out.splitlines()
    assert code == 0 and max(map(len, lines)) <= 80 and lines[0].startswith("44 cells, 352 trials in 32 ")
    assert len(lines) < 40 and "sweep:" in out and "iperf3:" in out
    every = ended("plan", file, "--trials")[1].splitlines()
    assert sum(1 for line in every if line[:5].strip().isdigit() and "#" in line) == 352


def _leaves(command: click.Command, path: tuple[str, ...], context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _leaves(found, (*path, name), context)


def _has_json(command: click.Command) -> bool:
    return any("--json" in p.opts or ("--format" in p.opts and "json" in getattr(p.type, "choices", ())) for p in command.params)


def test_every_command_that_measures_or_reads_has_json() -> None:
    without = [name for name, command in _leaves(dutlab, (), click.Context(dutlab)) if not _has_json(command)]
    acts = {
        "lab up", "lab down", "lab shell", "conductor convert",
        "campaign keep", "campaign fetch", "campaign place", "campaign scheduler", "campaign worker",
    }  # they change something, or write files  # fmt: skip
    assert set(without) == acts | {"schema"}  # which is JSON anyway


def test_what_reading_commands_print_is_json_alone(ended: Callable[..., Ended], tmp_path: Path) -> None:
    one, other = (str(build(tmp_path / name, Wanted(seconds=2, cores=0, sizes=(64,)))) for name in ("a", "b"))
    for words in (
        ["runs", "--runs", str(tmp_path / "a"), "--json"],
        ["compare", one, other, "--json"],
        ["check", other, "--baseline", one, "--json"],
        ["effects", one, "--json"],
        ["cost", one, "--json"],
        ["rescore", one, "--json"],
        ["history", "firewall-modes", "--runs", str(tmp_path / "a"), "--json"],
        ["query", "SELECT name FROM runs", "--runs", str(tmp_path / "a"), "--json"],
        ["report", one, "--json"],
        ["plot", one, "--json"],
        ["claims", one, "--json"],
        ["note", one, "a caveat", "--json"],
        ["export", "csv", one, "-o", str(tmp_path / "x.csv"), "--json"],
        ["undo", one, "--json"],
    ):
        code, out, err = ended(*words)
        assert code == (2 if words[0] == "check" else 0), (words, out, err)  # too few repeats for a check
        told = json.loads(out)
        if words[0] == "check":
            assert (told["kind"], told["seen"]) == ("CANNOT_TELL", None)
        if "written" in told:
            assert told["written"] and all(Path(path).is_file() for path in told["written"]), words
        if words[0] == "claims":
            code, out, _ = ended("verify-claim", *told["written"], "--json")
            states = {claim["state"] for claim in json.loads(out)["claims"]}
            assert (code == 0) is (states == {"holds"}), states
        if words[0] == "undo":
            assert (told["changes"], told["lab"], told["unreset"]) == (0, "", [])
        if words[0] == "report":
            validate(told, json.loads((CONTRACTS / "report.schema.json").read_text()))


def test_a_command_that_asks_the_database_ends_without_a_complaint_of_it(python: str, python_env: dict[str, str], tmp_path: Path) -> None:
    build(tmp_path / "runs", Wanted(seconds=2, cores=0, sizes=(64,)))
    argv = [python, "-m", "dutlab", "query", "SELECT count(*) AS n FROM samples", "--runs", str(tmp_path / "runs")]
    done = subprocess.run(argv, env=python_env, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
