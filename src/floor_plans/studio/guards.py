"""Middleware for every request: log it, check origin and token, limit its body."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import reprlib
import time
from collections.abc import Collection
from contextlib import suppress
from socket import socket
from types import FrameType
from typing import Any

import uvicorn
from anyio import CancelScope
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

logger = logging.getLogger(__name__)

MOST_BYTES, MOST_OF_A_DRAWING = 256 * 1024, 4 * 1024 * 1024
"""Most bytes of a body, and of one with a drawing."""

BODY_SECONDS = 10.0  # seconds in which a body has to arrive

IDLE_SECONDS = 10.0
"""Seconds after which a connection without a request is closed, at most twice as many."""


def refusal(status: int, sentence: str, **headers: str) -> JSONResponse:
    """Answer with ``{"error": sentence}``."""
    return JSONResponse({"error": sentence}, status, headers=headers)


class JsonLines(logging.Formatter):
    """Formatter of a log in JSON lines; ``extra={"facts": {...}}`` adds keys."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


class Logged:
    """Logs a line for every request: method, path, status, milliseconds."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # note the status of the answer as it passes
        start, status = time.perf_counter(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            facts: dict[str, Any] = {
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "milliseconds": round(1000 * (time.perf_counter() - start), 1),
            }
            logger.info("request", extra={"facts": facts})


class OwnPages:
    """Refuses requests from pages of other sites, by the header Origin; with ``hosts``, also
    requests with any other host name, since another site can point its host name to this
    machine."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not (wrong := self._wrong_header(Headers(scope=scope))):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await refusal(403, wrong)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": wrong[:100]})

    def _wrong_header(self, headers: Headers) -> str:
        """Return a sentence on the wrong header, or empty text if the headers are right."""
        names = headers.getlist("host")
        host = names[0].lower() if names else ""
        if len(names) > 1 or (
            self.hosts is not None and re.sub(r":\d+$", "", host).strip("[]") not in self.hosts
        ):
            expected = "one name" if self.hosts is None else " or ".join(self.hosts)
            return f"Host: {reprlib.repr(', '.join(names))}; expected {expected}"
        for origin in headers.getlist("origin"):
            if origin.lower().partition("://")[2] != host:
                return (
                    f"Origin: {reprlib.repr(origin)} is another site than the studio at "
                    f"{reprlib.repr(host)}; open its own page (a proxy has to pass Host on)"
                )
        return ""


class BearerAuth:
    """Refuses requests to /api without ``Authorization: Bearer TOKEN``."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.expected = app, [f"Bearer {token}".encode()]
        with suppress(UnicodeEncodeError):  # some clients send other than ASCII in Latin-1
            self.expected.append(f"Bearer {token}".encode("latin-1"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(("/api", "/openapi")):
            given = Headers(scope=scope).get("authorization", "").encode("latin-1")  # as it came
            if not any(hmac.compare_digest(given, each) for each in self.expected):
                sentence = (
                    "the token is missing or wrong; open the page as /?token=TOKEN, or send "
                    "Authorization: Bearer TOKEN"
                )
                await refusal(401, sentence)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class BodyLimit:
    """Reads the body first, with limits on size and time. A request is dropped if its body breaks
    off, or as soon as its client leaves."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        most = MOST_OF_A_DRAWING if scope["path"] == "/api/plot" else MOST_BYTES
        try:
            body = await asyncio.wait_for(_read(Request(scope, receive), most), BODY_SECONDS)
        except TimeoutError:
            sentence = f"the body took longer than {BODY_SECONDS:g} s to arrive; send it at once"
            await refusal(408, sentence)(scope, receive, send)
            return
        except ClientDisconnect:
            return
        if body is None:
            sentence = f"the body is larger than {most // 1024} KiB; send a smaller one"
            await refusal(413, sentence, Connection="close")(scope, receive, send)
            return
        # replay the body to the application, and cancel its work when the client leaves
        first = [{"type": "http.request", "body": body, "more_body": False}]

        async def client_leaves() -> Message:
            while (message := await receive())["type"] != "http.disconnect":
                pass
            return message

        work, departure = CancelScope(), asyncio.ensure_future(client_leaves())
        departure.add_done_callback(lambda _: work.cancel())

        async def replayed() -> Message:
            return first.pop() if first else await asyncio.shield(departure)

        try:
            with work:
                await self.app(scope, replayed, send)
        finally:
            departure.cancel()


async def _read(request: Request, most: int) -> bytes | None:
    """Read a body; None if it is too large. Raises ``ClientDisconnect`` if it breaks off."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


class PromptServer(uvicorn.Server):
    """Server that starts the processes of its studio, and ends their searches at the first signal,
    as requests wait for them."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self.config.app.state.studio.start_workers()  # type: ignore[union-attr]

    def handle_exit(self, signal: int, frame: FrameType | None) -> None:
        self.config.app.state.studio.stop()  # type: ignore[union-attr]
        super().handle_exit(signal, frame)


class PromptProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP protocol that closes connections without a complete request header, as many would block
    others."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._next_look = self.loop.call_later(IDLE_SECONDS, self._look, None)

    def connection_lost(self, error: Exception | None) -> None:
        self._next_look.cancel()
        super().connection_lost(error)

    def _look(self, last: object) -> None:
        """Close the connection if it has been idle since ``last``, its last complete request."""
        # idle since the last look: no request, or the same complete one
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self.cycle is last:
            self.transport.close()
        else:
            seen = self.cycle if is_idle else self
            self._next_look = self.loop.call_later(IDLE_SECONDS, self._look, seen)
