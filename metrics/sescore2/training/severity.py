"""How bad a mistake is: minor (-1) or major (-5) (Xu et al. 2023, section 4.2).

`paper`      insertions and replacements: p = 1/l sum_i P(m_i | t, y_mask), minor if p >= gamma = 0.1;
             deletions: w = max_i tfidf(w_i), minor if w < lambda = 1; tfidf(w) = tf ln(N / df) over the texts at hand
`code`       as the released code: see `by_rule`; where that asks for likelihood, each significant new word has the mean
             of its sub-tokens, and the least of these words decides: minor if it is >= gamma = 0.5
`stop-list`  `by_rule`, and major where that asks for likelihood; needs no model
`off`        -1 each: a text's score counts its mistakes

Every mistake is judged alone, on the otherwise unchanged anchor; the score of a text is the sum.

Probabilities of words come from a masked language model that sees all of them masked:

    <s> source </s> text with the words masked </s>        <s> text ... </s> without a source

All sub-tokens of the words in question are masked at once; one softmax over the vocabulary per mask, and the vocabulary
head sees the masks alone, a multiple of 16 of them, so that on a CPU a probability depends on its text alone, to the
last bit. What is too long loses the end of the source, then what is farthest from the masks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from ...errors import InputError, MetricError, ModelLoadError
from ...execution.store import in_batches
from ...neural.models.attention import ROWS
from ...neural.models.context_tokens import Frame
from ...neural.models.encoder import Encoder
from ...neural.models.files import model_files as files
from ...neural.models.pretrained import pretrained, tokenizer_of
from ...representations import IntArray, Ragged
from ...spec.checked_settings import Field, settings
from .edits import Edit, Words, applied, is_punctuation, key

MAJOR = -5.0
MINOR = -1.0
PUNCTUATION = -0.1
GAMMA = {"paper": 0.1, "code": 0.5}
Kind = Literal["paper", "code", "stop-list", "off"]
HEADS = ("lm_head", "cls")  # of the BERT and RoBERTa families


class Masking(NamedTuple):
    """A text whose words [start, end) are masked."""

    words: Words
    start: int
    end: int
    source: str = ""


class _MaskedText(NamedTuple):
    """A text as the model reads it."""

    ids: IntArray  # [tokens], special tokens counted
    masks: IntArray  # [masks], their places in ids
    hidden_ids: IntArray  # [masks], the id behind each mask
    word: IntArray  # [masks], which of the masked words each belongs to


class MaskedLM:
    """A masked language model.

    Args:
        model: a folder or a name on the hub.
        device: where it runs; the first GPU if there is one.
        max_tokens: the longest input, special tokens counted.

    Raises:
        ModelLoadError: it is not there, is no masked language model of the BERT or RoBERTa families, or has a tokenizer
            without offsets.
    """

    def __init__(
        self,
        model: str,
        device: str | None = None,
        max_tokens: int = 512,
    ) -> None:
        folder = files.locate(model)
        self.name = str(folder)
        whole = pretrained(folder, "AutoModelForMaskedLM")
        self.tokenizer = tokenizer_of(folder)
        self.frame = Frame.of(self.tokenizer)
        self.mask = self.tokenizer.mask_token_id
        head = next((getattr(whole, name) for name in HEADS if hasattr(whole, name)), None)
        if head is None or self.mask is None or not self.tokenizer.is_fast:
            problem = "no masked language model that can be read here"
            fix = "Use a model of the BERT or RoBERTa family"
            raise ModelLoadError(problem, where=str(folder), fix=fix)
        self.encoder = Encoder(getattr(whole, whole.base_model_prefix), device, "float32")
        self.head = head.to(self.encoder.device).train(False)
        self.max_tokens = min(max_tokens, self.encoder.max_tokens)

    def probabilities(self, maskings: Sequence[Masking]) -> list[list[list[float]]]:
        """The probability of every sub-token of every masked word: a list per word, in a list per text.

        Raises:
            MetricError: the model gives a probability that is no number.
        """
        texts = [self._masked(masking) for masking in maskings]
        ids = Ragged.of_rows([text.ids for text in texts])

        def run(rows: IntArray) -> list[tuple[int, Any]]:
            values: list[tuple[int, Any]] = []
            for places, states in self.encoder.states(ids[rows]).by_length():
                numbers = rows[places].tolist()
                own_texts = [texts[number] for number in numbers]
                of_masks = self._of_masks(states[0], own_texts)
                values += zip(numbers, of_masks, strict=True)
            return values

        parts, _ = in_batches(ids.lengths, self.encoder.batch_tokens, run)
        values = dict(pair for part in parts for pair in part)
        by_text: list[list[list[float]]] = []
        for i, (text, masking) in enumerate(zip(texts, maskings, strict=True)):
            by_text.append([[] for _ in range(masking.start, masking.end)])
            for value, word in zip(values[i], text.word.tolist(), strict=True):
                by_text[i][word].append(value)
        return by_text

    def _of_masks(self, states: Any, texts: Sequence[_MaskedText]) -> list[list[float]]:
        """Probabilities behind the masks of texts of one length, from their states [texts, length, d]."""
        torch = self.encoder.torch
        counts = [len(row.masks) for row in texts]
        # the text, the place and the hidden id of every mask, [masks] each
        text = np.repeat(np.arange(len(texts)), counts)
        place = np.concatenate([row.masks for row in texts])
        token = np.concatenate([row.hidden_ids for row in texts])
        # the last mask again and again, up to a multiple of 16: products then round alike in every batch
        spare = (0, -len(token) % ROWS)
        text, place, token = (np.pad(rows, spare, mode="edge") for rows in (text, place, token))
        with torch.inference_mode():
            masked = states[torch.from_numpy(text), torch.from_numpy(place)]  # [masks and spare, d]
            logits = self.head(masked[None])[0]
            shares = logits.float().softmax(-1)  # [masks and spare, vocabulary]
            of_token = shares[torch.arange(len(token)), torch.from_numpy(token)]
            of_token = of_token.double().cpu().numpy()
        if not np.isfinite(of_token).all():
            problem = "a probability that is no number"
            raise MetricError(problem, where=self.name, fix="Look at the weights of the model")
        by_text = np.split(of_token[: sum(counts)], np.cumsum(counts)[:-1])
        return [values.tolist() for values in by_text]

    def _tokenized(self, text: str) -> Any:
        """Ids and offsets of a text, without special tokens."""
        return self.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )

    def _masked(self, masking: Masking) -> _MaskedText:
        """Tokenise a text, and mask the tokens of its masked words."""
        tokens = self._tokenized("".join(masking.words).lstrip())
        ids = np.array(tokens.input_ids, np.int64)
        word = _masked_word(masking, np.array(tokens.offset_mapping, np.int64).reshape(-1, 2))
        # as many tokens as there is room for, the masks in their middle
        window = _around(np.flatnonzero(word >= 0), len(ids), self.max_tokens - 2)
        text = ids[window]
        word = word[window]
        # the source before them, as far as there is room left
        room = max(0, self.max_tokens - 3 - len(text))
        start = [self.frame.first, *self._tokenized(masking.source.strip()).input_ids[:room]]
        if len(start) > 1:
            start.append(self.frame.separator)
        masks = np.flatnonzero(word >= 0)
        masked = np.where(word >= 0, self.mask, text)
        sequence = [*start, *masked.tolist(), self.frame.last]
        return _MaskedText(
            np.array(sequence, np.int64),
            masks + len(start),
            text[masks],
            word[masks],
        )


def _masked_word(masking: Masking, offsets: IntArray) -> IntArray:
    """The first of the masked words that each token overlaps, [tokens], -1 for none, from their offsets [tokens, 2]."""
    # a text begins without the space of its first word; other words have theirs
    lead = len(masking.words[0]) - len(masking.words[0].lstrip())
    ends = np.cumsum([0, *map(len, masking.words)]) - lead
    begins, ends = ends[masking.start : masking.end], ends[masking.start + 1 : masking.end + 1]
    overlaps = (offsets[:, :1] < ends) & (offsets[:, 1:] > begins)  # [tokens, words]
    return np.where(overlaps.any(axis=1), overlaps.argmax(axis=1), -1)


def _around(masks: IntArray, length: int, room: int) -> slice:
    """At most `room` places, the masks in their middle."""
    if length <= room:
        return slice(0, length)
    middle = int(masks.mean()) if len(masks) else 0
    start = max(0, middle - room // 2)
    start = min(start, length - room)
    return slice(start, start + room)


@settings
class Severity:
    """How mistakes are judged.

    Args:
        severity: paper, code, stop-list or off.
        mlm: the masked language model, a folder or a name on the hub; for paper and code.
        gamma: the least likelihood of a minor mistake; 0.1, or 0.5 for code, if not given.
        salience: paper: the least tf-idf of a word whose loss is a major mistake (lambda).
        stop_words: words without much meaning: en, frequent:N for the N most frequent, or a file.
    """

    severity: Kind = "stop-list"
    mlm: str | None = None
    gamma: Annotated[float, Field(ge=0, le=1)] | None = None
    salience: float = 1.0
    stop_words: str = "en"

    def __post_init__(self) -> None:
        if (self.severity in GAMMA) != (self.mlm is not None):
            with_or_without = "without" if self.mlm is None else "with"
            problem = f"severity {self.severity} {with_or_without} a masked language model"
            fix = "Name one, mlm=FOLDER, for paper and code alone; without one there are stop-list and off"
            raise InputError(problem, where="severity", fix=fix)

    @property
    def threshold(self) -> float:
        """The gamma in force."""
        return GAMMA.get(self.severity, 0.0) if self.gamma is None else self.gamma


class Judge:
    """Judges mistakes.

    Args:
        settings: the settings.
        stops: words without much meaning, in lower case.
        texts: the words of all texts at hand, for tf-idf.
        model: the masked language model, where the settings name one.
    """

    def __init__(
        self,
        settings: Severity,
        stops: frozenset[str],
        texts: Iterable[Words] = (),
        model: MaskedLM | None = None,
    ) -> None:
        self.settings = settings
        self.stops = stops
        self.model = model
        self.idf = inverse_frequencies(texts) if settings.severity == "paper" else {}

    def scores(self, mistakes: Sequence[tuple[Words, Edit, str]]) -> list[float | None]:
        """The score of every mistake: (words of the anchor, edit, source or ""); None where it is none.

        A replacement by a part of what it replaces is no mistake in the released code: it leaves these to drops.
        """
        scores = [self._by_settings(anchor, edit) for anchor, edit, _ in mistakes]
        undecided = [i for i, score in enumerate(scores) if score == "likelihood"]
        likelihoods = self._likelihoods([mistakes[i] for i in undecided])
        for i, likelihood in zip(undecided, likelihoods, strict=True):
            scores[i] = MINOR if likelihood >= self.settings.threshold else MAJOR
        return [score if isinstance(score, float) else None for score in scores]

    def _by_settings(self, anchor: Words, edit: Edit) -> float | Literal["likelihood"] | None:
        """The score of a mistake as far as it needs no model."""
        if self.settings.severity == "off":
            return MINOR
        old = anchor[edit.start : edit.end]
        if self.settings.severity == "paper":
            if edit.words:
                return "likelihood"
            counts = Counter(map(key, anchor))
            salience = max(counts[word] * self.idf.get(word, 0.0) for word in map(key, old))
            return MINOR if salience < self.settings.salience else MAJOR
        score = by_rule(old, edit.words, self.stops)
        return MAJOR if score == "likelihood" and self.model is None else score

    def _likelihoods(self, mistakes: Sequence[tuple[Words, Edit, str]]) -> list[float]:
        """The likelihood of the new words of every mistake, under the model."""
        if not mistakes or self.model is None:
            return []
        maskings = [
            Masking(applied(anchor, [edit]), edit.start, edit.start + len(edit.words), source)
            for anchor, edit, source in mistakes
        ]
        likelihoods = []
        probabilities = self.model.probabilities(maskings)
        for (_, edit, _), words in zip(mistakes, probabilities, strict=True):
            if self.settings.severity == "paper":
                tokens = [value for word in words for value in word]
                likelihoods.append(sum(tokens) / max(1, len(tokens)))
                continue
            means = [
                sum(tokens) / len(tokens)
                for word, tokens in zip(edit.words, words, strict=True)
                if tokens and is_significant(word, self.stops)
            ]
            likelihoods.append(min(means, default=0.0))
        return likelihoods


def by_rule(
    old: Words,
    new: Words,
    stops: frozenset[str],
) -> float | Literal["likelihood"] | None:
    """The score of a mistake that gives `new` words for `old` ones, as far as rules go.

    Punctuation for punctuation, or added, or lost: -0.1. A number for a number: -5. Nothing significant on either side:
    -1. Something significant lost and nothing significant added: -5. Else likelihood decides. None where the new words
    are a part of the old ones.

    >>> by_rule((" a",), (" the",), frozenset({"a", "the"}))
    -1.0
    """
    if not new:
        if all(map(is_punctuation, old)):
            return PUNCTUATION
        return MAJOR if any(is_significant(word, stops) for word in old) else MINOR
    if old and _text(new) in _text(old):
        return None
    single_words = len(old) == len(new) == 1
    if single_words and _is_number(old[0]) and _is_number(new[0]):
        return MAJOR
    if all(map(is_punctuation, (*old, *new))):
        return PUNCTUATION
    if any(is_significant(word, stops) for word in new):
        return "likelihood"
    return MAJOR if any(is_significant(word, stops) for word in old) else MINOR


def is_significant(word: str, stops: frozenset[str]) -> bool:
    """Whether a word carries meaning: no stop word and no punctuation."""
    return not is_punctuation(word) and key(word) not in stops


def inverse_frequencies(texts: Iterable[Words]) -> Mapping[str, float]:
    """ln(N / df) of every word of N texts, by its lower-case form."""
    counts: Counter[str] = Counter()
    number = 0
    for words in texts:
        counts.update({key(word) for word in words})
        number += 1
    return {word: log(number / count) for word, count in counts.items()}


def _is_number(word: str) -> bool:
    return re.sub(r"[\W_]", "", word).isdigit()


def _text(words: Words) -> str:
    return " ".join(word.strip() for word in words)
