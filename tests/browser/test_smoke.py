"""One report in a real browser: in some seconds, where all pages take minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser.chromium import Chromium
from browser.looks import faults_of_access
from dutlab.report.write import write_report
from fake_run import Wanted, build


@pytest.mark.smoke
def test_a_report_opens_without_a_complaint_and_axe_finds_nothing_serious(browser: Chromium, tmp_path: Path) -> None:
    run = build(tmp_path, Wanted(repeats=1, seconds=2, cores=1, sizes=(64, "imix")))
    browser.open(write_report([run], formats=["html"], out=None)[0], width=1280)
    assert browser.evaluate("document.querySelectorAll('figure svg').length") > 0
    assert browser.complaints == []
    assert faults_of_access(browser) == []
