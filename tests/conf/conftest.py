"""Composing configs in this process."""

from collections.abc import Callable
from typing import Any

import pytest

from clawloop.config.composed import chosen

Composed = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="session")
def composed() -> Callable[..., Composed]:
    """From overrides to (plain values, chosen file of each group)."""
    return lambda *overrides: chosen(overrides)
