"""Trains the discourse parser with torch: first the encoders (tags and EDU boundaries), then the splitters.

The loss of an encoder is the cross-entropy of boundaries plus `TAG_SHARE` of that of tags; of a splitter, the
cross-entropy of the gold split among those of its span and of its label. Tags that a splitter sees are the encoders'
own. Seeded throughout: the same data, versions and machine give the same weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....optional_packages import require
from ....representations import Array
from ..parser import Parser
from ..parser_features import SPLIT_ROWS, Triple, Units, split_numbers
from ..weights import build, packed, unpacked
from .encoder_training import train_encoders
from .evaluation import report
from .settings import ParserTraining
from .splitter_training import Example, train_splitters
from .treebank import Sentence, read_treebank, tagged

Label = tuple[str, str]  # nuclearity, relation


class Trained(NamedTuple):
    """A trained model, not yet written."""

    arrays: dict[str, Array]
    about: dict[str, Any]  # its "figures" are those on the dev and test documents


def train(
    settings: ParserTraining,
    data: Path,
    say: Callable[[str], None] = lambda text: None,
) -> Trained:
    """Trains on a treebank; `weights.save` writes what comes back.

    Raises:
        InputError: the treebank cannot be read.
        ModelLoadError: torch is not installed.
    """
    require("train rst", "torch")
    parts = read_treebank(data)
    sentences = parts["train"]
    # encoders: tags and EDU boundaries
    gold_tags = tagged([sentence.words for sentence in sentences], settings.tagger)
    tags = sorted({tag for sentence_tags in gold_tags for tag in sentence_tags})
    say(f"{len(sentences)} sentences for training, {len(tags)} tags")
    arrays = train_encoders(settings, sentences, gold_tags, tags, say)
    # splitters: trees over gold EDUs, with the tags that the encoders give
    label_counts = _label_counts(sentences)
    labels = sorted(label_counts)
    about: dict[str, Any] = {
        "tags": tags,
        "labels": labels,
        "licence": settings.licence,
        "credit": settings.credit,
    }
    tagger = _parser(arrays | _blank_splitter(len(labels)), about)
    examples: list[Example] = []
    for sentence in sentences:
        examples += _examples(tagger, sentence, labels)
    say(f"{len(examples)} nodes for training, {len(labels)} labels")
    arrays |= train_splitters(settings, examples, len(labels), say)
    # how good it is
    parser = _parser(arrays, about)
    most_common = label_counts.most_common(1)[0][0]
    about["figures"] = {
        split: report(parser, parts[split], most_common) for split in ("dev", "test")
    }
    return Trained(arrays, about)


def _label_counts(sentences: Sequence[Sentence]) -> Counter[Label]:
    counts: Counter[Label] = Counter()
    for sentence in sentences:
        counts.update((cut.nuc, cut.rel) for cut in sentence.cuts.values())
    return counts


def _parser(arrays: Mapping[str, Array], about: Mapping[str, Any]) -> Parser:
    """The parser as it will be read back, with weights of few bits."""
    return Parser(build(unpacked(packed(arrays)), about))


def _blank_splitter(num_labels: int) -> dict[str, Array]:
    """The weights of a splitter that knows nothing."""
    return {
        "table.split": np.zeros((SPLIT_ROWS, 1)),
        "split.b": np.zeros(1),
        "split.w": np.zeros((1, 1 + num_labels)),
        "split.c": np.zeros(1 + num_labels),
    }


def _examples(tagger: Parser, sentence: Sentence, labels: Sequence[Label]) -> list[Example]:
    """The nodes of a sentence: the features of every way to cut it, the right one, and its label."""
    if not sentence.cuts:
        return []
    tags, _ = tagger.segment(sentence.words)
    lowered = [word.lower() for word in sentence.words]
    units = Units(lowered, tags, sentence.starts)
    examples = []
    for (i, j), cut in sentence.cuts.items():
        splits = [split_numbers(units, Triple(i, k, j)) for k in range(i, j)]
        label = labels.index((cut.nuc, cut.rel))
        examples.append(Example(splits, cut.middle - i, label))
    return examples
