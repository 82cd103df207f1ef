"""The names of the methods of `plan`."""

from __future__ import annotations

from typing import Literal, get_args

Method = Literal["adaptive", "pruning", "halving", "low-rank", "centroids"]
METHODS: tuple[Method, ...] = get_args(Method)
