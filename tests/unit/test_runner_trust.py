"""What `undo` and `resume` carry out: only what this user wrote on this machine, unless it is trusted by a person."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.run import resume, undo
from dutlab.errors import StoreError
from dutlab.hosts.lease import Holder
from dutlab.runner.journal import Journal, read_journal
from dutlab.runner.trust import NotOurs, insist_on_resume, insist_on_undo
from dutlab.store.run_folder import RunFolder
from dutlab.store.seal import is_ours, own_key

STEP = {"host": "here", "argv": ["sh", "-c", "touch MARK"], "stdin": "", "why": "leaves a mark"}


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's key, as on a machine of their own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "dutlab" / "journal.key"


def made(tmp_path: Path) -> RunFolder:
    """A run on this machine that was cut in a mode whose undo makes a file."""
    (tmp_path / "runs").mkdir()
    folder = RunFolder.create(
        tmp_path / "runs", experiment="x", experiment_yaml=b"", testbed_yaml=None, resolved={"hosts": {"here": None}},
        plan={"trials": []}, now=datetime.now(UTC),
    )  # fmt: skip
    journal = Journal(folder.journal)
    step = json.loads(json.dumps(STEP).replace("MARK", str(tmp_path / "mark")))
    journal.write("run-started", experiment="größe")
    journal.write("mode-applying", application="1-nat", mode="nat", undo=[step])
    journal.close()
    return folder


def test_a_run_of_this_user_is_undone_wherever_its_folder_is_moved_to(key: Path, tmp_path: Path) -> None:
    folder = made(tmp_path)
    assert is_ours(folder.path)
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    shutil.move(folder.path, moved)
    done = CliRunner().invoke(undo, [str(moved)])
    assert (done.output, (tmp_path / "mark").exists()) == ("1 change undone\n", True), done.exception
    assert is_ours(moved), "what undo wrote is sealed too"


def test_a_run_from_another_machine_shows_its_commands_and_carries_none_out(key: Path, tmp_path: Path) -> None:
    folder = made(tmp_path)
    key.unlink()
    done = CliRunner().invoke(undo, [str(folder.path)])
    assert isinstance(done.exception, NotOurs)
    assert f"here: sh -c 'touch {tmp_path}/mark'" in done.stderr
    assert "give --trust" in str(done.exception)
    assert not (tmp_path / "mark").exists()
    assert CliRunner().invoke(undo, ["--trust", str(folder.path)]).output == "1 change undone\n"
    assert (tmp_path / "mark").exists()
    assert CliRunner().invoke(undo, [str(folder.path)]).output == "nothing to undo\n", "what carries nothing out needs no trust"


def add_a_line(journal: Path) -> None:
    entry = {"at": "2026-11-21T08:00:00+00:00", "event": "mode-applying", "application": "2", "mode": "x", "undo": [STEP]}
    journal.write_bytes(journal.read_bytes() + json.dumps(entry).encode() + b"\n")


def change_a_line(journal: Path) -> None:
    journal.write_bytes(journal.read_bytes().replace(b"leaves a mark", b"leaves a Mark"))


def leave_a_line_out(journal: Path) -> None:
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[1:]))


def repeat_a_line(journal: Path) -> None:
    journal.write_bytes(journal.read_bytes() + journal.read_bytes().splitlines(keepends=True)[-1])


def change_the_hosts(journal: Path) -> None:
    resolved = journal.with_name("resolved.json")
    resolved.write_text(json.dumps({"hosts": {"here": "root@victim"}}))


def change_the_plan(journal: Path) -> None:
    journal.with_name("plan.json").write_text('{"trials": [1]}')


def take_a_seal_of_another_run(journal: Path) -> None:
    seal = journal.with_name("seal.json")
    seal.write_text(seal.read_text().replace('"token": "', '"token": "0'))


def remove_the_seal(journal: Path) -> None:
    journal.with_name("seal.json").unlink()


def blank_the_seal(journal: Path) -> None:
    journal.with_name("seal.json").write_text('{"token": "", "mac": ""}')


@pytest.mark.parametrize(
    "change",
    [add_a_line, change_a_line, leave_a_line_out, repeat_a_line, change_the_hosts, change_the_plan, take_a_seal_of_another_run,
     remove_the_seal, blank_the_seal],
)  # fmt: skip
def test_a_run_that_was_changed_is_carried_out_by_nobody(key: Path, tmp_path: Path, change: object) -> None:
    folder = made(tmp_path)
    change(folder.journal)  # type: ignore[operator]
    with pytest.raises(NotOurs):
        insist_on_undo(folder, read_journal(folder.journal))
    with pytest.raises(NotOurs):
        insist_on_resume(folder, read_journal(folder.journal))


def test_a_line_that_a_crash_cut_breaks_no_seal(key: Path, tmp_path: Path) -> None:
    folder = made(tmp_path)
    whole = folder.journal.read_bytes()
    for length in range(len(whole) - 1, 0, -97):
        folder.journal.write_bytes(whole[:length])
        assert is_ours(folder.path)
        journal = Journal(folder.journal)
        journal.write("run-resumed")
        journal.close()
        assert is_ours(folder.path)
    folder.journal.unlink()
    assert is_ours(folder.path), "cut before its journal was begun"


def test_a_resume_of_a_foreign_run_shows_what_it_would_carry_out(key: Path, tmp_path: Path) -> None:
    folder = made(tmp_path)
    resolved = folder.path / "resolved.json"
    resolved.write_text(json.dumps({"experiment": {"modes": {"evil": {"apply": ["rm -rf /\x1b[2J"]}}}, "testbed": {"name": "t"}}))
    with pytest.raises(NotOurs) as caught:
        insist_on_resume(folder, [])
    assert "experiment modes.evil.apply.0: rm -rf /\x1b[2J" in caught.value.commands
    done = CliRunner().invoke(resume, [str(folder.path)])
    assert done.exit_code != 0


def test_the_key_is_the_user_s_alone_and_stays_the_same(key: Path) -> None:
    first = own_key()
    assert first is not None and len(first) == 32
    assert (key.stat().st_mode & 0o777, own_key()) == (0o600, first)
    assert list(key.parent.iterdir()) == [key]


@pytest.mark.parametrize("how", ["readable", "link", "short", "pipe"])
def test_a_key_that_others_may_know_seals_nothing(key: Path, how: str, tmp_path: Path) -> None:
    assert own_key()
    if how == "readable":
        key.chmod(0o644)
    elif how == "link":
        key.rename(tmp_path / "there")
        key.symlink_to(tmp_path / "there")
    elif how == "short":
        key.write_bytes(b"short")
    else:
        key.unlink()
        os.mkfifo(key, 0o600)
    assert own_key() is None
    assert not is_ours(made(tmp_path).path)


def test_runs_are_the_same_by_their_token_and_not_by_their_folder() -> None:
    here = Holder("anna (process 1)", "/runs/a", "noon", "0123")
    assert here.is_of_same_run(Holder("anna (process 2)", "/moved/a", "later", "0123"))
    assert not here.is_of_same_run(Holder("ben (process 3)", "/runs/a", "noon", "4567"))
    assert Holder("x", "/runs/a", "", "").is_of_same_run(Holder("y", "/runs/a", "", ""))


def test_what_a_lease_says_obeys_no_terminal_and_is_short() -> None:
    said = json.dumps({"who": "\x1b[2Janna\u202e", "run": "r" * 9999, "since": "a\nb"}).encode()
    holder = Holder.read(said)
    assert holder is not None
    assert (holder.who, holder.since, len(holder.run)) == ("?[2Janna?", "a?b", 200)
    for text in (b"", b"[]", b"{", b'{"who": 1}', b'{"wh": "x"}', b"[" * 9999):
        assert Holder.read(text) is None


@pytest.mark.parametrize(
    "entry",
    [
        {"event": "mode-applying", "application": "x", "undo": [None]},
        {"event": "mode-applying", "application": [], "undo": []},
        {"event": "engine-copying"},
        {"event": "leasing", "hosts": 3},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("words", [[], ["--trust"]])
def test_a_journal_that_says_nothing_sensible_is_named(key: Path, tmp_path: Path, entry: dict[str, object], words: list[str]) -> None:
    folder = made(tmp_path)
    folder.journal.write_text(json.dumps(entry) + "\n")
    done = CliRunner().invoke(undo, [str(folder.path), *words])
    assert isinstance(done.exception, StoreError), done.output
    assert "journal.jsonl" in str(done.exception)
