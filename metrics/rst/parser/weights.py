"""The parser's weights as one ``.npz`` file without pickles: tables in 8 bits with a scale per row, the rest in 16.

The entry ``about`` is JSON: tags, labels, where the training data comes from and under which licence.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ...errors import ModelLoadError
from ...representations import Array
from .parser_features import SPLIT_ROWS, TABLES
from .parser_network import Encoder, GRULayer, Splitter

FORMAT = 1
Arrays = dict[str, Array]


class Model(NamedTuple):
    """What a parser is made of."""

    encoder: Encoder
    splitter: Splitter
    tags: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]  # nuclearity, relation
    about: Mapping[str, Any]


def packed(arrays: Mapping[str, Array]) -> Arrays:
    """Tables [..., rows, width] as whole numbers with scales, everything else in half precision."""
    small: Arrays = {}
    for name, array in arrays.items():
        if not name.startswith("table"):
            small[name] = array.astype(np.float16)
            continue
        scale = np.abs(array).max(axis=-1, keepdims=True) / 127
        small[name] = np.rint(array / np.where(scale > 0, scale, 1)).astype(np.int8)
        small[f"{name}.scale"] = scale.astype(np.float16)
    return small


def unpacked(small: Mapping[str, Array]) -> Arrays:
    """The arrays in float32."""
    names = [name for name in small if not name.endswith(".scale")]
    return {
        name: small[name].astype(np.float32)
        * small.get(f"{name}.scale", np.float16(1)).astype(np.float32)
        for name in names
    }


def save(out: BinaryIO, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
    """Writes a model to an open file."""
    text = json.dumps({"format": FORMAT, **about}, ensure_ascii=False, sort_keys=True)
    small = packed(arrays)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        entries = {**small, "about": np.frombuffer(text.encode(), np.uint8)}
        for name, array in entries.items():
            data = io.BytesIO()
            np.save(data, array, allow_pickle=False)
            file.writestr(
                zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)),
                data.getvalue(),
                zipfile.ZIP_DEFLATED,
            )


def load(path: Path) -> Model:
    """Reads a model.

    Raises:
        ModelLoadError: there is none, or it is another's.
    """
    try:
        with open(path, "rb") as data, np.load(data, allow_pickle=False) as file:
            small = {name: file[name] for name in file.files}
        about = json.loads(small.pop("about").tobytes())
        if about.get("format") != FORMAT:
            raise ValueError(f"format {about.get('format')}, expected {FORMAT}")
        return build(unpacked(small), about)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        zipfile.BadZipFile,
    ) as error:
        fix = "Train one with: discorank train rst"
        raise ModelLoadError(
            f"no weights of the discourse parser: {error}", where=str(path), fix=fix
        ) from error


def build(arrays: Mapping[str, Array], about: Mapping[str, Any]) -> Model:
    """The model of float32 arrays.

    Raises:
        ValueError: shapes that do not fit.
    """
    layers = [
        GRULayer(*(arrays[f"{name}.{part}"] for part in ("w", "b", "u", "c")))
        for name in ("lower", "upper")
    ]
    tables = tuple(arrays[f"table{i}"] for i in range(len(TABLES)))
    if [table.shape[1] for table in tables] != list(TABLES) or arrays["table.split"].shape[
        0
    ] != SPLIT_ROWS:
        raise ValueError("tables of another size")
    rest = [arrays[name] for name in ("tag.w", "tag.b", "cut.w", "cut.b")]
    encoder = Encoder(tables, layers[0], rest[0], rest[1], layers[1], rest[2], rest[3])
    splitter = Splitter(
        arrays["table.split"], arrays["split.b"], arrays["split.w"], arrays["split.c"]
    )
    labels = tuple((str(nuc), str(rel)) for nuc, rel in about["labels"])
    return Model(encoder, splitter, tuple(about["tags"]), labels, about)
