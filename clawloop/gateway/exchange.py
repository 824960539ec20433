"""One HTTP exchange: a body in, an answer or a refusal out, in the form of the dialect that was spoken."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.types import Receive, Scope, Send

from clawloop.gateway.sessions import Session
from clawloop.gateway.wire import Answer, Dialect, Refusal

_JSON, _EVENTS = "application/json", "text/event-stream; charset=utf-8"


class Exchange:
    """Serves one address of one dialect.

    Args:
        dialect: the codec.
        find: the open session of a key.
        body_bytes: bytes that a request may have.
        ping_s: seconds between signs of life in a stream that waits. What goes wrong before the first of them is said
            by an HTTP status, and later by an event.
        counts: whether it counts the tokens of a prompt instead of answering it.
    """

    def __init__(
        self,
        dialect: Dialect,
        find: Callable[[str | None], Session],
        body_bytes: int,
        ping_s: float,
        counts: bool = False,
    ) -> None:
        self._dialect, self._find, self._counts = dialect, find, counts
        self._body_bytes, self._ping_s = body_bytes, ping_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        http = HttpRequest(scope, receive)
        try:
            session = self._find(self._dialect.key(http.headers, http.query_params))
            raw = await self._read(http)
        except Refusal as refusal:
            await whole(send, refusal.status, self._dialect.error(refusal))
            return
        except ClientDisconnect:
            return
        serve = self._count if self._counts else self._answer
        try:
            await serve(session, raw, scope["path"], receive, send)
        finally:
            error = sys.exception()
            if isinstance(error, Exception):
                session.fail(error)

    async def _read(self, http: HttpRequest) -> bytes:
        raw = bytearray()
        async for chunk in http.stream():
            raw += chunk
            if len(raw) > self._body_bytes:
                raise Refusal(413, f"The request has more than {self._body_bytes} bytes; send less.", "too_large")
        return bytes(raw)

    async def _count(self, session: Session, raw: bytes, path: str, receive: Receive, send: Send) -> None:
        try:
            tokens = await session.count(self._dialect.decode(_parsed(raw), path))
        except Refusal as refusal:
            await whole(send, refusal.status, self._dialect.error(refusal))
            return
        await whole(send, 200, self._dialect.count(tokens))

    async def _answer(self, session: Session, raw: bytes, path: str, receive: Receive, send: Send) -> None:
        place = session.receive(self._dialect.name, raw)
        gone = asyncio.ensure_future(_gone(receive))
        started = False
        try:
            body = _parsed(raw)
            ask = self._dialect.decode(body, path)
            future = await session.ask(place, ask, body)
            both: set[asyncio.Future[Any]] = {future, gone}
            patience = self._ping_s if ask.stream else None
            while not future.done() and not gone.done():
                done, _ = await asyncio.wait(both, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    if not started:
                        await _start(send, 200, _EVENTS)
                        started = True
                    await _part(send, self._dialect.ping)
            if gone.done():
                return
            answer = future.result()
            if not started:
                await _start(send, 200, _EVENTS if ask.stream else _JSON)
                started = True
            await _part(send, self._written(answer, ask.stream))
            await asyncio.sleep(0)
            if not gone.done():
                session.delivered(place)
            await _part(send, b"", more=False)
        except Refusal as refusal:
            session.refused(place, refusal)
            if started:
                await _part(send, self._dialect.broken(refusal), more=False)
            else:
                await whole(send, refusal.status, self._dialect.error(refusal))
        finally:
            gone.cancel()

    def _written(self, answer: Answer, stream: bool) -> bytes:
        return b"".join(self._dialect.stream(answer)) if stream else json.dumps(self._dialect.encode(answer)).encode()


async def whole(send: Send, status: int, body: dict[str, Any]) -> None:
    """Send a body and end. Clients that know the header are told not to try again."""
    await _start(send, status, _JSON)
    await _part(send, json.dumps(body).encode(), more=False)


async def _start(send: Send, status: int, kind: str) -> None:
    headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-cache")]
    if status >= 400:
        headers += [(b"x-should-retry", b"false"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _part(send: Send, body: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _gone(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        continue


def _parsed(raw: bytes) -> dict[str, Any]:
    """A body as JSON. Halves of surrogate pairs, which clients that cut texts leave behind, become question marks."""
    try:
        body = json.loads(raw)
        if b"\\ud" in raw.lower():
            body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"The body is no JSON: {error}.", "bad_json") from error
    if not isinstance(body, dict):
        raise Refusal(400, "The body is no JSON object.", "bad_json")
    return body
