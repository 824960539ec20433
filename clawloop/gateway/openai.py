"""What the two protocols of OpenAI share: the key, the error object, the list of models."""

from collections.abc import Mapping
from typing import Any

from clawloop.gateway.wire import Refusal

_KINDS = {401: "authentication_error", 404: "not_found_error"}


class OpenAI:
    """The common part of their codecs."""

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        """The bearer token."""
        return headers.get("authorization", "").removeprefix("Bearer ").strip() or None

    def error(self, refusal: Refusal) -> dict[str, Any]:
        """The error object."""
        kind = _KINDS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error")
        return {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}}

    def models(self, name: str) -> dict[str, Any]:
        """The list of one model."""
        return {"object": "list", "data": [self.model(name)]}

    def model(self, name: str) -> dict[str, Any]:
        """The model."""
        return {"id": name, "object": "model", "created": 0, "owned_by": "clawloop"}
