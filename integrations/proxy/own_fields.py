"""The field ``discorank`` of a request: it chooses among what the settings allow, and does not go upstream."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from .api_errors import bad

FIELD = "discorank"


@settings
class OwnFields:
    """What a request may say of its choice.

    Args:
        utility: the decoder that chooses, by its name.
        n: how many candidates are drawn.
        explain: whether the answer tells about all candidates.
        document: the key of the document that the text belongs to.
        position: where in it.
        source: what the text is made of, for utilities that read it; the prompt, or what the user said last, if it is
            not given.
    """

    utility: str | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    explain: bool = False
    document: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    position: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        if (self.document is None) != (self.position is None):
            raise InputError("document and position go together", where="document")


class Allowed(NamedTuple):
    """What requests may choose among: names of decoders, and which it is where they name none; most candidates."""

    utilities: Collection[str]
    default: str
    most_candidates: int


def read_own_fields(body: Mapping[str, Any], allowed: Allowed) -> OwnFields:
    """The field of a request, all defaults where there is none.

    Raises:
        ApiError: it cannot be read, or asks for what is not allowed.
    """
    values = body.get(FIELD)
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise bad(f"found {values!r:.60}, expected an object", FIELD)
    try:
        fields = OwnFields(**values)
    except InputError as error:
        raise bad(error.problem, FIELD, error.fix) from None
    if fields.utility is not None and fields.utility not in allowed.utilities:
        names = ", ".join(sorted(allowed.utilities))
        raise bad(f"found {fields.utility!r:.60}", f"{FIELD}.utility", f"Allowed are: {names}")
    if fields.n is not None and fields.n > allowed.most_candidates:
        problem = f"found {fields.n:.6g}, at most {allowed.most_candidates} are drawn"
        raise bad(problem, f"{FIELD}.n")
    return fields
