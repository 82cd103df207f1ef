"""Names of models that people give where the name of a metric belongs, and the metric that reads each.

Models are known by their names alone: nothing is looked up or loaded.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .spec.signature import call


class ModelFamily(NamedTuple):
    """Models of one kind: the pattern of their names without owner, the metric, and the owner on the hub."""

    pattern: re.Pattern[str]
    metric: str
    owner: str = ""


def _family(pattern: str, metric: str, owner: str = "") -> ModelFamily:
    return ModelFamily(re.compile(pattern, re.IGNORECASE), metric, owner)


# the first that fits counts
FAMILIES = (
    _family(r"xcomet[\w.-]*", "xcomet", "Unbabel"),
    _family(r"[\w.-]*(comet-?qe|cometkiwi)[\w.-]*", "comet-qe", "Unbabel"),
    _family(r"[\w.-]*comet-(da|mqm|stinkyboi)[\w.-]*", "comet", "Unbabel"),
    _family(r"metricx-[\w.-]*qe[\w.-]*", "metricx-qe", "google"),
    _family(r"metricx-[\w.-]+", "metricx", "google"),
    _family(r"bleurt-[\w.-]+", "bleurt", "lucadiliello"),
    _family(r"sescore2_[\w.-]+", "sescore2", "xu1998hz"),
    _family(r"bart-(base|large)[\w.-]*", "bartscore", "facebook"),
    _family(r"mbart-[\w.-]+", "prism", "facebook"),
    _family(r"minilm", "bertscore"),
    _family(r"((xlm-)?roberta|deberta|bert)-[\w.-]+", "bertscore"),
    _family(r"labse|all-minilm-[\w.-]+|paraphrase-[\w.-]+", "embedding", "sentence-transformers"),
    _family(r"smollm2[\w.-]*", "lm"),
    _family(r"(gpt2|qwen|llama|gemma|mistral)[\w.-]*", "lm"),
)


def metric_of_model(name: str) -> str | None:
    """The signature that scores with the model of this name; None where the name is no model's that is known.

    >>> metric_of_model("wmt22-comet-da")
    'comet(model="Unbabel/wmt22-comet-da")'
    """
    owner, _, own_name = name.rpartition("/")
    for family in FAMILIES:
        if family.pattern.fullmatch(own_name):
            owner = owner or family.owner
            model = f"{owner}/{own_name}" if owner else own_name
            return call(family.metric, {"model": model})
    return None
