"""gate and bisect with real guests: rule sets of known cost, a rule set that is refused, and the history of one in a git repository."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dutlab.hosts.kernels import newest_kernel
from processes import LIMIT_S, eventually
from vm.conftest import Dutlab

pytestmark = pytest.mark.exact

RULES = """table inet filter {
  chain forward {
    type filter hook forward priority 0; policy accept;
%s
  }
}
"""
SMALL = ("--size", "64", "frames=1000")


def rules(count: int) -> str:
    """A rule set of which every frame meets each rule."""
    return RULES % "\n".join(f"    tcp dport {n} drop" for n in range(1, count + 1))


def gate(command: Dutlab, *words: str) -> tuple[int, dict[str, Any]]:
    done = command("gate", *words, *SMALL, "--json")
    return done.returncode, json.loads(done.stdout)


def test_a_rule_more_is_found_an_equal_set_passes_and_a_refused_one_cannot_be_told(exact_command: Dutlab, tmp_path: Path) -> None:
    (tmp_path / "main.nft").write_text(rules(2))
    (tmp_path / "same.nft").write_text("# a comment\n" + rules(2))
    (tmp_path / "more.nft").write_text(rules(3))
    (tmp_path / "refused.nft").write_text("table inet filter {\n  chain forward { tcp dport }\n}\n")
    status, found = gate(exact_command, "main.nft", "same.nft")
    assert (status, found["kind"]) == (0, "PASS"), found
    (cell,) = found["parts"][0]["cells"]
    assert abs(cell["worse"]) <= found["parts"][0]["seen"] == 0.001, "a longer file moves data in the memory of the guest"
    status, found = gate(exact_command, "main.nft", "more.nft")
    assert (status, found["kind"]) == (1, "FAIL"), found
    (cell,) = found["parts"][0]["cells"]
    assert 60 < cell["second"] - cell["first"] < 110 and cell["again"] == 1, cell
    ((where, functions),) = [of.values() for of in found["parts"][0]["functions"]]
    more = {of["name"]: of["change"] for of in functions}
    assert where == cell["label"] and more["nft_do_chain"] > 0, more
    assert sum(more.values()) == pytest.approx(cell["second"] - cell["first"], abs=10), "the functions are all of the change"
    assert len(found["parts"][0]["runs"]) == 4 and all(
        (tmp_path / run / "report" / "report.html").exists() for run in found["parts"][0]["runs"]
    )
    status, found = gate(exact_command, "main.nft", "refused.nft")
    assert (status, found["kind"]) == (2, "CANNOT_TELL"), found
    assert "/dev/stdin:2:" in found["parts"][0]["failures"][0]["why"]


def test_the_commit_that_added_a_rule_is_found_and_a_cut_search_goes_on(exact_command: Dutlab, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()

    def git(*words: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.net", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *who, *words], cwd=repository, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    commits = []
    for number in range(10):
        text = rules(3 if number >= 6 else 2) if number != 4 else "table inet filter {"  # one that nft refuses
        (repository / "router.nft").write_text(f"# version {number}\n{text}")
        git("add", "router.nft")
        git("commit", "-qm", f"version {number}")
        commits.append(git("rev-parse", "HEAD"))
    words = ("--commits", f"{commits[0]}..{commits[-1]}", "--repository", "repository", "--file", "router.nft", "--size", "64")
    folder = tmp_path / "campaigns" / "bisect"
    cut = exact_command.begin("bisect", *words, "--set", "frames=1000")
    assert eventually(lambda: any((folder / "runs").glob("*")))
    os.kill(cut.pid, signal.SIGINT)
    assert cut.wait(LIMIT_S) == 130
    first = {run.name for run in (folder / "runs").iterdir()}
    done = exact_command("bisect", "--resume", str(folder), "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, (found, done.stderr)
    assert found["culprits"] == [commits[6][:12]] and found["subjects"][commits[6][:12]] == "version 6"
    steps = found["steps"]
    assert len(steps) <= 6 and [s["version"] for s in steps][:2] == [commits[0][:12], commits[9][:12]]
    asked = {run for s in steps for run in s["runs"]}
    assert first < asked | {*found["profiles"]} == {run.name for run in (folder / "runs").iterdir()}, "no run is made twice"
    assert "nft_do_chain" in found["sentence"], found["functions"]
    assert {s["side"] for s in steps if s["version"] == commits[4][:12]} == {"UNKNOWN"}
    assert commits[6][:12] in (folder / "report.md").read_text()


@pytest.mark.smoke
def test_kernels_are_versions_too(exact_command: Dutlab, tmp_path: Path) -> None:
    """One kernel by two names has the same figure to the last digit."""
    kernel = newest_kernel()
    (tmp_path / kernel.name).symlink_to(kernel)
    status, found = gate(exact_command, str(kernel), kernel.name, "--mode", "router")
    assert (status, found["kind"], found["parts"][0]["cells"][0]["worse"]) == (0, "PASS", 0.0), found
