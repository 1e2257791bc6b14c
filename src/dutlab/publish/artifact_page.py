"""ARTIFACT.md: the artifact appendix in the order that the ACM's and other committees ask for. All text from runs is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dutlab.publish.artifact_runs import RunGroup
from dutlab.publish.crate import Crate
from dutlab.report.model.run_report import RunReport
from dutlab.report.model.words import duration_words, plural
from dutlab.report.pages.markdown import markdown_table, text
from dutlab.report.questions.claims import ClaimCard
from dutlab.report.questions.repeated import WIDEST, ExpectedRange

_MOST_FACTS = 12
"""Most facts of a host that the page lists; the run's files have all."""


@dataclass(frozen=True)
class PageGroup:
    """Runs that one new run repeats, with the text of the page about them."""

    group: RunGroup
    report: RunReport
    """Report of the newest run."""
    claims: tuple[tuple[str, ClaimCard, tuple[ExpectedRange, ...]], ...]
    """File of each claim, its card and its expected ranges."""


def artifact_page(crate: Crate, groups: Sequence[PageGroup], size_bytes: int, wheel: str) -> bytes:
    """Return the content of ARTIFACT.md. `wheel` is the package of dutlab in the artifact, or empty."""
    parts = [
        f"# Artifact: {text(crate.title)}",
        *_abstract(crate, groups),
        *_checklist(crate, groups, size_bytes),
        *_hardware(groups),
        *_software(crate, groups, wheel),
        *_workflow(groups),
        *_expected(groups),
        *_notes(groups),
    ]
    return ("\n\n".join(parts) + "\n").encode(errors="backslashreplace")


def _abstract(crate: Crate, groups: Sequence[PageGroup]) -> Iterator[str]:
    claims = [card for of in groups for _, card, _ in of.claims]
    yield "## Abstract"
    yield f"{text(crate.described)} It supports {plural(len(claims), 'claim')}:"
    yield "\n".join(f"{n}. {text(card.claim)}" for n, card in enumerate(claims, 1))


def _checklist(crate: Crate, groups: Sequence[PageGroup], size_bytes: int) -> Iterator[str]:
    seconds = sum(of.group.seconds for of in groups)
    rows = [
        ("program", f"dutlab {text(' '.join(crate.release.values()))}"),
        ("data", f"{plural(len(crate.runs), 'run')}, {size_bytes / 1e6:.1f} MB unpacked"),
        ("run-time environment", "Linux, root; see Containerfile"),
        ("hardware", text(", ".join(dict.fromkeys(_where(of) for of in groups)))),
        ("metrics", text(", ".join(sorted({p.figure for of in groups for _, _, ps in of.claims for p in ps})))),
        ("output", "repeated, differs or cannot tell, for each claim"),
        ("time to prepare", "about 5 minutes"),
        ("time to repeat", f"about {duration_words(seconds)}"),
        ("licence", text(crate.licence or "not stated; see LICENSE")),
        ("workflow", "one command"),
    ]
    yield "## Check-list"
    yield markdown_table(("", ""), rows)


def _where(of: PageGroup) -> str:
    return f"none: lab {of.group.lab} is built on the reader's machine" if of.group.lab else f"testbed {of.report.testbed}"


def _hardware(groups: Sequence[PageGroup]) -> Iterator[str]:
    yield "## Hardware"
    for of in groups:
        conditions = of.report.conditions
        facts = [fact for fact in conditions.facts if fact.key][:_MOST_FACTS]
        yield f"{text(of.report.experiment)}, measured on {text(_where(of))}:"
        if conditions.hosts and facts:
            rows = [(text(fact.name), *(text(fact.by_host.get(host, "")) for host in conditions.hosts)) for fact in facts]
            yield markdown_table(("fact", *map(text, conditions.hosts)), rows)


def _software(crate: Crate, groups: Sequence[PageGroup], wheel: str) -> Iterator[str]:
    tools = sorted({tool for of in groups for tool in of.report.conditions.tools})
    yield "## Software"
    yield (
        f"`{wheel}` is the exact package; SHA256SUMS has its digest. `packages/requirements.txt` has the versions of the libraries "
        "next to which this artifact was made."
        if wheel
        else f"The package of dutlab is not in this artifact. Install version {text(' '.join(crate.release.values()))}. "
        "`packages/requirements.txt` has the versions of the libraries next to which this artifact was made."
    )
    if tools:
        yield markdown_table(("tool", "version or description"), [(text(name), text(words)) for name, words in tools])


def _workflow(groups: Sequence[PageGroup]) -> Iterator[str]:
    testbed = "" if all(of.group.lab for of in groups) else " --testbed mine.yaml"
    yield "## Installation and workflow"
    yield "FILE is the zip file. Without dutlab: `unzip FILE -d artifact`, then `sha256sum -c SHA256SUMS` there. With dutlab, as root:"
    yield f"    dutlab artifact check FILE --plan\n    dutlab artifact check FILE --trust{testbed}"
    yield (
        "The first command verifies the digests, the signature if there is one, and that each claim follows from the raw files. It then "
        "lists what would run. The second one runs it. `--trust` states that you have read the commands and agree to them."
    )
    if testbed:
        yield "The runs were made on real machines. `mine.yaml` names yours, with the same links and, if the runs use them, the same hosts."
    yield "In a container: `podman build -t artifact --build-arg BASE=… -f Containerfile .`, as described in Containerfile."
    rows = []
    for of in groups:
        for folder in of.group.folders:
            commands = of.report.course.command if folder is of.group.newest else ""
            rows.append(
                (f"[{text(folder.name)}](runs/{text(folder.name)}/)", text(_where(of)), duration_words(of.group.seconds), text(commands))
            )
    yield markdown_table(("run", "where", "estimated time", "command"), rows)


def _expected(groups: Sequence[PageGroup]) -> Iterator[str]:
    yield "## Evaluation and expected results"
    yield (
        "Each range is a 95 % prediction interval, shared out over all figures of a run: where the median of one more run with as many "
        "repeats will be, if nothing changes. It is widened by what another set-up of the same machine may change (10 %, 4 % for ratios). "
        "On other processors only ratios of modes are judged, and figures are for information."
    )
    for of in groups:
        for file, card, predictions in of.claims:
            yield f"### {text(card.about)}"
            yield f"{text(card.claim)} ([{text(file)}]({file}))"
            rows = [
                (text(p.label), text(p.figure) + (", ratio" if p.is_ratio else ""), text(p.text(p.then)), _range(p)) for p in predictions
            ]
            yield markdown_table(("cell", "figure", "measured", "expected"), rows)


def _range(prediction: ExpectedRange) -> str:
    interval = prediction.interval
    words = "" if interval is None else f"{prediction.text(interval.low)} to {prediction.text(interval.high)}"
    note = "" if prediction.untold is None else prediction.untold.value
    return text("; ".join(filter(None, (words, note))))


def _notes(groups: Sequence[PageGroup]) -> Iterator[str]:
    yield "## Notes"
    lines = [f"- A range that reaches further than {WIDEST:.0%} of its figure proves nothing; then the answer is: cannot tell."]
    for of in groups:
        if of.group.is_imported:
            lines.append(f"- {text(of.group.newest.name)} has results of another program. dutlab cannot repeat it.")
        severe = dict.fromkeys(f"{note.grade}: {note.text}" for note in of.report.notes)
        lines += [f"- {text(of.report.name)}: {text(words)}" for words in severe]
        lines += [f"- {text(of.report.name)} departs from RFC 2544: {text(words)}" for words in of.report.deviations]
    yield "\n".join(lines)
