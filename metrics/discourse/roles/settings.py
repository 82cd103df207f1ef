"""The settings of training a classifier of discourse roles."""

from __future__ import annotations

from typing import Annotated

from ...spec.checked_settings import Field, settings
from .schemas import Schema


@settings
class RoleTraining:
    """How a classifier is trained.

    Args:
        schema: the roles: news, lfqa, recipes, or the names of your own.
        encoder: the encoder: minilm (English), a folder or a name on the hub.
        place: frozen: whether the place of a sentence in its document is told.
        fine_tune: train the whole encoder, not a linear layer over its frozen vectors.
        epochs: fine-tuning: rounds over the data.
        learning_rate: fine-tuning: its highest value; it rises for a tenth of the steps, then falls to 0.
        batch_sentences: fine-tuning: sentences in one step.
        max_tokens: the longest sentence read, in tokens; the encoder's own limit if not given.
        seed: fine-tuning: of the new layer and the order of sentences.
    """

    schema: tuple[str, ...] = ("news",)
    encoder: str = "minilm"
    place: bool = True
    fine_tune: bool = False
    epochs: Annotated[int, Field(ge=1)] = 3
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    batch_sentences: Annotated[int, Field(ge=1)] = 16
    max_tokens: Annotated[int, Field(ge=8)] | None = None
    seed: int = 0

    @property
    def roles(self) -> Schema:
        """The roles, none left out."""
        return Schema.of(self.schema[0] if len(self.schema) == 1 else self.schema, ())
