"""What a run archives is what it carried out: each file of the user is read once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dutlab.cli import run as cli
from dutlab.cli.manner import CommonOptions
from dutlab.outside import AtPipe
from dutlab.runner.execution import Execution
from dutlab.runner.progress import RunResult
from dutlab.spec import loader, yaml_source
from dutlab.spec.yaml_source import read_file
from dutlab.tools.engine import engine

ROOT = Path(__file__).parents[2]
EXPERIMENT = b"experiment: e\ntestbed: bed.yaml\nfactors: {mode: [router]}\nworkloads:\n  - iperf3: {duration: 1s}\nrepeats: 1\n"
BED = (ROOT / "examples" / "testbeds" / "e302-9d.yaml").read_bytes()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs of `dutlab run`, where every file changes as soon as it was read, and no host is reached."""
    (tmp_path / "e.yaml").write_bytes(EXPERIMENT)
    (tmp_path / "bed.yaml").write_bytes(BED)

    def changed_behind_the_reader(path: Path, *pipes: AtPipe) -> bytes:
        text = read_file(path, *pipes)
        path.write_bytes(text.replace(b"repeats: 1", b"repeats: 9").replace(b"10G", b"25G"))
        return text

    async def nothing(self: Any, _: Any) -> RunResult:
        return RunResult(self.folder.path, 0, 0, 0, 0)

    for reader in (loader, yaml_source):
        monkeypatch.setattr(reader, "read_file", changed_behind_the_reader)
    monkeypatch.setattr(Execution, "run_to_end", nothing)
    monkeypatch.setattr(CommonOptions, "finish", lambda _, __: None)
    monkeypatch.setattr(engine, "find_engine", lambda: Path("/nowhere"))
    return tmp_path / "runs"


def test_a_file_that_changes_after_it_was_read_is_archived_as_it_was_read(runs: Path) -> None:
    done = CliRunner().invoke(cli.run, [str(runs.parent / "e.yaml"), "--runs", str(runs)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (folder,) = runs.iterdir()
    assert (folder / "experiment.yaml").read_bytes() == EXPERIMENT
    assert (folder / "testbed.yaml").read_bytes() == BED
    kept = json.loads((folder / "resolved.json").read_bytes())
    assert kept["experiment"]["repeats"] == 1 and kept["testbed"]["links"]["a"]["speed"] == "10000000000bit/s"
    assert b"repeats: 9" in (runs.parent / "e.yaml").read_bytes()  # it did change
