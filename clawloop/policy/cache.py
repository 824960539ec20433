"""Keys and values of many conversations side by side.

Shapes: L layers, R rows, H key-value heads, T positions, D head width, Q new tokens.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


class RowCache:
    """A cache with one row a conversation, each at its own length; transformers calls `update` in every layer.

    The rows in use are the first ones, so that a step works on views and copies nothing.
    """

    def __init__(self, layers: int, rows: int, heads: int, positions: int, width: int, like: Tensor) -> None:
        shape = (layers, rows, heads, positions, width)
        self.keys_LRHTD = torch.zeros(shape, dtype=like.dtype, device=like.device)
        self.values_LRHTD = torch.zeros(shape, dtype=like.dtype, device=like.device)
        self._rows = slice(0, 0)
        self._reach = 0
        self._row_RQ: Tensor = torch.zeros(0)
        self._position_RQ: Tensor = torch.zeros(0)

    def aim(self, rows: slice, position_RQ: Tensor) -> Tensor:
        """Point the next forward pass at `rows` and return its mask [R, 1, Q, T], true where a query may look."""
        self._rows, self._position_RQ = rows, position_RQ
        self._row_RQ = torch.arange(rows.start, rows.stop, device=position_RQ.device)[:, None].expand_as(position_RQ)
        self._reach = int(position_RQ.max()) + 1
        return torch.arange(self._reach, device=position_RQ.device) <= position_RQ[:, None, :, None]

    def update(self, key_RHQD: Tensor, value_RHQD: Tensor, layer: int, **_: Any) -> tuple[Tensor, Tensor]:
        """Store one layer's new keys and values, and return all that the rows hold."""
        keys, values = self.keys_LRHTD[layer], self.values_LRHTD[layer]
        keys[self._row_RQ, :, self._position_RQ] = key_RHQD.transpose(1, 2).to(keys.dtype)
        values[self._row_RQ, :, self._position_RQ] = value_RHQD.transpose(1, 2).to(values.dtype)
        seen_keys, seen_values = keys[self._rows, :, : self._reach], values[self._rows, :, : self._reach]
        return seen_keys.to(key_RHQD.dtype), seen_values.to(value_RHQD.dtype)

    def get_seq_length(self, layer: int = 0) -> int:
        """The number of positions the aimed rows reach."""
        return self._reach

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row's first `length` positions to another row."""
        self.keys_LRHTD[:, target, :, :length] = self.keys_LRHTD[:, source, :, :length]
        self.values_LRHTD[:, target, :, :length] = self.values_LRHTD[:, source, :, :length]

    def take(self, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Copies of a row's first `length` keys and values."""
        return self.keys_LRHTD[:, row, :, :length].clone(), self.values_LRHTD[:, row, :, :length].clone()

    def put(self, row: int, keys_LHTD: Tensor, values_LHTD: Tensor, length: int) -> None:
        """Write `length` keys and values back into a row."""
        self.keys_LRHTD[:, row, :, :length] = keys_LHTD[:, :, :length]
        self.values_LRHTD[:, row, :, :length] = values_LHTD[:, :, :length]


@dataclass(frozen=True, slots=True)
class Prefix:
    """Token ids and the keys and values that they left behind."""

    ids: tuple[int, ...]
    keys_LHTD: Tensor
    values_LHTD: Tensor


class Prefixes:
    """The last `size` prefixes by name: an episode's session, or a prompt that siblings share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: OrderedDict[object, Prefix] = OrderedDict()

    def add(self, name: object, prefix: Prefix) -> None:
        """Keep a prefix under a name and drop the one that was used least recently where there are too many."""
        self._kept[name] = prefix
        self._kept.move_to_end(name)
        if len(self._kept) > self.size:
            self._kept.popitem(last=False)

    def find(self, session: str, ids: tuple[int, ...]) -> Prefix | None:
        """The prefix that this prompt extends: its session's last turn, or the same prompt in another session."""
        for name in (session, ids):
            prefix = self._kept.get(name)
            if prefix is not None and ids[: len(prefix.ids)] == prefix.ids:
                self._kept.move_to_end(name)
                return prefix
        return None

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._kept.clear()
