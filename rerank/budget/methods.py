"""The names of the methods of `plan`."""

from __future__ import annotations

from typing import Literal, get_args

Method = Literal["adaptive", "halving"]
METHODS: tuple[Method, ...] = get_args(Method)
