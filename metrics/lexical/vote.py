r"""Vote: 1 where the answers of two texts agree, else 0, so that choosing by it is majority voting.

    u(h, r) = 1 if a(h) = a(r), else 0        a: the answer of a text, `answers`; =: by `agree`

Symmetric. With weights w of pseudo-references the expected utility of a text is the share of its answer,

    mu(h) = sum_{r: a(r) = a(h)} w(r) / sum_r w(r),

which is the vote of self-consistency (Wang et al. 2023), weighted or not, in O(N); of answers with equal shares the one
that comes first wins. A text without an answer agrees with nobody, itself included: it has no vote and wins only where
no text has an answer; the list is flagged ``no-answer``. In `score` against references it is accuracy: 1 where the
answer agrees with that of any reference. Documents are compared sentence by sentence; where their answers are counted,
their sentences are the lines of a text.

Two answers are one where their keys are equal:

* exact: the answer itself.
* casefold: the answer without regard to case, as Unicode folds it.
* number: numbers by their exact value, anything else as casefold. 1,000 = 1000.0 = 1e3; 50% = 0.5 = 1/2 =
  ``\frac{1}{2}``, and 50% is not 50. A sign of dollars, euros or pounds before it, the ``$`` of LaTeX around it and a
  full stop behind it do not count. A comma stands between thousands, never before decimals: 1,5 is no number. Nor are
  units (5 km), mixed numbers (1 1/2), or what has more than 400 characters or an exponent beyond 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, cast

import numpy as np

from ..base import Metric
from ..errors import InputError
from ..execution.by_sentence import lift
from ..representations import Array, Block, FloatArray, IntArray, Reps
from ..scorer import Info, Scorer
from ..spec.checked_settings import settings
from ..text.texts import Comparison, Document, Item, Text
from .answers import Find, Place, finder

Agreement = Literal["exact", "casefold", "number"]

MAX_CHARACTERS, MAX_EXPONENT = 400, 400
_DECIMAL = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[+-]?\d{{1,3}}))?", re.ASCII
)
_LATEX_FRACTION = re.compile(r"([+-]?)\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_LATEX_SPACES = re.compile(r"\\[,!; ]|\{,\}")


def _exact(answer: str) -> str:
    return answer


def number_key(answer: str) -> str:
    r"""The value of a number as a reduced fraction after ``#``, the folded text of anything else after ``'``.

    >>> number_key("1,000"), number_key(r"$\frac{2}{4}$"), number_key("50 %"), number_key("Paris")
    ('#1000', '#1/2', '#1/2', "'paris")
    """
    value = number(answer)
    return f"'{answer.casefold()}" if value is None else f"#{value}"


KEYS: Mapping[Agreement, Callable[[str], str]] = {
    "exact": _exact,
    "casefold": str.casefold,
    "number": number_key,
}


def number(answer: str) -> Fraction | None:
    """The exact value of an answer; None where it is no number."""
    if len(answer) > MAX_CHARACTERS:
        return None
    text = _bare(answer)
    is_percent = text.endswith("%")
    text = text.removesuffix("%").removesuffix("\\").strip()
    latex = _LATEX_FRACTION.fullmatch(text)
    if latex:
        value = _quotient(latex[1] + latex[2].strip(), latex[3])
    elif "/" in text:
        value = _quotient(*text.split("/", 1))
    else:
        value = _decimal(text)
    return value / 100 if value is not None and is_percent else value


def _bare(answer: str) -> str:
    """An answer without the marks around a number."""
    text = answer.replace("\u2212", "-").strip()
    text = _LATEX_SPACES.sub(lambda match: "," if match[0] == "{,}" else "", text)
    text = text.removesuffix(".").strip()
    if len(text) > 1 and text[0] == text[-1] == "$":
        text = text.strip("$").strip()
    return text.removeprefix("\\$").lstrip("$€£").strip()


def _quotient(above: str, below: str) -> Fraction | None:
    numerator, denominator = _decimal(above.strip()), _decimal(below.strip())
    return numerator / denominator if numerator is not None and denominator else None


def _decimal(text: str) -> Fraction | None:
    """A number written with digits, a point and an exponent."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    decimal = match["decimal"].replace(",", "")
    size = (
        Fraction(decimal if not decimal.endswith(".") else decimal[:-1]) * Fraction(10) ** exponent
    )
    return -size if match["sign"] == "-" else size


# texts whose answers a scorer remembers, as they are asked for more than once; longer ones are read again
REMEMBERED_TEXTS = 1_024
REMEMBERED_CHARACTERS = 1 << 14


