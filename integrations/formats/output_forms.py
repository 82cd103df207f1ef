"""The names of the forms of other tools in which lists are written, and of what stands in them of a decision."""

from __future__ import annotations

from typing import Literal, get_args

ListForm = Literal["moses", "marian", "fairseq", "flat"]
FORMS: tuple[str, ...] = get_args(ListForm)
Order = Literal["kept", "choice"]
FEATURE = "discorank"
