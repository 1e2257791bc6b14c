"""scripts/locks: lock files have every package by hash, name no address, and are what a resolution gives."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

LOCKS = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "locks"))
HASH = f"    --hash=sha256:{'0' * 64}"
CRATE = f'[[package]]\nname = "a"\nversion = "1.0.0"\nsource = "{LOCKS["CRATES_IO"]}"\nchecksum = "{"0" * 64}"\n'
NODE = {"packages": {"": {}, "node_modules/a": {"integrity": "sha512-0"}}}


def test_the_lock_files_of_this_repository_have_no_fault() -> None:
    assert list(LOCKS["faults_here"]()) == []


@pytest.mark.parametrize(
    "text",
    [
        "a==1\n",
        f"a==1 \\\n{HASH}\nb==2\n",
        f"a>=1 \\\n{HASH}\n",
        f"a @ https://example.net/a.whl \\\n{HASH}\n",
        f"--index-url https://example.net\na==1 \\\n{HASH}\n",
        f"-e ./a\na==1 \\\n{HASH}\n",
        f"a==1 \\\n{HASH}\na==1 \\\n{HASH}\n",
        f"a==1 \\\n{HASH.replace('sha256', 'md5')}\n",
    ],
    ids=["no-hash", "one-without-hash", "no-version", "address", "index", "folder", "twice", "weak-hash"],
)
def test_a_python_package_without_version_or_hash_is_found(text: str) -> None:
    assert LOCKS["pins"](text)[1]
    assert LOCKS["pins"](f"a==1 ; python_version < '3.12' \\\n{HASH} \\\n{HASH}\nb[x]==2.0+c \\\n{HASH}\n")[1] == []


@pytest.mark.parametrize(
    "text",
    [
        CRATE.replace("registry+https://github.com/rust-lang/crates.io-index", "git+https://example.net/a#0"),
        CRATE.partition("checksum")[0],
        '[[package]]\nname = "other"\nversion = "1.0.0"\n',
    ],
    ids=["git", "no-checksum", "stranger"],
)
def test_a_crate_of_another_registry_or_without_checksum_is_found(text: str) -> None:
    assert LOCKS["crates"](text, {"own": "1.0.0"})[1]
    assert LOCKS["crates"](f'{CRATE}[[package]]\nname = "own"\nversion = "1.0.0"\n', {"own": "1.0.0"}) == ({"a": {"1.0.0"}}, [])


@pytest.mark.parametrize("package", [{}, {"integrity": "sha1-0"}, {"integrity": "sha512-0", "resolved": "https://example.net/a"}])
def test_a_package_of_npm_without_hash_or_with_an_address_is_found(package: dict[str, str]) -> None:
    assert LOCKS["node_faults"](json.dumps({"packages": {"a": package}}))
    assert LOCKS["node_faults"](json.dumps(NODE)) == []


def test_a_resolution_that_differs_is_found_and_a_later_file_is_none() -> None:
    locked = {"a==1": {"x"}, "b==1": {"y"}}
    assert LOCKS["differing"](locked, {"a==1": {"x", "later"}, "b==1": {"y"}}) == []
    for resolved in ({"a==1": {"x"}}, {**locked, "c==1": {"z"}}, {"a==1": {"other"}, "b==1": {"y"}}):
        assert len(LOCKS["differing"](locked, resolved)) == 1


def test_the_base_of_the_image_is_named_by_its_digest_or_by_who_builds() -> None:
    lines = (Path(__file__).parents[2] / "Containerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("ARG BASE")] == ["ARG BASE"], "no default"
    assert all(line == "FROM ${BASE}" or "@sha256:" in line for line in lines if line.startswith("FROM"))
