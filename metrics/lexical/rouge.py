"""ROUGE-L and ROUGE-W (Lin 2004, sections 3.1 and 4): in-order word overlap, 0 to 1, higher is better.

    P = x / |h|,   R = x / |r|,   F = 2 P R / (P + R) = 2 x / (|h| + |r|)
ROUGE-L (equations 2 to 4 with beta = 1): x is the length of the longest common subsequence. ROUGE-W (equations 13 to
15) favours consecutive matches: x = f^-1(WLCS) with f(k) = k^weight, where
    c(i, j) = c(i-1, j-1) + f(k) - f(k-1)      if h_i = r_j, the k-th match in a row on this diagonal,
              max(c(i-1, j), c(i, j-1))        otherwise,       WLCS = c(|h|, |r|);
a match is always taken, as in the paper. R = f^-1(WLCS / f(|r|)) is f^-1(WLCS) / |r|, since f^-1(y) = y^(1/weight).
Both are symmetric. An empty text scores 0, against an empty one too. Of several references the best F counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..base import Info, Metric, Scorer
from ..errors import ModelLoadError
from ..reps import Array, Block, FloatArray, IntArray, Ragged, Reps
from ..settings import settings
from ..texts import Item
from .words import numbered, packed

SINGLE = (  # ideographs and kana
    r"\u3005\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    r"\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
LAST_MARK = 0x1FFFF  # no combining mark beyond this code point is part of a word
STEMMED = 3  # only longer words are stemmed
CELLS = 1 << 16  # words of the longer texts of the pairs compared together
PLACE_BYTES = 1 << 24  # of the places made at a time
Tokenizer = Literal["unicode", "rouge_score"]


@settings
class RougeL(Metric):
    """ROUGE-L F1 over the longest common subsequence of words.

    Args:
        tokenizer: "unicode": lower-cased words of letters, digits, ``_`` and their marks, every ideograph and kana a
            word of its own (other scripts without spaces, such as Thai, stay whole); "rouge_score": lower-cased runs
            of a-z and 0-9, as that package reads texts.
        stemmer: whether words longer than 3 are reduced by the Porter stemmer (English; needs nltk).
    """

    tokenizer: Tokenizer = "unicode"
    stemmer: bool = False
    name: ClassVar[str] = "rouge-l"
    info: ClassVar[Info] = Info(
        summary="longest common subsequence of words, F1", paper="Lin 2004", bounds=(0, 1), symmetric=True
    )

    def load(self) -> RougeScorer:
        """The scorer with its tokenizer.

        Raises:
            ModelLoadError: `stemmer` is set and nltk is not installed.
        """
        return RougeScorer(self.info, self.tokenizer, self.stemmer, None)


@settings
class RougeW(Metric):
    """ROUGE-W F1 over the weighted longest common subsequence.

    Args:
        weight: exponent of f(k); 1 gives no more to consecutive matches.
        tokenizer: as in `RougeL`.
        stemmer: as in `RougeL`.
    """

    weight: Annotated[float, Field(ge=1, le=8)] = 1.2
    tokenizer: Tokenizer = "unicode"
    stemmer: bool = False
    name: ClassVar[str] = "rouge-w"
    info: ClassVar[Info] = Info(
        summary="weighted longest common subsequence of words, F1", paper="Lin 2004", bounds=(0, 1), symmetric=True
    )

    def load(self) -> RougeScorer:
        """The scorer with its tokenizer.

        Raises:
            ModelLoadError: `stemmer` is set and nltk is not installed.
        """
        return RougeScorer(self.info, self.tokenizer, self.stemmer, self.weight)


class RougeScorer(Scorer):
    """Represents a text by its words; `weight` is ROUGE-W's, or None for ROUGE-L."""

    def __init__(self, info: Info, tokenizer: Tokenizer, stemmer: bool, weight: float | None) -> None:
        self.info, self.weight = info, weight
        self.split = _unicode_words if tokenizer == "unicode" else re.compile("[a-z0-9]+").findall
        self.stem = _porter() if stemmer else None

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words as the tokenizer splits them, and their number."""
        tokens = [self.split(str(item.text).lower()) for item in items]
        if self.stem:
            stems = {word: self.stem(word) for words in tokens for word in words if len(word) > STEMMED}
            tokens = [[stem for word in words if (stem := stems.get(word, word))] for words in tokens]
        columns, counts = packed(tokens)
        return Reps(columns), counts

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """F [H, R] of every block."""
        words, local = numbered(reps, blocks)
        lengths = words.lengths.astype(float)
        if self.weight is None:
            found = [_longest_common(words, block) for block in local]
        else:
            found = _weighted_common(words, local, self.weight)
        return [_f(x, lengths[b.hypotheses][:, None], lengths[b.references]) for x, b in zip(found, local, strict=True)]


def _f(x: FloatArray, of_h: FloatArray, of_r: FloatArray) -> FloatArray:
    """2 x / (|h| + |r|), [H, R]."""
    return 2 * x / np.maximum(of_h + of_r, 1)


def _longest_common(words: Ragged, block: Block) -> FloatArray:
    """Length of the longest common subsequence of every pair of a block, [H, R].

    One integer holds a bit per word of every hypothesis, and a free bit after each that stops carries. Hyyrö's step
    (2004) for the next word of a reference, with the places of that word as `match`, is V = (V + (V & match)) | (V &
    ~match); the zeros of V among a hypothesis' bits count its longest common subsequence with the words so far. In a
    square block a reference meets only the hypotheses before it: LCS is symmetric, and |r| with itself.
    """
    texts = [words.values[words.offsets[row] : words.offsets[row + 1]] for row in block.hypotheses]
    lengths = words.lengths[block.hypotheses]
    starts = np.concatenate(([0], (lengths // 8 + 1).cumsum()))  # bytes; at least one bit is free
    places = _places(texts, starts, 2 if block.square else 1)
    ones = sum(((1 << n) - 1) << 8 * start for n, start in zip(lengths.tolist(), starts.tolist(), strict=False))
    found = np.zeros((len(texts), len(block.references)))
    for column, row in enumerate(block.references):
        last = column if block.square else len(texts)
        full = value = ones & ((1 << 8 * int(starts[last])) - 1)
        for word in words.values[words.offsets[row] : words.offsets[row + 1]].tolist():
            if match := value & places.get(word, 0):
                value = ((value + match) | (value - match)) & full
        gone = np.frombuffer((full ^ value).to_bytes(int(starts[-1]), "little"), np.uint8)
        found[:, column] = np.add.reduceat(np.bitwise_count(gone), starts[:-1], dtype=np.int64)
    if block.square:
        found += found.T
        np.fill_diagonal(found, lengths)
    return found


def _places(texts: Sequence[Array], starts: IntArray, least: int) -> dict[int, int]:
    """For every word with `least` places or more an integer with a bit at each; text i starts at byte `starts[i]`."""
    values = np.concatenate(texts)
    places = np.concatenate([np.arange(8 * at, 8 * at + len(text)) for text, at in zip(texts, starts, strict=False)])
    unique, inverse, times = np.unique(values, return_inverse=True, return_counts=True)
    number = np.flatnonzero(times >= least)
    size = int(starts[-1])
    step = max(1, PLACE_BYTES // size)
    found = {}
    for some in (number[at : at + step] for at in range(0, len(number), step)):
        row = np.full(len(unique), -1)
        row[some] = np.arange(len(some))
        row = row[inverse]
        bits = np.zeros(len(some) * size, np.uint8)
        here = places[row >= 0]
        np.bitwise_or.at(bits, row[row >= 0] * size + (here >> 3), (1 << (here & 7)).astype(np.uint8))
        raw = bits.tobytes()
        for at, word in enumerate(unique[some].tolist()):
            found[word] = int.from_bytes(raw[at * size : (at + 1) * size], "little")
    return found


def _weighted_common(words: Ragged, blocks: Sequence[Block], weight: float) -> list[FloatArray]:
    """f^-1(WLCS) of every pair of every block, [H, R]; a square block's pairs are compared once."""
    cells = [_cells(block) for block in blocks]
    h = np.concatenate([b.hypotheses[i] for b, (i, _) in zip(blocks, cells, strict=True)])
    r = np.concatenate([b.references[j] for b, (_, j) in zip(blocks, cells, strict=True)])
    values = _wlcs_roots(words, h, r, weight)
    found = []
    start = 0
    for block, (i, j) in zip(blocks, cells, strict=True):
        u = np.zeros((len(block.hypotheses), len(block.references)))
        u[i, j] = values[start : start + len(i)]
        start += len(i)
        if block.square:
            u += u.T
            np.fill_diagonal(u, words.lengths[block.hypotheses])
        found.append(u)
    return found


