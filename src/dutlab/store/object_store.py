"""Finished runs in an object store, by fsspec: `s3://bucket/runs`, or whatever else fsspec knows. A run is there once its manifest is.

Files go up one by one, each once: one that is there with its size is left as it is, so what was cut goes on. The manifest goes last, after
every other file was found there with its size. What comes down is compared with the manifest before it gets the run's name.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from dutlab.errors import InputError, StoreError, TestbedError
from dutlab.extras import how_to_add, how_to_install
from dutlab.store.manifest import MANIFEST, compare, is_temporary

_WITHOUT_FOLDERS = {"s3", "gs", "az"}
"""Stores with keys, whose first part fsspec would make for us: a bucket that was mistyped must stay away."""


class ObjectStoreAway(TestbedError):
    """The store cannot be reached, is full, or lets nobody in."""


def put_run(run: Path, store: str) -> str:
    """The address of a finished run after it was put below `store`. Raises ObjectStoreAway, InputError."""
    url = f"{store.rstrip('/')}/{run.name}"
    with _opened(url) as (fs, root):
        sizes = {name: path.stat().st_size for name, path in _files(run)}
        there = _sizes(fs, root)
        if there.keys() >= {MANIFEST} and all(there.get(name) == size for name, size in sizes.items()):
            return url
        for name, size in sizes.items():
            if there.get(name) != size and name != MANIFEST:
                if not _WITHOUT_FOLDERS.intersection([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol):
                    fs.makedirs(str(PurePosixPath(root, name).parent), exist_ok=True)
                fs.put_file(str(run / name), f"{root}/{name}")
        there = _sizes(fs, root)
        if short := [name for name, size in sizes.items() if name != MANIFEST and there.get(name) != size]:
            raise ObjectStoreAway(f"{url}: {len(short)} files did not arrive whole, as {short[0]}", remedy="see whether the store is full")
        fs.put_file(str(run / MANIFEST), f"{root}/{MANIFEST}")
    return url


def fetch_run(url: str, into: Path) -> Path:
    """A run out of a store, as a folder in `into`; one that is there already is left as it is.

    Raises ObjectStoreAway, StoreError, InputError.
    """
    name = PurePosixPath(url).name
    run, part = into / name, into / f".{name}.part"
    if run.exists():
        return run
    with _opened(url) as (fs, root):
        there = _sizes(fs, root)
        if MANIFEST not in there:
            raise InputError(f"{url}: no finished run", remedy="name a run's address, as `dutlab runs --fleet` shows it")
        if strange := [name for name in there if ".." in PurePosixPath(name).parts]:
            raise StoreError(f"{url}: a file is named {strange[0]}", remedy="ask who put it there")
        shutil.rmtree(part, ignore_errors=True)
        for file in there:
            (part / file).parent.mkdir(parents=True, exist_ok=True)
            fs.get_file(f"{root}/{file}", str(part / file))
    if not (difference := compare(part)).none:
        raise StoreError(f"{url}: is not what its manifest says: {difference}", remedy=f"see the files in {part}")
    part.rename(run)
    return run


def is_address(text: str) -> bool:
    """Whether a run's place is in a store, and no path."""
    return "://" in text


def _files(run: Path) -> Iterator[tuple[str, Path]]:
    """All that lies in a run: what its manifest names, the journal and the report too."""
    for path in sorted(run.rglob("*")):
        if path.is_file() and not path.is_symlink() and not is_temporary(path.name):
            yield path.relative_to(run).as_posix(), path


def _sizes(fs: Any, root: str) -> dict[str, int]:  # noqa: ANN401 -- fsspec's, an extra
    found: dict[str, dict[str, Any]] = {}
    with suppress(FileNotFoundError):
        found = fs.find(root, detail=True)
    start = root.rstrip("/") + "/"
    return {path.removeprefix(start): int(told["size"]) for path, told in found.items() if path.startswith(start)}


@contextmanager
def _opened(url: str) -> Iterator[tuple[Any, str]]:
    """The file system, and the run's path in it. Whatever a store raises becomes ObjectStoreAway."""
    try:
        import fsspec  # noqa: PLC0415 -- an extra

        fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False) if url.startswith("s3") else fsspec.core.url_to_fs(url)
    except ImportError as error:
        library = getattr(error.__cause__, "name", None)  # what fsspec lacks for this kind of store, as gcsfs for gs://
        remedy = how_to_add("store") if library in {None, "s3fs"} else how_to_install(library)
        raise InputError(f"{url}: {error}", remedy=remedy) from None
    except ValueError as error:
        raise InputError(f"{url}: {error}", remedy="name a store that fsspec knows, as s3://BUCKET/FOLDER") from None
    try:
        yield fs, root
    except (InputError, StoreError, TestbedError):
        raise
    except Exception as error:  # each store has errors of its own
        remedy = "see that it runs, has room and lets you in"
        raise ObjectStoreAway(f"{url}: {type(error).__name__}: {error}"[:500], remedy=remedy) from error
