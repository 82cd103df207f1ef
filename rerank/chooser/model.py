"""A chooser as a file: what `train chooser` learned, and the reranker that chooses by it.

The file is JSON with a checksum. Reading it runs nothing: metrics stand in it by their signatures, which are loaded as
those of other files are, code only from modules that the user allows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import sha256
from importlib.resources import files
from typing import Any

from ...metrics.errors import InputError, excerpt
from ...metrics.mixture import Utility
from ...metrics.registry import load_from_data
from ...metrics.spec.user_code import AllowedCode
from ...metrics.storage.checksums import KEY, check
from ...metrics.storage.json_and_yaml import parse_small_json, unique_members
from ...metrics.storage.limits import limits
from ..features import EXPECTED, Feature, is_plain
from ..lists import finite
from ..mbr_decoder import MBRDecoder
from ..prior import CHOOSER, Prior, read_prior
from ..reranker import Reranker
from ..strategies import StrategySetting
from .chooser_fit import SHIP
from .difficulty import TRAITS, Difficulty

KIND, FORMAT = CHOOSER, 1
LARGEST = 1e6  # of a weight or a strength
FIX = "Make one with: discorank train chooser"
_EDITED = f'If it was edited on purpose, remove "{KEY}" from it, else fetch or make it again'


@dataclass(frozen=True, slots=True)
class ExpectedRatio:
    """What is expected on other documents, against shipping one system.

    Args:
        system: the single system.
        ratio: mean score of what is chosen over the single system's.
        low, high: its 95 % interval.
        ships: whether the system's texts are expected to be as good.
    """

    system: str
    ratio: float
    low: float
    high: float
    ships: bool


@dataclass(frozen=True, slots=True)
class ExpectedDifference:
    """What is expected on other documents, against shipping one system, of scores that have no ratio.

    Args:
        system: the single system.
        difference: how much better what is chosen is, in standard deviations of the scores of a segment's texts.
        low, high: its 95 % interval.
        ships: whether the system's texts are expected to be as good.
    """

    system: str
    difference: float
    low: float
    high: float
    ships: bool


Expectation = ExpectedRatio | ExpectedDifference


@dataclass(frozen=True, slots=True)
class TrainedChooser:
    """How a text is chosen.

    Args:
        utility: signature of the utility of consensus.
        weights: (feature, weight) beside consensus, each standardised within its list.
        consensus: the weight of standardised expected utility.
        strength: how much systems count.
        prior: the systems; None before any is judged.
        difficulty: how many errors to expect of a choice.
        expectation: against a single system; None where there is nothing to say.
        provenance: from what it was learned, in words.
    """

    utility: str
    weights: tuple[tuple[str, float], ...]
    consensus: float
    strength: float
    prior: Prior | None
    difficulty: Difficulty | None
    expectation: Expectation | None
    provenance: str

    def reranker(
        self,
        load: Callable[[str], Utility] | None = None,
        nbest: int | None = 1,
        strategy: StrategySetting = "auto",
    ) -> Reranker:
        """What chooses.

        Args:
            load: makes a metric of a signature that stands in the file; by default code of no other module counts.
            nbest, strategy: as for `Reranker`.

        Raises:
            CodeRefusedError: it names code that is not allowed; nothing was imported.
            InputError, ModelLoadError: as `load_metric`.
        """
        load = load or partial(load_from_data, allowed=AllowedCode())
        features: dict[Feature, float] = {EXPECTED: self.consensus}
        for name, weight in self.weights:
            if weight:
                features[name if is_plain(name) else load(name)] = weight
        decoder = MBRDecoder(load(self.utility))
        if self.prior is not None and self.strength:
            decoder = replace(decoder, prior=self.prior, prior_strength=self.strength)
        return Reranker(
            features,
            normalize="zscore",
            nbest=nbest,
            strategy=strategy,
            decoder=decoder,
        )

    @property
    def unit(self) -> tuple[float, bool]:
        """sigma, and whether errors are roots of scores."""
        return (1.0, True) if self.prior is None else (self.prior.sigma or 1.0, self.prior.rooted)

    @property
    def ships(self) -> bool:
        """Whether the best system's text is always taken."""
        return self.strength >= SHIP

    @property
    def digest(self) -> str:
        """A digest of everything in it."""
        content = json.dumps(self.as_json(), sort_keys=True)
        return sha256(content.encode()).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        """The file's content; `read_chooser` is the inverse."""
        expectation = self.expectation
        return {
            "kind": KIND,
            "format": FORMAT,
            "utility": self.utility,
            "consensus": self.consensus,
            "weights": dict(self.weights),
            "strength": self.strength,
            "prior": None if self.prior is None else self.prior.as_json(),
            "difficulty": None if self.difficulty is None else self.difficulty._asdict(),
            "expectation": None if expectation is None else _as_dict(expectation),
            "provenance": self.provenance,
        }


def _as_dict(expectation: Expectation) -> dict[str, Any]:
    return {field.name: getattr(expectation, field.name) for field in fields(expectation)}


