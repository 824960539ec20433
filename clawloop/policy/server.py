"""Calls of a server that speaks JSON over HTTP: what is tried again, and what an error means."""

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from clawloop.protocols import InfrastructureError, RequestError

_AGAIN = (408, 429, 500, 502, 503, 504)
_LONGEST_S = 30.0
_SILENCE_S = 2.0  # no engine is started in less


class Server:
    """A server at an address. It may be called from many threads at once.

    Args:
        url: the address that paths are added to.
        key: the bearer token; None where none is asked for.
        timeout_s: seconds that one try may take.
        retries: further tries where the server is busy, broken, silent or not to be reached.
        wait_s: seconds before the second try; each later pause is twice as long, up to 30 s.
    """

    def __init__(self, url: str, key: str | None, timeout_s: float, retries: int, wait_s: float) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"policy.url: {url!r} is no address; give one such as http://127.0.0.1:8000/v1.")
        self.url = url.rstrip("/")
        self._retries, self._wait_s = retries, wait_s
        self._client = httpx.Client(
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout_s, pool=None),
            limits=httpx.Limits(max_connections=None),
        )
        self._lock = threading.Lock()
        self._waiting = self._interruptions = 0
        self._heard = time.monotonic()

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON of an answer.

        Raises:
            InfrastructureError: no try was answered with JSON.
            RequestError: the server refuses the request.
        """
        return self._try(method, path, body, {}, lambda answer: answer.json())

    def send(self, method: str, path: str, body: dict[str, Any] | None = None, **query: Any) -> None:
        """A call whose answer says nothing but that it was obeyed.

        Raises:
            InfrastructureError: no try was answered.
            RequestError: the server refuses the request.
        """
        self._try(method, path, body, query, lambda answer: None)

    def interruptions(self) -> int:
        """How often a try was not answered, or nobody asked anything for so long that it may be another server now."""
        with self._lock:
            now = time.monotonic()
            if not self._waiting and now - self._heard > _SILENCE_S:
                self._interruptions += 1
                self._heard = now
            return self._interruptions

    def _ask(self, method: str, url: str, body: dict[str, Any] | None, query: dict[str, Any]) -> httpx.Response:
        with self._lock:
            self._waiting += 1
        answered = False
        try:
            answer = self._client.request(method, url, json=body, params=query)
            answered = answer.status_code < 500
            return answer
        finally:
            with self._lock:
                self._waiting -= 1
                self._heard = time.monotonic()
                self._interruptions += not answered

    def _try(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        query: dict[str, Any],
        read: Callable[[httpx.Response], Any],
    ) -> Any:
        for tries in range(self._retries + 1):
            pause_s = min(self._wait_s * 2**tries, _LONGEST_S)
            try:
                answer = self._ask(method, self.url + path, body, query)
            except httpx.TimeoutException:
                said = "no answer in time"
            except httpx.HTTPError as error:
                said = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code < 400:
                    try:
                        return read(answer)
                    except ValueError as error:
                        said = f"an answer that is no JSON: {error}"
                else:
                    said = f"status {answer.status_code}: {_words(answer)}"
                    if answer.status_code not in _AGAIN:
                        raise RequestError(f"{self.url}{path} refuses the request ({said})")
                    pause_s = min(_seconds(answer.headers.get("retry-after", ""), pause_s), _LONGEST_S)
            if tries < self._retries:
                time.sleep(pause_s)
        raise InfrastructureError(f"{self.url}{path} gave no answer in {self._retries + 1} tries; the last: {said}.")


def _seconds(header: str, otherwise: float) -> float:
    """What a Retry-After asks for, where it is a number of seconds."""
    try:
        return max(0.0, float(header))
    except ValueError:
        return otherwise


def _words(answer: httpx.Response) -> str:
    """What a server says of an error, on one line."""
    try:
        body = answer.json()
        error = body.get("error", body)
        text = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        text = answer.text
    return " ".join(str(text).split())[:300] or "no words"
