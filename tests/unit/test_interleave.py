"""Runs that take turns: the order of rounds, the blocks of a plan, and what is refused before anything is touched."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from dutlab.cli.main import main
from dutlab.errors import InputError
from dutlab.plan.trials import TURNS, Turns
from dutlab.runner.execution import RunOptions
from dutlab.runner.in_turn import resume_in_turn, resumed_alone_warning
from dutlab.runner.run import Work
from dutlab.spec.loader import given_experiment
from dutlab.store.run_folder import RunFolder


def test_chance_draws_each_round_anew_and_the_seed_draws_it_again():
    turns = [Turns(runs=("a", "b", "c"), place=place, seed=3) for place in range(3)]
    rounds = [tuple(turns[0].order(n)) for n in range(1, 601)]
    assert rounds == [tuple(turns[2].order(n)) for n in range(1, 601)]
    counted = Counter(rounds)
    assert set(map(len, counted)) == {3}
    assert len(counted) == 6
    assert min(counted.values()) > 60  # 100 expected, standard deviation 9
    assert rounds != [tuple(turns[0].model_copy(update={"seed": 4}).order(n)) for n in range(1, 601)]


def test_runs_are_beside_one_another_where_they_took_the_same_turns():
    a, b = (Turns(runs=("a", "b"), place=place, seed=3) for place in range(2))
    assert a.is_interleaved_with(b)
    assert not a.is_interleaved_with(a)
    assert not a.is_interleaved_with(b.model_copy(update={"runs": ("x", "b")}))
    assert Turns.of({TURNS: b.model_dump(mode="json")}) == b
    assert Turns.of({}) is Turns.of({TURNS: {"runs": []}}) is None


FILE = """\
experiment: x
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [64], links: [[a]]}
"""


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("e.yaml", "--interleave"), "--testbed"),
        (("e.yaml", "e.yaml"), "--interleave"),
        (("e.yaml", "absent.yaml", "--interleave"), "absent.yaml:1:1: file: "),
        (("e.yaml", "wrong.yaml", "--interleave"), "wrong.yaml:1:1: factores: "),
        (("e.yaml", "--testbed", "t.yaml", "--testbed", "t.yaml"), "2 runs at once"),
        (("e.yaml", "--testbed", "t.yaml", "--testbed", "t.yaml", "--interleave"), "t.yaml:1:1: nothing: "),
    ],
)
def test_what_cannot_be_done_in_turn_is_refused_before_a_folder_is_made(tmp_path, monkeypatch, capsys, argv, said) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.yaml").write_text(FILE)
    Path("wrong.yaml").write_text("factores: {}\n" + FILE)
    Path("t.yaml").write_text("nothing: there\n")
    monkeypatch.setattr(sys, "argv", ["dutlab", "run", *argv])
    with pytest.raises(SystemExit, match="2"):
        main()
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err
    assert not Path("runs").exists()


def planned(runs: Path, token: str, turns: Turns | None) -> Path:
    """A run's folder before its first trial."""
    work = Work.planned(given_experiment(FILE.encode(), Path("e.yaml")), unattended=True)
    beside = {} if turns is None else {TURNS: turns.model_dump(mode="json")}
    return work.new_folder(options(runs), token=token, additions=beside).path


def options(runs: Path) -> RunOptions:
    return RunOptions(runs=runs, engine_binary=Path("/absent"), command=("dutlab",), trusted=True)


async def test_only_all_of_the_runs_that_took_turns_go_on_in_turn(tmp_path: Path) -> None:
    a, b = (planned(tmp_path, str(place), Turns(runs=("a", "b"), place=place, seed=3)) for place in range(2))
    by_itself, of_others = planned(tmp_path, "x", None), planned(tmp_path, "y", Turns(runs=("a", "c"), place=1, seed=3))
    for given_, said in (
        ((a, by_itself), "not begun in turn"),
        ((by_itself, a), "not begun in turn"),
        ((a, of_others), "not begun in turn"),
        ((a, a), "2 runs took turns"),
        ((a, b, b), "2 runs took turns"),
    ):
        with pytest.raises(InputError, match=said):
            await resume_in_turn(given_, [options(tmp_path)] * len(given_), lambda _: pytest.fail("nobody is told of anything"))
    assert resumed_alone_warning(RunFolder.open(by_itself)) is None
    assert "shared with b" in str(resumed_alone_warning(RunFolder.open(a)))
