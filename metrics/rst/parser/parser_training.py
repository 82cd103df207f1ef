"""Trains the discourse parser with torch: first the encoders (tags and EDU boundaries), then the splitters.

The loss of an encoder is the cross-entropy of boundaries plus `TAG_SHARE` of that of tags; of a splitter, the
cross-entropy of the gold split among those of its span and of its label. Tags that a splitter sees are the encoders'
own. Seeded throughout: the same data, versions and machine give the same weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from ...errors import ModelLoadError
from ...representations import Array
from ...spec.checked_settings import settings
from .encoder_training import train_encoders
from .evaluation import report
from .parser import Parser
from .parser_features import Triple, Units, split_numbers
from .splitter_training import Example, train_splitters
from .tagging import Tagger, tagged
from .treebank import Sentence, read_treebank
from .weights import build, packed, unpacked

Count = Annotated[int, Field(ge=1)]


@settings
class ParserTraining:
    """How a parser is trained.

    Args:
        encoders: members of the ensemble that tags and segments.
        encoder_epochs: passes over the training sentences.
        splitters: members of the ensemble that builds trees.
        splitter_epochs: passes over the training nodes.
        tagger: where the tags to learn come from: hanta, none, or auto for hanta if it is installed.
        seed: of all random numbers.
        licence: the licence of the weights, written into the file.
        credit: where the training data comes from, written into the file.
    """

    encoders: Count = 2
    encoder_epochs: Count = 16
    splitters: Count = 3
    splitter_epochs: Count = 6
    tagger: Tagger = "auto"
    seed: int = 1
    licence: str = ""
    credit: str = ""


class Trained(NamedTuple):
    """A trained model, not yet written."""

    arrays: dict[str, Array]
    about: dict[str, Any]  # its "figures" are those on the dev and test documents


def train(
    how: ParserTraining, data: Path, say: Callable[[str], None] = lambda text: None
) -> Trained:
    """Trains on a treebank; `weights.save` writes what comes back.

    Raises:
        InputError: the treebank cannot be read.
        ModelLoadError: torch is not installed.
    """
    _check_torch()
    parts = read_treebank(data)
    gold = tagged([sentence.words for sentence in parts["train"]], how.tagger)
    tags = sorted({tag for some in gold for tag in some})
    say(f"{len(parts['train'])} sentences for training, {len(tags)} tags")
    arrays = train_encoders(how, parts, gold, tags, say)
    labels = Counter(
        (cut.nuc, cut.rel) for sentence in parts["train"] for cut in sentence.cuts.values()
    )
    names = sorted(labels)
    about: dict[str, Any] = {
        "tags": tags,
        "labels": names,
        "licence": how.licence,
        "credit": how.credit,
    }
    blank = {
        "table.split": np.zeros((1 << 15, 1)),
        "split.b": np.zeros(1),
        "split.w": np.zeros((1, 1 + len(names))),
    }
    reader = Parser(
        build(unpacked(packed(arrays | blank | {"split.c": np.zeros(1 + len(names))})), about)
    )
    examples = [
        example for sentence in parts["train"] for example in _examples(reader, sentence, names)
    ]
    say(f"{len(examples)} nodes for training, {len(names)} labels")
    arrays |= train_splitters(how, examples, len(names), say)
    made = Parser(build(unpacked(packed(arrays)), about))
    about["figures"] = {
        split: report(made, parts[split], labels.most_common(1)[0][0]) for split in ("dev", "test")
    }
    return Trained(arrays, about)


def _examples(
    reader: Parser, sentence: Sentence, names: Sequence[tuple[str, str]]
) -> list[Example]:
    """The nodes of a sentence: the features of every way to cut it, the right one, and its label."""
    if not sentence.cuts:
        return []
    tags, _ = reader.segment(sentence.words)
    units = Units([word.lower() for word in sentence.words], tags, sentence.starts)
    return [
        Example(
            [split_numbers(units, Triple(i, k, j)) for k in range(i, j)],
            cut.middle - i,
            names.index((cut.nuc, cut.rel)),
        )
        for (i, j), cut in sentence.cuts.items()
    ]


def _check_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ModelLoadError(
            "training needs torch", where="train rst", fix="pip install torch"
        ) from None
