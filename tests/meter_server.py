"""A meter on this machine that says whatever a test wants, by HTTP or HTTPS."""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Answers:
    """What the meter says, and what it was asked."""

    def __init__(self, body: str = "{}") -> None:
        self.status, self.body, self.kind = 200, body.encode(), "application/json"
        self.asked: list[tuple[str, str]] = []
        self.wait: threading.Event | None = None
        self.digest_of: tuple[str, str] | None = None
        """User and password of a login by SHA-256 digest (RFC 7616), which it then insists on."""

    def lets_in(self, authorization: str, path: str) -> bool:
        """Whether the login is right, worked out as the RFC writes it."""
        if self.digest_of is None:
            return True
        said = {
            k: v.strip('"') for k, v in (part.strip().split("=", 1) for part in authorization.removeprefix("Digest ").split(",") if part)
        }

        def hashed(text: str) -> str:
            return hashlib.sha256(text.encode()).hexdigest()

        user, password = self.digest_of
        secret, what = hashed(f"{user}:meter:{password}"), hashed(f"GET:{path}")
        right = hashed(f"{secret}:5f9b:{said.get('nc')}:{said.get('cnonce')}:auth:{what}")
        return said.get("username") == user and said.get("response") == right


@contextmanager
def serve(answers: Answers, certificate: Path | None = None) -> Iterator[str]:
    """Its address; `certificate` is a PEM file with its key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.asked.append((self.path, self.headers.get("Authorization", "")))
            if answers.wait is not None:
                answers.wait.wait(30)
            if not answers.lets_in(self.headers.get("Authorization", ""), self.path):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Digest qop="auth", realm="meter", nonce="5f9b", algorithm=SHA-256')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(answers.status)
            self.send_header("Content-Type", answers.kind)
            self.end_headers()
            self.wfile.write(answers.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        if answers.wait is not None:
            answers.wait.set()
        server.shutdown()
        server.server_close()
        thread.join()
