"""The sets that ``compare`` reads: a file is one, a folder of mt-metrics-eval one per language pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ....integrations.formats.mtme.eval_set_folder import is_eval_set_folder, pairs_of
from ....integrations.formats.system_texts import AlignedOutputs
from ....metrics.errors import InputError


class SetPlace(NamedTuple):
    """Where the systems of a set are."""

    path: str
    name: str
    language_pair: str | None = None
    outputs: AlignedOutputs | None = None  # of files of texts by line, in place of the path


def set_places(paths: Sequence[str], values: Mapping[str, Any]) -> list[SetPlace]:
    """The sets that paths name; their names are those of the files, with folders where two are alike.

    Raises:
        InputError: a path is given twice, or a folder lacks a language pair.
    """
    repeated = [path for i, path in enumerate(paths) if path in paths[:i]]
    if repeated:
        raise InputError("is given twice", where=repeated[0], fix="Give each systems file once")
    stems = [Path(path.removesuffix(".gz")).stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else list(paths)
    places = []
    for path, name in zip(paths, names, strict=True):
        is_folder = values["input_format"] in ("systems", "mtme") and is_eval_set_folder(path)
        pairs = pairs_of(path, values["language_pair"]) if is_folder else (None,)
        for pair in pairs:
            places.append(SetPlace(path, name if len(pairs) == 1 else f"{name} {pair}", pair))
    return places
