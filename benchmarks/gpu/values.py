"""Values of every family on the device, against those of the CPU in float32.

Of a matrix of utilities, an error is the greatest difference in units of the standard deviation of the CPU's values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.gpu.models import FAMILIES, REAL, Model, made, source_of, texts_of
from benchmarks.gpu.record import Place
from discorank.metrics.representations import FloatArray

# Of the standard deviation of values.
TOLERANCES = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.75}
TEXTS, FEW = 12, 5
ALONE = 3  # texts that are compared without the others


def utilities(metric: Any, texts: list[str]) -> FloatArray:
    """All pairs of some texts, everything computed anew, [n, n] or [n, 1]."""
    values: FloatArray = metric.pairwise(texts, texts, source_of(metric, texts))
    return values


def families(place: Place) -> None:
    """A family after the other, in every precision; one that fails costs its rows alone."""
    for family in FAMILIES:
        measure(place, family, partial(made, place.root, family, place.size("small"), place.device))


def real(place: Place) -> None:
    """Released models that pip installs, where they are."""
    for name, (package, model) in REAL.items():
        if find_spec(package) is None:
            place.write(name, "", "not there", "", "", f"{package} does not import")
        else:
            measure(place, name, partial(Model, *model))


def measure(place: Place, name: str, make: Callable[[], Model]) -> None:
    """Values of one model in every precision."""
    texts = texts_of(FEW if place.rehearses else TEXTS, seed=1)
    try:
        model = make()
        reference = utilities(model.loaded("cpu", "float32"), texts)
    except Exception as error:
        place.failed(name, "float32", error)
        return
    place.write(name, "float32", "standard deviation on the CPU", float(reference.std()))
    for dtype in TOLERANCES:
        try:
            compare(place, name, model, dtype, texts, reference)
        except Exception as error:
            place.failed(name, dtype, error)


def compare(
    place: Place, family: str, model: Model, dtype: str, texts: list[str], reference: FloatArray
) -> None:
    """Values of one family in one precision."""
    spread = float(reference.std())
    metric = model.loaded(place.device, dtype)
    values = utilities(metric, texts)
    error = float(np.abs(values - reference).max()) / spread
    verdict = "ok" if error <= TOLERANCES[dtype] else "TOO FAR"
    place.write(family, dtype, "error", error, "sd", f"{verdict}, bound {TOLERANCES[dtype]}")
    again = np.array_equal(values, utilities(metric, texts))
    place.write(family, dtype, "same batch twice", "equal" if again else "DIFFERENT")
    alone = utilities(metric, texts[:ALONE])
    apart = float(np.abs(values[:ALONE, :ALONE] - alone).max()) / spread
    place.write(family, dtype, "without other texts", apart, "sd")
    best = (values.mean(axis=1).argmax(), reference.mean(axis=1).argmax())
    place.write(family, dtype, "same choice", "yes" if best[0] == best[1] else "no")
