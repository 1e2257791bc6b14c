"""Templates of the report that were compiled once are read again, and never in place of another template's text."""

from __future__ import annotations

import os
import sys

import pytest
from jinja2 import Environment, FileSystemLoader

from dutlab.report.pages.compiled import KeptTemplates
from dutlab.report.pages.html import TEMPLATES, environment


@pytest.fixture
def templates(tmp_path, monkeypatch):
    """A folder of templates, with the bytecode in a folder of its own."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "page.j2").write_text("loss {{ value }}")
    return folder


class Counting(Environment):
    """Counts what is compiled."""

    compiled = 0

    def compile(self, *args, **kwargs):
        self.compiled += 1
        return super().compile(*args, **kwargs)


def render(folder, value=3):
    made = Counting(loader=FileSystemLoader(folder), bytecode_cache=KeptTemplates(folder.parent / "kept"))
    return made.get_template("page.j2").render(value=value), made.compiled


def kept(tmp_path):
    return [p for p in (tmp_path / "kept").rglob("*") if p.is_file()]


def test_a_template_is_compiled_once_and_again_when_it_changed(templates):
    assert [render(templates, value) for value in (3, 4)] == [("loss 3", 1), ("loss 4", 0)]
    (templates / "page.j2").write_text("gain {{ value }}")
    assert render(templates) == ("gain 3", 1)


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 400])
def test_a_damaged_file_is_compiled_again(templates, tmp_path, damage):
    render(templates)
    (file,) = kept(tmp_path)
    file.write_bytes(damage)
    assert [render(templates) for _ in range(2)] == [("loss 3", 1), ("loss 3", 0)]


def test_nothing_is_kept_when_python_keeps_nothing(templates, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render(templates) == ("loss 3", 1)
    assert kept(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_no_fault(templates, tmp_path):
    (tmp_path / "kept").write_text("a file, so no folder can be made")
    assert render(templates) == ("loss 3", 1)


@pytest.mark.parametrize("whose", ["another user's", "everybody's"])
def test_what_somebody_else_could_have_written_is_not_carried_out(templates, tmp_path, whose, monkeypatch):
    render(templates)
    (file,) = kept(tmp_path)
    if whose == "everybody's":
        file.chmod(0o666)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert render(templates) == ("loss 3", 1)


def test_a_report_leaves_nothing_beside_the_templates_where_no_installer_knows_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = {*TEMPLATES.rglob("*")}
    environment.cache_clear()
    environment().get_template("report.html.j2")
    assert isinstance(environment().bytecode_cache, KeptTemplates)
    environment.cache_clear()
    assert {*TEMPLATES.rglob("*")} == before
    assert [*(tmp_path / "dutlab" / "templates").iterdir()]
