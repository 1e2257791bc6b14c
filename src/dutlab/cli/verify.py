"""Command `verify`: run the methods on devices with known answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from dutlab.choices import METHODS
from dutlab.cli.terminal import say, table
from dutlab.cli.userns import become_root
from dutlab.measures import MeasureUnit, measure_unit

if TYPE_CHECKING:
    from dutlab.methods.known import Case, Known

_LABS = ("three-node", "uml-truth")
_SET_HEAD = ("device", "by", "figure", "set", "measured", "measured ÷ set", "allowed", "")
_NS = 1e6
CANNOT_TELL = 4
"""Exit status where no figure is off, and other work on the machine explains those that do not hold, as of `artifact check`."""
_HEAD = ("device", "by", "figure", "expected", "found", "error", "allowed", "")


@click.command()
@click.option("--method", "methods", multiple=True, type=click.Choice(METHODS), help="A method; repeatable.  [all]")
@click.option("--quick", is_flag=True, help="Only methods that take a few seconds.")
@click.option(
    "--lab",
    type=click.Choice(_LABS),
    default=_LABS[0],
    show_default=True,
    help="uml-truth: queues of a router on user-mode Linux; four minutes.",
)
@click.option("--storage", is_flag=True, help="Drives with known answers in place of devices; five minutes.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def verify(*, methods: tuple[str, ...], quick: bool, lab: str, storage: bool, as_json: bool) -> None:
    """Takes about four minutes.

    In place of the embedded lab's DUT, programs drop, duplicate, swap, damage, delay, police and translate frames by fixed rules.
    With --storage: drives of user-mode Linux that answer late, fail, have a rate limit, slow down, or stall. With --lab uml-truth: a
    router on user-mode Linux whose queue delays, drops, duplicates, reorders, damages or polices frames (netem, tbf). Results are
    compared with the queue's own counters.

    Exit 0: every figure holds; 1: one is off; 4: none is off, but other work on this machine disturbed some. Only --storage can tell.

    \b
    Example:
      dutlab verify --quick
      dutlab verify --method rfc2544 --method loadtest
      dutlab verify --storage
      dutlab verify --lab uml-truth
    """
    from dutlab.cli.loop import run_in_order
    from dutlab.methods.known import CASES

    queues = lab != _LABS[0]
    if storage and queues:
        raise click.UsageError("--storage cannot be combined with --lab: it has its own lab")
    if (storage or queues) and (methods or quick):
        which = "--storage" if storage else f"--lab {lab}"
        raise click.UsageError(f"{which} cannot be combined with --method or --quick: it runs all of its cases")
    become_root()
    cases = [case for case in CASES if (case.quick or not quick) and case.method in (methods or METHODS)]
    if not cases:
        raise click.UsageError("none of these methods is quick; leave --quick out")
    tell: Callable[[Known], None] = (lambda _: None) if as_json else _tell
    figures = run_in_order(_verify_storage(tell) if storage else _verify_queues(tell) if queues else _verify(cases, tell))
    if as_json:
        say(json.dumps([{**asdict(k), "error": k.error, "holds": k.holds, "off": k.is_off} for k in figures], indent=2))
    elif storage or queues:
        for line in table(_SET_HEAD, [_set_row(k) for k in figures], right=range(3, 7)):
            say(line)
    else:
        for line in table(_HEAD, [_row(k) for k in figures], right=range(3, 7)):
            say(line)
    status = 0 if all(k.holds for k in figures) else 1 if any(k.is_off for k in figures) else CANNOT_TELL
    click.get_current_context().exit(status)


async def _verify(cases: Sequence[Case], tell: Callable[[Known], None]) -> list[Known]:
    from dutlab import labs
    from dutlab.runner.known_rig import METHOD as OF_RIG
    from dutlab.runner.known_rig import verify as verify_rig
    from dutlab.runner.verify import verify as verify_in
    from dutlab.tools.engine.binary import find_engine

    async with labs.used("three-node") as lab:
        results = await verify_in(lab, cases, str(find_engine()), tell)
        return results + (await verify_rig(lab, str(find_engine()), tell) if any(case.method == OF_RIG for case in cases) else [])


async def _verify_storage(tell: Callable[[Known], None]) -> list[Known]:
    from dutlab.runner.known_drives import verify as verify_drives

    return await verify_drives(tell)


async def _verify_queues(tell: Callable[[Known], None]) -> list[Known]:
    from dutlab.runner.known_queues import verify as verify_queues
    from dutlab.tools.engine.binary import find_engine

    return await verify_queues(tell, str(find_engine()))


def _tell(k: Known) -> None:
    say(f"… {k.method} {k.figure}: {k.device}", err=True)


def _row(k: Known) -> list[str]:
    value, error = ("none", "") if k.found is None or k.error is None else (_number(k.found, k.figure), f"{k.error:+{_digits(k.figure)}}")
    allowed = f"±{_number(k.tolerance, k.figure)}" if k.tolerance else "exact"
    return [
        k.device, k.method, k.figure, _number(k.expected, k.figure), value, error, allowed, "holds" if k.holds else f"OFF {k.why}".strip()
    ]  # fmt: skip


def _set_row(k: Known) -> list[str]:
    scale, unit = (_NS, " ms") if measure_unit(k.figure) is MeasureUnit.NS else (1.0, "")
    values = [f"{value / scale:.5g}{unit}" if value is not None else "none" for value in (k.expected, k.found)]
    ratio = f"{k.found / k.expected:.4f}" if k.found is not None and k.expected else ""
    allowed = "exact" if not k.tolerance else f"±{k.tolerance / scale:g}{unit}" if unit else f"±{k.tolerance / k.expected:.0%}"
    return [k.device, k.method, k.figure.removesuffix("_ns"), *values, ratio, allowed, _verdict(k)]


def _verdict(k: Known) -> str:
    if k.holds:
        return "PASS"
    return f"FAIL {k.why}".strip() if k.is_off else f"CANNOT TELL {k.disturbed}"


def _number(value: float, figure: str) -> str:
    return f"{value:{_digits(figure)}}"


def _digits(figure: str) -> str:
    return ".4f" if measure_unit(figure) is MeasureUnit.RATIO else ".0f"
