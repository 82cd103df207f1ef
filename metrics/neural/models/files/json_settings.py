"""Settings in the JSON files of a model's folder, checked: types, ranges, what must be there."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from ....errors import InputError, ModelLoadError
from ....spec.checked_values import from_json
from ....storage.bounded_files import read_small_file
from ....storage.json_and_yaml import parse_small_json

FIX = "Give the folder of the whole model, or fetch it again"
T = TypeVar("T")


def read_settings(file: Path, kind: type[T]) -> T:
    """The settings in a file, as a dataclass or a list of one; further keys are passed over.

    Raises:
        ModelLoadError: it cannot be read, is no JSON, or a setting is missing, of another type or out of range.
    """
    try:
        values = parse_small_json(read_small_file(file, FIX), str(file), FIX)
        return from_json(kind, values, str(file), FIX)
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from error
