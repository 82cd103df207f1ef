"""A combination of metrics tuned on preferences (as DiscoTK-party; Joty et al. 2014, 2017), higher is better.

    combination(h, r) = sum_i w_i u_i(h, r) / (max_i - min_i)
with utilities u_i and what `discorank train combination` found: weights w_i, and the range min_i to max_i of each
metric in the training data. (Minima are left out of the sum: they change no choice.) It is the sum of its parts, each
computed as if alone, so it reads documents, contexts and several references as they do; a combination of
reference-free metrics reranks. The range is open, symmetry that of its parts.

A model is a JSON file: ``{"format": 1, "features": [{"metric": "chrf", "weight": 1.2, "min": 3.1, "max": 97.0},
...]}``; "checksum" tells of damage, other keys say how it was trained. No weights ship with discorank: they do not
carry over from one kind of text to another. Code that a model file names is loaded only from modules that the user
allows (`spec.user_code`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import inf, isfinite
from typing import Any, ClassVar

from .base import Metric
from .errors import DiscorankError, InputError, excerpt
from .mixture import Mix, Utility
from .scorer import Info
from .spec.signature import call, parse
from .storage.bounded_files import read_small_file
from .storage.checksums import DIGITS, KEY, check, path_of, stamped
from .storage.json_and_yaml import parse_small_json
from .storage.limits import limits

FORMAT = 1
MIN_WIDTH, MAX_WIDTH = 1e-300, 1e300  # of a feature's range: 1 / width is finite, and so are sums
_FIX = "Make one with: discorank train combination"
_EDITED = f'If it was edited on purpose, remove "{KEY}" from it, else fetch or train it again'


@dataclass(frozen=True)
class Combination(Mix):
    """A mix that is named by its model file.

    Args:
        model: the JSON file that `discorank train combination` wrote; ``path@sha256:...`` names it for good.
    """

    model: str = ""
    name: ClassVar[str] = "combination"
    info: ClassVar[Info] = Info(
        summary="metrics weighted by training on preferences (needs model=)",
        papers=("joty2014discotk", "joty2017discourse"),
    )

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of the combination itself."""
        return cls.info.papers

    @classmethod
    def make(cls, settings: Mapping[str, Any], load: Callable[[str], Utility]) -> Combination:
        """The combination of a model file, its metrics loaded by signature.

        Raises:
            InputError: the file is missing, broken, or another than its digest says.
        """
        features, name = cls._read(settings)
        return cls(parts_of(features, path_of(name), load), name)

    @classmethod
    def signatures(cls, settings: Mapping[str, Any]) -> list[str]:
        """The metrics that count in a model file, as it names them: none is loaded; errors as `make`."""
        features, name = cls._read(settings)
        signatures = []
        for i, feature in enumerate(features):
            place = f"{path_of(name)}: features[{i}]"
            if _weight(feature, place):
                _check_plain(feature["metric"])
                signatures.append(feature["metric"])
        return signatures

    @classmethod
    def _read(cls, settings: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], str]:
        """The features in a model file, and its path with its digest."""
        if set(settings) != {"model"} or not isinstance(settings["model"], str):
            fix = 'Give the model alone: combination(model="FILE.json")'
            raise InputError(f"found {excerpt(dict(settings))}", where=cls.name, fix=fix)
        path = path_of(settings["model"])
        data = read_small_file(path, _FIX)
        name = stamped(settings["model"], sha256(data).hexdigest()[:DIGITS])
        return _features(data, path), name

    def signature(self) -> str:
        """``combination(model="path@sha256:...")``."""
        return call(self.name, {"model": self.model})

    def for_language(self, lang: str) -> Combination:
        """Itself: its parts stay as they were trained, each with the language it had then."""
        return self


def parts_of(
    features: Sequence[Mapping[str, Any]],
    where: str,
    load: Callable[[str], Utility],
) -> tuple[tuple[float, Metric], ...]:
    """The weighted metrics of a model's features; those of weight 0 or without a range are left out.

    Raises:
        InputError: none is left, a metric cannot be made or is a combination itself, a weight is out of range.
    """
    parts: list[tuple[float, Metric]] = []
    for i, feature in enumerate(features):
        place = f"{where}: features[{i}]"
        weight = _weight(feature, place)
        if weight:
            utility = _metric(feature["metric"], place, load)
            parts += [(weight * own, metric) for own, metric in utility.parts]
    if not parts:
        raise InputError("every weight is 0", where=where, fix=_FIX)
    return tuple(parts)


def _weight(feature: Mapping[str, Any], where: str) -> float:
    """Weight / (max - min), 0 where the feature does not vary.

    Raises:
        InputError: not numbers, max below min, or too large to compute with.
    """
    try:
        weight, low, high = (finite(feature.get(name)) for name in ("weight", "min", "max"))
    except ValueError:
        raise InputError(f"found {excerpt(feature)}", where=where, fix=_FIX) from None
    if high < low:
        raise InputError("max is below min", where=where, fix=_FIX)
    if not weight or high == low:
        return 0.0
    width = high - low
    scaled = weight * (1 / width) if isfinite(width) and width >= MIN_WIDTH else inf
    if not scaled or not isfinite(scaled):
        raise InputError(
            f"weight {weight:g}, min {low:g}, max {high:g} are out of range",
            where=where,
            fix=_FIX,
        )
    return scaled


def _metric(spec: str, where: str, load: Callable[[str], Utility]) -> Utility:
    """The metric of one feature; raises InputError for a file, and for a combination inside a combination."""
    try:
        _check_plain(spec)
        return load(spec)
    except DiscorankError as error:
        raise error.inside(where) from error


def _check_plain(spec: str) -> None:
    """Raises InputError for a file, and for a combination inside a combination."""
    own_names = {Combination.name, f"{__name__}:{Combination.__name__}"}
    if spec.endswith((".yaml", ".yml")):
        raise InputError("is a file", where=spec, fix="Write the metric's signature")
    if any(call.name in own_names for term in parse(spec) for call in term.every):
        raise InputError(
            "is a combination itself",
            where=spec,
            fix="Name the metrics it is made of",
        )


def finite(value: Any) -> float:
    """A number of JSON as a float.

    Raises:
        ValueError: it is none, or not finite.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = inf
        if isfinite(number):
            return number
    raise ValueError(f"found {excerpt(value)}, expected a finite number")


def _features(data: bytes, where: str) -> list[Mapping[str, Any]]:
    """The features of a model file; raises InputError unless it is whole and of the form in the module's docstring."""
    model = parse_small_json(data, where, _FIX)
    if isinstance(model, Mapping):
        check(model, where, _EDITED)
    is_model = isinstance(model, Mapping) and model.get("format") == FORMAT
    if not is_model or not isinstance(model.get("features"), list):
        raise InputError(f"found {excerpt(model)}", where=where, fix=_FIX)
    limits().check("systems", len(model["features"]), f"{where}: features", what="metrics")
    for i, feature in enumerate(model["features"]):
        if not isinstance(feature, Mapping) or not isinstance(feature.get("metric"), str):
            raise InputError(f"found {excerpt(feature)}", where=f"{where}: features[{i}]", fix=_FIX)
    return list(model["features"])
