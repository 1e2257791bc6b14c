"""Run a coroutine. The first Ctrl-C, SIGTERM or SIGHUP ends it with its clean-up; a second one cannot interrupt the clean-up."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from dutlab.cli.terminal import tell

T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_in_order(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine, and return its value. Raises KeyboardInterrupt if a signal ended it, after its finally clauses have run."""

    async def supervised() -> T:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        asked_to_end = False

        def end() -> None:
            nonlocal asked_to_end
            if asked_to_end:
                tell("dutlab: already ending; undoing all changes")
                return
            asked_to_end = True
            task.cancel()
            tell("dutlab: ending; undoing all changes", renew=sys.stderr.isatty())  # overwrites the line with ^C

        for sig in _SIGNALS:
            loop.add_signal_handler(sig, end)
        try:
            return await task
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            for sig in _SIGNALS:
                loop.remove_signal_handler(sig)

    return asyncio.run(supervised())
