"""Workload `exact`: instructions per frame of a Linux guest on a simulated processor, which counts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.factors import MODE
from dutlab.spec.fields import YesNo
from dutlab.spec.known import EXACT
from dutlab.spec.links import DUT
from dutlab.spec.mixes import LONGEST_FRAME, FrameSizes, Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.named_mixes import ETH_FRAME_OVERHEAD
from dutlab.spec.shape import TestbedShape
from dutlab.spec.tunnels import MOST_TUNNELS
from dutlab.spec.workloads.base import Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.frames import each_once
from dutlab.spec.workloads.setting import ELSEWHERE, FrameSize, Params, Setting, Words
from dutlab.systems.modes import GUEST_TUNNELS, TWO_ROUTERS
from dutlab.units import Seconds

MOST = 50_000
"""Most flows, rules or routes: flows differ by source port, routes by the last two bytes of an address."""
MOST_FRAMES = 1_000_000
"""Most frames per pass."""
_TRIAL_S, _PROFILE_S = 4.0, 8.0
_SHORTEST, _LEAST_MTU = 64, 68
_LONGEST = LONGEST_FRAME - ETH_FRAME_OVERHEAD

_Frames = Annotated[int, Strict(), Field(ge=100, le=MOST_FRAMES)]
_Flows = Annotated[int, Strict(), Field(ge=1, le=MOST)]
_Count = Annotated[int, Strict(), Field(ge=0, le=MOST)]
_Tunnels = Annotated[int, Strict(), Field(ge=1, le=MOST_TUNNELS)]
_Mtu = Annotated[int, Strict(), Field(ge=_LEAST_MTU, le=_LONGEST)]
Offload = Literal["none", "gro"]
"""Offload of the router's receiving port, which acts before the kernel gets the frame."""


class ExactSetting(Setting):
    """Setting of a trial: frames of one size or mix, in one guest."""

    kind: Literal["exact"] = "exact"
    left_out: ClassVar[frozenset[str]] = frozenset({"kernel", "modules", "cpu", "limit_s"})

    frame_size: FrameSize
    frames: Annotated[_Frames, Words("{} frames a pass")]
    flow_count: Annotated[_Flows, Words("{} flows", {1: ""})]
    rules: Annotated[_Count, Words("{} rules before those of the mode", {0: ""})]
    routes: Annotated[_Count, Words("{} routes", {0: ""})]
    tunnels: Annotated[_Tunnels, Words("{} tunnels", {1: ""})] = 1
    mtu: Annotated[_Mtu, Words("MTU {}", {1500: ""})]
    offload: Annotated[Offload, Words("{} on", {"none": ""})] = "none"
    cpu: Annotated[str, Words("processor {}", {"max": ""})] = "max"
    kernel: Annotated[str | None, Words("kernel {}")] = None
    """File of the guest's kernel; None is the newest Debian cloud kernel."""
    modules: Annotated[str | None, ELSEWHERE] = None
    """Folder of the kernel's modules; None is the folder of its release in /lib/modules."""
    limit_s: Annotated[int, ELSEWHERE] = 600
    """Time limit of the guest in seconds, by its own clock."""
    profile: Annotated[bool, ELSEWHERE] = False
    """True to record the instructions of each function. It does not change the figures."""

    @cached_property
    def params(self) -> Params:
        """Parameters without `profile`, which does not change the cell."""
        return {key: value for key, value in super().params.items() if key != "profile"}

    @property
    def of_any_kernel(self) -> Self:
        """The setting without its kernel, for comparisons between kernels."""
        return self.model_copy(update={"kernel": None, "modules": None})

    def with_frames(self, times: int) -> Self:
        """Return the setting with `times` as many frames, so that timer ticks hit other frames, and with a profile to locate changes."""
        return self.model_copy(update={"frames": min(times * self.frames, MOST_FRAMES), "profile": True})

    @property
    def size(self) -> str:
        """Size of all frames."""
        return str(self.frame_size.size or self.frame_size.name)


