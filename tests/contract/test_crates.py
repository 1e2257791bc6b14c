"""What others take from the engine: programs of eBPF that are compiled already, and crates.

The build script of dutlab-xdp runs as cargo runs it, in copies of its folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from capability import need_program

XDP = Path(__file__).parents[2] / "engine/xdp"
PROGRAMS = ("afxdp", "devices", "receiver", "reference", "sender")


def copied(folder: Path) -> Path:
    """A package with nothing but the build script and the C sources."""
    folder.mkdir(parents=True)
    shutil.copytree(XDP / "bpf", folder / "bpf")
    shutil.copy(XDP / "build.rs", folder)
    return folder


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    for program in ("cargo", "cc"):
        need_program(program)
    binary = tmp_path_factory.mktemp("script") / "build"
    subprocess.run(["rustc", "--edition=2024", "-o", binary, copied(binary.parent / "source") / "build.rs"], check=True)
    return binary


def built(script: Path, package: Path, **environment: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    out = package / "out"
    out.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name != "CLANG"}
    return subprocess.run([script], cwd=package, env=kept | {"OUT_DIR": str(out)} | environment, capture_output=True, text=True), out


def objects(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.bpf.o").read_bytes() for name in PROGRAMS}


def test_carried_programs_are_what_clang_makes_byte_for_byte_from_any_folder(script, tmp_path):
    told, compiled = built(script, copied(tmp_path / "clone"))
    assert not told.returncode, told.stderr
    archive = copied(tmp_path / "somewhere/else/archive")
    shutil.copytree(compiled, archive / "objects")
    told, taken = built(script, archive, PATH="/nowhere")
    assert not told.returncode, told.stderr
    told, again = built(script, archive, CLANG=os.environ.get("CLANG", "clang"))
    assert not told.returncode, told.stderr
    assert objects(compiled) == objects(taken) == objects(again)
    assert all(data.startswith(b"\x7fELF") for data in objects(taken).values())


def test_programs_of_other_sources_are_not_taken_and_the_message_says_what_to_install(script, tmp_path):
    package = copied(tmp_path / "package")
    told, compiled = built(script, package)
    assert not told.returncode, told.stderr
    shutil.copytree(compiled, package / "objects")
    with (package / "bpf/pace.h").open("a") as f:
        f.write("/* changed */\n")
    told, _ = built(script, package, PATH="/nowhere")
    assert told.returncode
    assert "apt-get install clang libbpf-dev" in told.stderr


def test_the_crates_that_others_may_use_make_packages_and_say_what_they_are(tmp_path):
    need_program("cargo")
    crates = ("dutlab-units", "dutlab-wire", "dutlab-measure")
    asked = ["cargo", "package", "--offline", "--allow-dirty", "--no-verify", "--quiet", "--target-dir", tmp_path]
    subprocess.run([*asked, *(word for crate in crates for word in ("-p", crate))], cwd=XDP.parents[1], check=True)
    for crate in crates:
        (made,) = (tmp_path / "package").glob(f"{crate}-*.crate")
        with tarfile.open(made) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        assert {"README.md", "Cargo.toml", "src/lib.rs"} <= names
