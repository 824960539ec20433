"""One Docker engine, behind a Unix socket."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from docker import APIClient
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from clawloop.protocols import InfrastructureError
from clawloop.sandbox.docker.stream import Stream

_SOCKET = "unix:///var/run/docker.sock"
_CONNECTIONS = 64
_PODMAN = (
    "this is podman, whose API takes no bound on the number of files and no profile of system calls, and which keeps "
    "helper processes for minutes after each command: use Docker, or sandbox=bubblewrap."
)


class Engine:
    """Connects; every failure of the engine, silence of `answer_s` seconds included, is an InfrastructureError.

    Args:
        address: `unix://` and a path; None: that in DOCKER_HOST, or the usual one.
        image: the image of boxes.
        answer_s: how long the engine may take to answer.

    Raises:
        InfrastructureError: there is no engine there, it does not have the image, or it is podman.
    """

    def __init__(self, address: str | None, image: str, answer_s: float) -> None:
        self.address = address or os.environ.get("DOCKER_HOST") or _SOCKET
        self.image = image
        self._answer_s = answer_s
        if not self.address.startswith("unix://"):
            raise InfrastructureError(f"the Docker engine must be at a unix:// address, not {self.address}.")
        with self.asked("say what it is"):
            self.api = APIClient(
                base_url=self.address,
                version="1.41",
                timeout=answer_s,
                max_pool_size=_CONNECTIONS,
                num_pools=_CONNECTIONS,
            )
            about: dict[str, Any] = self.api.version()
        names = [str(part.get("Name", "")) for part in about.get("Components") or ()]
        if any("podman" in name.lower() for name in names):
            raise InfrastructureError(_PODMAN)
        self.name = f"docker {about.get('Version', '?')}"
        try:
            with self.asked("look for the image"):
                self.api.inspect_image(image)
        except InfrastructureError as error:
            if not isinstance(error.__cause__, ImageNotFound):
                raise
            recipe = os.path.join(os.path.dirname(__file__), "image")
            raise InfrastructureError(
                f"the Docker engine at {self.address} has no image {image}: run `docker build -t {image} {recipe}`."
            ) from error

    @contextmanager
    def asked(self, to: str) -> Iterator[None]:
        """Where the engine is asked `to` do something."""
        try:
            yield
        except (DockerException, RequestException, OSError) as error:
            words = getattr(error, "explanation", None) or error
            raise InfrastructureError(
                f"the Docker engine at {self.address} did not {to}: {' '.join(str(words).split())[:300]}"
            ) from error

    def open_stream(self, path: str, body: dict[str, bool] | None = None) -> Stream:
        """A connection that the engine turns over to a process: its output, and its input."""
        with self.asked("open a stream"):
            return Stream(self.address.removeprefix("unix://"), f"/v1.41{path}", json.dumps(body or {}), self._answer_s)
