"""The tests of tunnels on a kernel that has ESP: user-mode Linux, which starts in seconds on the files of this machine and may not write them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import dutlab
from capability import have_netns, have_strongswan, need, need_engine
from dutlab.labs.uml import for_this_cpu

ROOT = Path(__file__).parents[2]
MODULES = Path("/usr/lib/uml/modules")
"""Where Debian's package user-mode-linux has them."""
INIT = """#!/bin/sh
export {environment}
mount -t proc proc /proc; mount -t sysfs sys /sys
for folder in /run /var/tmp /mnt /dev/shm; do mkdir -p $folder; mount -t tmpfs tmpfs $folder; done
echo {modprobe} >/proc/sys/kernel/modprobe
for module in veth esp4 esp6 xfrm_user nf_tables nft_masq; do {modprobe} $module; done
ip link set lo up; ip netns add warm; ip netns del warm
cd {root} && {job}
echo o >/proc/sysrq-trigger
sleep 5
"""
WHICH = "(router_of_tunnels and ipsec-cbc) or (daemon and gcm)"
"""Each way with fixed keys or IKE once, and each suite once: it is slow there."""
LONGEST_S = 400


def test_a_linux_router_ends_tunnels_and_two_daemons_agree_on_keys(tmp_path: Path) -> None:
    need("netns", have_netns())
    need("strongswan", have_strongswan())
    need("uml", all(map(shutil.which, ("linux.uml", "modprobe"))) and MODULES.is_dir())
    engine = need_engine()
    (tmp_path / "modules/lib").mkdir(parents=True)
    (tmp_path / "modules/lib/modules").symlink_to(MODULES)
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/root", "TMPDIR": "/mnt", "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(Path(dutlab.__file__).parents[1]), "DUTLAB_ENGINE": str(engine),
    }  # fmt: skip
    options = ["-p", "no:cacheprovider", "--basetemp=/mnt/t", "--color=no", "-q", "-rs", "tests/netns/test_tunnels.py", "-k", WHICH]
    told = {
        "environment": " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items()),
        "modprobe": tmp_path / "modprobe", "root": shlex.quote(str(ROOT)), "job": shlex.join([sys.executable, "-m", "pytest", *options]),
    }  # fmt: skip
    script(tmp_path / "modprobe", f'#!/bin/sh\nexec {shutil.which("modprobe")} -d {tmp_path}/modules "$@"\n')
    script(tmp_path / "init", INIT.format(**told))
    kernel = ["linux.uml", "mem=900M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={tmp_path}/init"]
    library = for_this_cpu(tmp_path)
    done = subprocess.run(
        [*(() if library is None else ("env", f"LD_PRELOAD={library}")), *kernel, "con=null", "con0=fd:0,fd:1", "quiet"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_S, check=False,
    )  # fmt: skip
    assert re.search(r"^2 passed, ", done.stdout, re.MULTILINE), done.stdout[-4000:]


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
