"""The table of docs/reference/import.md that says with which files each importer was tried, and what it read of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mutated_imports import fault_of, mutated, whole_files

from dutlab.choices import IMPORTS
from dutlab.errors import InputError
from dutlab.interop.imported_run import ImportOptions
from dutlab.interop.importers import read_data
from dutlab.measures import measure_of
from dutlab.subject import figure_name
from golden import WRITING
from import_files import DATA

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "import.md"
MARK = "<!-- tests/unit/test_import_tried.py holds what follows; `make golden` writes it -->\n\n"
FORM = "in the form of its source"


@dataclass(frozen=True)
class Tried:
    """Files of one version of a tool; without a pattern those that are made in the form of its source."""

    kind: str
    tool: str
    pattern: str = ""


TRIED = (
    Tried("conductor", "Conductor, commits 3eb1098 and 728cd14"),
    Tried("csit", "CSIT's UTI model 1.5.1, drafts 0.1.0"),
    Tried("figures", "tables of five reviews"),
    Tried("fio", "fio 3.33", "fio/*.[jt]*"),
    Tried("flent", "flent 2.1.1", "flent/*.gz"),
    Tried("iperf2", "iperf 2.1.8, `-y C`", "iperf2/*.csv"),
    Tried("iperf2", "iperf 2.1.8, text", "iperf2/*.txt"),
    *(
        Tried("iperf3", f"iperf3 {of}", f"iperf3/versions/{of}-*")
        for of in ("3.1.3", "3.5", "3.7", "3.9", "3.10.1", "3.12", "3.16", "3.21")
    ),
    Tried("ipgen", "ipgen 1.29"),
    Tried("loadtest", "trex-loadtest, as trex-loadtest-viz 00a6319 reads it"),
    Tried("ministat", "results of freebsd-net/netperf"),
    Tried("netperf", "netperf 2.4 to 2.7"),
    Tried("nfvbench", "nfvbench, commit 8ecfd4c"),
    Tried("pkt-gen", "pkt-gen of 2026", "pkt-gen/*.log"),
    Tried("trex-ndr", "TRex 3.08, ndr_bench.py"),
    Tried("trex-stats", "TRex 3.08, STL and ASTF"),
    Tried("wrk", "wrk 4.1.0", "wrk/*.txt"),
)


def measures_of(kind: str, files: list[bytes]) -> Iterator[str]:
    """What the importer read of files, those without a result left out."""
    for data in files:
        try:
            trials = read_data(kind, "x", data, ImportOptions())
        except InputError:
            continue
        for trial in trials:
            names = (figure_name(name).measure for of in trial.measured.figures.values() for name in of)
            yield from (found.name if (found := measure_of(name)) else name for name in names)


def row(tried: Tried) -> str:
    if tried.pattern:
        files = [path.read_bytes() for path in sorted(DATA.glob(tried.pattern)) if path.is_file()]
    else:
        files = [data for kind, data in whole_files() if kind == tried.kind]
    assert files, f"no file for {tried}"
    read = sorted(set(measures_of(tried.kind, files)))
    assert read, f"nothing is read of {tried}"
    how = "files that it wrote" if tried.pattern else "tables as published" if tried.kind == "figures" else FORM
    return f"| `{tried.kind}` | {tried.tool} | {how} | {', '.join(f'`{name}`' for name in read)} |"


@pytest.mark.usefixtures("golden")
def test_the_table_says_what_was_tried_of_every_kind():
    assert {tried.kind for tried in TRIED} == IMPORTS.keys() == {kind for kind, _ in whole_files()}
    rows = ["| kind | tool and version | tried with | what was read |", "|---|---|---|---|", *map(row, TRIED)]
    text = PAGE.read_text()
    above, mark, rest = text.partition(MARK)
    assert mark, "the page has no place for the table"
    _, blank, below = rest.partition("\n\n")
    found = above + mark + "\n".join(rows) + blank + below
    if WRITING:
        PAGE.write_text(found)
    assert found == text or WRITING, "GOLDEN=write writes it again, review the diff"


@pytest.mark.parametrize("kind", sorted(IMPORTS))
def test_no_mutated_file_is_more_than_its_importer_foresaw(kind):
    """Thousands more: `python tests/faults/mutated_imports.py --count 10000`."""
    dice = random.Random(f"20261127 {kind}")
    files = whole_files()
    own = [data for of, data in files if of == kind]
    for _ in range(12):
        data = mutated(dice.choice(own) if dice.random() < 0.9 else dice.choice(files)[1], dice)
        assert fault_of(kind, data, dice)[0] == ""
