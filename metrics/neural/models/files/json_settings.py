"""Settings in the JSON files of a model's folder, checked by a pydantic model: types, ranges, what must be there."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ....errors import InputError, ModelLoadError, excerpt
from ....storage.bounded_files import read_small_file
from ....storage.json_and_yaml import parse_small_json

FIX = "Give the folder of the whole model, or fetch it again"


class FileSettings(BaseModel):
    """Settings that a file holds among others, which are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


Settings = TypeVar("Settings", bound=FileSettings)


def read_settings(file: Path, kind: type[Settings]) -> Settings:
    """The settings in a file.

    Raises:
        ModelLoadError: it cannot be read, is no JSON object, or a setting is missing, of another type or out of range.
    """
    try:
        return kind.model_validate(parse_small_json(read_small_file(file, FIX), str(file), FIX))
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        problem = f"{place}: {first['msg']}, found {excerpt(first['input'])}".removeprefix(": ")
        raise ModelLoadError(problem, where=str(file), fix=FIX) from error
