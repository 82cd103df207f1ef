r"""Vote: 1 where the answers of two texts agree, else 0, so that choosing by it is majority voting.

    u(h, r) = 1 if a(h) = a(r), else 0        a: the answer of a text, by `answer`; =: by `agree`

Symmetric. With weights w of pseudo-references the expected utility of a text is the share of its answer,

    mu(h) = sum_{r: a(r) = a(h)} w(r) / sum_r w(r),

which is the vote of self-consistency (Wang et al. 2023), weighted or not, in O(N); of answers with equal shares the one
that comes first wins. A text without an answer agrees with nobody, itself included: it has no vote and wins only where
no text has an answer; the list is flagged ``no-answer``. In `score` against references it is accuracy: 1 where the
answer agrees with that of any reference, which is read as a label: a bare one is the answer, whatever `answer`.
Documents are compared sentence by sentence; where their answers are counted, their sentences are the lines of a text.

Two answers are one where their keys are equal (`answers`). With ``answer="auto"`` the texts of a list are read by
one rule (`written_answers.rule_of`), which its row tells; a text that is scored by all of them, one after the other.
Where math-verify compares formulas, the signature has its version, as in ``vote(agree="math@0.9.0")``; without a
version the rules are plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Self, cast

import numpy as np

from ..base import Metric
from ..errors import InputError, unknown
from ..execution.evaluate import lift
from ..representations import Array, Block, FloatArray, IntArray, Reps
from ..scorer import Info, Scorer, WrittenAnswer
from ..spec.checked_settings import settings
from ..text.texts import Comparison, Document, Item, Text
from .answers import KEYS, Agreement, math_version
from .written_answers import RULES, Find, Place, Rule, finder, of_label, rule_of, whole

# texts whose answers a scorer remembers, as they are asked for more than once; longer ones are read again
REMEMBERED_TEXTS = 1_024
REMEMBERED_CHARACTERS = 1 << 14
_BY_VALUE = ("auto", "boxed", "marked", "number")


@settings
class Vote(Metric):
    r"""Agreement of the answers in two texts.

    Args:
        answer: where it stands: auto (the first of boxed, marked, number, and of short texts the text, by which most
            texts of a list have one), marked (a box, or what follows "the answer is" and its like), number (these, or
            the last number), boxed (the last ``\boxed{...}``), text (all of it), last-line (that is not blank),
            pattern, or json.
        pattern: a regular expression of the package regex, for answer="pattern": the last match, of which the first
            group. From the command line, from Python or a configuration, not from a file that somebody else wrote.
        path: keys and indexes to a value, for answer="json", such as steps[-1].value.
        agree: exact; casefold; number: by value, and anything else as casefold; value: as models write answers, with
            units, formulas, letters of choices, yes and no; or math: value, with math-verify for what its plain rules
            cannot read, as math@VERSION of one version alone. If not given, math if it is installed, or else value,
            for auto, boxed, marked and number; exact for the others.
    """

    answer: Place = "auto"
    pattern: str | None = None
    path: str | None = None
    agree: str | None = None
    name: ClassVar[str] = "vote"
    info: ClassVar[Info] = Info(
        summary="agreement of extracted answers, for majority voting",
        reasons="answer and reference_answer: the answer of either text, - if it has none",
        papers=("wang2023selfconsistency",),
        bounds=(0, 1),
        symmetric=True,
        linear=True,
        version=3,
    )
    users_own: ClassVar[tuple[str, ...]] = ("pattern",)

    def __post_init__(self) -> None:
        for place, name in (("pattern", "pattern"), ("json", "path")):
            is_needed = self.answer == place
            if is_needed != bool(getattr(self, name)):
                problem = f'answer="{place}" without {name}'
                if not is_needed:
                    problem = f'{name} beside answer="{self.answer}"'
                fix = f'Give {name}="..." with answer="{place}", and with it alone'
                raise InputError(problem, where="vote", fix=fix)
        finder(self.answer, self.pattern, self.path)
        kind, _, wanted = (self.agree or "").partition("@")
        if self.agree and kind not in KEYS:
            raise unknown("agree", self.agree, tuple(KEYS), where="vote.agree")
        installed = math_version()
        if wanted and (kind != "math" or wanted != installed):
            problem = f"agree={self.agree!r}, found math-verify {installed}"
            fix = f'pip install "math-verify=={wanted}", or set agree="math"'
            raise InputError(problem, where="vote", fix=fix)
        if self.agreement == "math" and installed:
            object.__setattr__(self, "agree", f"math@{installed}")

    @property
    def agreement(self) -> Agreement:
        """When answers agree."""
        if self.agree:
            return cast(Agreement, self.agree.partition("@")[0])
        return "math" if self.answer in _BY_VALUE else "exact"

    @property
    def variants(self) -> tuple[Self, ...]:
        """The same by each of the rules that a list may be read by; the last is its own."""
        if self.answer != "auto":
            return ()
        return tuple(self._by(rule) for rule in RULES[:-1])

    def in_list(self, texts: Sequence[Text]) -> Self:
        """The same by the rule that a list of these texts is read by; errors as `answer_of`."""
        if self.answer != "auto":
            return self
        return self._by(rule_of(list(map(_lines, texts))))

    def _by(self, rule: Rule) -> Self:
        return replace(self, answer="auto" if rule == "text" else rule)

    def load(self) -> VoteScorer:
        """The scorer with its search."""
        return VoteScorer(self)

    def answer_of(self, text: Text) -> str | None:
        """The answer of a text, None where it has none.

        Raises:
            DiscorankError: the pattern takes too long, or the text is too long for JSON.
        """
        return cast(VoteScorer, self.scorer).answer_of(text)

    def key_of(self, text: Text, *, is_label: bool = False) -> str | None:
        """A key that equals another text's where their answers agree; None without an answer.

        Args:
            text: a reply, or a right answer.
            is_label: whether it is a right answer, which is never reduced.

        Raises:
            DiscorankError: as `answer_of`.
        """
        scorer = cast(VoteScorer, self.scorer)
        return scorer.key_of_label(text) if is_label else scorer.key_of(text)

    def answers_of(self, texts: Sequence[Text]) -> Sequence[WrittenAnswer | None] | None:
        """The answer of every text; None of documents, whose sentences have answers. Errors as `answer_of`."""
        if any(isinstance(text, Document) for text in texts):
            return None
        answers = map(self.answer_of, texts)
        return [
            shown if shown is None else WrittenAnswer(shown, KEYS[self.agreement](shown))
            for shown in answers
        ]

    @property
    def answer_rule(self) -> str:
        """Where the answers stand."""
        return "text" if self.answer == "auto" else self.answer

    def remarks(self, comparison: Comparison) -> tuple[str, ...]:
        """Whether texts have no answer."""
        remarks = []
        for part in lift(self, comparison):
            if self._lacks_answer(part.hypotheses):
                remarks.append("no-answer")
            is_square = part.references is part.hypotheses
            # else texts of a list, compared with pseudo-references
            are_labels = len(part.hypotheses) == 1
            if not is_square and self._lacks_answer(part.references, are_labels):
                remarks.append("no-answer-in-reference")
        return tuple(dict.fromkeys(remarks))

    def _lacks_answer(self, items: Iterable[Item], are_labels: bool = False) -> bool:
        """Whether one of the items has no answer."""
        return None in (self.key_of(item.text, is_label=are_labels) for item in items)


class VoteScorer(Scorer):
    """Represents a text by itself, its answer and the answer's key, None for both where it has none."""

    def __init__(self, metric: Vote) -> None:
        self.info = metric.info
        self._find: Find = finder(metric.answer, metric.pattern, metric.path)
        self._remembered: Find = lru_cache(REMEMBERED_TEXTS)(self._find)
        self._find_label: Find = of_label if metric.answer in _BY_VALUE else self._find
        self._key = lru_cache(REMEMBERED_TEXTS)(KEYS[metric.agreement])

    def answer_of(self, text: Text) -> str | None:
        """As `Vote.answer_of`."""
        lines = _lines(text)
        find = self._remembered if len(lines) <= REMEMBERED_CHARACTERS else self._find
        return find(lines)

    def key_of_label(self, text: Text) -> str | None:
        """The key of a right answer: of a text in which none is found it is all of the text."""
        lines = _lines(text)
        return self._key_of(self._find_label(lines) or whole(lines))

    def key_of(self, text: Text) -> str | None:
        """The key of a text's answer."""
        return self._key_of(self.answer_of(text))

    def _key_of(self, answer: str | None) -> str | None:
        return None if answer is None else self._key(answer)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Texts, answers and keys, and the lengths of the texts."""
        texts = [item.text for item in items]
        answers = list(map(self.answer_of, texts))
        keys = list(map(self._key_of, answers))
        lengths = np.array([len(str(text)) for text in texts], np.int64)
        reps = {"text": _objects(texts), "answer": _objects(answers), "key": _objects(keys)}
        return Reps({**reps}), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Agreement [H, R] of every block."""
        matrices = []
        for block in blocks:
            of_h, of_r = _numbered(reps["key"], block)
            is_same = (of_h[:, None] == of_r) & (of_h[:, None] > 0)
            matrices.append(is_same.astype(np.float64))
        return matrices

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Whether every hypothesis agrees with one of the references [H], which are labels."""
        values = []
        for block in blocks:
            labels = set(map(self.key_of_label, reps["text"][block.references])) - {None}
            agrees = [key in labels for key in reps["key"][block.hypotheses]]
            values.append(np.array(agrees, np.float64))
        return values

    def expected(
        self, reps: Reps, blocks: Sequence[Block], weights: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """The share of every hypothesis's answer [H], counted once per block."""
        shares = []
        for block, block_weights in zip(blocks, weights, strict=True):
            of_h, of_r = _numbered(reps["key"], block)
            share = np.bincount(of_r, block_weights, minlength=int(of_h.max(initial=0)) + 1)
            share[0] = 0.0
            shares.append(np.asarray(share[of_h], np.float64))
        return shares

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The answers of both texts, null where there is none."""
        answers = reps["answer"]
        return {
            "answer": answers[block.hypotheses[hypothesis]],
            "reference_answer": answers[block.references[reference]],
        }


def _lines(text: Text) -> str:
    """A text; the sentences of a document as lines."""
    return "\n".join(text.sentences) if isinstance(text, Document) else text


def _objects(values: Sequence[Any]) -> Array:
    """A column of objects, which documents stay."""
    column = np.empty(len(values), object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def _numbered(keys: Array, block: Block) -> tuple[IntArray, IntArray]:
    """A number from 1 for every answer of a block, equal where they agree, 0 for none: [H] and [R]."""
    number: dict[str | None, int] = {None: 0}

    def numbers(rows: IntArray) -> IntArray:
        of_rows = [number.setdefault(key, len(number)) for key in keys[rows]]
        return np.array(of_rows, np.int64)

    of_references = numbers(block.references)
    return (of_references if block.square else numbers(block.hypotheses)), of_references
