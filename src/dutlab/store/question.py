"""Check with DuckDB's parser that an SQL text is one question: a SELECT that reads tables and changes nothing.

A statement that begins with SELECT or WITH may contain other statements: DuckDB 1.4 and later accept INSERT, UPDATE, DELETE, MERGE and
COPY … TO as the body of a common table expression. So every node of the parsed statement must be of a kind that only reads. A table
function must make its table from its arguments, not from a file or from SQL in a string, which this check would not see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dutlab.errors import InputError
from dutlab.store.memory_database import in_memory

_READING_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Members of DuckDB's QueryNodeType that only read (query_node.hpp). Others write: DELETE_QUERY_NODE, COPY_QUERY_NODE and the like."""
_TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "repeat", "json_each", "json_tree"})
_QUERY_NODE = "_NODE"
_ONLY = "only a single SELECT is answered: a question changes no run"
QUESTION_REMEDY = "`SHOW TABLES` lists the tables and their columns"


def insist_on_question(text: str) -> None:
    """Check that `text` is a single SELECT that only reads. Raises InputError."""
    import duckdb  # noqa: PLC0415 - 80 ms that only this needs

    with in_memory() as connection:
        try:
            statements = connection.extract_statements(text)
        except duckdb.Error as error:
            raise InputError(str(error).splitlines()[0], remedy="write one SELECT") from error
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InputError(_ONLY, remedy=QUESTION_REMEDY)
        (parsed,) = connection.execute("SELECT json_serialize_sql($sql::VARCHAR)", {"sql": text}).fetchall()[0]
    tree = json.loads(parsed)
    if tree.get("error"):
        raise InputError(_ONLY, remedy=QUESTION_REMEDY)
    for refused in _writing(tree):
        raise InputError(refused, remedy=QUESTION_REMEDY)


def _writing(tree: Any) -> Iterator[str]:  # noqa: ANN401 - JSON as DuckDB wrote it
    """Yield a sentence for each part of the tree that may do more than read. It does not recurse, so no question exhausts the stack."""
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, list):
            rest.extend(node)
        elif isinstance(node, dict):
            rest.extend(node.values())
            kind = str(node.get("type", ""))
            if kind.endswith(_QUERY_NODE) and kind not in _READING_NODES:
                yield f"{kind.removesuffix('_QUERY_NODE').removesuffix(_QUERY_NODE)} inside a question: only SELECT is answered"
            function = node.get("function")
            if kind == "TABLE_FUNCTION" and (name := _function_name(function)) not in _TABLE_FUNCTIONS:
                yield f"{name}(): not a table that a question can read"


def _function_name(function: Any) -> str:  # noqa: ANN401 - as above
    return str(function.get("function_name", "")).lower() if isinstance(function, dict) else ""
