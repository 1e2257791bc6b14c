"""Importing many files of iperf3: the command's time and memory, beside a plain loop of json.loads over the same files.

FILES=10000 unless told otherwise, in folders of a hundred: a hundred devices with as many repeats as there are folders. DEVICES=each makes
every file another device.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES, DEVICES = int(os.environ.get("FILES", "10000")), os.environ.get("DEVICES", "100")
FOLDER = 100
RECORDED = Path(__file__).parents[1] / "data" / "iperf3" / "ok.json"


def make(folder: Path) -> list[Path]:
    said, paths = json.loads(RECORDED.read_bytes()), []
    for number in range(FILES):
        said["end"]["sum_received"]["bits_per_second"] = 9e9 + number * 1e4
        at = folder / f"run-{number // FOLDER:04d}"
        at.mkdir(parents=True, exist_ok=True)
        paths.append(at / f"device-{number if DEVICES == 'each' else number % FOLDER:05d}.json")
        paths[-1].write_text(json.dumps(said))
    return paths


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        paths = make(Path(name) / "files")
        began = time.perf_counter()
        for path in paths:
            json.loads(path.read_bytes())
        plain_s = time.perf_counter() - began
        began = time.perf_counter()
        words = ["import", "iperf3", f"{name}/files", "--runs", f"{name}/runs"]
        subprocess.run([sys.executable, "-m", "dutlab", *words], check=True, stdout=subprocess.DEVNULL)
        import_s, mib = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"import of {len(paths)} files of iperf3, {DEVICES} devices: {import_s:.1f} s, at most {mib:.0f} MiB")
        print(f"json.loads of the same files: {plain_s:.2f} s; the import takes {import_s / plain_s:.0f} times as long")


if __name__ == "__main__":
    main()
