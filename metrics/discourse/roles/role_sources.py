"""Where the discourse roles of a text's sentences come from: the document itself, or a sentence classifier.

Without `model` every document brings its roles, `Document(sentences, roles=[...])`. With it the classifier labels every
text, those that bring roles included: errors that both sides share cancel, while mixed labels would hide what PDD
measures. Either way both sides of a comparison are labelled alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...errors import InputError, excerpt
from ...neural.models import model_files as files
from ...neural.models.settings import ModelMetric
from ...representations import TRUNCATION_COLUMN, IntArray, Ragged, Reps
from ...scorer import Scorer
from ...spec.checked_settings import settings
from ...spec.user_functions import identity
from ...text.sentence_splitting import splitter
from ...text.texts import Document, Item, Text
from .schemas import Schema, SchemaSpec

if TYPE_CHECKING:
    from .classifier import Classifier

DEFAULT_SCHEMA = "news"


@settings
class RoleMetric(ModelMetric):
    """A metric of discourse roles.

    Args:
        model: a sentence classifier: a folder that `discorank train roles` made, or that of a transformers model for
            sequence classification; without one, documents bring their roles.
        schema: the roles: news, lfqa, recipes, a list of names, or a number of roles without names. Default: those of
            the classifier, else names of news, or any numbers.
        drop: roles whose sentences are left out before anything is counted. Default: NA, where there is such a role.
        sentences: how plain texts are split for the classifier: rule, pysbd:LANGUAGE, or module:function.
        encoder_path: the encoder of a classifier that was trained on a frozen one, if it is no longer where it was.
    """

    default_model: ClassVar[str | None] = None
    schema: SchemaSpec | None = None
    drop: tuple[str, ...] | None = None
    sentences: str = "rule"
    encoder_path: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schema is not None or not self.model:
            _ = self.roles  # a broken schema is told now
        splitter(self.sentences)

    @property
    def roles(self) -> Schema:
        """The schema of roles that documents bring, or that a classifier must have."""
        if self.schema is None:
            return Schema.of(DEFAULT_SCHEMA, self.drop)._replace(open=self.drop is None)
        return Schema.of(self.schema, self.drop)

    def classifier(self) -> Classifier:
        """The classifier, loaded.

        Raises:
            ModelLoadError: the folder is no classifier.
        """
        from .classifier import load_classifier

        folder = files.locate(self.named("model"), self.revision)
        found = load_classifier(folder, self.device, self.dtype, self.encoder_path, self.max_tokens)
        found.encoder.batch_tokens = self.batch_tokens or found.encoder.batch_tokens
        return found


class RoleScorer(Scorer):
    """Represents a text by the roles of its sentences, numbers of the schema."""

    def __init__(self, metric: RoleMetric) -> None:
        self.info, self.metric = metric.info, metric
        self.classifier = metric.classifier() if metric.model else None
        if self.classifier is None:
            self.schema = metric.roles
            self.identity = f"{metric.signature()} {self.info.version}"
            return
        names = self.classifier.names
        self.schema = Schema.of(names, metric.drop) if metric.schema is None else metric.roles
        self.number = _numbers(names, self.schema, metric)
        self.split = splitter(metric.sentences)
        self.batch_tokens = self.classifier.encoder.batch_tokens
        self.identity = (
            f"{metric.identity(self.classifier.encoder.device)} {identity(metric.sentences)}"
        )

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The roles that documents bring, or the token ids of their sentences.

        Raises:
            InputError: a text brings no roles and there is no classifier, or a role is none of the schema.
        """
        if self.classifier is None:
            roles = Ragged.of_rows([_given(item.text, self.schema) for item in items])
            return Reps({"roles": roles}), roles.lengths
        texts = [self._sentences(item.text) for item in items]
        read = self.classifier.reader.read([Item(sentence) for some in texts for sentence in some])
        each = np.array([len(some) for some in texts], np.int64)
        tokens = read["ids"].lengths
        whose = np.repeat(np.arange(len(items)), each)
        lengths = np.bincount(whose, tokens, len(items)).astype(np.int64)
        truncation = np.zeros(len(items), np.int64)
        np.maximum.at(truncation, whose, read[TRUNCATION_COLUMN])
        columns = {"tokens": Ragged.of_lengths(read["ids"].values.astype(np.int64), lengths)}
        return Reps(
            {**columns, "sentences": Ragged.of_lengths(tokens, each), TRUNCATION_COLUMN: truncation}
        ), lengths

    def _sentences(self, text: Text) -> list[str]:
        """The sentences that are labelled: those that are not blank."""
        found = text.sentences if isinstance(text, Document) else self.split(text)
        return [sentence for sentence in found if sentence.strip()]

    def represent(self, prepared: Reps) -> Reps:
        """The roles of every text, those left out apart: "roles", a row of numbers per text."""
        if self.classifier is None:
            return prepared
        sentences: Ragged = prepared["sentences"]
        ids = Ragged.of_lengths(prepared["tokens"].values, sentences.values)
        labels = (
            self.classifier.labels(ids, sentences.lengths) if len(ids) else np.empty(0, np.int64)
        )
        found = self.number[labels]
        kept = ~np.isin(found, list(self.schema.dropped))
        whose = np.repeat(np.arange(len(prepared)), sentences.lengths)
        return Reps(
            {
                "roles": Ragged.of_lengths(
                    found[kept], np.bincount(whose[kept], minlength=len(prepared))
                )
            }
        )


def _given(text: Text, schema: Schema) -> IntArray:
    """The roles that a text brings; an empty text has none."""
    if isinstance(text, Document) and text.roles is not None:
        try:
            return schema.numbers(text.roles)
        except InputError as error:
            raise error.inside(f"document {text.id}" if text.id else excerpt(str(text))) from None
    if not str(text).strip():
        return np.empty(0, np.int64)
    fix = "Give Document(sentences, roles=[...]), or a classifier: model=FOLDER (see discorank train roles)"
    raise InputError(f"{excerpt(str(text))} has no roles", where="roles", fix=fix)


def _numbers(names: Sequence[str], schema: Schema, metric: RoleMetric) -> IntArray:
    """The number in the schema of every label of a classifier, [labels].

    Raises:
        InputError: a label that is none of the schema.
    """
    if isinstance(metric.schema, int) or all(name == f"LABEL_{i}" for i, name in enumerate(names)):
        if len(names) == len(schema.names):
            return np.arange(len(names))
        found = f"{len(names)} labels for {len(schema.names)} roles"
        raise InputError(
            found, where=f"schema of {metric.model}", fix="Give a schema of as many roles"
        )
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        fix = f"Leave schema out, or give names that include {', '.join(names)}"
        raise InputError(
            f"the classifier has the role {unknown[0]!r}",
            where=f"schema of {metric.model}",
            fix=fix,
        )
    return np.array([schema.names.index(name) for name in names])
