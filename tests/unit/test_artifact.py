"""Artifacts: one file that strangers can repeat; what anybody changed in it is refused, and its claims are judged by a new run."""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from artifact_runs import BEGAN, GBPS, lab_run
from capability import need
from cells import cell_of
from dutlab.cli.artifact import artifact
from dutlab.errors import InputError, StoreError
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.ports import Measured
from dutlab.publish.archive import pack
from dutlab.publish.crate import METADATA
from dutlab.publish.opened_artifact import open_artifact
from dutlab.publish.provenance import PREDICATE, PROVENANCE, STATEMENT
from dutlab.runner.repeat import to_repeat
from dutlab.runner.trust import NotOurs
from dutlab.store.run_folder import RunFolder

DAY = timedelta(days=1)


def said(*words: object) -> Result:
    return CliRunner().invoke(artifact, [str(w) for w in words])


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lab_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def packed(first: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("artifact") / "a.zip"
    done = said(first, "-o", out, "--licence", "CC-BY-4.0", "--author", "Ada Byron <https://orcid.org/0000-0002-1825-0097>")
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def unpacked(packed: Path, tmp_path: Path) -> Path:
    with zipfile.ZipFile(packed) as of:
        of.extractall(tmp_path / "unpacked")
    return tmp_path / "unpacked"


def key_in(folder: Path, name: str = "key") -> Path:
    need("sshd", shutil.which("ssh-keygen") is not None)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
    return folder / name


def test_the_same_runs_give_the_same_bytes_under_any_name(first: Path, tmp_path: Path) -> None:
    for name in ("x.zip", "y.zip"):
        assert said(first, "-o", tmp_path / name, "--title", "Two rates").exit_code == 0
    assert (tmp_path / "x.zip").read_bytes() == (tmp_path / "y.zip").read_bytes()


def test_the_metadata_are_a_crate_that_describes_every_file_outside_of_the_runs(unpacked: Path) -> None:
    graph = json.loads((unpacked / METADATA).read_text())["@graph"]
    by_id = {entity["@id"]: entity for entity in graph}
    assert len(by_id) == len(graph)
    assert by_id[METADATA]["about"] == {"@id": "./"} and by_id[METADATA]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    root = by_id["./"]
    assert root["@type"] == "Dataset" and root["datePublished"] == "2026-11-21"
    assert by_id[root["license"]["@id"]]["name"] == "CC-BY-4.0" and by_id[root["author"]["@id"]]["name"] == "Ada Byron"
    parts = {part["@id"] for part in root["hasPart"]}
    outside = {
        p.relative_to(unpacked).as_posix() for p in unpacked.rglob("*") if p.is_file() and "runs" not in p.relative_to(unpacked).parts
    }
    assert {p for p in parts if not p.startswith("runs/")} == outside - {METADATA, PROVENANCE, "SHA256SUMS"}
    for entity in graph:
        kinds = entity["@type"] if isinstance(entity["@type"], list) else [entity["@type"]]
        if "File" in kinds:
            assert (unpacked / entity["@id"]).stat().st_size == int(entity["contentSize"])
        for value in entity.values():
            for link in value if isinstance(value, list) else [value]:
                assert not isinstance(link, dict) or link["@id"] in by_id or link["@id"].startswith("https://w3id.org/")
    (run,) = [by_id[p] for p in parts if p.startswith("runs/")]
    assert by_id["#measurement-1"]["result"] == {"@id": run["@id"]} and (unpacked / run["@id"] / "experiment.yaml").is_file()


def test_the_provenance_and_the_sums_have_the_digest_of_every_file(unpacked: Path) -> None:
    statement = json.loads((unpacked / PROVENANCE).read_text())
    assert (statement["_type"], statement["predicateType"]) == (STATEMENT, PREDICATE)
    files = {p.relative_to(unpacked).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in unpacked.rglob("*") if p.is_file()}
    assert {s["name"]: s["digest"]["sha256"] for s in statement["subject"]} == {n: d for n, d in files.items() if n != PROVENANCE}
    sums = dict(line.split("  ", 1)[::-1] for line in (unpacked / "SHA256SUMS").read_text().splitlines())
    assert sums == {n: d for n, d in files.items() if n not in {PROVENANCE, "SHA256SUMS"}}
    (run,) = statement["predicate"]["buildDefinition"]["externalParameters"]["runs"]
    assert run["command"] == ["dutlab", "run", "e.yaml"] and run["seed"] == 7
    names = [of["name"] for of in statement["predicate"]["buildDefinition"]["resolvedDependencies"]]
    assert {"dutlab", "duckdb", "scipy"} <= set(names)


def test_the_page_has_each_claim_with_its_expected_ranges(unpacked: Path) -> None:
    page = (unpacked / "ARTIFACT.md").read_text()
    (card,) = (unpacked / "claims").rglob("*.json")
    claim = json.loads(card.read_text())
    assert claim["claim"].split(" (")[0] in page and card.relative_to(unpacked).as_posix() in page
    rows = [line for line in page.splitlines() if "goodput" in line and "÷" not in line and line.startswith("| ")]
    assert [row.split(" | ")[2] for row in rows if " to " in row] == ["9.32 Gb/s", "6.12 Gb/s"]


def test_a_plain_run_records_the_dutlab_that_made_it(first: Path) -> None:
    assert RunFolder.open(first).resolved["dutlab"]["version"]


def test_secrets_in_a_run_are_covered_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = lab_run(tmp_path, command_note="PLUG_PASSWORD=hunter2hunter2")
    monkeypatch.setenv("PLUG_PASSWORD", "hunter2hunter2")
    done = said(run, "-o", tmp_path / "s.zip", "--json")
    assert done.exit_code == 0 and any("covered 1 secret" in note for note in json.loads(done.stdout)["notes"])
    with zipfile.ZipFile(tmp_path / "s.zip") as of:
        assert all(b"hunter2" not in of.read(name) for name in of.namelist())


def test_a_copy_with_covered_secrets_is_repeated_unless_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = lab_run(tmp_path, command_note="PLUG_PASSWORD=hunter2hunter2")
    monkeypatch.setenv("PLUG_PASSWORD", "hunter2hunter2")
    assert said(run, "-o", tmp_path / "s.zip").exit_code == 0
    found = said("check", tmp_path / "s.zip", "--plan")  # the secret was in resolved.json
    assert isinstance(found.exception, InputError) and "resolved.json" in str(found.exception)


def test_the_package_is_in_it_with_its_digest_and_another_file_is_refused(first: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "dutlab-0.1.0-py3-none-manylinux2014_x86_64.whl"
    wheel.write_bytes(b"a wheel")
    assert said(first, "-o", tmp_path / "w.zip", "--wheel", wheel).exit_code == 0
    with zipfile.ZipFile(tmp_path / "w.zip") as of:
        statement = json.loads(of.read(PROVENANCE))
        assert of.read(f"packages/{wheel.name}") == b"a wheel" and "not in this artifact" not in of.read("Containerfile").decode()
    digest = hashlib.sha256(b"a wheel").hexdigest()
    assert {"name": f"packages/{wheel.name}", "digest": {"sha256": digest}} in statement["predicate"]["buildDefinition"][
        "resolvedDependencies"
    ]
    other = wheel.rename(tmp_path / "other-1.0-py3-none-any.whl")
    assert isinstance(said(first, "-o", tmp_path / "v.zip", "--wheel", other).exception, InputError)
    assert not (tmp_path / "v.zip").exists()


def test_runs_that_cannot_be_packed_are_all_named_and_nothing_is_left(first: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(first, tmp_path / "changed"))
    (changed / "plan.json").write_text("{}")
    open_ = Path(shutil.copytree(first, tmp_path / "open"))
    (open_ / "MANIFEST.sha256").unlink()
    done = said(changed, open_, "-o", tmp_path / "x.zip")
    assert isinstance(done.exception, InputError) and "changed" in str(done.exception) and "open" in str(done.exception)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["changed", "open"]


# What a check says.


@pytest.mark.parametrize(
    ("gbps", "more", "status", "states"),
    [
        ({"router": (9.0, 9.1, 9.2, 9.1), "nat": (6.0, 6.1, 6.0, 6.1)}, {}, 0, ["repeated"] * 3),
        ({"router": (9.3,) * 4, "nat": (4.1,) * 4}, {}, 1, ["repeated", "differs", "differs"]),
        ({"router": (8.0,) * 4, "nat": (5.3,) * 4}, {}, 4, ["cannot tell", "cannot tell", "repeated"]),  # 14 %: one run shows no spread of runs
        ({"router": (4.1,) * 4, "nat": (2.7,) * 4}, {}, 1, ["differs", "differs", "repeated"]),
        ({"router": (4.1,) * 4, "nat": (2.7,) * 4}, {"processor": "Epyc"}, 0, ["cannot tell", "cannot tell", "repeated"]),
        ({"router": (4.1,) * 4, "nat": (1.2,) * 4}, {"processor": "Epyc"}, 1, ["cannot tell", "cannot tell", "differs"]),
        ({"router": (9.3,) * 4, "nat": (4.1,) * 4}, {"disturbed": True}, 4, ["repeated", "cannot tell", "cannot tell"]),
        ({"router": (9.3,) * 4, "nat": (None,) * 4}, {}, 4, ["repeated", "cannot tell", "cannot tell"]),
    ],
)  # fmt: skip
def test_each_claim_is_judged_by_the_run_that_repeats_it(first, packed, tmp_path, gbps, more, status, states) -> None:
    new = lab_run(tmp_path, gbps, after=DAY, repeated_run=first.name, **more)
    done = said("check", packed, "--repeated", new, "--json")
    assert done.exit_code == status, done.output
    (run,) = json.loads(done.stdout)["runs"]
    (claim,) = run["claims"]
    assert [f["state"] for f in claim["figures"]] == states
    assert [f["ratio"] for f in claim["figures"]] == [False, False, True]
    for f in claim["figures"]:
        assert (f["state"] == "cannot tell") == (f["reason"] is not None)
        assert f["here"] is None or f["state"] != "repeated" or f["low"] <= f["here"] <= f["high"]


def test_two_repeats_predict_nothing(tmp_path: Path) -> None:
    old = lab_run(tmp_path, {m: v[:2] for m, v in GBPS.items()})
    new = lab_run(tmp_path, GBPS, after=DAY, repeated_run=old.name)
    assert said(old, "-o", tmp_path / "few.zip").exit_code == 0
    done = said("check", tmp_path / "few.zip", "--repeated", new, "--json")
    assert done.exit_code == 4
    assert {f["reason"] for f in json.loads(done.stdout)["runs"][0]["claims"][0]["figures"]} == {"FEW"}


def test_several_runs_of_one_experiment_are_repeated_by_one_and_predict_from_their_own_spread(tmp_path: Path) -> None:
    runs = [lab_run(tmp_path, {m: [v * (1 + 0.01 * n) for v in of] for m, of in GBPS.items()}, after=n * DAY, seed=n) for n in range(4)]
    assert said(*runs, "-o", tmp_path / "many.zip").exit_code == 0
    new = lab_run(tmp_path, GBPS, after=9 * DAY, repeated_run=runs[-1].name)
    done = said("check", tmp_path / "many.zip", "--repeated", new, "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert run["run"] == runs[-1].name and {f["basis"] for f in run["claims"][0]["figures"]} == {"runs"}
    assert done.exit_code == 0, done.output


def test_cells_that_differ_in_a_setting_only_are_told_apart(tmp_path: Path) -> None:
    old = lab_run(tmp_path, streams=(4, 1))
    new = lab_run(tmp_path, streams=(4, 1), after=DAY, repeated_run=old.name)
    assert said(old, "-o", tmp_path / "two.zip").exit_code == 0
    done = said("check", tmp_path / "two.zip", "--repeated", new, "--json")
    assert done.exit_code == 0, done.output
    claims = json.loads(done.stdout)["runs"][0]["claims"]
    assert len(claims) == 2
    assert len({f["cell"] for c in claims for f in c["figures"]}) == 6


def test_a_run_that_repeats_nothing_in_it_is_refused(first: Path, packed: Path, tmp_path: Path) -> None:
    other = lab_run(tmp_path, after=DAY)
    for run in (first, other):
        done = said("check", packed, "--repeated", run)
        assert isinstance(done.exception, InputError) and done.exception.exit_status == 2


def test_imported_results_cannot_be_repeated_and_so_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dutlab.cli.artifact.become_root", lambda: None)
    trials = [
        Imported(cell_of("iperf3", mode=mode), Measured({"a": {"goodput_bps": bps}}), {"out.txt": b"x"})
        for mode, bps in (("router", 9e9), ("nat", 6e9)) for _ in range(3)
    ]  # fmt: skip
    run = write_imported(tmp_path, "bench", trials, command=["dutlab", "import"], now=BEGAN)
    assert said(run.path, "-o", tmp_path / "i.zip").exit_code == 0
    done = said("check", tmp_path / "i.zip", "--json", "--runs", tmp_path / "new")
    assert done.exit_code == 4 and not (tmp_path / "new").exists()
    assert {f["reason"] for r in json.loads(done.stdout)["runs"] for c in r["claims"] for f in c["figures"]} == {"ABSENT"}


def test_a_full_disk_is_not_a_claim_that_differs(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dutlab.publish.archive.Beneath.write_new", full)
    done = said("check", packed, "--plan")
    assert isinstance(done.exception, StoreError) and done.exception.exit_status == 4


def test_a_strangers_commands_are_shown_and_nothing_runs(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    monkeypatch.setattr("dutlab.cli.artifact.become_root", lambda: None)
    plan = said("check", packed, "--plan")
    assert plan.exit_code == 0 and "experiment workloads.0.iperf3" in plan.output and "lab three-node" in plan.output
    done = said("check", packed, "--runs", tmp_path / "runs")
    assert isinstance(done.exception, NotOurs) and not (tmp_path / "runs").exists()


def test_a_run_on_its_authors_machines_needs_a_testbed(
    packed: Path, unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dutlab.cli.artifact.become_root", lambda: None)
    monkeypatch.setattr("dutlab.publish.artifact_runs.RunGroup.lab", "")
    done = said("check", packed, "--trust", "--runs", tmp_path / "runs")
    assert isinstance(done.exception, InputError) and "--testbed" in done.exception.remedy


# What is refused.


def test_a_cut_or_damaged_file_is_refused(packed: Path, tmp_path: Path) -> None:
    whole = packed.read_bytes()
    for name, data in (("cut", whole[:-100]), ("half", whole[: len(whole) // 2]), ("empty", b""), ("text", b"no zip"),
                       ("flipped", whole[:2000] + bytes([whole[2000] ^ 0xFF]) + whole[2001:])):  # fmt: skip
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError):
            open_artifact(tmp_path / name, _empty(tmp_path / f"{name}-in"))


@pytest.mark.parametrize("cut", range(1, 40))
def test_no_cut_of_a_file_is_anything_but_refused(packed: Path, tmp_path: Path, cut: int) -> None:
    whole = packed.read_bytes()
    (tmp_path / "x.zip").write_bytes(whole[: len(whole) * cut // 40])
    with pytest.raises(InputError):
        open_artifact(tmp_path / "x.zip", _empty(tmp_path / "in"))


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def opened(folder: Path, tmp_path: Path, signers: Path | None = None) -> Any:
    pack(folder, tmp_path / "again.zip")
    return open_artifact(tmp_path / "again.zip", _empty(tmp_path / "again"), signers)


def with_right_digests(folder: Path) -> None:
    statement = json.loads((folder / PROVENANCE).read_text())
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != PROVENANCE]
    statement["subject"] = [
        {"name": p.relative_to(folder).as_posix(), "digest": {"sha256": hashlib.sha256(p.read_bytes()).hexdigest()}} for p in files
    ]
    (folder / PROVENANCE).write_text(json.dumps(statement))


def test_what_is_packed_again_unchanged_is_accepted(unpacked: Path, tmp_path: Path) -> None:
    found = opened(unpacked, tmp_path)
    assert [len(of.claims) for of in found.groups] == [1] and found.signer is None and not found.is_signed


def _a_claim(folder: Path) -> Path:
    return next((folder / "claims").rglob("*.json"))


def _better(folder: Path) -> None:
    card = json.loads(_a_claim(folder).read_text())
    card["cells"][0]["median"] *= 1.2
    _a_claim(folder).write_text(json.dumps(card))


def _other_words(folder: Path) -> None:
    _a_claim(folder).write_text(_a_claim(folder).read_text().replace("router is the fastest at 9", "router is the fastest at 19"))


def _record(folder: Path) -> None:
    path = next((folder / "runs").rglob("record.json"))
    path.write_text(path.read_text().replace("goodput_bps", "goodput_Bps"))


def _no_claims(folder: Path) -> None:
    shutil.rmtree(folder / "claims")


def _no_runs(folder: Path) -> None:
    shutil.rmtree(folder / "runs")


def _of_another_run(folder: Path) -> None:
    card = json.loads(_a_claim(folder).read_text())
    _a_claim(folder).write_text(json.dumps(card | {"run": "2026-11-20T0800Z-other-0000"}))


@pytest.mark.parametrize("change", [_better, _other_words, _record, _no_claims, _no_runs, _of_another_run])
@pytest.mark.parametrize("digests", [False, True])
def test_a_changed_claim_or_run_is_refused_with_and_without_the_right_digests(unpacked, tmp_path, change, digests) -> None:
    change(unpacked)
    if digests:
        with_right_digests(unpacked)
    with pytest.raises(InputError):
        opened(unpacked, tmp_path)


@pytest.mark.parametrize("statement", ["[]", "{}", "no json", '{"_type": "x", "predicateType": "y", "subject": []}'])
def test_a_provenance_that_states_nothing_is_refused(unpacked: Path, tmp_path: Path, statement: str) -> None:
    (unpacked / PROVENANCE).write_text(statement)
    with pytest.raises(InputError):
        opened(unpacked, tmp_path)


def test_a_file_more_is_refused(unpacked: Path, tmp_path: Path) -> None:
    (unpacked / "runs" / "readme.sh").write_text("rm -rf /")
    with pytest.raises(InputError, match=r"not stated: runs/readme\.sh"):
        opened(unpacked, tmp_path)


@pytest.fixture
def signed(first: Path, tmp_path: Path) -> Callable[[Path], Path]:
    def sign(key: Path) -> Path:
        assert said(first, "-o", tmp_path / "signed.zip", "--sign", key).exit_code == 0
        return tmp_path / "signed.zip"

    return sign


def test_a_signature_names_its_key_and_with_a_list_of_signers_its_owner(signed, tmp_path: Path) -> None:
    key = key_in(tmp_path)
    path = signed(key)
    found = open_artifact(path, _empty(tmp_path / "one"))
    assert found.signer is not None and found.signer.key.startswith("ED25519 SHA256:") and found.signer.principal == ""
    signers = tmp_path / "signers"
    signers.write_text(f"ada@example.org {key.with_suffix('.pub').read_text()}")
    found = open_artifact(path, _empty(tmp_path / "two"), signers)
    assert found.signer is not None and found.signer.principal == "ada@example.org"
    signers.write_text(f"bob@example.org {key_in(tmp_path, 'bob').with_suffix('.pub').read_text()}")
    with pytest.raises(InputError, match=re.escape(str(signers))):
        open_artifact(path, _empty(tmp_path / "three"), signers)


def test_a_wrong_signature_is_refused_and_so_is_none_where_signers_are_named(signed, packed: Path, tmp_path: Path) -> None:
    key = key_in(tmp_path)
    path = signed(key)
    with zipfile.ZipFile(path) as of:
        of.extractall(tmp_path / "changed")
    _better(tmp_path / "changed")
    (signature := tmp_path / "changed" / f"{PROVENANCE}.sig").rename(tmp_path / "kept.sig")
    with_right_digests(tmp_path / "changed")
    (tmp_path / "kept.sig").rename(signature)
    with pytest.raises(InputError, match="signature is wrong"):
        opened(tmp_path / "changed", tmp_path)
    signers = tmp_path / "signers"
    signers.write_text(f"ada@example.org {key.with_suffix('.pub').read_text()}")
    with pytest.raises(InputError, match="no signature"):
        open_artifact(packed, _empty(tmp_path / "unsigned"), signers)


def test_a_key_that_cannot_sign_leaves_nothing(first: Path, tmp_path: Path) -> None:
    need("sshd", shutil.which("ssh-keygen") is not None)
    (tmp_path / "no-key").write_text("x")
    done = said(first, "-o", tmp_path / "x.zip", "--sign", tmp_path / "no-key")
    assert isinstance(done.exception, InputError) and [p.name for p in tmp_path.iterdir()] == ["no-key"]


def test_an_unpacked_run_has_the_work_of_its_maker(packed: Path, tmp_path: Path) -> None:
    found = open_artifact(packed, _empty(tmp_path / "in"))
    (of,) = found.groups
    work = to_repeat(of.group.newest.path, testbed=None, trusted=False)  # ours: the seal holds in the copy
    assert (work.plan.seed, len(work.plan.trials), of.group.lab) == (7, 8, "three-node")