def checked_json(content: bytes, where: str) -> Any:
    """What a file holds, its checksum checked and taken off; raises InputError."""
    data = parse_small_json(content, where, FIX, unique_members)
    if isinstance(data, Mapping):
        check(data, where, _EDITED)
        return {name: value for name, value in data.items() if name != KEY}
    return data


def read_chooser(data: Any, where: str = "chooser") -> TrainedChooser:
    """A chooser from its JSON form.

    Raises:
        InputError: a key is missing or unknown, or a value of the wrong type or out of range; `where` names it.
    """
    if not isinstance(data, Mapping) or data.get("kind") != KIND or data.get("format") != FORMAT:
        problem = f"found {excerpt(data)}, expected a chooser of format {FORMAT}"
        raise InputError(problem, where=where, fix=FIX)
    names = {"kind", "format", *(field.name for field in fields(TrainedChooser))}
    if set(data) != names:
        odd = sorted(map(str, set(data) ^ names))
        raise InputError(f"missing or unknown: {odd}", where=where, fix=FIX)
    prior = data["prior"]
    strength = _number(data["strength"], f"{where}: strength", low=0.0)
    if prior is None and strength:
        problem = f"{strength:g} without a prior"
        raise InputError(problem, where=f"{where}: strength", fix=FIX)
    return TrainedChooser(
        utility=_text(data["utility"], f"{where}: utility"),
        weights=_weights(data["weights"], f"{where}: weights"),
        consensus=_number(data["consensus"], f"{where}: consensus"),
        strength=strength,
        prior=None if prior is None else read_prior(prior, f"{where}: prior"),
        difficulty=read_difficulty(data["difficulty"], f"{where}: difficulty"),
        expectation=_expectation(data["expectation"], f"{where}: expectation"),
        provenance=_text(data["provenance"], f"{where}: provenance"),
    )


def _weights(data: Any, where: str) -> tuple[tuple[str, float], ...]:
    if not isinstance(data, Mapping):
        raise InputError(f"found {excerpt(data)}, expected an object", where=where, fix=FIX)
    limits().check("metrics", len(data), where)
    return tuple((name, _number(value, f"{where}.{name:.80}")) for name, value in data.items())


# how many numbers each has
_LENGTHS = {
    "slopes": TRAITS,
    "means": TRAITS,
    "scales": TRAITS,
    "calibration": 2,
}


def read_difficulty(data: Any, where: str) -> Difficulty | None:
    """A difficulty from its JSON form; raises InputError where it is none."""
    if data is None:
        return None
    if not isinstance(data, Mapping) or set(data) != set(Difficulty._fields):
        problem = f"found {excerpt(data)}, expected {', '.join(Difficulty._fields)}"
        raise InputError(problem, where=where, fix=FIX)
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name in _LENGTHS:
            values[name] = _numbers(value, _LENGTHS[name], f"{where}.{name}")
        else:
            values[name] = _number(value, f"{where}.{name}")
    if min(values["scales"]) <= 0:
        raise InputError("a scale that is not above 0", where=f"{where}.scales", fix=FIX)
    return Difficulty(**values)


def _numbers(data: Any, count: int, where: str) -> tuple[float, ...]:
    if not isinstance(data, list | tuple) or len(data) != count:
        raise InputError(f"found {excerpt(data)}, expected {count} numbers", where=where, fix=FIX)
    return tuple(_number(value, f"{where}[{i}]") for i, value in enumerate(data))


def _expectation(data: Any, where: str) -> Expectation | None:
    if data is None:
        return None
    is_difference = isinstance(data, Mapping) and "difference" in data
    names = [f.name for f in fields(ExpectedDifference if is_difference else ExpectedRatio)]
    if not isinstance(data, Mapping) or set(data) != set(names):
        problem = f"found {excerpt(data)}, expected {', '.join(names)}"
        raise InputError(problem, where=where, fix=FIX)
    if not isinstance(data["ships"], bool):
        problem = f"found {excerpt(data['ships'])}, expected true or false"
        raise InputError(problem, where=f"{where}.ships", fix=FIX)
    least = -LARGEST if is_difference else 0.0
    value, low, high = (_number(data[name], f"{where}.{name}", least) for name in names[1:4])
    system = _text(data["system"], f"{where}.system")
    if is_difference:
        return ExpectedDifference(system, value, low, high, data["ships"])
    return ExpectedRatio(system, value, low, high, data["ships"])


def _number(value: Any, where: str, low: float = -LARGEST) -> float:
    number = finite(value)
    if number is None or not low <= number <= LARGEST:
        problem = f"found {excerpt(value)}, expected a number from {low:g} to {LARGEST:g}"
        raise InputError(problem, where=where, fix=FIX)
    return float(number)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"found {excerpt(value)}, expected text", where=where, fix=FIX)
    return value


def shipped_file(name: str) -> bytes:
    """The bytes of a file that stands beside this module."""
    return (files(__package__) / name).read_bytes()
