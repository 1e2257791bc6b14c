"""Read a JSON document from a device on the network, by HTTP or HTTPS, with a pinned certificate and one attempt to log in."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from dutlab.bounds import ANSWER_BYTES
from dutlab.outside import json_of
from dutlab.sensors import asked
from dutlab.sensors.asked import SHOWN, Refused, secret
from dutlab.spec.devices import HttpDevice

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

_UNAUTHORIZED = 401
_REFUSED = (_UNAUTHORIZED, 403)
_OK, _ELSEWHERE = (200, 204), (301, 302, 303, 307)
_JSON = "application/json"
_CHALLENGE = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')
_HASHES = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}


class KeptConnection:
    """Connection that a device may leave open between requests. A new connection would take longer than the request."""

    def __init__(self) -> None:
        self._open: HTTPConnection | None = None

    def take(self) -> HTTPConnection | None:
        """Return the open connection for one request, if there is one. The caller closes it or gives it back."""
        taken, self._open = self._open, None
        return taken

    def give(self, connection: HTTPConnection) -> None:
        """Keep the connection for the next request."""
        self._open = connection

    def close(self) -> None:
        """Close the connection, if one is open."""
        if (taken := self.take()) is not None:
            taken.close()


def get_json(device: HttpDevice, target: str, *, method: str = "GET", body: object = None, kept: KeptConnection | None = None) -> Any:  # noqa: ANN401 any JSON
    """Return the JSON answer of `device` to `target` (a path with its query); None if it is empty.

    Raises Refused, OSError, ValueError.
    """
    return as_json(ask(device, target, method=method, content=None if body is None else json.dumps(body).encode(), kept=kept))


def ask(
    device: HttpDevice,
    target: str,
    *,
    method: str = "GET",
    content: bytes | None = None,
    kind: str = _JSON,
    cookie: str = "",
    kept: KeptConnection | None = None,
) -> bytes:
    """Return the answer as bytes; `kind` is the media type of `content`. Raises Redirected, Refused, OSError, ValueError."""
    headers = {"Accept": _JSON} | ({} if content is None else {"Content-Type": kind}) | ({"Cookie": cookie} if cookie else {})
    question = _Question(method, target, content, headers, time.monotonic() + asked.PATIENCE_S)
    try:
        return _ask(device, question, kept)
    except _Stale:  # the device has closed the kept connection
        return _ask(device, question, kept)


def as_json(said: bytes) -> Any:  # noqa: ANN401 any JSON
    """Parse an answer as JSON; None if it is empty. Raises ValueError."""
    if not said:
        return None
    try:
        return json_of(said)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it answered {said[:SHOWN].decode('utf-8', 'replace')!r}, which is not JSON") from error


class Redirected(ValueError):
    """Error: the device redirects to another address."""


class _Question(NamedTuple):
    method: str
    target: str
    content: bytes | None
    headers: Mapping[str, str]
    until_s: float
    """Deadline of the whole exchange (time.monotonic()), in seconds."""

    def left_s(self) -> float:
        """Return the seconds until the deadline. Raises TimeoutError after it."""
        if (left_s := self.until_s - time.monotonic()) <= 0:
            raise TimeoutError
        return left_s


class _BeforeDeadline(io.RawIOBase):
    """Stream of a connection's bytes until the deadline of a request. Each read may take the remaining time."""

    def __init__(self, connection: socket.socket, question: _Question) -> None:
        self._connection, self._question = connection, question
        self._stream = connection.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Buffer, /) -> int | None:
        """Read within the remaining time. Raises TimeoutError, OSError."""
        self._connection.settimeout(self._question.left_s())
        return self._stream.readinto(into)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Answer(HTTPResponse):
    """HTTP response with one deadline for its header, `100 Continue`s, body and trailers."""

    def __init__(self, connection: socket.socket, *words: Any, question: _Question, **named: Any) -> None:  # noqa: ANN401 - those of HTTPResponse
        super().__init__(connection, *words, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_BeforeDeadline(connection, question))


class _Stale(Exception):
    """Error: the device had closed the kept connection before it answered."""


def _ask(device: HttpDevice, question: _Question, kept: KeptConnection | None) -> bytes:
    was_open = kept.take() if kept is not None else None
    connection = was_open or _connection(device, question.left_s())
    connection.response_class = cast("type[HTTPResponse]", partial(_Answer, question=question))
    keeps = False
    try:
        if was_open is None:
            connection.connect()
            _insist_on_certificate(device, connection)
        content, keeps = _answered(device, connection, question, was_open=was_open is not None)
    except ssl.SSLCertVerificationError as error:
        raise ValueError(f"its certificate is not trusted ({error.verify_message}); name it with certificate:") from error
    except HTTPException as error:
        raise ValueError(f"its answer is not HTTP: {error!r}") from error
    finally:
        if keeps and kept is not None:
            kept.give(connection)
        else:
            connection.close()
    return content


