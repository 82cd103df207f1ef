"""The parser's networks at run time, in numpy, and the file of their weights.

Encoder: tables -> GRU -> tag logits -> [states, softmax of them] -> GRU -> boundary logit; the mean over its members.
GRU (Cho et al. 2014, in torch's form), per direction:
    r, z = sigmoid(x W + b + h U + c)     n = tanh(x W_n + b_n + r (h U_n + c_n))     h' = (1 - z) n + z h
Splits: logits = relu(sum of the features' rows + b) W + c. Every sentence is computed alone, so that its tree is the
same in any company.

Weights are one ``.npz`` file without pickles: tables in 8 bits with a scale per row, the rest in 16. The entry
``about`` is JSON: tags, labels, where the training data comes from and under which licence.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelLoadError
from ...representations import Array, IntArray, Ragged
from ...storage.bounded_files import arrays_in
from ...storage.json_and_yaml import parse_small_json
from .parser_features import SPLIT_ROWS, TABLES

Weights = NDArray[np.float32]


class GRULayer(NamedTuple):
    """One layer of all members in both directions; M members, D inputs, H units."""

    w: Weights  # [M, 2, D, 3H]
    b: Weights  # [M, 2, 1, 3H]
    u: Weights  # [M, 2, H, 3H]
    c: Weights  # [M, 2, 1, 3H]

    def states(self, x: Weights) -> Weights:
        """States [M, T, 2H] from inputs [M, T, D]."""
        units = self.u.shape[2]
        news = 2 * units  # where the columns of n begin
        # what the inputs give to r, z and n, for all words at once; backwards for the second direction
        both_ways = np.stack([x, x[:, ::-1]], axis=1)  # [M, 2, T, D]
        from_inputs = np.matmul(both_ways, self.w) + self.b  # [M, 2, T, 3H]: r, z, n
        h = np.zeros((*self.u.shape[:2], 1, units), np.float32)  # [M, 2, 1, H]
        states = np.empty((*from_inputs.shape[:3], units), np.float32)  # [M, 2, T, H]
        for t in range(x.shape[1]):
            from_input = from_inputs[:, :, t : t + 1]  # [M, 2, 1, 3H]
            from_state = np.matmul(h, self.u) + self.c  # [M, 2, 1, 3H]
            # the gates r and z, side by side in the first 2H columns
            gates = _sigmoid(from_input[..., :news] + from_state[..., :news])
            r = gates[..., :units]
            z = gates[..., units:]
            # the new content
            n = np.tanh(from_input[..., news:] + r * from_state[..., news:])
            # (1 - z) n + z h
            h = n + z * (h - n)
            states[:, :, t] = h[:, :, 0]
        # the states of the second direction in the order of the words again
        forward = states[:, 0]
        backward = states[:, 1, ::-1]
        return np.concatenate([forward, backward], axis=2)


class WordEncoder(NamedTuple):
    """Tagger and segmenter of all members."""

    tables: tuple[Weights, ...]  # each [M, rows, width]
    lower: GRULayer
    tag_w: Weights  # [M, 2H, tags]
    tag_b: Weights  # [M, 1, tags]
    upper: GRULayer
    cut_w: Weights  # [M, 2H, 1]
    cut_b: Weights  # [M, 1, 1]

    def read(self, numbers: IntArray) -> tuple[IntArray, Weights]:
        """The tag of every word, [T], and the logit that an EDU begins there, [T], from [tables, T]."""
        columns = [table[:, rows] for table, rows in zip(self.tables, numbers, strict=True)]
        states = self.lower.states(np.concatenate(columns, axis=2))  # [M, T, 2H]
        tags = np.matmul(states, self.tag_w) + self.tag_b  # [M, T, tags]
        # softmax over the tags
        shares = np.exp(tags - tags.max(axis=2, keepdims=True))
        shares /= shares.sum(axis=2, keepdims=True)
        above = self.upper.states(np.concatenate([states, shares], axis=2))  # [M, T, 2H]
        cuts = np.matmul(above, self.cut_w) + self.cut_b  # [M, T, 1]
        # the mean over the members
        mean_tags = tags.mean(axis=0)  # [T, tags]
        mean_cuts = cuts.mean(axis=0)  # [T, 1]
        return mean_tags.argmax(axis=1), mean_cuts[:, 0]


class Splitter(NamedTuple):
    """Scores of splits: all members side by side, so that one product averages them."""

    table: Weights  # [rows, M D]
    b: Weights  # [M D]
    w: Weights  # [M D, 1 + labels]
    c: Weights  # [1 + labels]

    def scores(self, rows: Ragged) -> Weights:
        """Logit of every split and of its labels, [splits, 1 + labels]."""
        features = self.table[rows.values]  # [features of all splits, M D]
        summed = np.add.reduceat(features, rows.offsets[:-1], axis=0)  # [splits, M D]
        hidden = np.maximum(summed + self.b, 0)  # [splits, M D]
        return np.asarray(hidden @ self.w + self.c)


def _sigmoid(x: Weights) -> Weights:
    return np.asarray(0.5 * np.tanh(0.5 * x) + 0.5)


FORMAT = 1
Arrays = dict[str, Array]


class Model(NamedTuple):
    """The parts of a parser."""

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
        small = arrays_in(path)
        about = parse_small_json(small.pop("about").tobytes(), "about", "")
        if about.get("format") != FORMAT:
            raise ValueError(f"format {about.get('format')}, expected {FORMAT}")
        return build(unpacked(small), about)
    except Exception as error:  # a damaged file: many kinds
        problem = f"not weights of the discourse parser: {error}"
        fix = "Train one with: discorank train rst"
        raise ModelLoadError(problem, where=str(path), fix=fix) from error


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
    return GRULayer(**{part: arrays[f"{name}.{part}"] for part in GRULayer._fields})
