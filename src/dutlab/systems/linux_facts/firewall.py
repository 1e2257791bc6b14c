"""Number and place of the rules that a packet passes, without their contents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dutlab.systems.facts import Answers, FactTree, Question

_LIST = ("nft", "-j", "list", "ruleset")


def questions(root: str) -> Iterator[Question]:
    """Yield the questions."""
    yield _LIST
    yield ("slurp", f"{root}/proc/net/ip_tables_names")
    yield ("slurp", f"{root}/proc/sys/net/netfilter/nf_conntrack_count")


def put(facts: FactTree, answers: Answers, root: str) -> None:
    """Store the answers under `firewall`."""
    output, why = answers.output_of(*_LIST)
    facts.put("firewall/hooked_chains", hooked_chains(output) if output else None, why)
    tables, why = answers.of("slurp", f"{root}/proc/net/ip_tables_names")
    facts.put("firewall/legacy_tables", tables.split() if tables is not None else None, why)
    tracked, why = answers.of("slurp", f"{root}/proc/sys/net/netfilter/nf_conntrack_count")
    facts.put("firewall/tracked_connections", int(tracked) if tracked and tracked.isdigit() else None, why)


def hooked_chains(ruleset: str) -> list[dict[str, Any]] | None:
    """Return the chains of `nft -j list ruleset` (libnftables-json(5)) that packets pass, with the rules of their whole table.

    A hooked chain may jump to any other of its table, so those rules count too. None for unreadable text.
    """
    try:
        entries = [e for e in json.loads(ruleset)["nftables"] if isinstance(e, dict)]
        rules = [(e["rule"]["family"], e["rule"]["table"]) for e in entries if "rule" in e]
        chains = [e["chain"] for e in entries if "hook" in e.get("chain", {})]
        return [
            {"table": f"{c['family']} {c['table']}", "hook": c["hook"], "rules_in_table": rules.count((c["family"], c["table"]))}
            for c in chains
        ]
    except (ValueError, KeyError, TypeError):
        return None
