"""Campaigns: the file, its hours, the folder after a kill at any instant, and the order of work. Real runs are in tests/faults/test_campaign.py."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaign_folders import finish, folder_of
from capability import need_program
from dutlab.errors import Fault, InputError, SpecRefused, StoreError, TestbedError
from dutlab.runner.campaign_folder import CampaignFolder, CampaignState
from dutlab.runner.fleet import place
from dutlab.runner.fleet.cost import FleetCost, RunClock, on_this_clock
from dutlab.runner.fleet.keeping import RunKeeping
from dutlab.runner.fleet.leases import BedLease, SqliteLeases
from dutlab.runner.fleet.place import PlaceWork
from dutlab.spec.campaign import Hours, read_campaign
from dutlab.spec.model import ValueFault
from dutlab.store.fleet_database import SqliteDatabase
from dutlab.store.manifest import JOURNAL, MANIFEST, compare
from dutlab.store.object_store import fetch_run
from dutlab.store.run_folder import RunFolder
from fake_run import Wanted as Made
from fake_run import build
from golden import Golden
from processes import LIMIT_S
from spec_faults import brief

EXPERIMENT = """
experiment: {name}
testbed: {{lab: three-node}}
factors: {{mode: [router]}}
workloads:
  - sweep: {{frame_sizes: [64], rates: [1kpps], duration: 1s, links: [[a]]}}
repeats: 1
"""
CAMPAIGN = """
campaign: nightly
experiments: [one.yaml, two.yaml]
testbeds: [{lab: three-node}, {lab: four-hosts}]
versions:
  stock: {}
  new: {apply: ["true"], verify: ["true"], restore: ["true"]}
nights: 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(EXPERIMENT.format(name=name))
    path = tmp_path / "nightly.yaml"
    path.write_text(CAMPAIGN)
    return path


def test_every_combination_is_a_run_and_a_night_is_whole_before_the_next(file: Path) -> None:
    planned = read_campaign(file)
    assert [run.number for run in planned.runs] == list(range(1, 17))
    assert [run.night for run in planned.runs] == [1] * 8 + [2] * 8
    assert {(r.experiment, r.testbed, r.version) for r in planned.runs} == {
        (e, t, v) for e in ("one", "two") for t in ("three-node", "four-hosts") for v in ("stock", "new")
    }
    assert set(planned.files) == {file, file.with_name("one.yaml"), file.with_name("two.yaml")}
    (new,) = {r.arguments for r in planned.runs if (r.experiment, r.testbed, r.version) == ("one", "three-node", "new")}
    assert new == (
        str(file.with_name("one.yaml")),
        *("--set", 'testbed={"lab": "three-node"}'),
        *("--set", 'factors.version=["new"]'),
        *("--set", 'levels.version={"new": {"apply": ["true"], "verify": ["true"], "restore": ["true"]}}'),
    )


def faults(file: Path, text: str) -> tuple[Fault, ...]:
    file.write_text(text)
    with pytest.raises(SpecRefused) as refused:
        read_campaign(file)
    return tuple(refused.value.faults)


def test_a_file_is_refused_with_every_fault_of_all_that_it_names(file: Path, golden: Golden) -> None:
    file.with_name("two.yaml").write_text(EXPERIMENT.format(name="two").replace("1kpps", "fast").replace("repeats: 1", "repeats: 0"))
    assert brief(faults(file, CAMPAIGN)) == ["6:40 workloads.0.sweep.rates.0 unit", "7:1 repeats range"], "once each, of eight runs"
    own = CAMPAIGN.replace("nights: 2", 'nights: 0\nhours: "22-6"\nat_once: 0\nnight: 1').replace(', restore: ["true"]', "")
    found = faults(file, own)
    assert set(brief(found)) >= {
        "7:3 versions.new.0.restore missing", "8:1 nights range", "9:1 hours type", "10:1 at_once range", "11:1 night unknown-key",
    }  # fmt: skip
    golden.check("refusals-campaign.txt", "".join(f"{fault}\n" for fault in found).replace(f"{file.parent}/", ""))


