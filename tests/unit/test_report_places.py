"""Reports and plots lie where they belong, whatever a record calls itself and whatever lies in the run folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.import_files import import_files
from dutlab.cli.report import plot, report
from dutlab.store.replace import file_name, file_names, folder_in, replace_file

HOSTILE = ["../../x", "/any/path/x", "..", "a/b", ".hidden", "-o", "x" * 300, "new\nline", "a\\b", "…"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a table that calls its workloads as somebody hostile would."""
    tmp_path = tmp_path_factory.mktemp("made")
    table = tmp_path / "table.csv"
    rows = [f'{mode},"{name}",{size},{n}e6' for name in HOSTILE for mode in ("router", "nat") for size in (64, 512) for n in (1, 2)]
    table.write_text("\n".join(["mode,workload,frame_size,received_mpps", *rows]) + "\n")
    done = CliRunner().invoke(import_files, ["figures", str(table), "--runs", str(tmp_path / "in" / "runs")])
    assert done.exit_code == 0, done.output
    (run,) = (tmp_path / "in" / "runs").iterdir()
    shutil.rmtree(run / "report")  # import writes one
    return run


@pytest.fixture
def imported(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "in" / "runs" / made.name)


def files(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("command", [(plot,), (report, "--style", "review"), (report,), (plot, "--format", "png")], ids=str)
def test_nothing_is_written_outside_the_report_of_a_run(imported: Path, tmp_path: Path, command: tuple[object, ...]) -> None:
    before = files(tmp_path)
    done = CliRunner().invoke(command[0], [*map(str, command[1:]), str(imported)])  # type: ignore[arg-type]
    assert done.exit_code == 0, done.output
    written = files(tmp_path) - before
    assert written
    assert all(path.is_relative_to(imported / "report") for path in written)
    assert len(written) == sum(line.startswith(str(imported)) for line in done.stdout.splitlines()), (
        "each file that is named is a file of its own"
    )


@pytest.mark.parametrize("link", ["report", "report/plots"])
def test_a_link_in_the_place_of_the_report_is_not_written_through(imported: Path, tmp_path: Path, link: str) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (imported / link).parent.mkdir(exist_ok=True)
    (imported / link).symlink_to(elsewhere)
    done = CliRunner().invoke(plot, [str(imported)])
    assert "is a symbolic link" in str(done.exception)
    assert not list(elsewhere.iterdir())


def test_a_file_that_is_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (secret := tmp_path / "secret").write_text("mine")
    (tmp_path / "report.html").symlink_to(secret)
    replace_file(tmp_path / "report.html", b"page")
    assert (secret.read_text(), (tmp_path / "report.html").read_bytes()) == ("mine", b"page")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "secret"]


def test_any_text_becomes_one_part_of_a_path_and_ordinary_names_stay_as_they_are(tmp_path: Path) -> None:
    for text in (*HOSTILE, "", "~root", "a\0b", "\u202egnp", "con\x1b[2J"):
        name = file_name(text)
        assert (tmp_path / name).parent == Path(os.path.normpath(tmp_path / name)).parent == tmp_path, name
        assert name.isascii() and name.isprintable() and len(name) <= 100 and name[0] not in ".-~", name
        assert folder_in(tmp_path, text) == tmp_path / name
    assert file_names(["sweep-a+b-kpps", "x/y", "x-y", "X-y", "x y"]) == ["sweep-a+b-kpps", "x-y", "x-y-2", "X-y-3", "x-y-4"]
