"""What `--help`, `plan`, `runs`, `report` and steps must not load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dutlab.cli.main import COMMANDS
from fake_run import build
from loaded_modules import packages
from loaded_modules import rooms as rooms_of

HEAVY = {"numpy", "scipy", "polars", "duckdb", "pyarrow", "asyncssh", "cryptography", "pydantic", "ruamel", "jinja2", "matplotlib"}
OURS = {
    "analysis", "dut", "hosts", "interop", "labs", "methods", "physics", "plan", "publish", "report", "runner", "sensors", "spec",
    "store", "systems", "tools",
}  # fmt: skip
LIMITS = {"limits", "compare", "check"}
"""They show the tables of analysis in their help."""
HELPS = (("--version",), ("--help",), *((name, "--help") for name in COMMANDS if name not in LIMITS))
DRY = ("conductor", "run", "t.cfg", "--dry-run")
CONDUCT = ("conductor", "run", "t.cfg", "--map", "a=local")
PLAN = ("plan", str(Path(__file__).parents[2] / "examples" / "firewall-modes" / "experiment.yaml"))
RUNS = ("runs", "--runs", "runs")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "start-up.md"
STEPS_HERE = ("import dutlab.cli.conduct",)
SHOWS = """
import sys
before = set(sys.modules)
import json, os
from dutlab.cli.main import main
for place, argv in enumerate(json.loads(sys.argv[1])):
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    os.dup2(os.open(f"{place}.shown", os.O_WRONLY | os.O_CREAT), 1)
    sys.argv[1:] = argv
    if argv[0].startswith("import "):
        exec(argv[0])
    else:
        try:
            main()
        except SystemExit as end:
            assert end.code == 0, argv
    with open(f"{place}.json", "w") as file:
        json.dump(sorted(set(sys.modules) - before), file)
    sys.stdout.flush()
    os._exit(0)
"""
"""Each in a child of one program, which has loaded what every command needs and nothing else."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory, python_env):
    """The modules of each command when it has ended."""
    folder = tmp_path_factory.mktemp("light")
    report = ("report", str(build(folder / "runs")))
    wanted = [*HELPS, DRY, CONDUCT, PLAN, RUNS, RUNS, report, STEPS_HERE]
    (folder / "t.cfg").write_text("[Workers]\na: h.cfg\n[Test]\ntrials: 1\n")
    (folder / "h.cfg").write_text("[Coordinator]\nplayer: 192.0.2.1\n[Startup]\n[Run]\nstep1: :\n[Collect]\n[Reset]\n")
    done = subprocess.run(
        [sys.executable, "-c", SHOWS, json.dumps(wanted)], capture_output=True, text=True, cwd=folder, env=python_env, check=True
    )
    found = {}
    for place, argv in enumerate(wanted):
        assert argv is STEPS_HERE or (folder / f"{place}.shown").read_bytes(), (argv, done.stderr)
        found[argv] = set(json.loads((folder / f"{place}.json").read_text()))  # of RUNS the second, with an index that is up to date
    return found | {"report": found[report]}


def heavy(modules):
    return {name.split(".")[0] for name in modules} & HEAVY


def rooms(modules):
    return rooms_of(modules) & OURS


def test_help_loads_neither_heavy_libraries_nor_our_rooms(loaded):
    assert {argv: of for argv in HELPS if (of := heavy(loaded[argv]) | rooms(loaded[argv]))} == {}
    assert "importlib.metadata" not in loaded["--version",]  # a quarter of its CPU time
    assert "asyncio" not in loaded["search", "--help"] | loaded["conductor", "--help"]  # that most use


