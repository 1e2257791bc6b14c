"""No test can be skipped where CI runs, but for what one kernel cannot be made to have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from capability import need

ROOT = Path(__file__).parents[2]
OF_THE_KERNEL = {"ESP", "kernel without ESP", "loop", "napi-get", "veth that holds a socket back (Linux 6.16)"}
"""What no program brings: which of these tests run is the kernel's matter."""
OF_THE_GUEST = {"cards"}
"""What only the guest of tests/vm/test_cards.py has, which promises it itself."""
SETTLES = {"tests/capability.py", "tests/unit/test_promised.py"}


def promised() -> set[str]:
    (line,) = re.findall(r'^export DUTLAB_PROMISED="(.*)"$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    return set(line.split(","))


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_ci_promises_everything_that_tests_ask_for_and_nothing_else() -> None:
    asked = set()
    for _, call in calls():
        if isinstance(call.func, ast.Name) and call.func.id in ("need", "need_program"):
            asked |= {a.value for a in call.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    by_parameter = {"csh", "tcsh", "fish", "zsh", "busybox", "ping", "ethtool", "taskset", "tc", "perl", "python3", "nft"}
    of_rust = {c for p in (ROOT / "engine").glob("*/tests/**/*.rs") for c in re.findall(r'_or_skip\("(\w+)"', p.read_text())}
    assert asked | by_parameter | of_rust | {"engine"} == promised() | OF_THE_KERNEL | OF_THE_GUEST


def test_nothing_but_need_skips_a_test() -> None:
    skips = [
        at
        for at, call in calls()
        if re.search(r"\b(skip|skipif|importorskip|skipTest)$", ast.unparse(call.func)) and at.split(":")[0] not in SETTLES
    ]
    assert skips == []
    rust = [str(p.relative_to(ROOT)) for p in (ROOT / "engine").rglob("*.rs") if "SKIPPED" in p.read_text() and "target" not in p.parts]
    assert sorted(rust) == ["engine/agent/tests/lab/mod.rs", "engine/port/tests/own/mod.rs"]


@pytest.mark.parametrize(("promised", "outcome"), [("", "Skipped"), ("nft,tc", "Skipped"), ("nft,flux", "Failed"), ("all", "Failed")])
def test_a_capability_that_was_promised_and_is_missing_fails(monkeypatch: pytest.MonkeyPatch, promised: str, outcome: str) -> None:
    monkeypatch.setenv("DUTLAB_PROMISED", promised)
    capability = "flux"
    need(capability, have=True)
    with pytest.raises(BaseException, match="no flux") as ended:
        need(capability, have=False)
    assert type(ended.value).__name__ == outcome