def test_a_fault_is_told_where_the_user_wrote_it(file: Path) -> None:
    missing, bed = file.with_name("missing.yaml"), file.with_name("bed.yaml")
    bed.write_text("testbed: bed\nhosts:\n  here: {locl: true}\n")
    file.with_name("two.yaml").write_text(EXPERIMENT.format(name="two").replace("repeats: 1", "repeats: 0"))
    listed = "experiments: [one.yaml, missing.yaml, two.yaml]\ntestbeds: [bed.yaml, missing.yaml]\n"
    for others in ("", "nights: 0\nhours: 2200\n"):
        found = {(f.file, f.line, f.column, f.path) for f in faults(file, f"campaign: nightly\n{listed}{others}")}
        assert {
            (str(file), 2, 25, "experiments.1"), (str(file), 3, 22, "testbeds.1"),
            (str(bed), 3, 10, "hosts.here.locl"), (str(file.with_name("two.yaml")), 7, 1, "repeats"),
        } <= found  # fmt: skip
        assert others == "" or {(str(file), 4, 1, "nights"), (str(file), 5, 1, "hours")} <= found, "together with faults of its own"
        assert not missing.exists()
    file.with_name("two.yaml").write_text(EXPERIMENT.format(name="two"))
    assert brief(faults(file, CAMPAIGN.replace('{apply: ["true"]', '{host: nobody, apply: ["true"]'))) == ["7:3 versions.new unfit"] * 2


def test_a_testbed_is_there_once_and_no_two_have_one_name(file: Path, tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bed.yaml").write_text("testbed: bed\nhosts:\n  here: {local: true}\n")
    file.with_name("one.yaml").write_text(
        "experiment: one\ntestbed: x/bed.yaml\nfactors: {mode: [as-found]}\nrepeats: 1\n"
        'workloads: [{steps: {run: {here: [{run: "true", name: a}]}}}]\n'
    )
    file.write_text("campaign: c\nexperiments: [one.yaml, ./one.yaml]\ntestbeds: [x/bed.yaml, x/../x/bed.yaml]\n")
    assert [(run.number, run.testbed) for run in read_campaign(file).runs] == [(1, "bed")]
    two = "campaign: c\nexperiments: [one.yaml]\ntestbeds: [x/bed.yaml, y/bed.yaml]\n"
    assert brief(faults(file, two)) == ["3:24 testbeds.1 duplicate"]


@pytest.mark.parametrize("hours", ["22:00-22:00", "24:00-06:00", "22:00", "night"])
def test_hours_are_two_times_of_a_day(hours: str) -> None:
    with pytest.raises(ValueFault):
        Hours.parse(hours)


def test_versions_and_a_factor_of_that_name_are_refused_together(file: Path) -> None:
    own = EXPERIMENT.format(name="one").replace("{mode: [router]}", "{mode: [router], version: [a]}")
    file.with_name("one.yaml").write_text(own)
    assert brief(faults(file, CAMPAIGN)) == ["5:1 versions conflict"]


MINUTES = st.integers(0, 24 * 60 - 1)


@settings(max_examples=40)
@given(MINUTES, MINUTES, st.integers(0, 10**6))
def test_an_instant_is_in_a_night_or_before_the_next_one(begin: int, end: int, minute: int) -> None:
    if begin == end:
        return
    hours = Hours.parse(f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}")
    now = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None) + timedelta(minutes=minute)
    length = timedelta(minutes=(end - begin) % (24 * 60))
    night = hours.night_of(now)
    following = hours.next_begin(now)
    assert following > now and (following.hour, following.minute) == divmod(begin, 60) and following - now <= timedelta(days=1)
    if night is not None:
        assert night <= now < night + length
    else:
        assert hours.night_of(following) == following and following - now <= timedelta(days=1) - length


@pytest.mark.parametrize("cut_after", ["finished", "named", "moved"])
def test_a_finished_run_is_found_once_after_a_kill_at_any_step(tmp_path: Path, cut_after: str) -> None:
    folder = folder_of(tmp_path / "c")
    first, second = folder.planned()
    finish(folder, 1, "r1")
    if cut_after != "finished":
        (folder.place(first) / "run").write_text("r1")
    if cut_after == "moved":
        folder.runs.mkdir()
        (folder.place(first) / "runs" / "r1").rename(folder.runs / "r1")
    for _ in range(2):
        assert folder.settle(first) == "r1"
        assert [p.name for p in folder.runs.iterdir()] == ["r1"]
    assert folder.settle(second) is None
    assert [folder.standing(p).state for p in (first, second)] == [CampaignState.DONE, CampaignState.PLANNED]


def test_a_campaign_is_carried_out_by_one_process_and_one_version_on_unchanged_files(file: Path, tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "c", read_campaign(file), "0.1.0")
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "c"))):
        CampaignFolder.create(tmp_path / "c", read_campaign(file), "0.1.0")
    with folder.alone(), pytest.raises(TestbedError, match="another process"), CampaignFolder(folder.path).alone():
        pass
    folder.insist_on_its_files("0.1.0")
    with pytest.raises(InputError, match=r"0\.1\.0, and this is 0\.2\.0"):
        folder.insist_on_its_files("0.2.0")
    file.with_name("two.yaml").write_text("changed")
    with pytest.raises(InputError, match=r"two\.yaml"):
        folder.insist_on_its_files("0.1.0")
    with pytest.raises(InputError, match="not a campaign"):
        CampaignFolder(tmp_path / "nowhere").planned()
    head = json.loads((tmp_path / "c" / "plan.json").read_text())
    (tmp_path / "c" / "plan.json").write_text(json.dumps({**head, "tries": 0, "planned": "x"}))
    with pytest.raises(StoreError, match=r"plan\.json: .* tries: .*; planned: "):
        folder.planned()
    (tmp_path / "c" / "plan.json").write_text("[]")
    with pytest.raises(InputError, match="not a campaign's plan"):
        folder.planned()


