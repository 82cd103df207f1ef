"""Toy metrics with context, so that choices depend on choices: letters shared with a reference, and new letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from discorank.metrics.base import Metric
from discorank.metrics.errors import InputError
from discorank.metrics.representations import Block, FloatArray, IntArray, Ragged, Reps
from discorank.metrics.scorer import Info, Reading, Scorer
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import Item


@settings
class Echo(Metric):
    """Cosine of letter counts of <context; text>, squared letters of the context weighing more."""

    context: int = 2
    name: ClassVar[str] = "contextual:Echo"
    info: ClassVar[Info] = Info(summary="toy", bounds=(0, 1), symmetric=True)

    @property
    def reads(self) -> Reading:
        return Reading(self.context)

    def load(self) -> EchoScorer:
        return EchoScorer(self.info)


class EchoScorer(Scorer):
    """Represents a text by the letters of it and its context."""

    def __init__(self, info: Info) -> None:
        self.info = info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        if any(item.text == "poison" for item in items):
            raise InputError("found poison", where="text", fix="Leave it out")
        rows = [
            np.frombuffer(f"{''.join(i.context) * 3}{i.text} ".encode(), np.uint8) for i in items
        ]
        letters = Ragged.of_rows(rows)
        return Reps({"letters": letters}), letters.lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        def counts(rows: IntArray) -> FloatArray:
            one = [np.bincount(reps["letters"][row[None]].values, minlength=256) for row in rows]
            scaled: FloatArray = (
                np.array(one, float) / np.array([np.linalg.norm(c) for c in one])[:, None]
            )
            return scaled

        matrices = []
        for block in blocks:
            h, r = counts(block.hypotheses), counts(block.references)
            matrices.append(np.array([[float((x * y).sum()) for y in r] for x in h]))
        return matrices


class NewLettersScorer(Scorer):
    """Counts letters of a text that its context does not have; remembers what it was asked."""

    def __init__(self, metric: NewLetters) -> None:
        self.info = metric.info
        self.asked: list[Item] = []

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        self.asked += items
        counts = [len(set(str(item.text)) - set("".join(item.context))) for item in items]
        return Reps({"count": np.array(counts, float)}), np.ones(len(items), np.int64)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        return [reps["count"][block.hypotheses][:, None] for block in blocks]


@settings
class NewLetters(Metric):
    """Reference-free, with context: letters that the context does not have."""

    context: int = 0
    name: ClassVar[str] = "contextual:NewLetters"
    info: ClassVar[Info] = Info(summary="toy", needs_references=False)

    @property
    def reads(self) -> Reading:
        return Reading(self.context, "hypothesis")

    def load(self) -> NewLettersScorer:
        return NewLettersScorer(self)
