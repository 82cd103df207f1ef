"""What may differ between two runs of the same command: times, and what depends on them."""

from __future__ import annotations

import re
from typing import NamedTuple

SHOWN = "shown"  # stands for stdout and stderr, where other outputs have the name of a file


class Variation(NamedTuple):
    """Something that may differ.

    Args:
        where: `SHOWN`, or how the names of files end that hold it.
        pattern: what it looks like.
        replacement: what is compared in its place.
        reason: why it may differ.
    """

    where: str
    pattern: bytes
    replacement: bytes
    reason: str


VARYING = (
    Variation(
        SHOWN,
        rb"(?m)^ *[\d.]+[kMG]?/([\d.]+[kMG]?|\?) "
        rb"(lists|items|documents|draws|texts|steps) \[.*\]\n",
        b"",
        "progress is shown by the clock: after half a second, then every ten seconds",
    ),
    Variation(
        SHOWN,
        rb"(?m)^[\d,]+ texts represented.* in [\d.]+ s.*\n"
        rb"((seconds|this process|driver|actor \d+|all actors) .*\n)+",
        b"",
        "the table of where the time went is shown after ten seconds, and holds times",
    ),
    Variation(
        SHOWN,
        rb"(?m)^CPU seconds of this process: .*\n",
        b"",
        "the CPU seconds of a run are shown after ten seconds",
    ),
    Variation(
        SHOWN,
        rb" tokens \([\d.]+/s\)",
        b" tokens",
        "tokens a second of a generator",
    ),
    Variation(
        ".run.json",
        rb'(?s)"workers": \[\n.*?\n  \]',
        b'"workers": SOME',
        "which list goes to which actor of Ray is chance; the sums over all actors are compared",
    ),
    Variation(
        ".run.json",
        rb'"((?:busy_|loaded_)?seconds|read|prepare|represent|cache|compare|choose|write)"'
        rb": [\d.e-]+(?=,?\n)",
        rb'"\1": TIME',
        "seconds that a run took, whole and by stage",
    ),
    Variation(
        ".run.json",
        rb'"checksum": "[0-9a-f]+"',
        b'"checksum": SOME',
        "the checksum of the run file covers its times",
    ),
)


def without_varying(name: str, data: bytes) -> bytes:
    """What was shown, or a file of this name, without what may differ."""
    for variation in VARYING:
        if name.endswith(variation.where):
            data = re.sub(variation.pattern, variation.replacement, data)
    return data
