"""Cell of a trial: the level of every factor, the links, and the settings of the workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict

from dutlab.errors import InputError
from dutlab.spec.factors import MTU, TUNNELS
from dutlab.spec.workloads import AnySetting
from dutlab.spec.workloads.setting import FrameSetting, Params, Setting
from dutlab.subject import joined

if TYPE_CHECKING:
    from dutlab.spec.generators import GeneratorModel

S = TypeVar("S", bound=Setting)


class Cell(BaseModel):
    """Levels and settings of one cell."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    mode: str
    factors: dict[str, str]
    """Level of every factor, mode included."""
    tool: str
    links: tuple[str, ...]
    setting: AnySetting
    repeat: int
    """From 1."""

    @property
    def workload(self) -> str:
        """Name of the workload in the experiment file."""
        return self.setting.workload

    @property
    def params(self) -> Params:
        """The setting as words and numbers, by names with units."""
        return self.setting.params

    @property
    def generator(self) -> GeneratorModel | None:
        """Generator of its frames; None if it sends none, or the engine does."""
        return self.setting.generator if isinstance(self.setting, FrameSetting) else None

    def setting_as(self, kind: type[S]) -> S:
        """Return the setting if it is of this kind. Raises InputError for any other."""
        if isinstance(self.setting, kind):
            return self.setting
        raise InputError(
            f"{kind.__name__} was expected, and the cell has a setting of {self.workload}", remedy="take the workload's own method"
        )

    def mtu(self, of_link: int) -> int:
        """Return the MTU of its links: the level of the factor `mtu`, else the testbed's `of_link`."""
        level = self.factors.get(MTU, "")
        return int(level) if level.isdecimal() else of_link

    @property
    def tunnels(self) -> int:
        """Number of tunnels of a link, in modes that have several; else 1."""
        level = self.factors.get(TUNNELS, "")
        return int(level) or 1 if level.isdecimal() else 1

    @property
    def link_label(self) -> str:
        """Links in one word: `a`, or `a+b` for links driven at once."""
        return joined(self.links)
