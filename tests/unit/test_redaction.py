"""Secrets that a run's files have are covered in what is published, which says what was covered and where."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from dutlab.cli.claims import verify_claim
from dutlab.cli.publish import publish
from dutlab.sensors.sensor import Sample
from dutlab.store.manifest import REDACTED, compare
from dutlab.store.redaction import Redactor
from dutlab.store.run_folder import RunFolder
from dutlab.store.samples import columns, write_samples
from fake_run import Wanted, build
from raw_outputs import with_raw_outputs

SMALL = Wanted(repeats=3, seconds=2, sizes=(64,), cores=0, bad_luck=False, modes={"router": "router", "nat": "nat"})
NAMED = {"testbed": {"hosts": {"dut": {"power": {"password_from": "PLUG"}}}, "sensors": [{"community_from": "PDU"}]}}
ENVIRONMENT = {
    "PLUG": 'horse"battery', "PDU": "staple 9", "DUTLAB_SERVE_TOKEN": "tok-of-pages", "DUTLAB_FLEET_DB": "postgresql://dutlab:c%40rrect@db/fleet",
    "SHORT_TOKEN": "1", "HOME": "/root/homestead",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "left", "taken"),
    [
        ('x horse"battery y', "x ************* y", {"the value of PLUG": 1}),
        (json.dumps({"said": 'horse"battery'}), json.dumps({"said": "**************"}), {"the value of PLUG": 1}),
        ("?pw=horse%22battery&c=staple%209", "?pw=***************&c=**********", {"the value of PLUG": 1, "the value of PDU": 1}),
        ("tok-of-pages c%40rrect", "************ *********", {"the value of DUTLAB_SERVE_TOKEN": 1, "the password of DUTLAB_FLEET_DB": 1}),
        ("AWS_SECRET_ACCESS_KEY=abc/d+e=\nB_TOKEN=zz\n", "AWS_SECRET_ACCESS_KEY=********\nB_TOKEN=**\n", {"a variable": 2}),
        ('mqtt://bob:s3cret@h/x "http://a:b@c"', 'mqtt://bob:******@h/x "http://a:*@c"', {"a login in an address": 2}),
        ("GET / \nAuthorization: Bearer abc.def-1\n", "GET / \nAuthorization: Bearer *********\n", {"an authorization": 1}),
        ('{"password": "open"}\npasswd=sesame', '{"password": "****"}\npasswd=******', {"a password": 2}),
        ("id AKIAABCDEFGHIJKLMNOP", "id ********************", {"a key of AWS": 1}),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END", "-----BEGIN RSA PRIVATE KEY-----*****-----END", {"a private key": 1}),
        ("-----BEGIN PRIVATE KEY-----\nM-I\n-----BEGIN X", "-----BEGIN PRIVATE KEY-----*****-----BEGIN X", {"a private key": 1}),
    ],
)
def test_a_secret_is_covered_in_its_length(text: str, left: str, taken: dict[str, int]) -> None:
    redactor = Redactor(NAMED, ENVIRONMENT)
    file, found = redactor.redacted("raw/x.out", io.BytesIO(text.encode()))
    with file:
        data = file.read()
    assert (data.decode(), found and found.taken) == (left, taken)
    assert found is not None and found.sha256 == hashlib.sha256(data).hexdigest()
    assert redactor.redacted("raw/x.out", io.BytesIO(data))[1] is None, "a copy of a copy is the same"


@pytest.mark.parametrize(
    "text", ["rate 1 PPS", "PWD=/root/homestead", "Password: \n", '{"password_from": "PLUG", "token": "3f2a"}', "http://h:80/a@b"]
)
def test_what_is_no_secret_stays(text: str) -> None:
    file, found = Redactor(NAMED, ENVIRONMENT).redacted("raw/x.out", io.BytesIO(text.encode()))
    assert (file.read().decode(), found) == (text, None)


@pytest.mark.parametrize(
    "text",
    [b"a", b"TOKEN", b"-----BEGIN PRIVATE KEY", b"-----BEGIN PRIVATE KEY-----\n", b"a://b:c", b"password=a,", b"authorization: ", b"ghp_a"],
)
def test_a_text_that_repeats_one_part_is_searched_in_a_time_that_grows_as_it_does(text: bytes) -> None:
    file, _ = Redactor(NAMED, ENVIRONMENT).redacted("raw/x.out", io.BytesIO(text * (2_000_000 // len(text))))
    with file:
        assert len(file.read()) == 2_000_000 // len(text) * len(text)


@pytest.mark.parametrize(("text", "left"), [("mqtt://bob:s3cret@h's", "mqtt://bob:******@h's"), ("tok-of-pages", "*" * 12), ("dut", "dut")])
def test_a_table_is_searched_and_written_again_where_it_has_a_secret(tmp_path: Path, text: str, left: str) -> None:
    write_samples(tmp_path / "samples.parquet", columns([Sample(n, "dut", text, "rate", "pps", n / 2) for n in range(3000)]))
    with (tmp_path / "samples.parquet").open("rb") as source:
        file, found = Redactor(NAMED, ENVIRONMENT).redacted("trials/0001/samples.parquet", source)
        with file:
            (tmp_path / "copy.parquet").write_bytes(data := file.read())
    rows = duckdb.sql(f"SELECT t_s, host, sensor, name, unit, value FROM '{tmp_path}/copy.parquet'").fetchall()
    assert rows == [(n, "dut", left, "rate", "pps", n / 2) for n in range(3000)]
    assert (found and found.sha256) == (hashlib.sha256(data).hexdigest() if text != left else None)


def test_what_is_only_called_a_table_is_searched_as_text() -> None:
    file, found = Redactor(NAMED, ENVIRONMENT).redacted("x.parquet", io.BytesIO(b"tok-of-pages"))
    with file:
        assert (file.read(), found is None) == (b"*" * 12, False)


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which one trial's step printed its environment."""
    run = with_raw_outputs(build(tmp_path_factory.mktemp("leaky"), SMALL))
    (run / "trials" / "0001" / "raw" / "env.out").write_text("PDU_TOKEN=of-the-pdu\nPATH=/bin\n")
    (run / "MANIFEST.sha256").unlink()
    RunFolder(run).write_manifest()
    return run


