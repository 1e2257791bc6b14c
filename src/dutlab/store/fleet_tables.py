"""Tables of a fleet's database, as migration steps. The index of a folder has the same tables of runs (index.py).

A step that was ever applied is never changed; new steps come at the end. Words in braces differ between the databases.
One process applies a step and stores its number in one transaction.
"""

from __future__ import annotations

INDEX_SCHEMA = "dutlab_index"
"""Schema of the index of runs in PostgreSQL, so that its tables can have the same names as in SQLite, which queries use."""
IN_SQLITE = {"text": "text", "integer": "integer", "real": "real", "id": ":id", "schema": "", "in": "", "strict": "", "keyed": ""}
IN_POSTGRES = {**IN_SQLITE, "text": 'text COLLATE "C"', "integer": "bigint", "real": "double precision", "id": "%(id)s",
               "schema": f"CREATE SCHEMA {INDEX_SCHEMA}", "in": f"{INDEX_SCHEMA}."}  # fmt: skip
"""Words for PostgreSQL. Texts are ordered by their bytes, as in SQLite, so that names of runs sort by time."""
IN_FOLDER = {**IN_SQLITE, "strict": " STRICT", "keyed": " STRICT, WITHOUT ROWID"}
"""Words for the SQLite index of a folder."""

INDEX_TABLES: tuple[str, ...] = (
    (
        "CREATE TABLE {in}runs (name {text} PRIMARY KEY, seen {text} NOT NULL, folder {integer} NOT NULL, experiment {text},"
        " testbed {text}, lab {integer}, started {text}, ended {text}, planned {integer}, measured {integer}, failed {integer},"
        " refused {integer}, disturbed {integer}, status {text} NOT NULL, modes {text}, worst_doubt {text}, fault {text}){strict}"
    ),
    (
        "CREATE TABLE {in}trials (run {text} NOT NULL, trial {integer} NOT NULL, mode {text}, factors {text}, workload {text},"
        " tool {text}, links {text}, frame_size {text}, repeat {integer}, attempt {integer}, status {text}, why {text}, started {text},"
        " seconds {real}, doubts {text}, samples {integer}, counts {integer}, PRIMARY KEY (run, trial)){keyed}"
    ),
    (
        "CREATE TABLE {in}figures (run {text} NOT NULL, trial {integer} NOT NULL, link {text} NOT NULL, figure {text} NOT NULL,"
        " value {real}, PRIMARY KEY (run, trial, link, figure)){keyed}"
    ),
    (
        "CREATE TABLE {in}doubts (run {text} NOT NULL, trial {integer} NOT NULL, kind {text} NOT NULL, grade {text} NOT NULL,"
        " about {text}, text {text}, detail {text}, remedy {text}){strict}"
    ),
    "CREATE INDEX doubts_by_run ON {in}doubts (run)",
    "CREATE INDEX runs_by_experiment ON {in}runs (experiment, started)",
)
"""First step of the index. The index of a folder is rebuilt if its steps have changed."""
RESULT_TABLES: tuple[str, ...] = (
    (
        "CREATE TABLE {in}results (run {text} NOT NULL, result {integer} NOT NULL, place {text} NOT NULL, mode {text}, factors {text},"
        " workload {text}, links {text}, link {text}, frame_size {text}, setting {text}, figure {text},"
        " median {real}, low {real}, high {real}, repeats {integer}, at_least {integer}, disturbed {integer},"
        " PRIMARY KEY (run, result)){keyed}"
    ),
)
"""Second step of the index: the main figures of each cell. Runs that a fleet took in before it have no rows."""

_LEASE = "testbed text PRIMARY KEY, token bigint NOT NULL, holder text, boot text NOT NULL, ends_s double precision NOT NULL"
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"CREATE TABLE dutlab_lease ({_LEASE})",
        "CREATE TABLE dutlab_store (id text NOT NULL)",
        "INSERT INTO dutlab_store VALUES ({id})",
    ),
    ("{schema}", *INDEX_TABLES, "CREATE TABLE {in}places (run {text} PRIMARY KEY, place {text} NOT NULL)"),
    RESULT_TABLES,
)
