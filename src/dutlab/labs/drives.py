"""Drives of a lab: files behind loop devices, and a control group that limits them to their ratings.

All parts can be found by the lab's label: files are in one folder, loop devices are identified by their files (losetup -j), and the group
has the lab's name. So down() works after a crash at any point of up(). The kernel enforces ratings by throttling the I/O of the group's
programs (cgroup v2 io.max, or v1 blkio.throttle.*).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from dutlab.errors import HostError, LabError
from dutlab.hosts.local import LocalHost
from dutlab.hosts.private_folder import PLACE
from dutlab.hosts.programs import Program
from dutlab.spec.drives import DriveSpec
from dutlab.spec.testbed import Testbed

LOSETUP = Program("losetup", "mount")
_V1, _V2 = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
_LIMITS = {
    "read_iops": ("riops", "blkio.throttle.read_iops_device"),
    "write_iops": ("wiops", "blkio.throttle.write_iops_device"),
    "read_bytes_per_s": ("rbps", "blkio.throttle.read_bps_device"),
    "write_bytes_per_s": ("wbps", "blkio.throttle.write_bps_device"),
}
"""Rating → its key in io.max, and its file in v1."""
_TRIES, _PAUSE_S = 600, 0.1
_REMEDY = "drives of a lab need root of the machine itself, loop devices, and the controller io (v2) or blkio (v1)"


def folder_of(label: str) -> Path:
    """Return the folder of a lab's drive files, with a link per drive, as udev makes them in /dev/disk/by-id."""
    return Path(PLACE) / f"dutlab-drives-{label}"


def group_of(label: str) -> Path:
    """Return the control group in which programs of the lab's hosts run."""
    return (_V1 if _V1.is_dir() else _V2) / f"dutlab-{label}"


def placed(testbed: Testbed, label: str) -> Testbed:
    """Return the testbed with the folder of this lab's drives."""
    if not testbed.drives:
        return testbed
    folder = str(folder_of(label))
    hosts = {
        name: host.model_copy(update={"drives": {d: drive.model_copy(update={"folder": folder}) for d, drive in host.drives.items()}})
        for name, host in testbed.hosts.items()
    }
    return testbed.model_copy(update={"hosts": hosts})


async def up(label: str, drives: Mapping[str, DriveSpec]) -> None:
    """Make the drives; down() removes all parts that exist, even after an error. Raises LabError."""
    machine, folder, group = LocalHost("lab"), folder_of(label), group_of(label)
    try:
        group.mkdir()
        if group.parent == _V2 and "io" not in (group / "cgroup.controllers").read_text(encoding="ascii").split():
            raise LabError("the controller io is not given to groups", remedy="`echo +io > /sys/fs/cgroup/cgroup.subtree_control`")
        for spec, file in zip(drives.values(), make_files(label, drives), strict=True):
            words = ["losetup", "--find", "--show", "--direct-io=on", str(file)]
            device = (await machine.run(words)).text.strip()
            (folder / spec.name).symlink_to(device)
            _limit(group, device, spec)
    except OSError as error:
        raise LabError(f"drives cannot be made: {error}", remedy=_REMEDY) from error
    except HostError as error:
        raise LabError(f"drives cannot be made: {error}", remedy=_REMEDY) from error


def make_files(label: str, drives: Mapping[str, DriveSpec]) -> list[Path]:
    """Make the files of the drives and return them in order. Raises OSError."""
    (folder := folder_of(label)).mkdir(mode=0o700)
    files = [folder / f"{spec.name}.img" for spec in drives.values()]
    for spec, file in zip(drives.values(), files, strict=True):
        with file.open("xb") as image:
            image.truncate(spec.size or 0)
    return files


async def down(label: str) -> bool:
    """Remove the drives; return whether there were any. Raises LabError."""
    machine, folder, group = LocalHost("lab"), folder_of(label), group_of(label)
    was_there = folder.is_dir() or group.is_dir()
    for file in sorted(folder.glob("*.img")):
        for device in (await machine.run(["losetup", "-j", str(file), "-O", "NAME", "-n"], check=False)).text.split():
            await machine.run(["losetup", "--detach", device], check=False)
    for path in sorted(folder.glob("*")):
        await asyncio.to_thread(path.unlink, missing_ok=True)  # takes seconds for a large file
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
    for _ in range(_TRIES):
        try:
            await asyncio.to_thread(group.rmdir)
        except FileNotFoundError:
            break
        except OSError:  # a process of the group is ending
            await asyncio.sleep(_PAUSE_S)
    else:
        raise LabError(f"the control group {group} cannot be removed", remedy=f"end what `cat {group}/cgroup.procs` lists, then retry")
    return was_there


def _limit(group: Path, device: str, spec: DriveSpec) -> None:
    number = Path(f"/sys/class/block/{Path(device).name}/dev").read_text(encoding="ascii").strip()
    rated = {key: int(value) for key in _LIMITS if spec.rated is not None and (value := getattr(spec.rated, key)) is not None}
    if group.parent == _V1:
        for key, value in rated.items():
            (group / _LIMITS[key][1]).write_text(f"{number} {value}\n", encoding="ascii")
    elif rated:
        (group / "io.max").write_text(
            f"{number} {' '.join(f'{_LIMITS[key][0]}={value}' for key, value in rated.items())}\n", encoding="ascii"
        )
