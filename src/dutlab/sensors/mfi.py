"""Ubiquiti mFi mPower: outlets that are read and switched by HTTP, after a login by a form.

The client chooses its session number: 32 digits in the cookie AIROS_SESSIONID. `POST /login.cgi` redirects after a correct login, and
shows its form again after a wrong one. Without a login, every other address redirects to the form. `GET /sensors` lists all outlets.
`PUT /sensors/N` with `output=1` or `output=0` switches outlet N, counted from 1. Source: "mPower, mFi Switch and mFi In-Wall Outlet
HTTP API" of Ubiquiti's community (community.ui.com).
"""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlencode, urlsplit

from dutlab.sensors.asked import Refused, secret
from dutlab.sensors.web import KeptConnection, Redirected, as_json, ask
from dutlab.spec.devices import HttpDevice

SENSORS = "/sensors"
_FORM, _DIGITS = "application/x-www-form-urlencoded", 32


class MfiSession:
    """Requests to one device, with a login before the first."""

    def __init__(self, device: HttpDevice, kept: KeptConnection | None = None) -> None:
        self._device, self._kept = device, kept
        self._root, self._cookie = urlsplit(device.url).path.rstrip("/"), ""

    def ask(self, target: str, *, method: str = "GET", form: str = "") -> Any:  # noqa: ANN401 any JSON
        """Return the answer to one request. Raises Refused, OSError, ValueError."""
        if not self._cookie:
            self._log_in()
        try:
            return as_json(self._say(target, method, form))
        except Redirected:  # the device ends a session after some weeks
            self._log_in()
            return as_json(self._say(target, method, form))

    def _log_in(self) -> None:
        self._cookie = f"AIROS_SESSIONID={''.join(secrets.choice('0123456789') for _ in range(_DIGITS))}"
        login = urlencode({"username": self._device.user or "", "password": secret(self._device.password_from or "")})
        try:
            self._say("/login.cgi", "POST", login)
        except Redirected:
            return
        self._cookie = ""
        raise Refused("it refuses the login (its login page comes again)")

    def _say(self, target: str, method: str, form: str) -> bytes:
        content = form.encode() if form else None
        return ask(self._device, f"{self._root}{target}", method=method, content=content, kind=_FORM, cookie=self._cookie, kept=self._kept)
