"""Claim cards hold against their raw files, and say where they do not."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cells import cell_of
from dutlab.cli.claims import claims, verify_claim
from dutlab.errors import DutlabError, InputError
from dutlab.interop.imported_run import Imported, imported_cell, write_imported
from dutlab.methods.ports import Measured
from dutlab.publish.verified import verified
from dutlab.report.questions.claims import read_card
from dutlab.store.run_folder import RunFolder
from dutlab.tools.raw_figures import CannotRecompute, KeptTrial, rates
from fake_run import Wanted, build
from raw_outputs import exchange, iperf3, received_reply, sent_reply, with_raw_outputs


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = build(
        tmp_path_factory.mktemp("runs"),
        Wanted(repeats=3, seconds=30, sizes=(64,), cores=0, bad_luck=False, modes={"router": "router", "nat": "nat"}),
    )
    return with_raw_outputs(path)


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / whole.name)


def said(command: object, *words: object) -> Result:
    return CliRunner().invoke(command, [str(w) for w in words])  # type: ignore[arg-type]


def made(run: Path) -> list[Path]:
    return [Path(line) for line in said(claims, run).output.splitlines()]


def test_each_headline_has_a_card_that_holds(run: Path) -> None:
    cards = made(run)
    assert len(cards) == 2
    for card in cards:
        found = said(verify_claim, card)
        assert found.exit_code == 0, found.output
        assert re.search(r"holds: 2 figures .* 6 trials", found.output)
    first = json.loads(cards[0].read_text())
    assert first["cells"][0]["median"] == pytest.approx(17.44e9)  # both links of the published table: 8.77 and 8.67 Gb/s
    assert first["conditions"]["dut"]["kernel"] == "6.1.0-28-amd64"


def test_a_run_that_compares_nothing_has_one_card_of_its_whole_answer(tmp_path: Path) -> None:
    one = Wanted(repeats=3, sizes=(64,), cores=0, bad_luck=False, modes={"router": "router"})
    (card,) = made(with_raw_outputs(build(tmp_path, one)))
    claim = json.loads(card.read_text())
    assert {(c["label"], c["workload"]) for c in claim["cells"]} == {("router", "iperf3"), ("router", "sweep")}
    assert "router" in claim["claim"]
    found = said(verify_claim, card)
    assert found.exit_code == 0, found.output


def test_a_card_made_better_than_it_is_differs_and_one_of_several_fails_all(run: Path) -> None:
    first, second = made(run)
    found = said(verify_claim, first, second)
    assert found.exit_code == 0 and found.output.count("holds: ") == 2
    first.write_text(first.read_text().replace("between router (17", "between router (71"))
    found = said(verify_claim, first, second)
    assert found.exit_code == 1 and found.output.count("holds: ") == 1
    assert "router (17" in found.output
    number = json.loads(first.read_text())
    number["cells"][0]["median"] *= 1.01
    first.write_text(json.dumps(number))
    assert "median of router is" in said(verify_claim, first).output


def test_two_claims_about_the_same_are_told_apart_by_their_sentences(run: Path) -> None:
    of, (first, second) = RunFolder.open(run), map(read_card, made(run))
    second = second.model_copy(update={"about": first.about})
    fresh = {"1": first, "2": second}
    assert [verified(card, of, fresh=fresh).state for card in (first, second)] == ["holds", "holds"]
    assert verified(second.model_copy(update={"claim": "better"}), of, fresh=fresh).state == "differs"


def test_a_tampered_raw_file_is_named_with_the_trial_it_belongs_to(run: Path) -> None:
    card = made(run)[0]
    trial = json.loads(card.read_text())["cells"][0]["trials"][0]
    (run / "trials" / f"{trial:04d}" / "raw" / "iperf3-a-client.json").write_bytes(iperf3(9.9e9))
    found = said(verify_claim, card).output
    assert f"changed: trials/{trial:04d}/raw/iperf3-a-client.json" in found
    assert f"trial {trial}: goodput_bps is" in found


def test_a_tampered_record_and_a_lost_raw_file_are_told(run: Path) -> None:
    card = made(run)[1]
    first, second, *_ = json.loads(card.read_text())["cells"][0]["trials"]
    record = run / "trials" / f"{first:04d}" / "record.json"
    record.write_text(record.read_text().replace('"received_pps": ', '"received_pps": 1'))
    (run / "trials" / f"{second:04d}" / "raw" / "engine-sink.jsonl").unlink()
    found = said(verify_claim, card)
    assert found.exit_code == 1
    assert "by its raw files" in found.output
    assert f"trial {second}: raw/engine-sink.jsonl" in found.output


def test_a_moved_run_is_found_where_it_lies_now(run: Path, tmp_path: Path) -> None:
    card = shutil.copy(made(run)[0], tmp_path / "card.json")
    assert isinstance(said(verify_claim, card).exception, DutlabError)
    assert said(verify_claim, card, "--run", run).exit_code == 0


def test_an_unfinished_run_has_no_card_and_nonsense_is_none(run: Path, tmp_path: Path) -> None:
    (run / "MANIFEST.sha256").unlink()
    assert "no manifest" in str(said(claims, run).exception)
    nonsense = tmp_path / "card.json"
    nonsense.write_text('{"schema_version": 1}')
    refused = said(verify_claim, nonsense).exception
    assert isinstance(refused, InputError) and "card.json" in str(refused)


@pytest.mark.parametrize(
    ("tool", "raw", "why"),
    [
        ("fio", {}, "raw files of fio"), ("iperf3", {}, "cannot be read"), ("iperf3", {"iperf3-a-client.json": b"garbage"}, "cannot be read"),
        ("engine", {"engine-source.jsonl": b"", "engine-sink.jsonl": b""}, "no reply to wait"), ("engine", {"engine-source.jsonl": b"{"}, "cannot be read"),
    ],
)  # fmt: skip
def test_raw_files_that_do_not_hold_a_rate_say_so(tool: str, raw: dict[str, bytes], why: str) -> None:
    of = cell_of("iperf3", tool=tool)
    with pytest.raises(CannotRecompute, match=why):
        rates(KeptTrial(of, raw, {}, {"testbed": {"links": {"a": {"path": ["source:eth-a", "sink:eth-a"]}}}}))


def test_rates_of_both_directions_come_out_of_the_raw_files_of_their_own_ends() -> None:
    def ran(sends: str, stream: int, n: int, receives: str, other: int, got: int) -> bytes:
        return exchange((1, "wait", sends, sent_reply((stream, n, 2.0))), (2, "settle", receives, received_reply((other, got))))

    raw = {
        "engine-source.jsonl": ran("source:eth-a", 5, 400, "source:eth-a", 6, 100),
        "engine-sink.jsonl": ran("sink:eth-a", 6, 400, "sink:eth-a", 5, 300),
    }
    links = {"testbed": {"links": {"a": {"path": ["source:eth-a", "sink:eth-a"]}}}}
    found = rates(KeptTrial(cell_of("sweep", directions="both"), raw, {}, links))
    assert found == {"a": {"received_pps": 150.0}, "a.back": {"received_pps": 50.0}, "a+a.back": {"received_pps": 200.0}}
    assert rates(KeptTrial(cell_of("sweep", directions="back"), raw, {}, links)) == {"a.back": {"received_pps": 50.0}}


def test_a_figure_that_raw_files_do_not_tell_is_not_taken_for_the_rate_that_they_do(run: Path, tmp_path: Path) -> None:
    card = json.loads(made(run)[0].read_text())
    for of in card["cells"]:
        of["figure"] = "lost_frames"
    (changed := tmp_path / "card.json").write_text(json.dumps(card))
    found = said(verify_claim, changed, "--run", run)
    assert found.exit_code == 1, found.output
    assert "lost_frames" in found.output, found.output


def test_what_dutlab_does_not_work_out_of_raw_files_is_not_said_to_differ(tmp_path: Path) -> None:
    trials = [Imported(imported_cell("box", workload="flent", tool="flent", params={}), Measured({"a": {"goodput_bps": 1e9}}))]
    folder = write_imported(tmp_path, "r", trials, command=(), now=datetime(2026, 11, 25, tzinfo=UTC)).path
    found = said(verify_claim, *made(folder))
    assert found.exit_code == 1 and "differs" not in found.output.replace("nothing differs", ""), found.output
    assert "not recomputed: trial 1: " in found.output and "nothing differs" in found.output
