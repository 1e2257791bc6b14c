"""The table of a translator with a kernel of its own."""

from __future__ import annotations

from pathlib import Path

from main_job import only_run, records
from vm.conftest import Dutlab

TABLE = Path(__file__).parents[2] / "examples" / "nat" / "table.yaml"


def test_the_size_that_the_kernel_was_given_is_found_by_frames_alone(dutlab: Dutlab, uml_router: str, tmp_path: Path) -> None:
    smaller = TABLE.read_text().replace("4096", "1000").replace("2048", "600").replace("8192", "1020")
    (tmp_path / "e.yaml").write_text(smaller.replace("repeats: 1", "repeats: 1\ndisturbed: count"))
    done = dutlab("run", "e.yaml", "--lab", uml_router)
    assert done.returncode == 0, done.stderr
    (record,) = records(only_run(tmp_path))
    found = record["figures"]["a"]
    assert (found["capacity_connections"], found["capacity_upper_connections"]) == (1000, 1001), record["notes"]