def test_status_says_what_another_user_may_not_see_and_skips_what_a_full_disk_cut(tmp_path, python, python_env) -> None:
    folder = folder_of(tmp_path / "c", runs=2)
    first, second = folder.planned()
    finish(folder, 1, "r1")
    folder.settle(first)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    folder.tried(first, now, now, 1, "run")
    folder.said_by(first).write_text(f"report: {folder.own_runs(first)}/r1/report/report.html\n")
    folder.tried(second, now, now, 1, "run")
    with (folder.place(second) / "tries").open("a") as tries:
        tries.write('{"began": "2026-')
    assert folder.standing(second).tries == 1
    argv = [python, "-m", "dutlab", "campaign", "status", str(folder.path)]
    if os.geteuid() == 0:  # as a user like others, to whom another one's folder is closed
        os.chown(folder.place(second), 65534, 65534)
        argv = [need_program("setpriv"), "--bounding-set=-all", "--inh-caps=-all", "--", *argv]
    seen = subprocess.run(argv, env=python_env, capture_output=True, text=True, check=False)
    assert re.search(r"^run 1: .* 1; ", seen.stdout, re.MULTILINE), seen.stderr
    folder.place(second).chmod(0)
    unseen = subprocess.run(argv, env=python_env, capture_output=True, text=True, check=False)
    folder.place(second).chmod(0o755)
    assert (unseen.returncode, unseen.stdout) == (1, ""), unseen.stdout
    assert "Permission denied" in unseen.stderr


def test_a_place_reads_its_own_line_of_the_plan_alone(tmp_path: Path, python: str, python_env: dict[str, str]) -> None:
    folder = folder_of(tmp_path / "c", runs=300)
    planned = folder.planned()
    file = folder.path / "planned.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) == 300 and len(set(map(len, lines))) == 1
    for number in (1, 7, 150, 300):
        assert folder.planned_run(number) == planned[number - 1]
        file.write_bytes(b"".join(line if n == number else b"\xff" * len(line) for n, line in enumerate(lines, start=1)))
        assert folder.planned_run(number) == planned[number - 1], "whatever the other lines hold"
        with pytest.raises(StoreError, match=r"planned\.jsonl:2: "):
            folder.planned_run(2)
        file.write_bytes(b"".join(lines))
    for number in (0, 301):
        with pytest.raises(InputError, match=f"has no planned run {number}"):
            folder.planned_run(number)
    finish(folder, 150, "r150")
    file.write_bytes(b"".join(line if n == 150 else b"?" * len(line) for n, line in enumerate(lines, start=1)))
    argv = [python, "-m", "dutlab", "campaign", "place", str(folder.path), "150"]
    done = subprocess.run(argv, env=python_env, capture_output=True, text=True, check=False)
    assert (done.returncode, folder.done(planned[149])) == (0, "r150"), done.stderr
    file.write_bytes(b"".join(lines[:299]))
    with pytest.raises(StoreError, match="299 lines"):
        folder.planned()


def test_what_a_fleet_adds_to_a_run_is_counted_without_the_waits_for_others(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "c", runs=1)
    (planned,) = folder.planned()
    now, run = datetime(2026, 1, 1, tzinfo=UTC), RunClock(began_s=116.0, ended_s=216.0, waited_s=15.0)
    folder.tried(planned, now, now, 0, "run", clock=run)
    assert folder.last_clock(planned) == run
    finish(folder, 1, "r1")
    folder.settle(planned)
    for carried_s in (0.5, 0.0):
        folder.note_cost(planned, replace(FleetCost.of(100.0, run, 216.5), carried_s=carried_s))
    cost = folder.standing(planned).cost
    assert cost == FleetCost(before_s=2.0, after_s=1.0, carried_s=0.5, waited_s=30.0, run_s=200.0), "two processes, a second and half each"
    assert cost.added_s == 3.5 and cost.added_share == 3.5 / 200
    folder.tried(planned, now, now, 3, "place")
    assert folder.last_clock(planned) is None, "what came after it made no run"


