"""``discorank train rst|roles|sescore2|...``: makes a model from data.

`train_metrics` trains what metrics compute with, `train_weights` what follows from people's judgements.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ....metrics.errors import unknown
from ...terminal.argument_parser import PrintableParser

KINDS = {
    "rst": "a discourse parser from a treebank",
    "roles": "a classifier of discourse roles from labelled sentences",
    "sescore2": "the metric sescore2 from texts, without ratings",
    "combination": "a weighted combination of metrics from human preferences",
    "prior": "how many errors each of several systems makes, from human judgements",
}
_OF_WEIGHTS = ("combination", "prior")


def run(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    if arguments and arguments[0] in KINDS:
        kind = arguments[0]
        name = "train_weights" if kind in _OF_WEIGHTS else "train_metrics"
        module: Any = import_module(f".{name}", __package__)
        return int(getattr(module, kind).run(arguments[1:]))
    kinds = "\n".join(f"  {name:<11}  {about}" for name, about in KINDS.items())
    parser = PrintableParser(
        "discorank train",
        description=f"Make a model from data.\n\nkinds:\n{kinds}",
        epilog="discorank train KIND --help tells more; all take --config, --set and --print-config.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", nargs="?", help=argparse.SUPPRESS)
    known, _ = parser.parse_known_args(list(arguments))
    if known.kind:
        raise unknown("kind", known.kind, KINDS, where="discorank train")
    parser.parse_known(arguments)
    return parser.error(f"a kind is needed: {', '.join(KINDS)}")
