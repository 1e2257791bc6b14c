"""The tables of a fleet's database, as the steps that made them.

A step that was applied anywhere is never changed; new ones come at the end. The
words in braces are each database's own. A step is taken in one transaction with its number, by one process.
"""

from __future__ import annotations

INDEX_SCHEMA = "dutlab_index"
"""Where the index of runs is in PostgreSQL, so that its tables may have the names that questions use."""
IN_SQLITE = {"text": "text", "integer": "integer", "real": "real", "id": ":id", "schema": "", "in": ""}
IN_POSTGRES = {"text": 'text COLLATE "C"', "integer": "bigint", "real": "double precision", "id": "%(id)s",
               "schema": f"CREATE SCHEMA {INDEX_SCHEMA}", "in": f"{INDEX_SCHEMA}."}  # fmt: skip
"""Texts are ordered by their bytes, as in SQLite: names of runs sort by time."""

_LEASE = "testbed text PRIMARY KEY, token bigint NOT NULL, holder text, boot text NOT NULL, ends_s double precision NOT NULL"
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"CREATE TABLE dutlab_lease ({_LEASE})",
        "CREATE TABLE dutlab_store (id text NOT NULL)",
        "INSERT INTO dutlab_store VALUES ({id})",
    ),
    (
        "{schema}",
        (
            "CREATE TABLE {in}runs (name {text} PRIMARY KEY, seen {text} NOT NULL, folder {integer} NOT NULL, experiment {text},"
            " testbed {text}, lab {integer}, started {text}, ended {text}, planned {integer}, measured {integer}, failed {integer},"
            " refused {integer}, disturbed {integer}, status {text} NOT NULL, modes {text}, worst_doubt {text}, fault {text})"
        ),
        (
            "CREATE TABLE {in}trials (run {text} NOT NULL, trial {integer} NOT NULL, mode {text}, factors {text}, workload {text},"
            " tool {text}, links {text}, frame_size {text}, repeat {integer}, attempt {integer}, status {text}, why {text}, started {text},"
            " seconds {real}, doubts {text}, samples {integer}, counts {integer}, PRIMARY KEY (run, trial))"
        ),
        (
            "CREATE TABLE {in}figures (run {text} NOT NULL, trial {integer} NOT NULL, link {text} NOT NULL, figure {text} NOT NULL,"
            " value {real}, PRIMARY KEY (run, trial, link, figure))"
        ),
        (
            "CREATE TABLE {in}doubts (run {text} NOT NULL, trial {integer} NOT NULL, kind {text} NOT NULL, grade {text} NOT NULL,"
            " about {text}, text {text}, detail {text}, remedy {text})"
        ),
        "CREATE TABLE {in}places (run {text} PRIMARY KEY, place {text} NOT NULL)",
        "CREATE INDEX doubts_by_run ON {in}doubts (run)",
        "CREATE INDEX runs_by_experiment ON {in}runs (experiment, started)",
    ),
)
