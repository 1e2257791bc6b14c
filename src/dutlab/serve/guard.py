"""Access rules: host names, logins, form tokens, sizes, and the headers of every answer.

Without a token only this machine is served, and runs can be started or ended only through a Unix socket of the user. A page of another
origin cannot read an answer, because the Host header is checked against DNS rebinding. It cannot send a form, because each form has a
token that only our pages have. With a token, every address except the login needs a session.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dutlab.bounds import FAILED_LOGINS, FAILED_LOGINS_S, FORM_BYTES, SENDERS, SLOW_ANSWER_S
from dutlab.report.pages.html import script_hash

_SESSION_S = 12 * 3600
_MOST_SESSIONS = 1000
COOKIE = "dutlab_session"
OPEN = ("/login", "/static/")
"""Addresses that need no session."""

POLICY = (
    f"default-src 'none'; script-src 'self' '{script_hash()}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content Security Policy of our pages. It allows our script files and the inline script of reports."""
FILE_POLICY = "default-src 'none'; img-src 'self'; sandbox; frame-ancestors 'none'"
"""Content Security Policy of files of runs, which may be from anyone."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class TooLarge(Exception):
    """Error: a request's body is longer than FORM_BYTES."""


@dataclass
class Logins:
    """Sessions of users with the token, and failed attempts of others."""

    token: str
    now: Callable[[], float] = time.monotonic
    _sessions: dict[str, float] = field(default_factory=dict)
    _failed: dict[str, deque[float]] = field(default_factory=dict)
    """Sender → times of its last wrong tokens, by `now`, in seconds."""

    def wait_s(self, sender: str) -> float:
        """Return the seconds for which a sender of wrong tokens is still answered slowly; 0 for others."""
        failed = self._failed.get(sender)
        return max(0.0, failed[0] + FAILED_LOGINS_S - self.now()) if failed and len(failed) == FAILED_LOGINS else 0.0

    def is_right(self, token: str, sender: str) -> bool:
        """Return whether `token` is right. A right token always passes, even after many wrong ones. A wrong token is counted."""
        if hmac.compare_digest(token.encode(errors="replace"), self.token.encode()):
            return True
        failed = self._failed.pop(sender, None) or deque(maxlen=FAILED_LOGINS)
        self._failed[sender] = failed
        failed.append(self.now())
        if len(self._failed) > SENDERS:
            del self._failed[next(iter(self._failed))]
        return False

    def enter(self, token: str, sender: str) -> str | None:
        """Open a session and return its name; None if the token is wrong."""
        if not self.is_right(token, sender):
            return None
        while len(self._sessions) >= _MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        session = secrets.token_urlsafe(32)
        self._sessions[session] = self.now() + _SESSION_S
        return session

    def leave(self, session: str) -> None:
        """End the session."""
        self._sessions.pop(session, None)

    def knows(self, session: str) -> bool:
        """Return whether the session is open."""
        ends = self._sessions.get(session, 0.0)
        if ends <= self.now():
            self._sessions.pop(session, None)
        return ends > self.now()


