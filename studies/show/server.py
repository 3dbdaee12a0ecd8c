"""The page of a design on a socket of this machine, and the bench that answers its sliders.

It listens on 127.0.0.1 and answers only who calls it by that name, so that pages of other places cannot ask.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from devices import ArgumentError, nearest
from studies.show.page import document
from studies.show.stage import Dials, Stage

HOST = "127.0.0.1"
KEYS = ("bits", "noise", "gamma", "node")


class Server:
    """A page and its bench on a port.

    Arguments:
        page: as HTML.
        stage: the bench; None if the design is on none.
        port: 0 for one that is free.
    """

    def __init__(self, page: str, stage: Stage | None, port: int = 0) -> None:
        self._working = Lock()
        handler = partial(_Handler, page.encode(), stage, self._working)
        try:
            self._server = ThreadingHTTPServer((HOST, port), handler)
        except OSError as problem:
            raise ArgumentError(
                f"Argument `port` must be free to listen on, but {HOST}:{port} is not: {problem.strerror}"
            ) from None
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self._server.server_address[1]}/"

    def run(self) -> None:
        """Answer until told to end, and what is being measured then; who asks afterwards waits for ever.

        A process that ends while one of its threads has arrays of JAX in its hands is aborted, with words of C++.
        """
        with self._server:
            self._server.serve_forever(poll_interval=0.1)
        self._working.acquire()

    def end(self) -> None:
        """Answer no more: `run` returns. May be called from anywhere, signal handlers too."""
        Thread(target=self._server.shutdown).start()  # which waits for `run`, and would so for itself


def asked(query: str, stage: Stage) -> tuple[Dials, str]:
    """Sliders and node of a query such as ``bits=8&noise=1e-3&gamma=auto&node=n1``."""
    given = dict(parse_qsl(query, keep_blank_values=True))
    for key in given:
        if key not in KEYS:
            raise ArgumentError(f"Argument `{key}` must be one of {', '.join(KEYS)}{nearest(key, KEYS, listed=True)}")
    for key in KEYS:
        if key not in given:
            raise ArgumentError(f"Argument `{key}` must be given, but is not")
    bits, gamma, node = given["bits"], given["gamma"], given["node"]
    if node not in stage.nodes:
        raise ArgumentError(f"Argument `node` must be one that is read, but is {node!r}{nearest(node, stage.nodes)}")
    dials = Dials(
        None if bits == "none" else _number(given, "bits", int),
        _number(given, "noise", float),
        None if gamma == "auto" else _number(given, "gamma", float),
    )
    return dials, node


def _number(given: Mapping[str, str], key: str, kind: Any) -> Any:
    try:
        return kind(given[key])
    except ValueError:
        words = "a whole number" if kind is int else "a number"
        raise ArgumentError(f"Argument `{key}` must be {words}, but is {given[key]!r}") from None


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    timeout = 60.0

    def __init__(self, page: bytes, stage: Stage | None, working: Lock, *args: Any) -> None:
        self._page, self._stage, self._working = page, stage, working
        super().__init__(*args)

    def do_GET(self) -> None:
        """Answer with the page, or with what the bench read."""
        own = f"{HOST}:{self.server.server_address[1]}"  # type: ignore[index]
        if self.headers.get("Host") not in (own, own.replace(HOST, "localhost")):
            self._send(HTTPStatus.FORBIDDEN, {"error": f"Header `Host` must be {own}"})
            return
        url = urlsplit(self.path)
        if url.path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self._page)
        elif url.path == "/measure" and self._stage is not None:
            self._measure(url.query, self._stage)
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": f"There is nothing at {url.path}"})

    def _measure(self, query: str, stage: Stage) -> None:
        try:
            dials, node = asked(query, stage)
            with self._working:
                found = document(stage, stage.measure(dials), [node])
        except ArgumentError as problem:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(problem)})
            return
        self._send(HTTPStatus.OK, found)

    def _send(self, status: HTTPStatus, found: Mapping[str, Any]) -> None:
        self._answer(status, "application/json", json.dumps(found, allow_nan=False, separators=(",", ":")).encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        with suppress(ConnectionError):  # whoever asked may be gone
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: requests are the page's own."""
