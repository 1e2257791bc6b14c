"""Cards: the engine on real drivers, which QEMU's devices have, under the kernel that Debian makes for clouds.

The guest has no disk. Its memory holds the kernel's modules, the few programs that the suite starts, the suite itself
(engine/agent/tests/conformance.rs) and the engine; two cards on a hub are the cable.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from capability import need, need_program

REPOSITORY = Path(__file__).parents[2]
KERNELS = sorted(Path("/boot").glob("vmlinuz-*-cloud-amd64"))
PROGRAMS = ("busybox", "ip", "ethtool", "taskset")
MODULES = ("virtio_pci", "virtio_net", "vmxnet3")
LIMIT_S = 850.0
CARDS = {"virtio-net-pci": "native", "vmxnet3": "generic"}
"""Card → the XDP that its driver has."""
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /applets
export PATH=/usr/bin:/usr/sbin:/sbin:/bin:/applets HOME=/tmp
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs run /run
for module in /modules/*; do insmod $module; done
export DUTLAB_CARDS=eth0,eth1 DUTLAB_PROMISED=netns,cards
DUTLAB_CARDS_XDP={xdp} {suite} cards --test-threads 1
echo "suite ended: $?"
dmesg | grep -E "BUG:|WARNING:|soft lockup|error" && echo "the kernel complained"
poweroff -f
"""


@cache
def built() -> tuple[str, str]:
    """The suite and the engine that it starts, which lies where the suite was told when it was built."""
    argv = ["cargo", "test", "--release", "--workspace", "--test", "conformance", "--no-run", "--message-format", "json"]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    made = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    programs = {m["target"]["name"]: m["executable"] for m in made if m.get("executable")}
    return programs["conformance"], programs["dutlab-engine"]


def with_libraries(root: Path, program: str) -> None:
    """Copies a program, and what it is linked to, to the places where they are."""
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for path in (program, *re.findall(r"(?<![\w.])/\S+", linked)):
        place = root / path.lstrip("/")
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(path).resolve(), place)


def needed_modules(folder: Path) -> list[Path]:
    """Each behind those that it depends on (depmod(8))."""
    lines = (line.split(":") for line in (folder / "modules.dep").read_text(encoding="ascii").splitlines())
    depends = {Path(path).name.removesuffix(".ko"): [*reversed(on.split()), path] for path, on in lines}
    return [folder / path for path in dict.fromkeys(path for name in MODULES for path in depends.get(name, ()))]


def archive(root: Path, image: Path) -> Path:
    """All files of a folder, as kernels unpack them; of two archives one behind the other they unpack both."""
    with image.open("ab") as file:
        names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=root, input=names, stdout=file, stderr=subprocess.DEVNULL, check=True)
    return image


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the guest's memory begins with, as an archive without `init`."""
    need("qemu", shutil.which("qemu-system-x86_64") is not None and bool(KERNELS))
    root = tmp_path_factory.mktemp("guest")
    for name in ("applets", "bin", "proc", "sys", "dev", "tmp", "run", "modules"):
        (root / name).mkdir(exist_ok=True)
    for name in PROGRAMS:
        with_libraries(root, need_program(name))
    if not (root / "bin/busybox").exists():
        shutil.copy2(need_program("busybox"), root / "bin/busybox")
    for program in built():
        with_libraries(root, program)
    release = KERNELS[-1].name.removeprefix("vmlinuz-")
    for number, module in enumerate(needed_modules(Path("/lib/modules") / release)):
        shutil.copy2(module, root / "modules" / f"{number:02}-{module.name}")
    return archive(root, root.with_name("memory"))


def boot(folder: Path, image: Path, card: str) -> str:
    """Everything that a guest with two such cards says until it is off."""
    cards = [f"{card},netdev=n{n},mac=02:00:00:00:01:0{n}" for n in (1, 2)]
    argv = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "768", "-nodefaults", "-no-reboot", "-display", "none"]
    argv += ["-serial", "stdio", "-kernel", str(KERNELS[-1]), "-initrd", str(image)]
    argv += ["-append", "console=ttyS0 quiet panic=-1 net.ifnames=0"]
    argv += [word for n in (1, 2) for word in ("-netdev", f"hubport,hubid=0,id=n{n}", "-device", cards[n - 1])]
    done = subprocess.run(
        argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("card", CARDS)
def test_every_back_end_sends_and_counts_exactly_on_the_driver_of_a_card(memory: Path, tmp_path: Path, card: str) -> None:
    suite, _ = built()
    (first := tmp_path / "first").mkdir()
    (first / "init").write_text(INIT.format(suite=suite, xdp=CARDS[card]), encoding="ascii")
    (first / "init").chmod(0o755)
    image = tmp_path / "memory"
    shutil.copy2(memory, image)
    said = boot(tmp_path, archive(first, image), card)
    assert "suite ended: 0" in said, said[-4000:]
    assert re.search(r"test result: ok\. 2 passed", said), said[-4000:]
    assert "the kernel complained" not in said, said[-4000:]
