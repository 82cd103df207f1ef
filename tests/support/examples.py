"""How many examples a property draws: few by default, more under `pytest --hypothesis-profile thorough`."""

from __future__ import annotations

from hypothesis import settings

IN_DEFAULT = 12  # which the profile of tests/conftest.py draws, and `thorough` 100
PROFILE = settings.default.max_examples if settings.default else IN_DEFAULT
THOROUGH = max(1, PROFILE // IN_DEFAULT)


def examples(count: int) -> settings:
    """Settings of a property that draws so many examples, and eight times as many in the profile `thorough`."""
    return settings(max_examples=count * THOROUGH, deadline=None, database=None, print_blob=True)
