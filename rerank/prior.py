"""A prior over systems before their texts are read: how many errors each makes, as weights of pseudo-references.

    w(r) = exp(-strength * (m(r) - min m) / sigma)
m(r) is the prior of the system that a text comes from, the shrunk mean of its errors relative to the mean system, sigma
the standard deviation of what systems and segments leave unexplained, min over the list (it changes no choice). With
the self pair, expected utility under these weights chooses the best system's text where it is far ahead, and what most
systems agree on where they are close. `training.prior_estimation` estimates a prior; it is kept as a JSON file with
a checksum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np

from ..metrics.errors import InputError, excerpt, unknown
from ..metrics.representations import FloatArray
from ..metrics.spec.checked_settings import Converted, Field, build, settings
from ..metrics.storage.bounded_files import read_small_file
from ..metrics.storage.checksums import KEY, check
from ..metrics.storage.json_and_yaml import parse_small_json, unique_members
from ..metrics.storage.limits import limits
from .lists import Candidate

KIND, FORMAT = "discorank-prior", 1
STRENGTH = 6.0
Finite = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
_FIX = "Make one with: discorank train prior"
T = TypeVar("T")
_EDITED = f'If it was edited on purpose, remove "{KEY}" from it, else fetch or make it again'


@settings
class SystemPrior:
    """The prior of one system; all in the unit of errors, lower is better.

    Args:
        mean: posterior mean of its errors less those of the mean system.
        error: posterior standard deviation.
        effect: the mean as judged, before shrinkage; None if nobody judged it.
        segments, documents: how many it was judged on, beside others.
    """

    mean: Finite
    error: NotNegative
    effect: Finite | None
    segments: Count
    documents: Count


@settings
class Prior:
    """The priors of all systems.

    Args:
        systems: (name, what is known of it).
        sigma: standard deviation of one error beside what its system and segment explain.
        between: standard deviation of systems.
        design_effect: how many times larger the variance of a system's mean is than if segments were independent.
        human: what people judged.
        lower: whether lower scores were better.
        rooted: whether an error is the square root of a score.
        segments, documents: how many were judged with two or more systems.
        inputs: a digest of the judgements.
    """

    systems: Annotated[tuple[tuple[str, SystemPrior], ...], Converted(tuple)]
    sigma: NotNegative
    between: NotNegative
    design_effect: NotNegative
    human: str
    lower: bool
    rooted: bool
    segments: Count
    documents: Count
    inputs: str

    def weights(
        self, systems: Sequence[str], strength: float, where: str = "candidates"
    ) -> FloatArray:
        """The weights [N] of texts of some systems, 1 for the best of them.

        Raises:
            InputError: a system is not in the prior.
        """
        known = dict(self.systems)
        for i, name in enumerate(systems):
            if name not in known:
                raise unknown("system in the prior", name, known, where=f"{where}[{i}].system")
        means = np.array([known[name].mean for name in systems])
        gaps = means - means.min(initial=np.inf)
        if not strength:
            return np.ones(len(gaps))
        with np.errstate(over="ignore"):  # what is infinitely worse weighs nothing
            # without noise, every gap is infinite
            relative = gaps / self.sigma if self.sigma else np.where(gaps > 0, np.inf, 0.0)
            return np.exp(-strength * relative)

    def of_candidates(
        self, candidates: Sequence[Candidate], strength: float, where: str
    ) -> FloatArray:
        """The weights [N] of candidates by their field ``system``.

        Raises:
            InputError: a candidate names no system, or one that is not in the prior.
        """
        fix = "A prior goes by the system of every candidate"
        return self.weights(systems_of(candidates, "system", where, fix), strength, where)

    @property
    def digest(self) -> str:
        """A digest of everything in it."""
        content = json.dumps(self.as_json(), sort_keys=True)
        return sha256(content.encode()).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        """The file's content; `read_prior` is the inverse."""
        names = [field.name for field in fields(self) if field.name != "systems"]
        return {
            "kind": KIND,
            "format": FORMAT,
            **{name: getattr(self, name) for name in names},
            "systems": {name: asdict(prior) for name, prior in self.systems},
        }


def load_prior(spec: Prior | str | Path | None) -> Prior | None:
    """The prior of a file; a prior, or none, is returned as it is.

    Raises:
        InputError: the file cannot be read, is no prior, or is another than was written.
    """
    if spec is None or isinstance(spec, Prior):
        return spec
    return read_prior(read_object(spec, "prior", _FIX), str(spec))


def check_strength(prior: object, strength: float) -> None:
    """Raises InputError for a strength, other than the default, without a prior."""
    if prior is None and strength != STRENGTH:
        fix = "Give --prior, or leave it out"
        raise InputError(f"{strength:g} without a prior", where="prior_strength", fix=fix)


def read_prior(data: Any, where: str = "prior") -> Prior:
    """A prior from its JSON form.

    Raises:
        InputError: a key is missing or unknown, or a value of the wrong type or out of range; `where` names it.
    """
    systems = values_by_system(SystemPrior, data, (KIND, FORMAT), where, _FIX)
    values = {key: value for key, value in data.items() if key not in ("kind", "format", KEY)}
    return build(Prior, {**values, "systems": tuple(systems.items())}, where)


def read_object(path: object, setting: str, fix: str) -> Any:
    """Return the value in a small JSON file that a setting names; a key may occur only once."""
    if not isinstance(path, str | Path):
        raise InputError(f"found {excerpt(path)}, expected a file", where=setting, fix=fix)
    return parse_small_json(read_small_file(path, fix), str(path), fix, unique_members)


def values_by_system(
    of: type[T], data: Any, kind: tuple[str, int], where: str, fix: str
) -> dict[str, T]:
    """The values of each system in a file.

    Args:
        of: the class of the values.
        data: the content of the file.
        kind: its kind and format.
        where: its name.
        fix: what to do about another file.

    Raises:
        InputError: it is of another kind, damaged, or a value is not one.
    """
    is_kind = isinstance(data, Mapping) and (data.get("kind"), data.get("format")) == kind
    systems = data.get("systems") if is_kind else None
    if not isinstance(systems, Mapping) or not systems:
        problem = f"found {excerpt(data)}, expected {kind[0]} of format {kind[1]} with systems"
        raise InputError(problem, where=where, fix=fix)
    check(data, where, _EDITED)
    return built_by_system(of, systems, f"{where}: systems", fix)


def built_by_system(of: type[T], rows: Any, where: str, fix: str) -> dict[str, T]:
    """The value of each system from its row; errors as `values_by_system`."""
    limits().check("systems", len(rows), where)
    for name, row in rows.items():
        if not isinstance(name, str) or not isinstance(row, Mapping):
            raise InputError(f"found {excerpt(row)}", where=f"{where}.{name}", fix=fix)
    return {name: build(of, row, f"{where}.{name}") for name, row in rows.items()}


def systems_of(candidates: Sequence[Candidate], field: str, where: str, fix: str) -> list[str]:
    """The system of every candidate by a field, numbers as they are written, [N].

    Raises:
        InputError: one names none; `where` names the place of the candidates.
    """
    names = []
    for i, candidate in enumerate(candidates):
        name = candidate.fields.get(field)
        if isinstance(name, int | float):
            name = json.dumps(name)
        if not isinstance(name, str):
            shown = excerpt(name) if field in candidate.fields else "nothing"
            problem = f"found {shown}, expected a name"
            raise InputError(problem, where=f"{where}[{i}].{field}", fix=fix)
        names.append(name)
    return names