class Hanging(SqliteLeases):
    """Behind a network that is cut: a renewal waits until `cut` is over."""

    cut: threading.Event

    def renew(self, lease: BedLease, for_s: float) -> bool:
        self.cut.wait(LIMIT_S)
        return super().renew(lease, for_s)


def test_a_run_ends_in_order_while_a_database_that_hangs_is_still_asked(tmp_path, python, monkeypatch) -> None:
    folder = folder_of(tmp_path / "c", runs=1, fleet={"lease": "20s"})
    (planned,) = folder.planned()
    store = Hanging(SqliteDatabase(tmp_path / "leases"))
    store.cut = threading.Event()
    lease = store.take("t", "a", 20.0)
    assert lease is not None
    ends = "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(7)); print(flush=True); time.sleep(600)"

    async def kept() -> int:
        process = await asyncio.create_subprocess_exec(python, "-c", ends, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None and await process.stdout.readline()
        now = on_this_clock() + 12.0  # between the half of the lease, when the run is to end, and nine tenths, when it is killed
        monkeypatch.setattr(place, "on_this_clock", lambda: now)
        keeping = asyncio.ensure_future(PlaceWork(folder, planned, folder.fleet, store, "0.1.0")._keep(lease, process))
        try:
            return await process.wait()
        finally:
            assert not store.cut.is_set(), "it was still asked"
            store.cut.set()
            keeping.cancel()

    assert asyncio.run(kept()) == 7


def test_a_run_that_cannot_be_kept_stays_and_is_kept_later_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, lost = tmp_path / "store", SqliteDatabase(tmp_path / "file" / "fleet.sqlite")
    folder = folder_of(tmp_path / "c", runs=1, fleet={"store": f"file://{store}"})
    (planned,) = folder.planned()
    run = build(folder.own_runs(planned), Made(repeats=1, sizes=(64,), seconds=2, cores=1))
    record, secret = run / "trials/0001/record.json", "of-the-pdu"
    told = record.relative_to(run).as_posix()
    record.write_text(record.read_text().replace('"why": "', f'"why": "PDU_TOKEN={secret} '))
    (run / MANIFEST).unlink()
    RunFolder(run).write_manifest()
    (run / JOURNAL).write_text(f"--token {secret}\n")
    monkeypatch.setenv("ANY_TOKEN", secret)
    assert folder.settle(planned) == run.name
    (tmp_path / "file").write_text("no folder")
    store.write_text("no folder")
    for keeping in (RunKeeping(folder, SqliteDatabase(tmp_path / "good.sqlite")), RunKeeping(folder, lost)):
        (why,) = keeping.keep_all()
        assert why.startswith(f"{run.name} stays in {folder.runs} alone for now: ")
        assert (folder.standing(planned).state, folder.standing(planned).kept) == (CampaignState.DONE, None)
        if store.is_file():
            store.unlink()
    (tmp_path / "file").unlink()
    assert RunKeeping(folder, lost).keep_all() == []
    assert folder.standing(planned).kept == f"file://{store}/{run.name}"
    assert (store / run.name / MANIFEST).exists() and (folder.runs / run.name / MANIFEST).exists(), "nothing measured is removed"
    away = [*(path for path in store.rglob("*") if path.is_file()), tmp_path / "file" / "fleet.sqlite"]
    assert not [path for path in away if secret.encode() in path.read_bytes()] and secret in (folder.runs / run.name / told).read_text()
    fetched = compare(fetch_run(f"file://{store}/{run.name}", tmp_path))
    assert fetched.none_but_redacted and fetched.redacted == (told,)
    (folder.place(planned) / "kept").unlink()
    (folder.path / "store").write_text("another")
    assert "have another database" in RunKeeping(folder, lost).keep_all()[0], "not into an index that the workers do not have"


def test_a_worker_with_another_store_of_leases_or_version_makes_no_run_and_that_is_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "c", runs=1)
    (planned,) = folder.planned()
    finish(folder, 1, "r1")
    one, two = (SqliteLeases(SqliteDatabase(tmp_path / name)) for name in ("one", "two"))
    with pytest.raises(InputError, match=r"0\.1\.0, and this is 9\.9\.9"):
        asyncio.run(PlaceWork(folder, planned, folder.fleet, one, "9.9.9").carry_out())
    assert folder.first_store(one.identity()) == one.identity()
    with pytest.raises(InputError, match="another store"):
        asyncio.run(PlaceWork(folder, planned, folder.fleet, two, "0.1.0").carry_out())
    standing = folder.standing(planned)
    assert (standing.tries, standing.exit_status, folder.done(planned)) == (2, 2, None)
    assert asyncio.run(PlaceWork(folder, planned, folder.fleet, one, "0.1.0").carry_out()) == 0
    assert folder.done(planned) == "r1" and one.held() == [] and two.held() == []
