"""TCP connections: rates, times and the most at once by mode; failures in every trial, and which host reset connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dutlab.methods.dut_tables import counter_of
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group, by_size
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Row, Table, Value
from dutlab.report.model.words import alike_names, setting_words
from dutlab.report.sections.headline import NO_UPPER, bounds
from dutlab.report.sections.state_trials import Head, notes_of, rows_of, trials_table
from dutlab.spec.workloads.connections import ConnectionsSetting

_RESULTS = (
    ("new a second, lower bound (RFC 9411 section 7.2)", "connections_lower_per_s"),
    ("upper bound", "connections_upper_per_s"),
    ("transactions (RFC 3511 section 5.7)", "transactions_per_s"),
    ("goodput (RFC 9411 section 7.3)", "goodput_bps"),
    ("first byte, median (RFC 9411 section 7.4)", "first_byte_p50_ns"),
    ("99 %", "first_byte_p99_ns"),
    ("TLS handshakes (RFC 9411 section 7.6)", "tls_handshakes_per_s"),
    ("resumed", "tls_resumed_ratio"),
    ("TLS handshake, median", "tls_handshake_p50_ns"),
    ("at once (RFC 9411 section 7.5)", "concurrent_connections"),
    ("no longer", "concurrent_upper_connections"),
)
_TRIALS = {"connection_trials": "New connections a second: every trial", "concurrent_trials": "Concurrent connections: every trial"}
_ALWAYS = (
    ("asked", "asked_per_s"),
    ("begun", "begun_connections"),
    ("completed", "completed_connections"),
    ("open at most", "open_max_connections"),
)
_OF_RISEN = {
    "refused_connections": "refused",
    "unreachable_connections": "unreachable",
    "no_handshake_connections": "no answer to SYN",
    "tls_failed_connections": "no TLS",
    "reset_connections": "reset",
    "closed_early_connections": "closed early",
    "no_answer_connections": "no answer",
    "malformed_connections": "malformed",
    "error_status_connections": "other status",
    "reset_by_sink_count": "RST of the sink",
    "reset_by_path_count": "RST of the DUT",
    "retransmits": "sent again",
    "server_connections": "at the server",
    "server_answers_count": "answered there",
    "server_bytes": "bytes from there",
    "server_closed_count": "closed by the proxy",
    "server_closes_count": "closed by the server",
    "server_reset_count": "reset by the proxy",
    "tracked_flows": "tracked by the DUT",
}
LEAD = """TCP connections of the source's kernel to the sink's, or to a proxy on the DUT: handshake, requests, answers, end. Transactions,
goodput (bits of bodies) and times are those of a trial at the lower bound; the time to the first byte runs from SYN (RFC 9411 section
7.4.1). A connection counts when every request was answered in time. Concurrent connections count when each was answered again after the
last was opened (RFC 3511 section 5.2). Resets count as the sink's up to the number that its kernel sent; the others are from the path or
the proxy. Requests of a proxy are counted at the server."""


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a table of results, and one of each test's trials."""
    groups = by_size(groups, labels)
    with_tls = any(g.cell.setting_as(ConnectionsSetting).tls for g in groups)
    results = [(head, figure) for head, figure in _RESULTS if with_tls or not figure.startswith("tls_")]
    alike = alike_names(g.cell.setting for g in groups)
    asked = [setting_words(g.cell.setting, without=alike) for g in groups]
    rows = [_row(g, words, results, book) for g, words in zip(groups, asked, strict=True)]
    columns = (Column("link"), Column("asked", shown=len(set(asked)) > 1), *(Column(head, figure) for head, figure in results))
    return Section(
        slug="connections",
        workload="connections",
        title="TCP connections",
        lead=LEAD,
        tables=(
            book.table("connections", "Connections through the DUT", columns, rows),
            *(of_test for name in _TRIALS if (of_test := trials_table(name, _TRIALS[name], groups, _heads)) is not None),
            *_agreed(groups),
        ),
        words=tuple(notes_of(groups)),
        answer=tuple(bounds(groups, ("connections_lower_per_s", "concurrent_connections"), book, lambda _: NO_UPPER)),
        deviations=tuple(_short(groups)),
    )


def _row(group: Group, asked: str, results: Sequence[tuple[str, str]], book: NoteBook) -> Row:
    link = group.cell.link_label
    values: list[Value] = [value_of(group, link, figure, book) for _, figure in results]
    return Row(group.label, (link, asked, *values), links=link, link=link)


def _agreed(groups: Sequence[Group]) -> Iterator[Table]:
    """Yield a table of TLS versions and cipher suites at each end, if TLS was used."""
    counts = Counter[tuple[str, str, str, str]]()
    for group in groups:
        for _, row in rows_of("tls_agreed", group):
            counts[group.label, group.cell.link_label, str(row["end"]), str(row["agreed"])] += int(row["agreed_connections"])
    rows = [Row(label, (link, end, agreed, f"{count}"), links=link, link=link) for (label, link, end, agreed), count in counts.items()]
    columns = (Column("link"), Column("end"), Column("version, cipher suite, group"), Column("connections"))
    if rows:
        yield Table("tls-agreed", "What TLS agreed on", columns, tuple(rows))


def _heads(risen: Mapping[str, None]) -> Sequence[Head]:
    """Return the column heads of trials, without failures and counters that stayed 0 in all of them."""
    counters = [(counter, name) for name in risen if (counter := counter_of(name)) and name not in _OF_RISEN]
    return *_ALWAYS, *((head, name) for name, head in _OF_RISEN.items() if name in risen), *counters


def _short(groups: Sequence[Group]) -> Iterator[str]:
    longest = max(g.cell.setting_as(ConnectionsSetting).trial_s for g in groups)
    if longest < 300:  # noqa: PLR2004 -- seconds, RFC 9411 section 7.2.3.2
        yield f"connections: a trial lasts {longest:g} s; RFC 9411 section 7.2 sustains the rate for 300 s"
