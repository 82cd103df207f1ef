"""The settings of training a discourse parser."""

from __future__ import annotations

from typing import Annotated

from ....spec.checked_settings import Field, settings
from .treebank import Tagger

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
