"""SQL that asks, and SQL that tries to do more: each statement is drawn from a seed."""

from __future__ import annotations

import random

_ASK = (
    "SELECT count(*) FROM runs", "SELECT * FROM trials LIMIT 3", "SELECT now()", "SELECT max(value) FROM figures", "SELECT count(*) FROM samples",
    "WITH x AS (SELECT 1 AS a) SELECT * FROM x", "FROM runs", "TABLE runs", "VALUES (1)", "SELECT 1 / 0", "SELECT unnest(range(5))", "PIVOT trials ON mode",
    "SELECT * FROM runs WHERE name = '{file}'", "SELECT * FROM range(1000000000)", "DESCRIBE runs", "SUMMARIZE runs", "SHOW TABLES", "EXPLAIN SELECT 1",
)  # fmt: skip
_HARM = (
    "COPY (SELECT 1) TO '{file}'", "COPY runs FROM '{file}'", "INSERT INTO runs SELECT * FROM runs", "DELETE FROM runs", "DROP TABLE runs",
    "UPDATE runs SET name = ''", "CREATE TABLE x AS SELECT 1", "ATTACH '{file}' AS y", "INSTALL httpfs", "LOAD '{file}'", "PRAGMA database_list",
    "SET enable_external_access = true", "EXPORT DATABASE '{folder}'", "IMPORT DATABASE '{folder}'", "CALL pragma_version()", "SELECT * FROM '{file}'",
    "SELECT * FROM read_text('{file}')", "SELECT * FROM read_blob('{folder}/*')", "SELECT * FROM read_csv('/etc/passwd')", "SELECT getenv('HOME')",
    "SELECT * FROM glob('{folder}/**')", "SELECT * FROM read_json('{file}')", "SELECT * FROM sqlite_scan('{folder}/.index.sqlite', 'runs')",
    "RESET lock_configuration", "CHECKPOINT", "VACUUM", "SELECT * FROM duckdb_settings()", "SELECT * FROM duckdb_secrets()", "DETACH memory",
)  # fmt: skip
_AROUND = (
    "{}", "{};", "WITH x AS ({}) SELECT * FROM x", "SELECT * FROM ({})", "SELECT 1; {}", "{}; SELECT 1", "/* */ {}", "-- \n{}", "EXPLAIN ANALYZE {}",
    "SELECT ({})", "SELECT EXISTS ({})", "PREPARE p AS {}", "{} UNION ALL {}", "SELECT 1 WHERE 1 IN ({})",
)  # fmt: skip


def statement(dice: random.Random, *, file: str, folder: str) -> str:
    """One statement, whole or broken, that names `file` where it would read or write one."""
    inner = dice.choice((*_ASK, *_HARM, *_HARM)).format(file=file, folder=folder)
    around = dice.choice(_AROUND)
    text = around.replace("{}", inner)
    if dice.random() < 0.2:
        at = dice.randrange(len(text) + 1)
        text = text[:at] + dice.choice(("'", '"', ";", "(", "\x01", "\u202e", "$$", "\\", " OR ", "*/")) + text[at:]
    return text
