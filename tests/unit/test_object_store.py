"""Runs in an object store: put once, whole or not at all, and fetched only as their manifest says. In a folder, and in a real S3 server."""

from __future__ import annotations

import io
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest

from capability import have_netns, need
from dutlab.errors import InputError, StoreError
from dutlab.store.beneath import NameFault, OutsideFolder
from dutlab.store.manifest import MANIFEST, compare
from dutlab.store.object_store import NotItsManifest, ObjectStoreAway, fetch_run, put_run
from processes import LIMIT_S, eventually

KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture
def run(built: Callable[..., Path]) -> Path:
    return built(repeats=1, sizes=(64,), seconds=2, cores=1)


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_goes_up_whole_each_file_once_and_comes_down_the_same(run: Path, tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"
    url = put_run(run, store, {})
    assert url == f"{store}/{run.name}" and files(tmp_path / "store" / run.name) == files(run)
    there = tmp_path / "store" / run.name
    written = {name: (there / name).stat().st_mtime_ns for name in files(run)}
    assert put_run(run, store, {}) == url
    assert {name: (there / name).stat().st_mtime_ns for name in files(run)} == written, "what is there is not written again"
    cut = next(name for name in written if name.endswith("record.json"))
    (there / cut).write_bytes((there / cut).read_bytes()[:100])
    (there / MANIFEST).unlink()
    put_run(run, store, {})
    assert files(there) == files(run), "what was cut is put anew, and the manifest after it"
    again = {name for name in written if (there / name).stat().st_mtime_ns != written[name]}
    assert again == {cut, MANIFEST}
    fetched = fetch_run(url, tmp_path)
    assert fetched == tmp_path / run.name and compare(fetched).none and files(fetched) == files(run)
    assert fetch_run(url, tmp_path) == fetched


def test_what_is_not_a_run_or_not_what_its_manifest_says_is_not_fetched(run: Path, tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"
    url, there = put_run(run, store, {}), tmp_path / "store" / run.name
    with pytest.raises(InputError, match="no finished run"):
        fetch_run(f"{store}/none", tmp_path)
    record = next(there.glob("trials/*/record.json"))
    record.write_bytes(record.read_bytes().swapcase())
    with pytest.raises(NotItsManifest) as refused:
        fetch_run(url, tmp_path)
    assert refused.value.difference.changed == (record.relative_to(there).as_posix(),)
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == [] and not (tmp_path / run.name).exists()
    (there / MANIFEST).unlink()
    with pytest.raises(InputError, match="no finished run"):
        fetch_run(url, tmp_path)
    with pytest.raises(InputError, match="nonsense"):
        put_run(run, "nonsense://bucket/runs", {})


class KeyStore(fsspec.AbstractFileSystem):  # type: ignore[misc] -- fsspec has no types
    """A store of keys, as S3 is: a key may have any characters."""

    protocol = "keys"
    keys: ClassVar[dict[str, bytes]] = {}

    def info(self, path: str, **_: object) -> dict[str, Any]:
        return {"name": path, "size": len(self.keys[path]), "type": "file"}

    def find(self, path: str, **_: object) -> dict[str, Any]:
        return {key: self.info(key) for key in self.keys if key.startswith(path)}

    def _open(self, path: str, **_: object) -> io.BytesIO:
        return io.BytesIO(self.keys[path])


@pytest.fixture
def keys(run: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The keys of a store with one run, `keys://b/RUN`."""
    fsspec.register_implementation("keys", KeyStore, clobber=True)
    monkeypatch.setattr(KeyStore, "keys", {f"b/RUN/{name}": data for name, data in files(run).items()})
    return KeyStore.keys


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("/OUTSIDE", NameFault.ABSOLUTE), ("trials/../../../OUTSIDE", NameFault.DOTS), ("./x", NameFault.DOTS),
        ("trials//x", NameFault.EMPTY_PART), ("report/x\n", NameFault.CONTROL), ("..", NameFault.DOTS),
    ],
)  # fmt: skip
def test_a_key_that_names_a_file_outside_of_the_run_is_refused_before_anything_is_written(keys, tmp_path, key, kind) -> None:
    name = key.replace("/OUTSIDE", f"{tmp_path}/outside/x")
    keys[f"b/RUN/{name}"] = b"* * * * * root true"
    (into := tmp_path / "into").mkdir()
    with pytest.raises(OutsideFolder) as refused:
        fetch_run("keys://b/RUN", into)
    assert (refused.value.name, refused.value.kind) == (name, kind)
    assert not (tmp_path / "outside").exists() and not list(into.iterdir())


def test_a_run_in_a_store_has_the_files_of_its_manifest_and_no_others(keys: dict[str, bytes], run: Path, tmp_path: Path) -> None:
    (into := tmp_path / "into").mkdir()
    keys |= {"b/RUN/additions/0001.json": b"{}", "b/RUN/report/index.html": b"", "b/RUN-2/plan.json": b"of another run"}
    assert files(fetch_run("keys://b/RUN", into)).keys() == files(run).keys() | {"additions/0001.json", "report/index.html"}
    keys["b/RUN/.bashrc"] = b"true"
    del keys["b/RUN/plan.json"]
    with pytest.raises(NotItsManifest) as refused:
        fetch_run("keys://b/RUN", tmp_path)
    assert (refused.value.difference.missing, refused.value.difference.extra) == (("plan.json",), (".bashrc",))
    with pytest.raises(OutsideFolder):
        fetch_run("keys://b/..", into)


def test_a_link_in_the_place_of_the_folder_that_is_fetched_into_is_not_followed(keys, tmp_path, monkeypatch) -> None:
    assert keys
    (into := tmp_path / "into").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("os.getpid", lambda: 7)
    for name in (".RUN.part", ".RUN.7.part"):
        (into / name).symlink_to(elsewhere)
    with pytest.raises(StoreError):
        fetch_run("keys://b/RUN", into)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_a_store_that_takes_no_more_leaves_the_run_where_it_is(run: Path, tmp_path: Path, kind: str) -> None:
    need("netns", have_netns())  # root, and a table of mounts of its own
    folder = tmp_path / "store"
    folder.mkdir()
    size = "size=32k" if kind == "full" else "size=1m,ro"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        before = files(run)
        with pytest.raises(ObjectStoreAway, match="No space left" if kind == "full" else "Read-only"):
            put_run(run, f"file://{folder}", {})
        assert files(run) == before and not list(folder.glob(f"*/{MANIFEST}"))
        subprocess.run(["mount", "-o", "remount,rw,size=64m", str(folder)], check=True)
        put_run(run, f"file://{folder}", {})
        assert files(folder / run.name) == before, "tried again, it is there whole"
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def s3(tmp_path: Path, python: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """moto's server, without a bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    with (tmp_path / "moto.said").open("wb") as said:
        server = subprocess.Popen([python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=said, stderr=said)
    try:
        assert eventually(lambda: listens(port)), (tmp_path / "moto.said").read_text()
        yield server
    finally:
        server.kill()
        server.wait(LIMIT_S)


def test_s3_keeps_a_run_and_a_server_that_is_away_is_told(s3: subprocess.Popen[bytes], run: Path, tmp_path: Path, python: str) -> None:
    store, name, home = "s3://measurements/some/runs", repr(str(run)), repr(str(tmp_path))
    put, fetch = f"put_run(Path({name}), {store!r}, {{}})", f"fetch_run('{store}/{run.name}', Path({home}))"
    calls = [
        "s3fs.S3FileSystem(use_listings_cache=False).mkdir('measurements')", put, put, put.replace("measurements", "mistyped"), fetch,
        f"os.kill({s3.pid}, signal.SIGKILL)", put, fetch.replace(home, f"Path({home}, 'again')"),
    ]  # fmt: skip
    text = "import os, s3fs, signal\nfrom pathlib import Path\nfrom dutlab.store.object_store import fetch_run, put_run\n"
    text += "".join(f"try: print({call})\nexcept Exception as error: print(type(error).__name__)\n" for call in calls)
    done = subprocess.run(
        [python, "-c", text], capture_output=True, text=True, timeout=LIMIT_S
    )  # its own: s3fs has a thread that nothing ends
    assert done.returncode == 0, done.stderr
    url, here = f"{store}/{run.name}", str(tmp_path / run.name)
    away = "ObjectStoreAway"
    assert done.stdout.splitlines() == ["None", url, url, away, here, "None", away, away], "no bucket is made"
    assert files(tmp_path / run.name) == files(run) and compare(tmp_path / run.name).none
    assert not (tmp_path / "again" / run.name).exists()
