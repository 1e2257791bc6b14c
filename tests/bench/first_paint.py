"""First contentful paint of the largest pages in Chromium with its processor slowed SLOWED=4 times, ROUNDS=5; the peer is an empty page, in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from click.testing import CliRunner

from browser.chromium import Chromium
from dutlab.cli.publish import publish
from dutlab.report.write import report_finished
from fake_run import Wanted, build

SLOWED, ROUNDS = float(os.environ.get("SLOWED", "4")), int(os.environ.get("ROUNDS", "5"))
PAINTED = """new Promise((done) => { const seen = performance.getEntriesByName('first-contentful-paint')[0];
  if (seen) done(seen.startTime); else new PerformanceObserver((list) => done(list.getEntriesByName('first-contentful-paint')[0].startTime))
    .observe({type: 'paint', buffered: true}); })"""


def painted_ms(browser: Chromium, address: str) -> float:
    browser.open("about:blank", width=1280)
    browser.open(address, width=1280)
    found = browser.send("Runtime.evaluate", expression=PAINTED, awaitPromise=True, returnByValue=True)
    return float(found["result"]["value"])


def main() -> None:
    with TemporaryDirectory() as folder:
        runs, site, empty = Path(folder, "runs"), Path(folder, "site"), Path(folder, "empty.html")
        runs.mkdir()
        run = build(runs, Wanted(seconds=2, lab=True))
        report_finished([run])
        empty.write_text("<!DOCTYPE html><title>e</title><p>e")
        assert CliRunner().invoke(publish, [str(run), str(site)]).exit_code == 0
        argv = [sys.executable, "-m", "dutlab", "serve", "--json", "--port", "0", "--runs", str(runs)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server, Chromium() as browser:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            pages = {
                "an empty page, the peer": empty.as_uri(), "report.html": (run / "report" / "report.html").as_uri(),
                "site, index": (site / "index.html").as_uri(), "site, a device": next((site / "devices").glob("*.html")).as_uri(),
                "served list": address, "served report": f"{address}runs/{run.name}/report/", "served limits": f"{address}limits",
            }  # fmt: skip
            painted_ms(browser, pages["served report"])  # which is made once
            browser.send("Emulation.setCPUThrottlingRate", rate=SLOWED)
            times: dict[str, list[float]] = {name: [] for name in pages}
            for _ in range(ROUNDS):
                for name, place in pages.items():
                    times[name].append(painted_ms(browser, place))
            for name, found in times.items():
                print(f"{name}: {median(found):.0f} ms ({min(found):.0f} to {max(found):.0f})")
            print(f"slowed {SLOWED:g} times, {ROUNDS} rounds, load average {os.getloadavg()[0]:.1f}")
            server.terminate()


if __name__ == "__main__":
    main()