@dataclass
class Guard:
    """Checks of every request. With an empty `token` there is no login, and only requests to the names in `hosts` are answered."""

    token: str = ""
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    prefix: str = ""
    """Path at which a proxy serves these pages, such as /bench; empty without a proxy."""
    secure: bool = False
    """True if pages are served over TLS, by dutlab or a proxy; cookies are then sent over TLS only."""
    logins: Logins = field(init=False)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __post_init__(self) -> None:
        self.logins = Logins(self.token)

    def form_token(self, request: Request) -> str:
        """Return the token by which a form proves to come from our pages."""
        return hmac.new(self._secret, _session(request.headers).encode(), hashlib.sha256).hexdigest()

    async def form(self, request: Request) -> Mapping[str, str]:
        """Return the fields of a form. Raises PermissionError if the form is not from our pages, TooLarge."""
        fields = await fields_of(request)
        ours = hmac.compare_digest(fields.get("form", "").encode(errors="replace"), self.form_token(request).encode())
        if not ours or request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            raise PermissionError
        return fields

    async def login(self, request: Request) -> Response:
        """Log in with the token from the form, or from the address that the terminal shows: GET /login?token=….

        With a wrong token the status is 403, and the caller shows the page again.
        """
        sender = sender_of(request.scope)
        fields = await fields_of(request) if request.method == "POST" else request.query_params
        session = self.logins.enter(fields.get("token", "").strip(), sender)
        if session is None:
            return await self.slowly(sender) or PlainTextResponse("Wrong token.\n", 403)
        answer = RedirectResponse(f"{self.prefix}/", 303)
        answer.set_cookie(
            COOKIE, session, max_age=_SESSION_S, path=self.prefix or "/", secure=self.secure, httponly=True, samesite="strict"
        )
        return answer

    def logout(self, request: Request) -> Response:
        """End the session of the request."""
        self.logins.leave(_session(request.headers))
        answer = RedirectResponse(f"{self.prefix}/login", 303)
        answer.delete_cookie(COOKIE, path=self.prefix or "/", secure=self.secure, httponly=True, samesite="strict")
        return answer

    async def slowly(self, sender: str) -> Response | None:
        """Wait, and return a refusal for a sender of many wrong tokens. Return None at once for others."""
        if not (wait_s := self.logins.wait_s(sender)):
            return None
        await asyncio.sleep(SLOW_ANSWER_S)
        return PlainTextResponse("Too many wrong tokens. The right one is always accepted.\n", 429, {"Retry-After": str(int(wait_s) + 1)})

    async def refused(self, path: str, headers: Headers, sender: str) -> Response | None:
        """Return a refusal if the sender may not make this request; otherwise None."""
        if not self.token:
            name = headers.get("host", "").rpartition(":")[0] if _has_port(headers.get("host", "")) else headers.get("host", "")
            known = name.lower() in self.hosts
            return None if known else PlainTextResponse("This name is not served. Start dutlab serve with --host NAME.\n", 421)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if any(path.startswith(start) for start in OPEN) or self.logins.knows(_session(headers)):
            return None
        if "authorization" in headers:
            if self.logins.is_right(bearer, sender):
                return None
            if (late := await self.slowly(sender)) is not None:
                return late
        asks_page = "text/html" in headers.get("accept", "")
        return RedirectResponse(f"{self.prefix}/login", 303) if asks_page else PlainTextResponse("Log in first.\n", 401)


class Guarded:
    """ASGI application behind a Guard."""

    def __init__(self, inner: ASGIApp, guard: Guard) -> None:
        self._inner, self._guard = inner, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        if (prefix := self._guard.prefix) and (scope["path"] + "/").startswith(f"{prefix}/"):
            scope = {**scope, "path": scope["path"][len(prefix) :] or "/"}

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in (*_HEADERS.items(), ("Content-Security-Policy", POLICY)):
                    headers.setdefault(name, value)
                if self._guard.secure:
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            await send(message)

        headers = Headers(scope=scope)
        refusal = await self._guard.refused(scope["path"], headers, sender_of(scope))
        if refusal is None and _is_long(headers.get("content-length", "0")):
            refusal = PlainTextResponse("The request is too large.\n", 413)
        await (self._inner if refusal is None else refusal)(scope, receive, with_headers)


async def fields_of(request: Request) -> dict[str, str]:
    """Return the fields of a form: name → last value of that name. Raises TooLarge."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            raise TooLarge
    return {
        name: values[-1] for name, values in parse_qs(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=200).items()
    }


def sender_of(scope: Scope) -> str:
    """Return the address of the client; empty for a Unix socket."""
    return scope["client"][0] if scope.get("client") else ""


def _session(headers: Headers) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]")


def _is_long(length: str) -> bool:
    return not length.isdigit() or int(length[:12]) > FORM_BYTES
