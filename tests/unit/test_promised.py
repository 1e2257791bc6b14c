"""No test can be skipped where CI runs, but for what one kernel cannot be made to have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from capability import need

ROOT = Path(__file__).parents[2]
OF_THE_KERNEL = {
    "ESP",
    "kernel without ESP",
    "loop",
    "napi-get",
    "netlink-netdev",
    "perf_event_open",
    "veth that holds a socket back (Linux 6.16)",
}
"""What no program brings: which of these tests run is the kernel's matter."""
OF_THE_GUEST = {"cards"}
"""What only the guest of tests/vm/test_cards.py has, which promises it itself."""
DEVICES = {"haproxy", "nginx", "squid", "tayga", "make", "pkg-config"}
"""What tests of devices ask for by a parameter."""
SETTLES = {"tests/capability.py", "tests/unit/test_promised.py"}


def promised() -> set[str]:
    (line,) = re.findall(r'^export DUTLAB_PROMISED="(.*)"$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    return set(line.split(","))


def calls(words: str) -> Iterator[tuple[str, ast.Call]]:
    """Those of all tests whose function's name ends with one of `words`."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if re.search(rf"\b({words})\(", text) else ():
            if isinstance(node, ast.Call) and re.search(rf"\b({words})$", ast.unparse(node.func)):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_ci_promises_everything_that_tests_ask_for_and_nothing_else() -> None:
    names = [a for _, call in calls("need|need_program") for a in call.args[:1]] + [a for _, call in calls("needs") for a in call.args]
    asked = {a.value for a in names if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    by_parameter = {"csh", "tcsh", "fish", "zsh", "busybox", "ping", "ethtool", "taskset", "tc", "perl", "python3", "nft", *DEVICES}
    of_rust = {c for p in (ROOT / "engine").glob("*/tests/**/*.rs") for c in re.findall(r'_or_skip\("(\w+)"', p.read_text())}
    assert asked | by_parameter | of_rust | {"engine"} == promised() | OF_THE_KERNEL | OF_THE_GUEST


def test_nothing_but_need_skips_a_test() -> None:
    assert [at for at, _ in calls("skip|skipif|importorskip|skipTest") if at.split(":")[0] not in SETTLES] == []
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
