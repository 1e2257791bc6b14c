"""What `--help` must not load, and that the text which it shows instead is what the rooms have."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from dutlab.cli import choices
from dutlab.cli.import_files import import_files
from dutlab.cli.main import COMMANDS, SECTIONS, dutlab
from dutlab.interop.importers import KINDS
from dutlab.methods.calibrate import Rig
from dutlab.methods.known import METHODS
from dutlab.report.pages.publication import STYLES
from dutlab.report.write import FORMATS
from dutlab.spec.generators import GENERATORS
from dutlab.spec.workloads.rfc2544 import ALL_TESTS
from dutlab.spec.workloads.search import DEFAULT_PRESET
from dutlab.store.index import STATUSES

HEAVY = {"numpy", "scipy", "polars", "duckdb", "pyarrow", "asyncssh", "cryptography", "pydantic", "ruamel", "jinja2", "matplotlib"}
OURS = {
    "analysis",
    "dut",
    "hosts",
    "interop",
    "labs",
    "methods",
    "plan",
    "publish",
    "report",
    "runner",
    "sensors",
    "spec",
    "store",
    "tools",
}
LIMITS = {"limits", "compare", "check"}
"""They show the tables of analysis in their help."""
SHOWS = """
import sys
from dutlab.cli.main import main
try:
    main()
except SystemExit:
    pass
print("LOADED", *sys.modules)
"""


def loaded(*argv, cwd=None):
    done = subprocess.run([sys.executable, "-c", SHOWS, *map(str, argv)], capture_output=True, text=True, check=True, cwd=cwd)
    shown, _, modules = done.stdout.partition("LOADED ")
    assert shown, done.stderr
    return set(modules.split())


def rooms(modules):
    return {name.split(".")[1] for name in modules if name.startswith("dutlab.")} & OURS


@pytest.mark.parametrize("argv", [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS if name not in LIMITS)], ids=" ".join)
def test_help_loads_neither_heavy_libraries_nor_our_rooms(argv):
    modules = loaded(*argv)
    assert {name.split(".")[0] for name in modules} & HEAVY == set()
    assert rooms(modules) == set()


@pytest.mark.parametrize("command", ["search", "conductor"])
def test_help_of_the_commands_that_most_use_loads_no_event_loop(command):
    assert "asyncio" not in loaded(command, "--help")


def test_a_dry_run_of_conductor_reads_the_files_and_loads_nothing_that_would_run_them(tmp_path):
    (tmp_path / "t.cfg").write_text("[Workers]\na: h.cfg\n")
    (tmp_path / "h.cfg").write_text("[Coordinator]\nplayer: x\n[Startup]\n[Run]\ns: true\n[Collect]\n[Reset]\n")
    modules = loaded("conductor", "run", "t.cfg", "--dry-run", cwd=tmp_path)
    assert {name.split(".")[0] for name in modules} & (HEAVY - {"pydantic"}) == set()
    assert rooms(modules) & {"runner", "report", "labs", "hosts", "store", "tools", "dut"} == set()


def test_what_carries_out_steps_here_loads_nothing_that_only_ssh_and_analysis_need():
    code = "import sys, dutlab.cli.conduct; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[0] for name in done.stdout.split()} & (HEAVY - {"pydantic", "ruamel"}) == set()


def test_each_short_help_is_the_commands_own():
    ctx = click.Context(dutlab)
    own = {name: dutlab.get_command(ctx, name).get_short_help_str(300) for name in COMMANDS}
    assert {name: said for of_section in SECTIONS.values() for name, (_, said) in of_section.items()} == own


def test_what_options_offer_is_what_there_is():
    assert choices.PRESET == DEFAULT_PRESET
    assert tuple(GENERATORS) == choices.GENERATORS
    assert tuple(test.value for test in ALL_TESTS) == choices.RFC2544_TESTS
    assert tuple(METHODS) == choices.METHODS
    assert tuple(r.value for r in Rig) == choices.RIGS
    assert tuple(FORMATS) == choices.FORMATS
    assert set(STYLES) == set(choices.STYLES)
    assert tuple(sorted(KINDS)) == choices.IMPORTS
    assert f"KIND is {', '.join(choices.IMPORTS[:-1])} or {choices.IMPORTS[-1]}." in import_files.help
    assert tuple(STATUSES) == choices.STATUSES


def test_conductor_run_loads_what_steps_need_and_no_generator_lab_or_database(tmp_path):
    (tmp_path / "t.cfg").write_text("[Workers]\na: h.cfg\n[Test]\ntrials: 1\n")
    (tmp_path / "h.cfg").write_text("[Coordinator]\nplayer: 192.0.2.1\n[Startup]\n[Run]\nstep1: :\n[Collect]\n[Reset]\n")
    modules = loaded("conductor", "run", "t.cfg", "--map", "a=local", cwd=tmp_path)
    assert {name.split(".")[0] for name in modules} & (HEAVY - {"pydantic", "jinja2"}) == set()
    assert {name for name in modules if name.startswith(("dutlab.labs", "dutlab.tools.engine.", "dutlab.methods."))} == {
        "dutlab.methods.ports", "dutlab.methods.connection_ports", "dutlab.methods.dut_tables", "dutlab.tools.engine.clocks"
    }  # fmt: skip
    assert not modules & {"dutlab.runner.run", "dutlab.runner.stage", "urllib.request"}
    not_of_steps = ("dutlab.analysis.doctor.", "dutlab.report.sections.drive", "dutlab.spec.workloads.rfc2544", "dutlab.plan.trials")
    read_from_files = {"dutlab.spec.testbed", "dutlab.spec.experiment", "dutlab.spec.sensors", "dutlab.spec.shape", "dutlab.spec.drives"}
    assert {name for name in modules if name in read_from_files or name.startswith(not_of_steps)} == set()