PYDANTIC = {"annotated_types", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"}
MAY_LOAD = {
    ("--version",): ({"click"}, {"cli"}),
    ("--help",): ({"click"}, {"cli"}),
    PLAN: ({"click", "ruamel", *PYDANTIC}, {"cli", "physics", "plan", "report", "spec", "stats", "systems"}),
    RUNS: ({"click"}, {"cli", "report", "stats", "store"}),
}
"""Command → packages of other projects, and rooms. docs/reference/start-up.md has them too."""


@pytest.mark.parametrize("argv", MAY_LOAD, ids=lambda argv: argv[0])
def test_a_command_loads_these_packages_and_rooms_and_no_others(loaded, argv):
    assert (packages(loaded[argv]), rooms_of(loaded[argv])) == MAY_LOAD[argv]
    command = f"`{argv[0]}`"
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {command} |")).split(" | ")
    assert tuple({*cell.strip(" |").split(", ")} for cell in row[-2:]) == MAY_LOAD[argv]


def test_a_plan_loads_only_what_its_file_names(loaded):
    ours = {name.removeprefix("dutlab.") for name in loaded[PLAN] if name.startswith("dutlab.")}
    assert {name for name in ours if name.startswith("spec.workloads.")} == {
        f"spec.workloads.{name}" for name in ("base", "frames", "imported_setting", "iperf3", "setting", "sweep")
    }
    assert {name for name in ours if name.startswith("systems.")} == {
        f"systems.{name}" for name in ("linux", "modes", "plain", "posix", "posix_gate", "posix_lease", "system")
    }
    assert not ours & {"spec.devices", "spec.lab_settings", "spec.power", "spec.sensors", "physics.ceilings.tunnel", "plan.drive_writes"}
    assert not loaded[PLAN] & {"email", "importlib.metadata._meta", "subprocess"}


def test_a_plan_loads_nothing_that_carries_it_out_or_reports_of_it(loaded):
    modules = loaded[PLAN]
    assert heavy(modules) == {"pydantic", "ruamel"}
    assert modules & {"asyncio", "ssl", "ctypes", "sqlite3", "concurrent.futures", "logging"} == set()
    generators = {name.rpartition(".")[2] for name in modules if name.startswith("dutlab.spec.generators.")}
    assert not generators & {"trafgen", "pktgen", "xdp_trafficgen", "trex", "pkt_gen", "ipgen"}
    assert {name for name in modules if name.startswith("dutlab.report.")} == {
        "dutlab.report.model", "dutlab.report.model.table", "dutlab.report.model.words", "dutlab.report.pages", "dutlab.report.pages.terminal"
    }  # fmt: skip


def test_a_list_of_runs_from_an_index_that_is_up_to_date_loads_neither_settings_nor_records(loaded):
    modules = loaded[RUNS]
    assert heavy(modules) == set()
    assert rooms(modules) == {"report", "store"}  # report: the table of words
    assert not modules & {"dutlab.store.record", "dutlab.store.run_folder", "dutlab.store.fleet_database", "dutlab.store.samples"}
    assert not modules & {"concurrent.futures", "logging", "subprocess", "hashlib"}


def test_a_report_loads_nothing_that_measures_and_no_database(loaded):
    modules = loaded["report"]
    assert heavy(modules) == {"numpy", "scipy", "pydantic", "jinja2"}
    assert rooms(modules) == {"analysis", "methods", "physics", "plan", "report", "spec", "store", "systems"}
    assert not modules & {"asyncio", "ssl", "sqlite3", "vl_convert"}


def test_a_dry_run_of_conductor_reads_the_files_and_loads_nothing_that_would_run_them(loaded):
    assert heavy(loaded[DRY]) - {"pydantic"} == set()
    assert rooms(loaded[DRY]) & {"runner", "report", "labs", "hosts", "store", "tools", "dut"} == set()


def test_what_carries_out_steps_here_loads_nothing_that_only_ssh_and_analysis_need(loaded):
    assert heavy(loaded[STEPS_HERE]) - {"pydantic", "ruamel"} == set()


def test_conductor_run_loads_what_steps_need_and_no_generator_lab_or_database(loaded):
    modules = loaded[CONDUCT]
    assert heavy(modules) - {"pydantic", "jinja2"} == set()
    assert {name for name in modules if name.startswith(("dutlab.labs", "dutlab.tools.engine.", "dutlab.methods."))} == {
        "dutlab.methods.ports", "dutlab.methods.connection_ports", "dutlab.methods.dut_ports", "dutlab.methods.dut_tables", "dutlab.methods.flow",
        "dutlab.methods.transfer_ports",
        "dutlab.tools.engine.clocks",
    }  # fmt: skip
    assert not modules & {"dutlab.runner.run", "dutlab.runner.stage", "urllib.request"}
    not_of_steps = ("dutlab.analysis.doctor.", "dutlab.report.sections.drive", "dutlab.spec.workloads.rfc2544", "dutlab.plan.trials")
    read_from_files = {"dutlab.spec.testbed", "dutlab.spec.experiment", "dutlab.spec.sensors", "dutlab.spec.shape", "dutlab.spec.drives"}
    assert {name for name in modules if name in read_from_files or name.startswith(not_of_steps)} == set()
