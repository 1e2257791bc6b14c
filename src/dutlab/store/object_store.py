"""Finished runs in an object store, with fsspec: `s3://bucket/runs`, or any other address that fsspec supports.

A run is complete in the store when its manifest is there. Upload: files go up one by one, with secrets redacted (store/outgoing.py). A file
that is already there with the same size is skipped, so an interrupted upload continues. The manifest is uploaded last, after the sizes of
all other files were checked in the store.

Download: the manifest is read first. All names in the store are checked (store/beneath.py) and compared with it. Then the files are
written. The run folder gets its final name when all hashes match the manifest, or REDACTED for redacted files.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from dutlab import bounds
from dutlab.errors import InputError, StoreError, TestbedError
from dutlab.extras import extra_install_command, install_command
from dutlab.printable import about_address, without_login
from dutlab.store.beneath import Beneath, parts_of
from dutlab.store.manifest import ADDITIONS, DERIVED, MANIFEST, REDACTED, UNHASHED, ManifestDifference, compare, hashes_of, is_temporary
from dutlab.store.outgoing import OutgoingRun
from dutlab.store.run_folder import RunFolder
from dutlab.store.write import locked_folder, stored_at, sweep

_WITHOUT_FOLDERS = {"s3", "gs", "az"}
"""Stores without folders. fsspec would create the first part of a path as a bucket, so a mistyped bucket would be created."""


class ObjectStoreAway(TestbedError):
    """Error: the store cannot be reached, is full, or refuses this user."""


class NotItsManifest(StoreError):
    """Error: the files of a run in a store differ from its manifest. No file was kept."""

    def __init__(self, url: str, difference: ManifestDifference) -> None:
        super().__init__(f"{without_login(url)}: its files differ from the manifest: {difference}", remedy="ask who put it there")
        self.url, self.difference = url, difference


def put_run(run: Path, store: str, environment: Mapping[str, str]) -> str:
    """Upload a finished run to `store`, without the secrets in `environment`, and return its address.

    Raises ObjectStoreAway, InputError, StoreError.
    """
    url = f"{store.rstrip('/')}/{run.name}"
    with _opened(url) as (fs, root), OutgoingRun.opened(RunFolder(run), environment) as outgoing:
        there, names = _sizes(fs, root), list(_files(run))
        if there.keys() >= {MANIFEST, *names}:
            return url
        sizes = dict[str, int]()
        for name in names:
            with outgoing.open(name) as data:
                sizes[name] = os.fstat(data.fileno()).st_size
                if there.get(name) != sizes[name] or name in outgoing.covered:  # a covered text keeps its size
                    _put(fs, f"{root}/{name}", data)
        if (redactions := outgoing.redacted_json) is not None:
            sizes[REDACTED] = len(redactions)
            _put(fs, f"{root}/{REDACTED}", io.BytesIO(redactions))
        there = _sizes(fs, root)
        if short := [name for name, size in sizes.items() if there.get(name) != size]:
            raise ObjectStoreAway(
                f"{without_login(url)}: {len(short)} files did not arrive whole, as {short[0]}", remedy="check whether the store is full"
            )
        with outgoing.open(MANIFEST) as data:
            _put(fs, f"{root}/{MANIFEST}", data)
    return url


def _put(fs: Any, path: str, data: BinaryIO) -> None:  # noqa: ANN401 -- fsspec's, an extra
    if not _WITHOUT_FOLDERS.intersection([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol):
        fs.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
    with fs.open(path, "wb") as file:
        shutil.copyfileobj(data, file)


def fetch_run(url: str, into: Path) -> Path:
    """Download a run from a store into the folder `into`, and return its folder. An existing folder of that name is not changed.

    Raises ObjectStoreAway, InputError, and StoreError: OutsideFolder, NotItsManifest, or `into` cannot be written.
    """
    (name,) = parts_of(PurePosixPath(url).name)
    if (run := into / name).exists():
        return run
    with _opened(url) as (fs, root):
        there = _sizes(fs, root)
        if MANIFEST not in there:
            raise InputError(f"{without_login(url)}: no finished run", remedy="name a run's address, as `dutlab runs --fleet` shows it")
        manifest = _manifest(fs, url, root, there)
        with _new_folder(into, name) as part:
            with Beneath.opened(part) as folder:
                folder.write_new(MANIFEST, io.BytesIO(manifest))
                for file in there.keys() - {MANIFEST}:
                    with fs.open(f"{root}/{file}", "rb") as source:
                        folder.write_new(file, source)
            if not (difference := compare(part)).none_but_redacted:
                raise NotItsManifest(url, difference)
            with stored_at(run):
                part.rename(run)
    return run


def _manifest(fs: Any, url: str, root: str, there: Mapping[str, int]) -> bytes:  # noqa: ANN401 -- fsspec's, an extra
    """Return the manifest of a run, if the store has exactly its files. Raises OutsideFolder, NotItsManifest, StoreError."""
    for file in there:
        parts_of(file)
    if there[MANIFEST] > bounds.MANIFEST.most_bytes:
        raise StoreError(
            f"{without_login(url)}: its manifest is larger than {bounds.MANIFEST.most_bytes >> 20} MiB", remedy="ask who put it there"
        )
    with fs.open(f"{root}/{MANIFEST}", "rb") as file:
        manifest = bytes(file.read(bounds.MANIFEST.most_bytes))
    named = hashes_of(manifest.decode(errors="surrogateescape"), Path(MANIFEST)).keys()
    unhashed = {name for name in there if name in UNHASHED or name.startswith((f"{DERIVED}/", f"{ADDITIONS}/"))}
    difference = ManifestDifference(
        missing=tuple(sorted(named - there.keys())), changed=(), extra=tuple(sorted(there.keys() - named - unhashed))
    )
    if not difference.none:
        raise NotItsManifest(url, difference)
    return manifest


@contextmanager
def _new_folder(into: Path, name: str) -> Iterator[Path]:
    """Make a temporary folder for a download, and remove the folders of killed downloads. Raises StoreError."""
    part = into / f".{name}.{os.getpid()}.part"
    with stored_at(part):
        sweep(into)
        part.mkdir()  # an existing one, such as another user's link, is an error
    try:
        with locked_folder(part):
            yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def is_address(text: str) -> bool:
    """Return whether `text` is an address in a store, not a path."""
    return "://" in text


def _files(run: Path) -> Iterator[str]:
    """Yield all files of a run except the manifest and REDACTED. The journal and the report are included."""
    plain = (path for path in sorted(run.rglob("*")) if path.is_file() and not path.is_symlink() and not is_temporary(path.name))
    yield from (name for path in plain if (name := path.relative_to(run).as_posix()) not in (MANIFEST, REDACTED))


def _sizes(fs: Any, root: str) -> dict[str, int]:  # noqa: ANN401 -- fsspec's, an extra
    files: dict[str, dict[str, Any]] = {}
    with suppress(FileNotFoundError):
        files = fs.find(root, detail=True)
    start = root.rstrip("/") + "/"
    return {path.removeprefix(start): int(entry["size"]) for path, entry in files.items() if path.startswith(start)}


@contextmanager
def _opened(url: str) -> Iterator[tuple[Any, str]]:
    """Open a store: the file system, and the run's path in it. Exceptions of the store become ObjectStoreAway."""
    try:
        import fsspec  # noqa: PLC0415 -- an extra

        fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False) if url.startswith("s3") else fsspec.core.url_to_fs(url)
    except ImportError as error:
        library = getattr(error.__cause__, "name", None)  # the missing library for this kind of store, such as gcsfs for gs://
        remedy = extra_install_command("store") if library in {None, "s3fs"} else install_command(library)
        raise InputError(about_address(url, error), remedy=remedy) from None
    except ValueError as error:
        raise InputError(about_address(url, error), remedy="name a store that fsspec knows, as s3://BUCKET/FOLDER") from None
    try:
        yield fs, root
    except (InputError, StoreError, TestbedError):
        raise
    except Exception as error:  # each store has its own exceptions
        remedy = "check that it runs, has space and accepts your login"
        raise ObjectStoreAway(f"{about_address(url, error)} ({type(error).__name__})"[:500], remedy=remedy) from error
