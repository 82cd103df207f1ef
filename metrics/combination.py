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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import inf, isfinite
from typing import Annotated, Any, ClassVar, Literal

from .base import Metric
from .errors import DiscorankError, InputError, excerpt
from .mixture import Mix, Utility
from .scorer import Info
from .spec.checked_settings import Field, from_json
from .spec.signature import call, parse
from .storage.bounded_files import read_small_file
from .storage.checksums import DIGITS, KEY, check, path_of, stamped
from .storage.json_and_yaml import parse_small_json
from .storage.limits import limits

FORMAT = 1
MIN_WIDTH, MAX_WIDTH = 1e-300, 1e300  # of a feature's range: 1 / width is finite, and so are sums
_FIX = "Make one with: discorank train combination"
Finite = Annotated[float, Field(allow_inf_nan=False)]
_EDITED = f'If it was edited on purpose, remove "{KEY}" from it, else fetch or train it again'


@dataclass(frozen=True)
class Feature:
    """A metric of a model file, its weight, and its range in the training data."""

    metric: str
    weight: Finite
    min: Finite
    max: Finite

    def scaled_weight(self, where: str) -> float:
        """The weight / (max - min), 0 where the feature does not vary.

        Raises:
            InputError: max is below min, or the weight is too large to compute with.
        """
        width = self.max - self.min
        if width < 0:
            raise InputError("max is below min", where=where, fix=_FIX)
        if not self.weight or not width:
            return 0.0
        scaled = self.weight * (1 / width) if MIN_WIDTH <= width < inf else inf
        if not scaled or not isfinite(scaled):
            problem = f"weight {self.weight:g}, min {self.min:g}, max {self.max:g} are out of range"
            raise InputError(problem, where=where, fix=_FIX)
        return scaled


@dataclass(frozen=True)
class ModelFile:
    """The contents of a model file; other keys are passed over."""

    format: Literal[1]
    features: list[Feature]


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
        counting, name = cls._read(settings)
        parts: list[tuple[float, Metric]] = []
        for place, weight, spec in counting:
            try:
                _check_plain(spec)
                utility = load(spec)
            except DiscorankError as error:
                raise error.inside(place) from error
            parts += [(weight * own, metric) for own, metric in utility.parts]
        if not parts:
            raise InputError("every weight is 0", where=path_of(name), fix=_FIX)
        return cls(tuple(parts), name)

    @classmethod
    def signatures(cls, settings: Mapping[str, Any]) -> list[str]:
        """The metrics that count in a model file, as it names them: none is loaded; errors as `make`."""
        counting, _ = cls._read(settings)
        for _, _, spec in counting:
            _check_plain(spec)
        return [spec for _, _, spec in counting]

    @classmethod
    def _read(cls, settings: Mapping[str, Any]) -> tuple[list[tuple[str, float, str]], str]:
        """Place, weight and metric of every feature that counts, and the path of the model file with its digest."""
        if set(settings) != {"model"} or not isinstance(settings["model"], str):
            fix = 'Give the model alone: combination(model="FILE.json")'
            raise InputError(f"found {excerpt(dict(settings))}", where=cls.name, fix=fix)
        path = path_of(settings["model"])
        data = read_small_file(path, _FIX)
        name = stamped(settings["model"], sha256(data).hexdigest()[:DIGITS])
        values = parse_small_json(data, path, _FIX)
        if isinstance(values, Mapping):
            check(values, path, _EDITED)
        features = from_json(ModelFile, values, path, _FIX).features
        limits().check("systems", len(features), f"{path}: features", what="metrics")
        counting = []
        for i, feature in enumerate(features):
            place = f"{path}: features.{i}"
            if weight := feature.scaled_weight(place):
                counting.append((place, weight, feature.metric))
        return counting, name

    def signature(self) -> str:
        """``combination(model="path@sha256:...")``."""
        return call(self.name, {"model": self.model})

    def for_language(self, lang: str) -> Combination:
        """Itself: its parts stay as they were trained, each with the language it had then."""
        return self


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


def finite(value: Any, where: str, fix: str) -> float:
    """A number of JSON as a float; raises InputError for anything else, and for what is not finite."""
    kind: Any = Finite
    return float(from_json(kind, value, where, fix))
