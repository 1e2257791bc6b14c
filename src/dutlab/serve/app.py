"""Addresses of `dutlab serve`: the page, file or stream at each, and the pages for errors."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import AsyncGenerator, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from dutlab.errors import DutlabError
from dutlab.report.pages.html import style_sheet
from dutlab.serve.control import Control
from dutlab.serve.guard import FILE_POLICY, Guard, Guarded, TooLarge
from dutlab.serve.live import FollowedRuns
from dutlab.serve.pages import Pages
from dutlab.store.beneath import Beneath, OutsideFolder
from dutlab.store.fleet_database import FleetDatabaseAway

_HERE = Path(__file__).parent
_PART = 1 << 18
_MOST_FILES = 2000
_PICTURES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif"}
_TEXTS = {".json", ".jsonl", ".txt", ".log", ".csv", ".md", ".yaml", ".yml", ".sha256", ".conf", ""}


def application(pages: Pages, guard: Guard, control: Control | None = None) -> ASGIApp:
    """Return the ASGI application of all addresses, behind `guard`."""
    site = _Site(pages, guard, control)
    routes = [
        Route("/", site.runs), Route("/compare", site.compare), Route("/history", site.history), Route("/testbeds", site.testbeds),
        Route("/limits", site.limits), Route("/metrics", site.metrics), Route("/static/{name}", site.static),
        Route("/favicon.ico", site.no_icon),
        Route("/login", site.login, methods=["GET", "POST"]), Route("/logout", site.logout),
        Route("/runs/{run}/live", site.live), Route("/runs/{run}/events", site.events), Route("/runs/{run}/report/", site.report),
        Route("/runs/{run}/report", site.report), Route("/control", site.control, methods=["GET", "POST"]),
        Route("/runs/{run}/{what}", site.command, methods=["POST"]), Route("/runs/{run}", site.of_run),
        Route("/runs/{run}/{path:path}", site.file),
    ]  # fmt: skip
    faults = {DutlabError: site.fault, FileNotFoundError: site.absent, PermissionError: site.refused, TooLarge: site.too_large,
              ValueError: site.invalid_request, HTTPException: site.http_fault, Exception: site.broken}  # fmt: skip
    return Guarded(Starlette(routes=routes, exception_handlers=faults), guard)


class _Site:
    """Request handlers."""

    def __init__(self, pages: Pages, guard: Guard, control: Control | None) -> None:
        self._pages, self._guard, self._control = pages, guard, control
        self._lives = FollowedRuns(pages.live_part) if control is None else FollowedRuns(pages.live_part, control.is_ending)

    async def runs(self, request: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(self._pages.run_list, dict(request.query_params)))

    async def of_run(self, request: Request) -> Response:
        self._run(request)
        return RedirectResponse(f"{self._guard.prefix}/runs/{quote(request.path_params['run'])}/", 308)

    async def report(self, request: Request) -> Response:
        if not request.url.path.endswith("/"):
            return RedirectResponse(f"{self._guard.prefix}/runs/{quote(request.path_params['run'])}/report/", 308)
        return HTMLResponse(await run_in_threadpool(self._pages.report, request.path_params["run"]))

    async def live(self, request: Request) -> Response:
        name = request.path_params["run"]
        now, stage = await run_in_threadpool(self._lives.once, self._run(request))
        return HTMLResponse(self._pages.live(name, self._guard.form_token(request), now, stage))

    async def events(self, request: Request) -> Response:
        run = self._run(request)
        if self._lives.is_full:
            return PlainTextResponse("Too many viewers already.\n", 503, {"Retry-After": "30"})
        return StreamingResponse(self._stream(run), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _stream(self, run: Path) -> AsyncGenerator[str]:
        yield "retry: 3000\n\n"
        async with contextlib.aclosing(self._lives.parts(run)) as parts:
            async for part in parts:
                lines = "".join(f"data: {line}\n" for line in part.splitlines())
                yield f"event: now\n{lines}\n" if part else ": still here\n\n"
        yield "event: over\ndata: over\n\n"

    async def compare(self, request: Request) -> Response:
        names = sorted(request.query_params.getlist("run"))  # sorted by time: the oldest is the baseline
        return HTMLResponse(await run_in_threadpool(self._pages.compare, names))

    async def history(self, request: Request) -> Response:
        asked = request.query_params
        page = await run_in_threadpool(self._pages.history, asked.get("experiment", "")[:200], asked.get("figure", "").strip()[:100])
        return HTMLResponse(page)

    async def testbeds(self, _: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(self._pages.testbeds))

    async def limits(self, request: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(self._pages.limits, dict(request.query_params)))

    async def metrics(self, request: Request) -> Response:
        openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
        text = await run_in_threadpool(lambda: self._pages.metrics(openmetrics=openmetrics))
        kind = "application/openmetrics-text; version=1.0.0; charset=utf-8" if openmetrics else "text/plain; version=0.0.4; charset=utf-8"
        return Response(text, media_type=kind)

    async def static(self, request: Request) -> Response:
        file = _static().get(request.path_params["name"])
        if file is None:
            raise FileNotFoundError(request.path_params["name"])
        return Response(file[1], media_type=file[0], headers={"Cache-Control": "max-age=300"})

    async def no_icon(self, _: Request) -> Response:
        return Response(status_code=204)

    async def login(self, request: Request) -> Response:
        if not self._guard.token:
            return RedirectResponse(f"{self._guard.prefix}/", 303)
        fault = ""
        if request.method == "POST" or "token" in request.query_params:
            answer = await self._guard.login(request)
            if answer.status_code != 403:  # noqa: PLR2004 - a wrong token
                return answer
            fault = "This is not the token."
        return HTMLResponse(self._pages.page("login", fault=fault), 403 if fault else 200)

    async def logout(self, request: Request) -> Response:
        return self._guard.logout(request)

    async def control(self, request: Request) -> Response:
        """Offer the experiments; of a chosen one show the plan; start it, and go to its live page."""
        control = self._controlled()
        if request.method == "POST":
            fields = await self._guard.form(request)
            run = await run_in_threadpool(control.start, fields.get("file", ""), fields.get("seen", ""))
            return RedirectResponse(f"{self._guard.prefix}/{f'runs/{quote(run)}/live' if run else 'control'}", 303)
        form = self._guard.form_token(request)
        if file := request.query_params.get("file", ""):
            plan = await run_in_threadpool(control.plan, file)
            return HTMLResponse(self._pages.page("plan", plan=plan, form=form))
        files, words = await run_in_threadpool(lambda: (control.files(), control.last_words()))
        return HTMLResponse(self._pages.page("control", files=files, words=words))

    async def command(self, request: Request) -> Response:
        control, run = self._controlled(), self._run(request)
        act = {"pause": control.pause, "cancel": control.cancel, "resume": control.resume}.get(request.path_params["what"])
        if act is None:
            raise FileNotFoundError(request.path_params["what"])
        await self._guard.form(request)
        await run_in_threadpool(act, run)
        return RedirectResponse(f"{self._guard.prefix}/runs/{quote(run.name)}/live", 303)

    def _controlled(self) -> Control:
        if self._control is None:
            raise PermissionError
        return self._control

    async def file(self, request: Request) -> Response:
        run, path = self._run(request), request.path_params["path"]
        return await run_in_threadpool(self._file, run, path)

    def _file(self, run: Path, path: str) -> Response:
        parts = [part for part in path.split("/") if part]
        handle = open_below(run, parts)
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            try:
                files = sorted(_entries(handle))
            finally:
                os.close(handle)
            if path and not path.endswith("/"):
                return RedirectResponse(f"{self._guard.prefix}/runs/{quote(run.name)}/{quote(path)}/", 308)
            shown, more = files[:_MOST_FILES], max(0, len(files) - _MOST_FILES)
            return HTMLResponse(self._pages.page("files", name=run.name, below="/".join(parts), files=shown, more=more))
        if not stat.S_ISREG(kind):
            os.close(handle)
            raise FileNotFoundError(path)
        suffix = Path(parts[-1]).suffix.lower()
        headers = {"Content-Security-Policy": FILE_POLICY, "Content-Length": str(os.fstat(handle).st_size)}
        if suffix in _PICTURES:
            kind_words = _PICTURES[suffix]
        elif suffix in _TEXTS:
            kind_words = "text/plain; charset=utf-8"
        else:
            kind_words = "application/octet-stream"
            headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(parts[-1])}"
        return StreamingResponse(_read(os.fdopen(handle, "rb")), media_type=kind_words, headers=headers)

    def _run(self, request: Request) -> Path:
        return self._pages.run(request.path_params["run"])

    async def fault(self, _: Request, error: Exception) -> Response:
        what, remedy = (error.what, error.remedy) if isinstance(error, DutlabError) else (str(error), "")
        return self._told("This cannot be shown", what, 503 if isinstance(error, FleetDatabaseAway) else 422, remedy)

    async def absent(self, _: Request, __: Exception) -> Response:
        return self._told("Not found", "No run or file of this folder has that address.", 404)

    async def refused(self, _: Request, __: Exception) -> Response:
        return self._told("Not allowed", "The form is not of these pages, is too old, or dutlab serve was started without --control.", 403)

    async def too_large(self, _: Request, __: Exception) -> Response:
        return self._told("Too large", "The request is larger than any of these pages sends.", 413)

    async def invalid_request(self, _: Request, __: Exception) -> Response:
        return self._told("Not understood", "The request is not one that these pages make.", 400)

    async def http_fault(self, _: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return self._told("Not found" if status == 404 else "Not allowed", "These pages have no such address.", status)  # noqa: PLR2004

    async def broken(self, _: Request, error: Exception) -> Response:
        return self._told("This cannot be shown", f"{type(error).__name__}: a fault of dutlab; its log has more.", 500)

    def _told(self, title: str, what: str, status: int, remedy: str = "") -> Response:
        return HTMLResponse(self._pages.page("fault", title=title, what=what[:2000], remedy=remedy), status)


def open_below(folder: Path, parts: list[str]) -> int:
    """Open a file or folder below `folder` for reading, without following symbolic links. Raises FileNotFoundError."""
    try:
        with Beneath.opened(folder.parent) as above:
            return above.open("/".join([folder.name, *parts]), os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, OutsideFolder):
        raise FileNotFoundError("/".join(parts)) from None


def _entries(folder: int) -> Iterator[tuple[str, int | None]]:
    """Yield the name of each entry of a folder and its size in bytes; None for a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.name, None
            elif entry.is_file(follow_symlinks=False):
                yield entry.name, entry.stat(follow_symlinks=False).st_size


def _read(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(_PART):
            yield part


@cache
def _static() -> dict[str, tuple[str, str]]:
    return {
        "style.css": ("text/css; charset=utf-8", style_sheet() + (_HERE / "serve.css").read_text(encoding="utf-8")),
        "live.js": ("text/javascript; charset=utf-8", (_HERE / "live.js").read_text(encoding="utf-8")),
    }
