r"""Vote: 1 where the answers of two texts agree, else 0, so that choosing by it is majority voting.

    u(h, r) = 1 if a(h) = a(r), else 0        a: the answer of a text, by `answer`; =: by `agree`

Symmetric. With weights w of pseudo-references the expected utility of a text is the share of its answer,

    mu(h) = sum_{r: a(r) = a(h)} w(r) / sum_r w(r),

which is the vote of self-consistency (Wang et al. 2023), weighted or not, in O(N); of answers with equal shares the one
that comes first wins. A text without an answer agrees with nobody, itself included: it has no vote and wins only where
no text has an answer; the list is flagged ``no-answer``. In `score` against references it is accuracy: 1 where the
answer agrees with that of any reference, which is read as a label: a bare one is the answer, whatever `answer`.
Documents are compared sentence by sentence; where their answers are counted, their sentences are the lines of a text.

Which answers agree is decided by `answers`. With ``answer="auto"`` the texts of a list are read by one rule
(`written_answers.rule_of`), which its row names; a text that is scored by all of them, one after the other. Where
math-verify compares formulas, the signature has its version, as in ``vote(agree="math@0.9.0")``; without a version the
rules are plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Self, cast, get_args

import numpy as np

from ..base import Metric
from ..errors import InputError, unknown
from ..execution.evaluate import lift
from ..representations import Array, Block, FloatArray, IntArray, Reps
from ..scorer import Info, Scorer, WrittenAnswer
from ..spec.checked_settings import settings
from ..text.texts import Comparison, Document, Item, Text
from .answers import Agreement, is_right, keys_of, math_version
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
        agree: exact; casefold; value: as models write answers, with units, formulas, letters of choices, yes and no; or
            math: value, with math-verify for what its plain rules cannot read, as math@VERSION of one version alone. If
            not given, math if it is installed, or else value, for auto, boxed, marked and number; exact for the others.
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
        version=4,
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
        if self.agree and kind not in get_args(Agreement):
            raise unknown("agree", self.agree, get_args(Agreement), where="vote.agree")
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

    def is_right(self, text: Text, labels: Sequence[Text]) -> bool:
        """Whether the answer of a text is one of the right ones, which are labels; errors as `answer_of`."""
        right = cast(VoteScorer, self.scorer).labels_of(labels)
        return is_right(right, self.answer_of(text), self.agreement)

    def keys_of(self, texts: Sequence[Text]) -> list[str | None]:
        """A key for the answer of every text, equal where two agree; errors as `answer_of`."""
        return keys_of(list(map(self.answer_of, texts)), self.agreement)

    def answers_of(self, texts: Sequence[Text]) -> Sequence[WrittenAnswer | None] | None:
        """The answer of every text; None of documents, whose sentences have answers. Errors as `answer_of`."""
        if any(isinstance(text, Document) for text in texts):
            return None
        answers = list(map(self.answer_of, texts))
        keys = keys_of(answers, self.agreement)
        return [
            None if answer is None else WrittenAnswer(answer, str(key))
            for answer, key in zip(answers, keys, strict=True)
        ]

    @property
    def answer_rule(self) -> str:
        """Where the answers stand."""
        return "text" if self.answer == "auto" else self.answer

    def remarks(self, comparison: Comparison) -> tuple[str, ...]:
        """Whether texts have no answer."""
        remarks = []
        for part in lift(self, comparison):
            if None in (self.answer_of(item.text) for item in part.hypotheses):
                remarks.append("no-answer")
            # texts of a list are compared with pseudo-references, a single text with labels
            find: Find = whole if len(part.hypotheses) == 1 else self.answer_of
            is_square = part.references is part.hypotheses
            if not is_square and None in (find(str(item.text)) for item in part.references):
                remarks.append("no-answer-in-reference")
        return tuple(dict.fromkeys(remarks))


class VoteScorer(Scorer):
    """Represents a text by itself and its answer, None where it has none."""

    def __init__(self, metric: Vote) -> None:
        self.info = metric.info
        self._agree = metric.agreement
        self._find: Find = finder(metric.answer, metric.pattern, metric.path)
        self._remembered: Find = lru_cache(REMEMBERED_TEXTS)(self._find)
        self._find_label: Find = of_label if metric.answer in _BY_VALUE else self._find

    def answer_of(self, text: Text) -> str | None:
        """As `Vote.answer_of`."""
        lines = _lines(text)
        find = self._remembered if len(lines) <= REMEMBERED_CHARACTERS else self._find
        return find(lines)

    def labels_of(self, texts: Iterable[Text]) -> list[str]:
        """Right answers: what is found in a label, or else all of it; all of it too where it has several boxes."""
        answers = []
        for label in map(_lines, texts):
            has_boxes = label.count(r"\boxed{") > 1  # math-verify reads all of them
            answers += [self._find_label(label) or whole(label), label if has_boxes else None]
        return [answer for answer in answers if answer is not None]

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Texts and answers, and the lengths of the texts."""
        texts = [item.text for item in items]
        lengths = np.array([len(str(text)) for text in texts], np.int64)
        # documents stay objects
        columns = {"text": texts, "answer": map(self.answer_of, texts)}
        reps = {name: np.fromiter(column, object, len(texts)) for name, column in columns.items()}
        return Reps({**reps}), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Agreement [H, R] of every block."""
        matrices = []
        for block in blocks:
            of_h, of_r = self._numbered(reps["answer"], block)
            is_same = (of_h[:, None] == of_r) & (of_h[:, None] > 0)
            matrices.append(is_same.astype(np.float64))
        return matrices

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Whether every hypothesis agrees with one of the references [H], which are labels."""
        values = []
        for block in blocks:
            right = self.labels_of(reps["text"][block.references])
            answers = reps["answer"][block.hypotheses]
            agrees = [is_right(right, answer, self._agree) for answer in answers]
            values.append(np.array(agrees, np.float64))
        return values

    def expected(
        self, reps: Reps, blocks: Sequence[Block], weights: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """The share of every hypothesis's answer [H], counted once per block."""
        shares = []
        for block, block_weights in zip(blocks, weights, strict=True):
            of_h, of_r = self._numbered(reps["answer"], block)
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

    def _numbered(self, answers: Array, block: Block) -> tuple[IntArray, IntArray]:
        """A number from 1 for every answer of a block, equal where they agree, 0 for none: [H] and [R]."""
        rows = block.references
        if not block.square:
            rows = np.concatenate((rows, block.hypotheses))
        number: dict[str | None, int] = {None: 0}
        keys = keys_of(answers[rows].tolist(), self._agree)
        numbers = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
        of_references = numbers[: len(block.references)]
        return (of_references if block.square else numbers[len(of_references) :]), of_references


def _lines(text: Text) -> str:
    """A text; the sentences of a document as lines."""
    return "\n".join(text.sentences) if isinstance(text, Document) else text
