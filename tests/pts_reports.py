"""Reports and logs of fio for tests of SNIA's tests, and their settings on a drive that may be erased."""

from __future__ import annotations

import json

from dutlab.spec.bounds import TestbedBounds
from dutlab.spec.drives import DriveSpec
from dutlab.spec.workloads.pts import PtsWorkload
from dutlab.spec.workloads.pts_setting import PtsSetting

BOUNDS = TestbedBounds({}, {"server:d1": DriveSpec(name="d1", by_id="d1", destroy=True, purge=True)})


def setting_of(**asked: object) -> PtsSetting:
    (drive,) = PtsWorkload.model_validate({"tests": ["iops"], **asked}).drives(BOUNDS)
    assert isinstance(drive.setting, PtsSetting)
    return drive.setting


def report(iops: float, *, clat_ns: float | None = None, seconds: float = 1.0) -> bytes:
    mean = 1e9 / iops if clat_ns is None else clat_ns
    job = {
        "jobname": "server:d1",
        "job_runtime": seconds * 1e3,
        "write": {
            "total_ios": iops * seconds, "iops": iops, "bw_bytes": iops * 4096, "runtime": seconds * 1e3,
            "clat_ns": {"mean": mean, "max": 9.0, "N": 1},
        },
    }  # fmt: skip
    return json.dumps({"fio version": "fio-3.33", "jobs": [job]}).encode()


def log_of(rates: list[int]) -> bytes:
    return "".join(f"{1_000_000 + 1000 * second}, {rate}, 1, 1048576, 0\n" for second, rate in enumerate(rates)).encode()
