"""The parts of a checkpoint's weights, for peers that are written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def weights_under(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The weights whose names begin with a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)
    }
