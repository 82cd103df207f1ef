"""A combination of metrics tuned on preferences (as DiscoTK-party; Joty et al. 2014, 2017), higher is better.

    combination(h, r) = sum_i w_i u_i(h, r) / (max_i - min_i)
with utilities u_i and what `discorank train combination` found: weights w_i, and the range min_i to max_i of each
metric in the training data. (Minima are left out of the sum: they change no choice.) It is the sum of its parts, each
computed as if alone, so it reads documents, contexts and several references as they do; a combination of
reference-free metrics reranks. The range is open, symmetry that of its parts.

A model is a JSON file: ``{"format": 1, "features": [{"metric": "chrf", "weight": 1.2, "min": 3.1, "max": 97.0},
...]}``; other keys say how it was trained. No weights ship with discorank: they do not carry over from one kind of
text to another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .base import Info
from .errors import InputError, excerpt
from .logistic import Scale
from .mixture import Mix
from .signature import call

FORMAT = 1
_MARK = "@sha256:"
_FIX = "Make one with: discorank train combination"


@dataclass(frozen=True)
class Combination(Mix):
    """A mix that is named by its model file.

    Args:
        model: the JSON file that `discorank train combination` wrote; ``path@sha256:...`` names it for good.
    """

    model: str = ""
    name: ClassVar[str] = "combination"
    info: ClassVar[Info] = Info(
        summary="metrics weighted by training on preferences (needs model=)", paper="Joty et al. 2014, 2017"
    )

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Combination:
        """The combination of a model file.

        Raises:
            InputError: the file is missing, broken, or another than its digest says.
        """
        if set(settings) != {"model"} or not isinstance(settings["model"], str):
            raise InputError(f"found {excerpt(dict(settings))}", where=cls.name, fix='Give model="FILE.json" alone')
        path, _, wanted = settings["model"].partition(_MARK)
        data = _bytes(path)
        digest = sha256(data).hexdigest()[:16]
        if wanted and wanted != digest:
            raise InputError(f"digest {digest}, expected {wanted}", where=path, fix="It is not the model that was used")
        return cls(parts_of(_features(data, path), path), f"{path}{_MARK}{digest}")

    def signature(self) -> str:
        """``combination(model="path@sha256:...")``."""
        return call(self.name, {"model": self.model})


def parts_of(features: Sequence[Mapping[str, Any]], where: str) -> tuple[tuple[float, Any], ...]:
    """The weighted metrics of a model's features; those of weight 0 or without a range are left out.

    Raises:
        InputError: none is left.
    """
    from .registry import load_metric

    scale = Scale(*(np.array([feature[name] for feature in features], float) for name in ("min", "max")))
    parts = []
    for feature, spread in zip(features, scale.spread.tolist(), strict=True):
        if weight := feature["weight"] * spread:
            metric = load_metric(feature["metric"])
            parts += [(weight * own, part) for own, part in metric.parts]
    if not parts:
        raise InputError("every weight is 0", where=where, fix=_FIX)
    return tuple(parts)


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path, fix=_FIX) from None


def _features(data: bytes, where: str) -> list[Mapping[str, Any]]:
    try:
        model = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {excerpt(str(error))}", where=where, fix=_FIX) from None
    if not isinstance(model, Mapping) or model.get("format") != FORMAT or not isinstance(model.get("features"), list):
        raise InputError(f"found {excerpt(model)}", where=where, fix=_FIX)
    for i, feature in enumerate(model["features"]):
        good = isinstance(feature, Mapping) and isinstance(feature.get("metric"), str)
        if not good or not all(_is_number(feature.get(name)) for name in ("weight", "min", "max")):
            raise InputError(f"found {excerpt(feature)}", where=f"{where}: features[{i}]", fix=_FIX)
        if feature["max"] < feature["min"]:
            raise InputError("max is below min", where=f"{where}: features[{i}]", fix=_FIX)
    return list(model["features"])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