@settings
class Vote(Metric):
    r"""Agreement of the answers in two texts.

    Args:
        answer: where it stands: text (all of it), last-line (that is not blank), boxed (the last ``\boxed{...}``),
            pattern, or json.
        pattern: a regular expression of the package regex, for answer="pattern": the last match, of which the first
            group. From the command line, from Python or a configuration, not from a file that somebody else wrote.
        path: keys and indexes to a value, for answer="json", such as steps[-1].value.
        agree: exact, casefold, or number: by value, and anything else as casefold.
    """

    answer: Place = "text"
    pattern: str | None = None
    path: str | None = None
    agree: Agreement = "exact"
    name: ClassVar[str] = "vote"
    info: ClassVar[Info] = Info(
        summary="agreement of extracted answers, for majority voting",
        reasons=(
            "answer and reference_answer: what was taken for the answer of either text, - where there is none"
        ),
        papers=("wang2023selfconsistency",),
        bounds=(0, 1),
        symmetric=True,
        linear=True,
    )
    users_own: ClassVar[tuple[str, ...]] = ("pattern",)

    def __post_init__(self) -> None:
        for place, setting in (("pattern", self.pattern), ("json", self.path)):
            name = "path" if place == "json" else place
            if self.answer == place and not setting:
                fix = f'Give {name}="..."'
                raise InputError(f'answer="{place}" without {name}', where="vote", fix=fix)
            if self.answer != place and setting is not None:
                fix = f'Set answer="{place}"'
                raise InputError(f'{name} beside answer="{self.answer}"', where="vote", fix=fix)
        finder(self.answer, self.pattern, self.path)

    def load(self) -> VoteScorer:
        """The scorer with its search."""
        return VoteScorer(self)

    def answer_of(self, text: Text) -> str | None:
        """The answer of a text, None where it has none.

        Raises:
            DiscorankError: the pattern takes too long, or the text is too long for JSON.
        """
        return cast(VoteScorer, self.scorer).answer_of(text)

    def key_of(self, text: Text) -> str | None:
        """A key that equals another text's where their answers agree; None without an answer. Errors as `answer_of`."""
        answer = self.answer_of(text)
        return None if answer is None else KEYS[self.agree](answer)

    def remarks(self, comparison: Comparison) -> tuple[str, ...]:
        """Whether texts have no answer."""
        remarks = []
        for part in lift(self, comparison):
            if self._lacks_answer(part.hypotheses):
                remarks.append("no-answer")
            is_square = part.references is part.hypotheses
            if not is_square and self._lacks_answer(part.references):
                remarks.append("no-answer-in-reference")
        return tuple(dict.fromkeys(remarks))

    def _lacks_answer(self, items: Iterable[Item]) -> bool:
        """Whether one of the items has no answer."""
        return any(self.answer_of(item.text) is None for item in items)


class VoteScorer(Scorer):
    """Represents a text by its answer and the answer's key, None for both where it has none."""

    def __init__(self, metric: Vote) -> None:
        self.info = metric.info
        self._find: Find = finder(metric.answer, metric.pattern, metric.path)
        self._remembered: Find = lru_cache(REMEMBERED_TEXTS)(self._find)
        self.key = KEYS[metric.agree]

    def answer_of(self, text: Text) -> str | None:
        """As `Vote.answer_of`."""
        lines = "\n".join(text.sentences) if isinstance(text, Document) else text
        find = self._remembered if len(lines) <= REMEMBERED_CHARACTERS else self._find
        return find(lines)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Answers and keys, and the lengths of the texts."""
        answers = np.empty(len(items), object)
        keys = np.empty(len(items), object)
        answers[:] = [self.answer_of(item.text) for item in items]
        keys[:] = [None if answer is None else self.key(answer) for answer in answers]
        lengths = np.array([len(str(item.text)) for item in items], np.int64)
        return Reps({"answer": answers, "key": keys}), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Agreement [H, R] of every block."""
        matrices = []
        for block in blocks:
            of_h, of_r = _numbered(reps["key"], block)
            is_same = (of_h[:, None] == of_r) & (of_h[:, None] > 0)
            matrices.append(is_same.astype(np.float64))
        return matrices

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


def _numbered(keys: Array, block: Block) -> tuple[IntArray, IntArray]:
    """A number from 1 for every answer of a block, equal where they agree, 0 for none: [H] and [R]."""
    number: dict[str | None, int] = {None: 0}

    def numbers(rows: IntArray) -> IntArray:
        of_rows = [number.setdefault(key, len(number)) for key in keys[rows]]
        return np.array(of_rows, np.int64)

    of_references = numbers(block.references)
    return (of_references if block.square else numbers(block.hypotheses)), of_references
