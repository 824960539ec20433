"""A connection that a Docker engine has turned over to a process: framed output in, plain input out.

The SDK's own reader has no time limit and keeps everything; this one is read piece by piece by a caller with a clock.
"""

import select
import socket
import struct
import time

_PIECE = 1 << 16
_HEADER = 8
_MOST_HEAD = 1 << 16


class Stream:
    """Asks for the connection. `answer_s` bounds each wait for the engine but not those for the process.

    Raises:
        OSError: there is no engine, or it refused.
    """

    def __init__(self, address: str, path: str, body: str, answer_s: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._frame = [0, 0]  # which output the current frame is of, and how many bytes of it are to come
        try:
            self._socket.settimeout(answer_s)
            self._socket.connect(address)
            head = [
                f"POST {path} HTTP/1.1",
                "Host: docker",
                "Content-Type: application/json",
                "Connection: Upgrade",
                "Upgrade: tcp",
                f"Content-Length: {len(body)}",
            ]
            self._socket.sendall("\r\n".join([*head, "", body]).encode())
            self._buffer = self._answer()
        except BaseException:
            self._socket.close()
            raise

    def _answer(self) -> bytearray:
        """Read the answer's head; what came with it belongs to the stream."""
        data = bytearray()
        while b"\r\n\r\n" not in data:
            piece = self._socket.recv(_PIECE)
            if not piece or len(data) > _MOST_HEAD:
                raise ConnectionError("it closed the connection without an answer")
            data += piece
        head, _, rest = bytes(data).partition(b"\r\n\r\n")
        if head.split(b" ", 2)[1] not in (b"101", b"200"):
            said = (head.splitlines()[0] + b" " + rest).decode("utf-8", "backslashreplace")
            raise ConnectionError(said)
        return bytearray(rest)

    def send(self, data: bytes) -> None:
        """Send to the process. Raises OSError where the connection is gone or stands still."""
        self._socket.sendall(data)

    def read(self, timeout_s: float) -> list[tuple[int, bytes]] | None:
        """Pieces of output (1: stdout, 2: stderr), none if there are none in time; None at the end.

        Raises:
            OSError: the connection broke.
        """
        deadline = time.monotonic() + timeout_s
        while not (pieces := self._pieces()):
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([self._socket], [], [], wait)[0]:
                return []
            data = self._socket.recv(_PIECE)
            if not data:
                return None
            self._buffer += data
        return pieces

    def _pieces(self) -> list[tuple[int, bytes]]:
        pieces = []
        while self._buffer:
            which, left = self._frame
            if not left:
                if len(self._buffer) < _HEADER:
                    break
                which, left = struct.unpack(">BxxxL", self._buffer[:_HEADER])
                del self._buffer[:_HEADER]
            piece = bytes(self._buffer[:left])
            del self._buffer[:left]
            self._frame = [which, left - len(piece)]
            if piece:
                pieces.append((which, piece))
        return pieces

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
