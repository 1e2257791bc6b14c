"""Cost of a frame in instructions: the router's share by mode and frame size; the rig's share is subtracted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, Section
from dutlab.report.model.table import Column, Figure
from dutlab.report.model.words import size_order
from dutlab.report.sections.headline import compared, first_of
from dutlab.spec.workloads.exact import ExactSetting
from dutlab.store.run_folder import RunFolder

_MAIN, _FIRST = "exact_instructions_per_frame", "exact_first_instructions_per_frame"
_COLUMNS = (
    Column("router", _MAIN),
    Column("first frame of a flow", _FIRST),
    Column("generator and sink", "exact_rig_instructions_per_frame"),
    Column("all together", "exact_whole_instructions_per_frame"),
)
_HEADS = {"flow_count": "flows", "rules": "rules", "routes": "routes", "tunnels": "tunnels", "mtu": "MTU", "offload": "offload"}
LEAD = """The guest's clock advances by one nanosecond an instruction, so these are counts, and other work on this machine changes none of
them. `Router` is the path through the router less the same frames sent directly from generator to sink. An instruction is not a time: one
that waits for memory or another core counts as one too."""


def section(run: RunFolder, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode, size and other varied setting."""
    settings = {id(g): g.cell.setting_as(ExactSetting) for g in groups}
    varied = [key for key in _HEADS if len({getattr(of, key) for of in settings.values()}) > 1]
    groups = sorted(groups, key=lambda g: (_place(g), labels.index(g.label)))
    results = [(g, {c.figure: value_of(g, g.cell.link_label, c.figure, book) for c in _COLUMNS}) for g in groups]
    columns = [c for c in _COLUMNS if c.figure != _FIRST or any(isinstance(of[_FIRST], Figure) for _, of in results)]
    rows = [
        g.row(
            (*(str(getattr(settings[id(g)], key)) for key in varied), g.cell.setting.size, *(of[c.figure] for c in columns)),
            link=g.cell.link_label, size=g.cell.setting.size,
        )
        for g, of in results
    ]  # fmt: skip
    heads = (*(Column(_HEADS[key]) for key in varied), Column("frames"), *columns)
    return Section(
        slug="exact",
        workload="exact",
        title="Instructions a frame",
        lead=LEAD,
        tables=(book.table("exact", "Instructions a frame by mode and frame size", heads, rows),),
        words=tuple(dict.fromkeys(_made_of(groups))),
        unknown=tuple(f"which functions take the instructions: {g.label}: {why}" for g in groups for why in _no_profile(g)),
        headlines=_headlines(groups, labels, book),
    )


def _place(group: Group) -> tuple[object, ...]:
    setting = group.cell.setting_as(ExactSetting)
    return (*(getattr(setting, key) for key in _HEADS), size_order(setting.size))


def _headlines(groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> tuple[Headline, ...]:
    headlines = []
    for place in dict.fromkeys(map(_place, groups)):
        cells = {g.label: g for g in groups if _place(g) == place}
        named = [(label, value_of(cells[label], cells[label].cell.link_label, _MAIN, book)) for label in labels if label in cells]
        size = next(iter(cells.values())).cell.setting.size
        headlines.append(compared(f"{size} bytes" if size.isdigit() else size, named, _MAIN, book))
    return first_of([h for h in headlines if h is not None])


def _made_of(groups: Sequence[Group]) -> Iterator[str]:
    """Yield sentences on the simulated machine."""
    for facts in (r.tool_facts for g in groups for r in g.measured if "kernel" in r.tool_facts):
        yield (
            f"Linux {facts.get('kernel')} (sha256 {str(facts.get('kernel_sha256'))[:12]}) on processor {facts.get('processor')} of QEMU "
            f"{facts.get('qemu')}; initrd {str(facts.get('initrd_sha256'))[:12]}."
        )


def _no_profile(group: Group) -> Iterator[str]:
    """Yield reasons for a requested profile that is missing."""
    return (r.tool_facts["no_profile"] for r in group.measured if "no_profile" in r.tool_facts)
