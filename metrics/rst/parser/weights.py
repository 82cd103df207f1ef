"""The parser's weights as one ``.npz`` file without pickles: tables in 8 bits with a scale per row, the rest in 16.

The entry ``about`` is JSON: tags, labels, where the training data comes from and under which licence.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from ...errors import ModelLoadError, excerpt
from ...representations import Array
from ...storage.bounded_files import check_archive
from ...storage.json_and_yaml import parse_small_json
from ...storage.limits import limits
from .parser_features import SPLIT_ROWS, TABLES
from .parser_network import GRULayer, Splitter, WordEncoder

FORMAT = 1
Arrays = dict[str, Array]


class Model(NamedTuple):
    """What a parser is made of."""

    encoder: WordEncoder
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
        scale = np.abs(array).max(axis=-1, keepdims=True) / 127  # [..., rows, 1]
        whole = np.rint(array / np.where(scale > 0, scale, 1))
        small[name] = whole.astype(np.int8)
        small[f"{name}.scale"] = scale.astype(np.float16)
    return small


def unpacked(small: Mapping[str, Array]) -> Arrays:
    """The arrays in float32."""
    arrays: Arrays = {}
    for name, array in small.items():
        if not name.endswith(".scale"):
            scale = small.get(f"{name}.scale", np.float16(1))
            arrays[name] = array.astype(np.float32) * scale.astype(np.float32)
    return arrays


def save(out: BinaryIO, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
    """Writes a model to an open file."""
    text = json.dumps({"format": FORMAT, **about}, ensure_ascii=False, sort_keys=True)
    entries = {**packed(arrays), "about": np.frombuffer(text.encode(), np.uint8)}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, array in entries.items():
            data = io.BytesIO()
            np.save(data, array, allow_pickle=False)
            # one date throughout, so that the same weights are the same file
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            file.writestr(entry, data.getvalue(), zipfile.ZIP_DEFLATED)


def load(path: Path) -> Model:
    """Reads a model.

    Raises:
        ModelLoadError: there is none, or it is another's.
    """
    try:
        small = _arrays_in(path)
        about = parse_small_json(small.pop("about").tobytes(), "about", "")
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
        MemoryError,
        RuntimeError,  # of zipfile, for flags that are not ours
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        problem = f"no weights of the discourse parser: {error}"
        fix = "Train one with: discorank train rst"
        raise ModelLoadError(problem, where=str(path), fix=fix) from error


def _arrays_in(path: Path) -> Arrays:
    """The arrays of an ``.npz`` file.

    Raises:
        InputError: there are too many, or of too many bytes.
        ValueError: it is none, or an array has other bytes than its entry.
    """
    check_archive(path)
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        limits().check("array_bytes", sum(member.file_size for member in members))
        for member in members:
            with archive.open(member) as entry:
                _check_array(entry, member.file_size)
            with archive.open(member) as entry:
                array = np.lib.format.read_array(entry, allow_pickle=False)
            arrays[member.filename.removesuffix(".npy")] = array
    return arrays


def _check_array(entry: IO[bytes], entry_bytes: int) -> None:
    """Raises ValueError if the header of an array names more or fewer numbers than its entry has."""
    version = np.lib.format.read_magic(entry)
    is_first = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(entry)
    if prod(shape) * dtype.itemsize != entry_bytes - entry.tell():
        raise ValueError(f"an array of the shape {excerpt(shape)} in {entry_bytes} bytes")


def build(arrays: Mapping[str, Array], about: Mapping[str, Any]) -> Model:
    """The model of float32 arrays.

    Raises:
        ValueError: shapes that do not fit.
    """
    lower, upper = _layer(arrays, "lower"), _layer(arrays, "upper")
    tables = tuple(arrays[f"table{i}"] for i in range(len(TABLES)))
    sizes = [table.shape[1] for table in tables]
    if sizes != list(TABLES) or arrays["table.split"].shape[0] != SPLIT_ROWS:
        raise ValueError("tables of another size")
    encoder = WordEncoder(
        tables=tables,
        lower=lower,
        tag_w=arrays["tag.w"],
        tag_b=arrays["tag.b"],
        upper=upper,
        cut_w=arrays["cut.w"],
        cut_b=arrays["cut.b"],
    )
    splitter = Splitter(
        table=arrays["table.split"],
        b=arrays["split.b"],
        w=arrays["split.w"],
        c=arrays["split.c"],
    )
    labels = tuple((str(nuc), str(rel)) for nuc, rel in about["labels"])
    return Model(encoder, splitter, tuple(about["tags"]), labels, about)


def _layer(arrays: Mapping[str, Array], name: str) -> GRULayer:
    return GRULayer(
        w=arrays[f"{name}.w"],
        b=arrays[f"{name}.b"],
        u=arrays[f"{name}.u"],
        c=arrays[f"{name}.c"],
    )
