"""Values of numpy, PyTorch, pandas and Hugging Face datasets as those of Python: the one place where they are turned.

None of these libraries is imported: an array, a tensor, a series or one of their numbers has ``tolist``, and a column
of a dataset is iterated over.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any

_PLAIN = frozenset({str, int, float, bool, type(None)})


def library_of(value: object) -> str:
    """The library that a value is of.

    >>> library_of([1])
    'builtins'
    """
    return type(value).__module__.partition(".")[0]


def plain_value(value: Any) -> Any:
    """A value without arrays, tensors, series and their numbers in it, however deep; everything else stays as it is.

    >>> import numpy as np
    >>> plain_value({"logprob": np.float32(-1.5), "texts": np.array(["a", "b"])})
    {'logprob': -1.5, 'texts': ['a', 'b']}
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        if all(type(inner) is str for inner in value):
            return value
        return kind(plain_value(inner) for inner in value)
    if isinstance(value, Mapping):
        return {key: plain_value(inner) for key, inner in value.items()}
    if library_of(value) == "builtins":
        return value
    if hasattr(value, "tolist"):
        return plain_value(value.tolist())
    if is_column(value):
        return plain_value(list(value))
    return value


def is_column(value: object) -> bool:
    """Whether a value is a column of a dataset."""
    return library_of(value) == "datasets" and type(value).__name__ in ("Column", "IterableColumn")


def is_data_frame(value: object) -> bool:
    """Whether a value is a data frame of pandas."""
    return library_of(value) == "pandas" and type(value).__name__ == "DataFrame"


def rows_of_frame(frame: Any) -> list[dict[str, Any]]:
    """The rows of a data frame; what is missing there is None."""
    rows = []
    for row in frame.to_dict("records"):
        values = {str(key): plain_value(value) for key, value in row.items()}
        rows.append({key: None if _is_missing(value) else value for key, value in values.items()})
    return rows


def _is_missing(value: object) -> bool:
    is_nan = isinstance(value, float) and isnan(value)
    return is_nan or type(value).__name__ in ("NAType", "NaTType")
