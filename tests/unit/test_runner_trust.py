"""What `undo` and `resume` carry out: only what this user wrote on this machine, unless it is trusted by a person."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.run import resume, undo
from dutlab.errors import StoreError
from dutlab.hosts.lease import Holder
from dutlab.runner import recovery
from dutlab.runner.journal import Journal, read_journal
from dutlab.runner.trust import NotOurs, insist_on_resume, insist_on_undo
from dutlab.store.run_folder import RunFolder
from dutlab.store.seal import is_ours, own_key
from run_records import new_run

STEP = {"host": "here", "argv": ["sh", "-c", "touch MARK"], "stdin": "", "why": "leaves a mark"}


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's key, as on a machine of their own, which no other run has."""
    monkeypatch.setattr(recovery, "leased_by", lambda *_, **__: nullcontext())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "dutlab" / "journal.key"


def made(tmp_path: Path) -> RunFolder:
    """A run on this machine that was cut in a mode whose undo makes a file."""
    (tmp_path / "runs").mkdir()
    folder = new_run(tmp_path / "runs", resolved={"hosts": {"here": None}}, plan={"trials": []})
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


def rewritten(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Changes a file of the run."""

    def carry_out(run: Path) -> None:
        (run / name).write_bytes(change((run / name).read_bytes()))

    return carry_out


JOURNAL, SEAL = "journal.jsonl", "seal.json"
ADDED = json.dumps({"at": "2026-11-21T08:00:00+00:00", "event": "mode-applying", "application": "2", "mode": "x", "undo": [STEP]}) + "\n"
CHANGES = {
    "a line more": rewritten(JOURNAL, lambda text: text + ADDED.encode()),
    "a line changed": rewritten(JOURNAL, lambda text: text.replace(b"leaves a mark", b"leaves a Mark")),
    "a line less": rewritten(JOURNAL, lambda text: text.partition(b"\n")[2]),
    "a line twice": rewritten(JOURNAL, lambda text: text + text.splitlines(keepends=True)[-1]),
    "other hosts": rewritten("resolved.json", lambda _: json.dumps({"hosts": {"here": "root@victim"}}).encode()),
    "another plan": rewritten("plan.json", lambda _: b'{"trials": [1]}'),
    "another run's seal": rewritten(SEAL, lambda text: text.replace(b'"token": "', b'"token": "0')),
    "an empty seal": rewritten(SEAL, lambda _: b'{"token": "", "mac": ""}'),
    "no seal": lambda run: (run / SEAL).unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_run_that_was_changed_is_carried_out_by_nobody(key: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = made(tmp_path)
    change(folder.path)
    for insist in (insist_on_undo, insist_on_resume):
        with pytest.raises(NotOurs):
            insist(folder, read_journal(folder.journal))


def test_a_line_that_a_crash_cut_breaks_no_seal(key: Path, tmp_path: Path) -> None:
    folder = made(tmp_path)
    seal = folder.path / "journal.seal"
    before, sealed = folder.journal.read_bytes(), seal.read_bytes()
    journal = Journal(folder.journal)
    journal.write("mode-restored", application="1-nat")
    journal.close()
    whole = folder.journal.read_bytes()
    for length in range(len(whole) - 1, len(before) - 1, -7):
        folder.journal.write_bytes(whole[:length])
        seal.write_bytes(sealed)  # the length of a line is sealed after it
        assert is_ours(folder.path)
        journal = Journal(folder.journal)
        journal.write("run-resumed")
        journal.close()
        assert is_ours(folder.path)
    folder.journal.unlink()
    seal.unlink()
    assert is_ours(folder.path), "cut before its journal was begun"


def test_a_copy_whose_journal_was_cut_short_replays_nothing_that_was_undone(key: Path, tmp_path: Path) -> None:
    folder = made(tmp_path)
    CliRunner().invoke(undo, [str(folder.path)])
    (tmp_path / "mark").unlink()
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:2]))
    done = CliRunner().invoke(undo, [str(folder.path)])
    assert (type(done.exception), (tmp_path / "mark").exists()) == (NotOurs, False)
    assert CliRunner().invoke(undo, ["--trust", str(folder.path)]).output == "1 change undone\n"
    assert not is_ours(folder.path), "trust is given once"
    folder.journal.write_bytes(b"".join(lines))
    assert is_ours(folder.path)
    for harm in (
        lambda text: b"",
        lambda text: text.replace(b'"bytes": ', b'"bytes": 0'),
        lambda text: re.sub(rb"\d+", b"0", text, count=1),
    ):
        whole = (folder.path / "journal.seal").read_bytes()
        (folder.path / "journal.seal").write_bytes(harm(whole))
        assert not is_ours(folder.path)
        (folder.path / "journal.seal").write_bytes(whole)
    folder.journal.unlink()
    assert not is_ours(folder.path)


def test_an_undo_shows_switches_and_reboots_too(key: Path, tmp_path: Path) -> None:
    folder = made(tmp_path)
    journal = Journal(folder.journal)
    switch = json.dumps({"kind": "command", "on": "rm -rf /"})
    steps = [STEP | {"argv": [], "switch": switch}, STEP | {"argv": [], "back_within_s": 60.0}]
    journal.write("dut-changing", application="power", undo=steps)
    journal.close()
    key.unlink()
    with pytest.raises(NotOurs) as caught:
        insist_on_undo(folder, read_journal(folder.journal))
    by_switch, reboot = caught.value.commands[:2]
    assert by_switch.startswith("here: ") and by_switch.endswith(switch) and "reboot" in reboot


def test_a_resume_of_a_foreign_run_shows_what_it_would_carry_out(key: Path, tmp_path: Path) -> None:
    folder = made(tmp_path)
    resolved = folder.path / "resolved.json"
    resolved.write_text(json.dumps({"experiment": {"modes": {"evil": {"apply": ["rm -rf /\x1b[2J"]}}}, "testbed": {"name": "t"}}))
    with pytest.raises(NotOurs) as caught:
        insist_on_resume(folder, [])
    assert any("modes.evil.apply.0" in command and command.endswith("rm -rf /\x1b[2J") for command in caught.value.commands)
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
