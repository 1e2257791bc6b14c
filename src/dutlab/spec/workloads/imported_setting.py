"""Settings of cells that other tools measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Generic, Literal, TypeVar

from pydantic import ConfigDict

from dutlab.by_path import named
from dutlab.spec.workloads.setting import ELSEWHERE, IMPORTED, OMITS, STREAMS, LoadSetting, Params, Setting, Value, Words
from dutlab.workloads import plug_of

_T = TypeVar("_T")
_BY_READS: Mapping[float | None, str] = {100: "read", 0: "write"}


class ImportedField(Generic[_T]):
    """Field of an imported setting: the value under its name in the file; None if it is missing or of another type."""

    def __init__(self, *kinds: type[_T]) -> None:
        self._kinds, self._name = kinds, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, setting: ImportedSetting, owner: type) -> _T | None:
        value: object = setting.said.get(self._name)
        return value if isinstance(value, self._kinds) else None


class ImportedSetting(Setting):
    """Setting from a file of another tool."""

    model_config = ConfigDict(ignored_types=(ImportedField,))
    kind: Literal["imported"] = IMPORTED
    of: Annotated[str, ELSEWHERE]
    """Workload as which its figures are shown."""
    said: Annotated[dict[str, Value], ELSEWHERE] = {}  # noqa: RUF012 -- pydantic copies it
    also: ClassVar[Mapping[str, Words]] = {
        **LoadSetting.words_of_fields(),
        "streams": STREAMS,
        "omit_s": OMITS,
        "rampup_s": Words("ramp of {} s"),
        "hold_s": Words("{} s hold"),
        "target_percent": Words("to {} % of line rate"),
        "warmup_mult": Words("warm-up at {}"),
    }
    """Words for names in files of many tools; the workload in `of` has words for the others."""
    frame_mix, protocol, work = ImportedField(str), ImportedField(str), ImportedField(str)
    mtu, streams = ImportedField(int), ImportedField(int)
    duration_s, rate_pps, rate_percent, reads_percent = (
        ImportedField(int, float),
        ImportedField(int, float),
        ImportedField(int, float),
        ImportedField(int, float),
    )
    target_percent, threshold_percent, warmup_s = ImportedField(int, float), ImportedField(int, float), ImportedField(int, float)

    @property
    def workload(self) -> str:
        """Workload as which its figures are shown."""
        return self.of

    @property
    def size(self) -> str:
        """Frame size, as in the file."""
        return str(self.said.get("frame_size") or "")

    @property
    def ends(self) -> tuple[str, ...]:
        """Client and server, where the file names them; otherwise empty."""
        client, server = self.said.get("client"), self.said.get("server")
        return (str(client), str(server)) if client and server else ()

    @property
    def options(self) -> Mapping[str, str]:
        """Options by fio's names; a table may have the share of reads in place of `rw`."""
        return {"rw": _BY_READS.get(self.reads_percent, ""), **{name: str(value) for name, value in self.said.items()}}

    @cached_property
    def params(self) -> Params:
        """Parameters as in the file."""
        return self.said

    @property
    def words(self) -> Mapping[str, Words]:
        """Words of the workload's own setting, except those that need one of its fields."""
        path = plug_of(self.of).settings
        ours: Mapping[str, Words] = named(path).setting.words_of_fields() if path else {}
        return {name: words for name, words in {**ours, **self.also, **ours}.items() if words.read is None}
