"""The main job over ssh against the same over network namespaces: do they agree within the spread of their repeats?

    python tests/bench/main_job_over_ssh.py [--repeats 6]

Runs the quick form of examples/firewall-modes in the labs `three-node` and `three-node-ssh`, and lets `dutlab compare` say of each cell
whether a difference is proven. The ways to the hosts differ, those of the frames do not: no cell should differ. Says what of the runs is left
behind afterwards. Needs root, iperf3, nft and openssh-server.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from dutlab.labs.state import StateFolder

EXAMPLE = Path(__file__).parents[2] / "examples" / "firewall-modes" / "quick.yaml"
LABS = ("three-node", "three-node-ssh")
LEFT = ("dutlab-engine-*", "dutlab-lease-*")
"""What runs put into /var/tmp of a host."""


def dutlab(folder: Path, *words: str) -> str:
    """What it printed; a run in which a trial failed ends with 1 and counts all the same."""
    done = subprocess.run([sys.executable, "-m", "dutlab", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        raise RuntimeError(f"dutlab {' '.join(words)}: {done.stderr}")
    return done.stdout


def run(folder: Path, lab: str, repeats: int) -> Path:
    """The folder of a run of the example in `lab`."""
    text = EXAMPLE.read_text(encoding="utf-8").replace("{lab: three-node}", f"{{lab: {lab}}}").replace("repeats: 1", f"repeats: {repeats}")
    (folder / f"{lab}.yaml").write_text(text, encoding="utf-8")
    dutlab(folder, "run", f"{lab}.yaml", "--runs", lab)
    (made,) = (folder / lab).iterdir()
    return made


def left_behind(before: set[Path]) -> list[str]:
    """Files in /var/tmp and labs that were not there before."""
    return sorted(str(path) for path in things() - before)


def things() -> set[Path]:
    """Labs of others who are at work here are none of ours."""
    files = {path for pattern in LEFT for path in Path("/var/tmp").glob(pattern)}
    folder = StateFolder()
    states = {label: folder.read(label) for label in folder.labels()}
    return files | {Path(label) for label, state in states.items() if state and not state.owner.alive}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=6)
    asked = parser.parse_args()
    before = things()
    with tempfile.TemporaryDirectory() as made:
        runs = [run(Path(made), lab, asked.repeats) for lab in LABS]
        (pair,) = json.loads(dutlab(Path(made), "compare", *map(str, runs), "--json"))["compared"]
    verdicts = Counter(c["verdict"] for c in pair["comparisons"])
    ratios = sorted(c["ratio"]["ratio"] for c in pair["comparisons"] if c["ratio"])
    print(f"{len(pair['comparisons'])} cells, {asked.repeats} repeats each: " + ", ".join(f"{n} {word}" for word, n in verdicts.items()))
    if ratios:
        print(f"ssh ÷ namespaces, median over cells: {ratios[len(ratios) // 2]:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    print(f"left behind: {', '.join(left_behind(before)) or 'nothing'}")


if __name__ == "__main__":
    main()