def _answered(device: HttpDevice, connection: HTTPConnection, question: _Question, *, was_open: bool) -> tuple[bytes, bool]:
    """Return the answer, and whether the connection stays open. Raises _Stale, Redirected, Refused, OSError, ValueError."""
    method, target, body, headers, _ = question
    login = _basic(device) if device.user is not None and device.login == "basic" else None
    answer: HTTPResponse | None = None
    try:
        if connection.sock is not None:
            connection.sock.settimeout(question.left_s())
        connection.request(method, target, body, {**headers, **({"Authorization": login} if login else {})})
        answer = connection.getresponse()
        challenge = answer.getheader("WWW-Authenticate", "")
        if answer.status == _UNAUTHORIZED and login is None and device.user is not None and challenge.lower().startswith("digest "):
            _body(answer)
            connection.request(method, target, body, {**headers, "Authorization": _digest(device, method, target, challenge)})
            answer = connection.getresponse()
        if answer.status in _REFUSED:
            raise Refused(f"it refuses access ({answer.status} {answer.reason})")
        if answer.status in _ELSEWHERE:
            raise Redirected(f"it answered {answer.status} {answer.reason}")
        if answer.status not in _OK:
            raise ValueError(f"it answered {answer.status} {answer.reason}")
        content = _body(answer)
        return content, (answer.isclosed() or answer.length == 0) and not answer.will_close
    except (ConnectionError, HTTPException) as error:
        if was_open and answer is None and not isinstance(error, TimeoutError):
            raise _Stale from error
        raise
    finally:
        if answer is not None:
            answer.close()  # an answer that was not read to its end keeps the socket open


def _body(answer: HTTPResponse) -> bytes:
    content = b""
    while (part := answer.read1(ANSWER_BYTES)) and len(content) <= ANSWER_BYTES:
        content += part
    if len(content) > ANSWER_BYTES:
        raise ValueError(f"its answer is longer than {ANSWER_BYTES} bytes")
    return content


def _connection(device: HttpDevice, within_s: float) -> HTTPConnection:
    url = urlsplit(device.url)
    host, port = url.hostname or "", url.port
    if device.url.startswith("http:"):
        return HTTPConnection(host, port, timeout=within_s)
    context = ssl.create_default_context()
    if device.certificate:  # a pinned certificate needs no matching name and no authority
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return HTTPSConnection(host, port, timeout=within_s, context=context)


def _insist_on_certificate(device: HttpDevice, connection: HTTPConnection) -> None:
    if not device.certificate or not isinstance(connection.sock, ssl.SSLSocket):
        return
    fingerprint = hashlib.sha256(connection.sock.getpeercert(binary_form=True) or b"").hexdigest()
    if fingerprint != device.certificate:
        raise Refused(f"its certificate is {fingerprint}, not the one of the testbed file")


def _basic(device: HttpDevice) -> str:
    login = f"{device.user}:{secret(device.password_from or '')}"
    return f"Basic {base64.b64encode(login.encode()).decode('ascii')}"


def _digest(device: HttpDevice, method: str, target: str, challenge: str) -> str:
    """Return the header of RFC 7616 section 3.4 with `qop=auth`. Shelly Gen2 requires it with SHA-256."""
    fields = {name.lower(): quoted or plain for name, quoted, plain in _CHALLENGE.findall(challenge)}
    algorithm = fields.get("algorithm", "MD5").upper()
    if algorithm not in _HASHES or "auth" not in fields.get("qop", "").split(","):
        raise Refused(f"it asks for a login that dutlab does not know ({challenge[:SHOWN]})")

    def hashed(*parts: str) -> str:
        return _HASHES[algorithm](":".join(parts).encode()).hexdigest()

    realm, nonce, own = fields.get("realm", ""), fields.get("nonce", ""), secrets.token_hex(8)
    ha1 = hashed(device.user or "", realm, secret(device.password_from or ""))
    response = hashed(ha1, nonce, "00000001", own, "auth", hashed(method, target))
    opaque = f', opaque="{fields["opaque"]}"' if "opaque" in fields else ""
    return (
        f'Digest username="{device.user}", realm="{realm}", nonce="{nonce}", uri="{target}", algorithm={algorithm}, '
        f'qop=auth, nc=00000001, cnonce="{own}", response="{response}"{opaque}'
    )