def _cells(block: Block) -> tuple[IntArray, IntArray]:
    """Rows and columns of a block's cells; only those above the diagonal if it is square."""
    if block.square:
        return np.triu_indices(len(block.hypotheses), 1)
    rows, columns = np.indices((len(block.hypotheses), len(block.references)))
    return rows.ravel(), columns.ravel()


def _wlcs_roots(words: Ragged, h: IntArray, r: IntArray, weight: float) -> FloatArray:
    """f^-1(WLCS) of rows `h` and `r` of `words`, [pairs]."""
    longer = words.lengths[h] > words.lengths[r]
    h, r = np.where(longer, r, h), np.where(longer, h, r)
    n, m = words.lengths[h], words.lengths[r]
    f = np.arange(int(n.max(initial=0)) + 1) ** weight
    gains = np.diff(f, prepend=0.0)  # f(k) - f(k - 1), and 0 for k = 0
    same = _same(words, h, r)
    roots = np.where(same, n, 0).astype(float)
    order = np.lexsort((n, m))[::-1]
    order = order[(n > 0)[order] & ~same[order]]
    start = 0
    while start < len(order):
        some = order[start : start + max(1, CELLS // int(m[order[start]]))]
        sides = _columns(words, h[some], -1), _columns(words, r[some], -2)[::-1]
        wlcs = _wlcs(*sides, n[some], m[some], gains)
        roots[some] = np.minimum([value ** (1 / weight) for value in wlcs.tolist()], n[some])  # rounding aside
        start += len(some)
    return roots


def _wlcs(h: Array, r: Array, n: IntArray, m: IntArray, gains: FloatArray) -> FloatArray:
    """WLCS [pairs] of word columns `h` [N, pairs] and `r` [M, pairs] (last word first), antidiagonal by antidiagonal.

    Row i of antidiagonal d is c(i, d - i); all pairs are worked on at once.
    """
    (tall, count), wide = h.shape, len(r)
    c = np.zeros((3, tall + 1, count))
    run = np.zeros((3, tall + 1, count), np.int16 if tall < 1 << 15 else np.int32)  # matches in a row up to a cell
    found = np.zeros(count)
    ends = n + m
    order = np.argsort(ends)
    done = np.searchsorted(ends[order], np.arange(int(ends.max()) + 2)).tolist()
    for d in range(2, int(ends.max()) + 1):
        now, before, twice = d % 3, (d - 1) % 3, (d - 2) % 3
        first, last = max(1, d - wide), min(tall, d - 1)
        here, above = slice(first, last + 1), slice(first - 1, last)
        same = h[above] == r[wide - d + first : wide - d + last + 1]
        np.multiply(run[twice, above] + 1, same, out=run[now, here])
        np.maximum(c[before, above], c[before, here], out=c[now, here])
        matched = np.flatnonzero(same)
        c[now, here].reshape(-1)[matched] = (
            c[twice, above].reshape(-1)[matched] + gains[run[now, here].reshape(-1)[matched]]
        )
        c[now, 0] = 0
        if last == d - 1 and d <= tall:
            c[now, d] = run[now, d] = 0
        ended = order[done[d] : done[d + 1]]
        found[ended] = c[now, n[ended], ended]
    return found


def _columns(words: Ragged, rows: IntArray, filler: int) -> Array:
    """Rows of `words` as columns of equal height, [height, rows]."""
    lengths = words.lengths[rows]
    place = np.arange(lengths.max())[:, None]
    at = words.offsets[rows] + np.minimum(place, lengths - 1)
    dtype = np.int16 if len(words.values) < 1 << 15 else np.int32
    return np.where(place < lengths, words.values[at], filler).astype(dtype)


def _same(words: Ragged, h: IntArray, r: IntArray) -> Array:
    """Which pairs of rows hold the same words, [pairs]."""
    number: dict[bytes, int] = {}
    rows = [words.values[a:b].tobytes() for a, b in zip(words.offsets[:-1], words.offsets[1:], strict=True)]
    text = np.array([number.setdefault(row, len(number)) for row in rows], np.int64)
    return text[h] == text[r]  # type: ignore[no-any-return]


def _unicode_words(text: str) -> list[str]:
    if text.isascii():
        return re.findall(r"\w+", text)
    single, word = _patterns()
    return word.findall(single.sub(r" \g<0> ", text))


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What stands alone, and a word; either takes the combining marks that follow."""
    marks = "".join(chr(i) for i in range(LAST_MARK + 1) if unicodedata.category(chr(i)).startswith("M"))
    return re.compile(f"[{SINGLE}][{marks}]*"), re.compile(rf"\w[\w{marks}]*")


def _porter() -> Callable[[str], str]:
    try:
        from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]
    except ImportError as error:
        raise ModelLoadError("stemmer=True needs nltk", where="rouge", fix="Install it: pip install nltk") from error
    stem: Callable[[str], str] = PorterStemmer().stem
    return stem