def said(*words: object) -> Result:
    return CliRunner().invoke(publish, [str(word) for word in words], catch_exceptions=False)


def test_a_site_has_no_secret_says_what_was_covered_and_proves_nothing_by_it(leaky: Path, tmp_path: Path) -> None:
    done = said(leaky, tmp_path / "site", "--title", "Leaky")
    (run,) = (tmp_path / "site" / "runs").iterdir()
    name = "trials/0001/raw/env.out"
    assert not [path for path in run.rglob("*") if path.is_file() and b"of-the-pdu" in path.read_bytes()]
    told = json.loads((run / REDACTED).read_text())["files"]
    assert told == {name: {"taken": {"a variable": 1}, "sha256": hashlib.sha256((run / name).read_bytes()).hexdigest()}}
    assert "a variable" in done.output and name in (run / "report" / "files.html").read_text()
    assert (leaky / name).read_text().startswith("PDU_TOKEN=of-the-pdu"), "what was measured stays"
    difference = compare(run)
    assert (difference.redacted, difference.none, difference.none_but_redacted) == ((name,), False, True)
    states = {c["state"] for r in json.loads((tmp_path / "site" / "index.json").read_text())["runs"] for c in r["claims"]}
    assert "not recomputed" in states and states <= {"not recomputed", "holds"}
    merged = said("--merge", tmp_path / "site", tmp_path / "corpus")
    (again,) = (tmp_path / "corpus" / "runs").iterdir()
    assert merged.exit_code == 0 and json.loads((again / REDACTED).read_text())["files"] == told
    (run / name).write_text("changed")
    assert compare(run).changed == (name,)


def test_files_that_somebody_calls_redacted_prove_no_claim(leaky: Path, tmp_path: Path) -> None:
    said(leaky, tmp_path / "site")
    (run,) = (tmp_path / "site" / "runs").iterdir()
    card = min((run / "report").glob("claim-*iperf3*.json"))
    trial = json.loads(card.read_text())["cells"][0]["trials"][0]
    raw = next((run / "trials" / f"{trial:04d}" / "raw").glob("iperf3-*-client.json"))
    raw.write_text(re.sub(r'"bits_per_second":\s*\d', '"bits_per_second": 9', raw.read_text()))
    covered = json.loads((run / REDACTED).read_text())
    covered["files"][raw.relative_to(run).as_posix()] = {"taken": {"x": 1}, "sha256": hashlib.sha256(raw.read_bytes()).hexdigest()}
    (run / REDACTED).write_text(json.dumps(covered))
    assert CliRunner().invoke(verify_claim, [str(card)]).exit_code != 0
    shutil.rmtree(run / "report")
    (run / REDACTED).write_text('{"files": [1]}')
    assert "redacted" in said(tmp_path / "site").output
