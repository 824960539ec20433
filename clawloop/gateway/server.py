"""The server: sockets, a thread, routes, and the session that a key opens."""

import asyncio
import socket
import threading
from concurrent.futures import wait
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.routing import Route

from clawloop import protocols
from clawloop.gateway.dialects.chat import Chat
from clawloop.gateway.dialects.gemini import Gemini
from clawloop.gateway.dialects.messages import Messages
from clawloop.gateway.dialects.responses import Responses
from clawloop.gateway.exchange import Exchange
from clawloop.gateway.formats import Format
from clawloop.gateway.sessions import Session
from clawloop.gateway.wire import Dialect, Refusal
from clawloop.protocols import Agent, InfrastructureError
from clawloop.types import Budget, Record

_CHAT, _RESPONSES, _MESSAGES, _GEMINI = Chat(), Responses(), Messages(), Gemini()


class Gateway:
    """Serves policies to episodes, `with Gateway(...) as gateway`, in a thread of this process.

    Args:
        format: how the policy writes tool calls: `Hermes()`, `Coder()` or `Plain()`.
        model: the name under which the policy is listed; requests may use any name.
        sampling: `policy` samples as the policy does whatever the client asks, `client` as it asks.
        host: address to listen on; None for no TCP.
        port: port, 0 for any that is free.
        unix: path of a UNIX socket to listen on; None for none.
        body_bytes: bytes that a request may have.
        ping_s: seconds between signs of life in a stream that waits.
        bodies: whether records keep the bodies of requests, each of which holds a whole conversation.
    """

    def __init__(
        self,
        format: Format,
        model: str = "clawloop",
        sampling: str = "policy",
        host: str | None = "127.0.0.1",
        port: int = 0,
        unix: Path | None = None,
        body_bytes: int = 64 * 2**20,
        ping_s: float = 5.0,
        bodies: bool = False,
    ) -> None:
        if sampling not in ("policy", "client"):
            raise ValueError(f"gateway.sampling: {sampling} is neither policy nor client; choose one of them.")
        if host is None and unix is None:
            raise ValueError("gateway: there is no address to listen on; give a host, a UNIX socket or both.")
        self._format, self._model, self._sampling = format, model, sampling
        self._host, self._port, self._unix = host, port, unix
        self._body_bytes, self._ping_s, self._bodies = body_bytes, ping_s, bodies
        self._sessions: dict[str, Session] = {}

    @property
    def url(self) -> str:
        """The address without a path, as `http://127.0.0.1:8123`."""
        if self._host is None:
            raise ValueError("gateway: it listens on a UNIX socket only, which has no URL; give a host.")
        return f"http://{self._host}:{self._port}"

    def __enter__(self) -> Self:
        """Listen."""
        sockets: list[socket.socket] = []
        if self._host is not None:
            sockets.append(socket.create_server((self._host, self._port)))
            # connections inherit it; asyncio sets it only on sockets that were made with the protocol's number
            sockets[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._port = sockets[-1].getsockname()[1]
        if self._unix is not None:
            sockets.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            sockets[-1].bind(str(self._unix))
            self._inode = self._unix.stat().st_ino
            self._unix.chmod(0o666)  # boxes have users of their own; what lets in is a session's key
        config = uvicorn.Config(
            self._app(), lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=2, backlog=4096
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._server.run, args=(sockets,), name="gateway", daemon=True)
        self._thread.start()
        self._server.ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every session and stop listening."""
        if self._thread.is_alive():
            for session in list(self._sessions.values()):
                self._server.loop.call_soon_threadsafe(session.end)
        self._server.should_exit = True
        self._thread.join()
        if self._unix is not None:
            self._unix.unlink(missing_ok=True)

    def open(self, policy: Agent, budget: Budget, seed: int) -> Session:
        """A session for one episode; its key is what the harness is given as its API key.

        Raises:
            InfrastructureError: the gateway is gone.
        """
        self._check()
        session = Session(policy, budget, seed, self._format, self._sampling == "client", self._bodies)
        self._sessions[session.key] = session
        return session

    def close(self, session: protocols.Session) -> Record:
        """End an episode: later calls are refused, waiting ones too, and all that was recorded is handed back.

        It waits until the policy has answered what it was asked.

        Raises:
            InfrastructureError: the gateway is gone.
            Exception: what the policy or the gateway raised, where that was no `InfrastructureError`.
        """
        assert isinstance(session, Session)
        self._sessions.pop(session.key, None)
        self._check()
        record = asyncio.run_coroutine_threadsafe(session.shut(), self._server.loop)
        while not wait([record], 1.0).done:
            self._check()
        return record.result()

    def _check(self) -> None:
        """Raise where no program could have spoken to us."""
        gone = None
        if self._server.should_exit or not self._thread.is_alive():
            gone = "its server has ended"
        elif self._unix is not None and not (self._unix.exists() and self._unix.stat().st_ino == self._inode):
            gone = f"its socket {self._unix} was removed"
        if gone is not None:
            raise InfrastructureError(f"the gateway is gone: {gone}.")

    def _app(self) -> Starlette:
        def post(path: str, dialect: Dialect, counts: bool = False) -> Route:
            return Route(path, Exchange(dialect, self._find, self._body_bytes, self._ping_s, counts), methods=["POST"])

        return Starlette(
            routes=[
                post("/v1/chat/completions", _CHAT),
                post("/v1/responses", _RESPONSES),
                post("/v1/responses/input_tokens", _RESPONSES, counts=True),
                post("/v1/messages", _MESSAGES),
                post("/v1/messages/count_tokens", _MESSAGES, counts=True),
                post("/{version}/models/{model}:generateContent", _GEMINI),
                post("/{version}/models/{model}:streamGenerateContent", _GEMINI),
                post("/{version}/models/{model}:countTokens", _GEMINI, counts=True),
                Route("/{version}/models", self._models),
                Route("/{version}/models/{model:path}", self._models),
            ],
            exception_handlers={HTTPException: self._lost, Exception: self._lost},
        )

    def _find(self, key: str | None) -> Session:
        session = self._sessions.get(key or "")
        if session is None:
            raise Refusal(401, "No open episode has this API key.", "invalid_api_key")
        return session

    async def _models(self, http: HttpRequest) -> JSONResponse:
        """The one model, alone or as a list, in the form of the dialect that asks."""
        dialect = _spoken(http)
        try:
            self._find(dialect.key(http.headers, http.query_params))
        except Refusal as refusal:
            return JSONResponse(dialect.error(refusal), refusal.status)
        name = http.path_params.get("model")
        return JSONResponse(dialect.models(self._model) if name is None else dialect.model(name))

    async def _lost(self, http: HttpRequest, error: Exception) -> JSONResponse:
        """A wrong path or method, in the form of the dialect that seems to be spoken."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        said = {404: "has no such address", 405: f"does not take {http.method} there"}.get(status, "cannot do that")
        refusal = Refusal(status, f"{http.url.path}: the server {said}; see docs/gateway.md.", "not_found")
        return JSONResponse(_spoken(http).error(refusal), status)


def _spoken(http: HttpRequest) -> Dialect:
    path = http.url.path
    if path.startswith("/v1beta") or "x-goog-api-key" in http.headers:
        return _GEMINI
    if path.startswith("/v1/messages") or "anthropic-version" in http.headers:
        return _MESSAGES
    return _RESPONSES if path.startswith("/v1/responses") else _CHAT


class _Server(uvicorn.Server):
    """Says when it listens, and in which loop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self.ready.set()