class ExactWorkload(WorkloadModel):
    """One guest per combination of settings. It counts executed instructions, not time."""

    tool: ClassVar[str] = "qemu"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.COMMANDS})
    setting: ClassVar[type[Setting]] = ExactSetting
    without_links: ClassVar[str] = "the guest has its own link; leave it out"

    frame_sizes: FrameSizes = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in (64, 1518)))
    frames: _Frames = 10_000
    """Frames per pass. One timer tick more or less changes the result by about an instruction per frame."""
    flows: tuple[_Flows, ...] = (1,)
    rules: tuple[_Count, ...] = (0,)
    routes: tuple[_Count, ...] = (0,)
    tunnels: tuple[_Tunnels, ...] = (1,)
    """Numbers of tunnels, for modes with tunnels. Each tunnel has a separate destination, and frames use them in turn."""
    mtu: tuple[_Mtu, ...] = (1500,)
    offload: tuple[Offload, ...] = ("none",)
    cpu: Annotated[str, Field(pattern=r"^[\w.,+=-]+$")] = "max"
    """QEMU's processor model (`qemu-system-x86_64 -cpu help`). It determines the kernel's code for copies, checksums and encryption."""
    kernel: str | None = None
    modules: str | None = None
    limit_s: Annotated[int, Strict(), Field(ge=10, le=86_400)] = 600
    profile: YesNo = False
    """True to show the instructions of each function."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that lists have values without duplicates, and that frames fit the MTU."""
        yield from super().cross_faults(data, made)
        if made is None:
            return
        yield from each_once("frame_sizes", [mix.name for mix in made.frame_sizes])
        for key in ("flows", "rules", "routes", "tunnels", "mtu", "offload"):
            yield from each_once(key, [str(n) for n in getattr(made, key)])
        least = min(made.mtu, default=_LONGEST)
        for i, mix in enumerate(made.frame_sizes):
            if mix.longest > least + ETH_FRAME_OVERHEAD:
                what = f"{mix.longest} bytes with FCS do not fit an MTU of {least}: write a larger mtu, or separate experiments"
                yield fault(("frame_sizes", i), what, FaultKind.RANGE)
            if mix.shortest < _SHORTEST:
                yield fault(("frame_sizes", i), f"the shortest frame has {_SHORTEST} bytes", FaultKind.RANGE)
        if made.tunnels != (1,) and made.routes != (0,):
            yield fault(("tunnels",), "each tunnel has a separate destination, and so has each route: vary one of both", FaultKind.CONFLICT)
        for key in ("kernel", "modules"):
            if (path := getattr(made, key)) is not None and not Path(path).is_absolute():
                yield fault((key,), "write the whole path, from / on", FaultKind.TYPE)

    def unfit(self, written: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
        """Yield faults: a testbed without such a guest, and modes without tunnels."""
        if bed.family != EXACT:
            yield (), f"boots a separate guest: write a testbed with one host, `dut: {{local: true, family: {EXACT}}}`, and no links"
        modes, able = (written.get("factors") or {}).get(MODE), {mode.name for mode in (TWO_ROUTERS, *GUEST_TUNNELS)}
        if self.tunnels != (1,) and (without := [str(m) for m in modes if m not in able] if isinstance(modes, list) else []):
            yield ("tunnels",), f"mode {', '.join(without)} has no tunnels; write another experiment for it"

    def count(self, every_link: Mapping[str, Any]) -> int:
        """Return the number of combinations of settings."""
        return sum(1 for _ in self.drives(every_link))

    def drives(self, every_link: Mapping[str, Any]) -> Iterator[WorkloadDrive]:
        """Yield one load (WorkloadDrive) per combination of settings."""
        for offload, mtu, tunnels, routes, rules, flows, mix in product(
            self.offload, self.mtu, self.tunnels, self.routes, self.rules, self.flows, self.frame_sizes
        ):
            setting = ExactSetting(
                frame_size=mix, frames=self.frames, flow_count=flows, rules=rules, routes=routes, tunnels=tunnels, mtu=mtu, offload=offload,
                cpu=self.cpu, kernel=self.kernel, modules=self.modules, limit_s=self.limit_s, profile=self.profile,
            )  # fmt: skip
            yield WorkloadDrive((DUT,), setting, Seconds(_TRIAL_S + (_PROFILE_S if self.profile else 0.0)))
