"""Where the discourse roles of a text's sentences come from: the document itself, or a sentence classifier.

Without `model` every document brings its roles, `Document(sentences, roles=[...])`. With it the classifier labels every
text, those that bring roles included: errors that both sides share cancel, while mixed labels would hide what PDD
measures. Either way both sides of a comparison are labelled alike.

Roles are ordered lists of names; the number of a role is its index in the list. Three lists come with discorank:
``news`` (Choubey et al. 2020, names as in the PDD paper, and NA for what is no part of the article), ``lfqa`` (Xu et
al. 2022) and ``recipes`` (Liu et al. 2022). Which number a role has changes no value.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar, NamedTuple, Self

import numpy as np

from ...errors import InputError, excerpt, unknown
from ...neural.models.files import model_files as files
from ...neural.models.settings import ModelMetric
from ...representations import TRUNCATION_COLUMN, Array, Block, FloatArray, IntArray, Ragged, Reps
from ...scorer import Scorer
from ...spec.checked_settings import settings
from ...spec.user_code import identity
from ...text.sentence_splitting import splitter
from ...text.texts import Document, Item, Text
from .classifier import Classifier, load_classifier

SCHEMAS: Mapping[str, tuple[str, ...]] = {
    "news": (
        "Main Event",
        "Consequence",
        "Previous Event",
        "Current Context",
        "Historical Event",
        "Anecdotal Event",
        "Journalist Evaluation",
        "Future Consequences",
        "NA",
    ),
    "lfqa": (
        "Organizational sentence",
        "Answer (Summary)",
        "Answer",
        "Answer - Example",
        "Auxiliary Information",
        "Miscellaneous",
    ),
    "recipes": (
        "general",
        "pre-processing",
        "mixing",
        "transferring",
        "cooking",
        "post-processing",
        "final",
    ),
}
NO_ROLE = "NA"  # left out by default where a list has it
MAX_ROLES = 64  # without a schema
SchemaSpec = str | int | tuple[str, ...]


class Schema(NamedTuple):
    """The names of roles, and the numbers of those whose sentences are left out."""

    names: tuple[str, ...]
    dropped: frozenset[int] = frozenset()
    open: bool = False  # numbers are roles of their own, whatever they are

    @classmethod
    def of(cls, spec: SchemaSpec, drop: Sequence[str] | None = None) -> Self:
        """The schema of a known name, of a list of names, or of a number of roles without names.

        Args:
            spec: ``"news"``, ``("claim", "evidence")`` or 7.
            drop: roles whose sentences are left out; NA, where there is such a role, if not given.

        Raises:
            InputError: an unknown name, names that repeat, or none.
        """
        names = named(spec)
        if drop is None:
            drop = [NO_ROLE] if NO_ROLE in names else []
        for name in drop:
            if name not in names:
                raise unknown("role", name, names, where="drop")
        return cls(names, frozenset(map(names.index, drop)))

    @property
    def size(self) -> int:
        """The number of role numbers there may be."""
        return MAX_ROLES if self.open else len(self.names)

    def name(self, number: int) -> str:
        """The name of a role, or its number where it has none."""
        return self.names[number] if number < len(self.names) else str(number)

    @property
    def kept(self) -> int:
        """The number of roles that are not left out."""
        return len(self.names) - len(self.dropped)

    def numbers(self, roles: Sequence[int | str]) -> IntArray:
        """The numbers of roles given as numbers or names, without those left out.

        Raises:
            InputError: a role that the schema does not have.
        """
        numbers = []
        for i, role in enumerate(roles):
            number = self._number(role, i)
            own_number = self.open and isinstance(role, int)
            if own_number or number not in self.dropped:
                numbers.append(number)
        return np.array(numbers, np.int64)

    def _number(self, role: int | str, place: int) -> int:
        """The number of a role given as a number or name; `place` is that of its sentence, for errors."""
        if isinstance(role, str):
            if role not in self.names:
                raise unknown("role", role, self.names, where=f"roles[{place}]")
            return self.names.index(role)
        if not 0 <= role < self.size:
            fix = f"Roles are numbers 0 to {self.size - 1} or names; set schema=... to other roles"
            raise InputError(f"found {role}", where=f"roles[{place}]", fix=fix)
        return int(role)


def named(spec: SchemaSpec) -> tuple[str, ...]:
    """The names of a schema.

    >>> named(2)
    ('0', '1')

    Raises:
        InputError: an unknown name, names that repeat, or none.
    """
    if isinstance(spec, str):
        if spec not in SCHEMAS:
            raise unknown("schema", spec, SCHEMAS, where="schema")
        return SCHEMAS[spec]
    names = tuple(map(str, range(spec))) if isinstance(spec, int) else tuple(spec)
    if not names or len(set(names)) < len(names):
        fix = "Give one or more names, each once"
        raise InputError(f"found {excerpt(spec)}", where="schema", fix=fix)
    return names


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
    counts_passes: ClassVar[bool] = False
    schema: SchemaSpec | None = None
    drop: tuple[str, ...] | None = None
    sentences: str = "rule"
    encoder_path: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schema is not None or not self.model:
            _ = self.roles  # a broken schema is reported now
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
        folder = files.locate(self.named("model"), self.revision)
        classifier = load_classifier(
            folder,
            self.device,
            self.dtype,
            self.encoder_path,
            self.max_tokens,
        )
        encoder = classifier.encoder
        encoder.batch_tokens = self.batch_tokens or encoder.batch_tokens
        return classifier


class RoleScorer(Scorer):
    """Represents a text by the roles of its sentences, numbers of the schema."""

    def __init__(self, metric: RoleMetric) -> None:
        self.info = metric.info
        self.metric = metric
        self.classifier = metric.classifier() if metric.model else None
        if self.classifier is None:
            self.schema = metric.roles
            self.identity = f"{metric.signature()} {self.info.version}"
            return
        names = self.classifier.names
        self.schema = Schema.of(names, metric.drop) if metric.schema is None else metric.roles
        self.role_of_label = _roles_of_labels(names, self.schema, metric)  # [labels]
        self.split = splitter(metric.sentences)
        encoder = self.classifier.encoder
        self.batch_tokens = encoder.batch_tokens
        self.identity = f"{metric.identity(encoder.device)} {identity(metric.sentences)}"

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The roles that documents bring, or the token ids of their sentences.

        Raises:
            InputError: a text brings no roles and there is no classifier, or a role is none of the schema.
        """
        if self.classifier is None:
            roles = Ragged.of_rows([_roles_of_document(item.text, self.schema) for item in items])
            return Reps({"roles": roles}), roles.lengths
        texts = [self._sentences(item.text) for item in items]
        sentences = [Item(sentence) for text in texts for sentence in text]
        counts = np.array([len(text) for text in texts], np.int64)
        read = self.classifier.reader.read(sentences)
        sentence_tokens = read["ids"].lengths  # [sentences]
        # of the sentences of a text: the sum of their lengths, and the worst truncation
        owner = np.repeat(np.arange(len(items)), counts)
        text_tokens = np.bincount(owner, sentence_tokens, len(items)).astype(np.int64)
        truncation = np.zeros(len(items), np.int64)
        np.maximum.at(truncation, owner, read[TRUNCATION_COLUMN])
        columns: dict[str, Array | Ragged] = {
            "tokens": Ragged.of_lengths(read["ids"].values.astype(np.int64), text_tokens),
            "sentences": Ragged.of_lengths(sentence_tokens, counts),
            TRUNCATION_COLUMN: truncation,
        }
        return Reps(columns), text_tokens

    def _sentences(self, text: Text) -> list[str]:
        """The sentences that are labelled: those that are not blank."""
        sentences = text.sentences if isinstance(text, Document) else self.split(text)
        return [sentence for sentence in sentences if sentence.strip()]

    def represent(self, prepared: Reps) -> Reps:
        """The roles of every text, those left out apart: "roles", a row of numbers per text."""
        if self.classifier is None:
            return prepared
        sentences: Ragged = prepared["sentences"]
        ids = Ragged.of_lengths(prepared["tokens"].values, sentences.values)
        labels = np.empty(0, np.int64)
        if len(ids):
            labels = self.classifier.labels(ids, sentences.lengths)
        roles = self.role_of_label[labels]
        counted = ~np.isin(roles, list(self.schema.dropped))
        owner = np.repeat(np.arange(len(prepared)), sentences.lengths)
        counts = np.bincount(owner[counted], minlength=len(prepared))
        return Reps({"roles": Ragged.of_lengths(roles[counted], counts)})

    def expected(
        self,
        reps: Reps,
        blocks: Sequence[Block],
        weights: Sequence[FloatArray],
    ) -> list[FloatArray]:
        """Mean values [H] of every block under weights [R]: exact, in time linear in H + R."""
        return [self._expected(reps["roles"], b, w) for b, w in zip(blocks, weights, strict=True)]

    @abstractmethod
    def _expected(self, roles: Ragged, block: Block, weights: FloatArray) -> FloatArray:
        """Mean values [H] of one block under weights [R]."""


def _roles_of_document(text: Text, schema: Schema) -> IntArray:
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


def _roles_of_labels(
    names: Sequence[str],
    schema: Schema,
    metric: RoleMetric,
) -> IntArray:
    """The number in the schema of every label of a classifier, [labels].

    Raises:
        InputError: a label that is none of the schema.
    """
    where = f"schema of {metric.model}"
    unnamed = all(name == f"LABEL_{i}" for i, name in enumerate(names))
    if unnamed or isinstance(metric.schema, int):
        if len(names) == len(schema.names):
            return np.arange(len(names))
        problem = f"{len(names)} labels for {len(schema.names)} roles"
        raise InputError(problem, where=where, fix="Give a schema of as many roles")
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        fix = f"Leave schema out, or give names that include {', '.join(names)}"
        raise InputError(f"the classifier has the role {unknown[0]!r}", where=where, fix=fix)
    return np.array([schema.names.index(name) for name in names])
