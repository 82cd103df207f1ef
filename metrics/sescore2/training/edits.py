"""Words of a text, and its mistakes as edits of them (Xu et al. 2023, section 4.1).

Words of any language keep the white space that stands before each, so that edited words join to text. A word is
letters, marks, digits, joiners and soft hyphens, held together by inner hyphens and apostrophes; a number keeps its
inner points and commas; in scripts without spaces every character is a word; any other character is one, and so is a
whole emoji. A word is written with a leading space where a space stands before it (at the start of a text: where its
script has spaces).

Stop words, whose loss is a minor mistake, are a built-in English list, a file, or the frequent ones. Negations are
not among them: without one a text says something else.

Two word sequences differ by disjoint edits of the first. Plain word Levenshtein distance, unit costs, no shifts. A
match always takes the diagonal; on a mismatch ties go to insertion, then deletion, then replacement. A maximal run of
operations that are no matches is one edit: the words [start, end) of the anchor give way to `words`. Unlike the
released code, operations at the border of the table are kept, text after a hyphen is kept, and words may be added at
the very end.

A text gets up to `MAX_MISTAKES` mistakes. Each is, with probability `drops`, a random drop of one to six words that
nothing else touches, else one of the edits that a retrieved neighbour suggests, each at most once. All draws come from
the generator of the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

import regex
from numpy.random import Generator

from ...errors import InputError
from ...storage.bounded_files import read_small_text

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_JOINERS = r"\u00ad\u200c\u200d\u2060"  # soft hyphen, zero-width non-joiner and joiner, word joiner
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}_{_JOINERS}]--[{_UNSPACED}]]"
_EMOJI = r"(?=[\p{Extended_Pictographic}\p{Regional_Indicator}])\X"
_WORD = regex.compile(
    rf"[{_UNSPACED}][\p{{M}}{_JOINERS}]*|\p{{Nd}}+(?:[.,]\p{{Nd}}+)+(?!{_LETTER})|{_LETTER}+(?:[-'’‑]{_LETTER}+)*"
    rf"|{_EMOJI}|\S",
    regex.V1,
)
_WITHOUT_SPACE = regex.compile(rf"[{_UNSPACED}]")
_PUNCTUATION = regex.compile(rf"(?:{_EMOJI}|[\p{{P}}\p{{S}}])+")

INSERT, DELETE, REPLACE, MATCH = range(4)
MAX_OPERATIONS = 6  # of an edit that is used
MAX_MISTAKES = 5  # of a text
MAX_DROP_WORDS = 6
Words = tuple[str, ...]


def split_words(text: str) -> Words:
    """Split a text into words; those with a space before them begin with one."""
    words = []
    at = 0
    for match in _WORD.finditer(text):
        spaced = match.start() > at if at else not _WITHOUT_SPACE.match(match.group())
        words.append(f" {match.group()}" if spaced else match.group())
        at = match.end()
    return tuple(words)


def joined(words: Iterable[str]) -> str:
    """The text of words.

    >>> joined(split_words("A well-known cat, 2.5 kg: 我有猫."))
    'A well-known cat, 2.5 kg: 我有猫.'
    """
    return "".join(words).strip()


def is_punctuation(word: str) -> bool:
    """Whether a word is made of punctuation and symbols alone.

    >>> is_punctuation(" ,"), is_punctuation(" a,b")
    (True, False)
    """
    return _PUNCTUATION.fullmatch(word.strip()) is not None


_ENGLISH = """
    a about above after again against all also although am among an and any are around as at be because been before
    being below between both but by can could did do does doing down during each either few for from further had has
    have having he her here hers herself him himself his how however i if in into is it its itself just like may me
    might more most must my myself of off on once onto only or other our ours ourselves out over own per quite rather
    same shall she should since so some such than that the their theirs them themselves then there therefore these
    they this those though through thus to too toward towards under until up upon us very via was we were what when
    where whether which while who whom whose why will with within would yet you your yours yourself yourselves
    's 're 've 'll 'd 'm
"""
ENGLISH = frozenset(_ENGLISH.split())


def stop_words(name: str, texts: Iterable[Words]) -> frozenset[str]:
    """The words, in lower case, that a setting names.

    Args:
        name: en, frequent:N for the N words that stand in most of the texts, or a file with a word per line.
        texts: the words of the texts at hand; read for frequent:N alone.

    Raises:
        InputError: there is no such list or file.
    """
    if name == "en":
        return ENGLISH
    kind, _, number = name.partition(":")
    if kind == "frequent" and number.isdecimal():
        texts_with: Counter[str] = Counter()
        for words in texts:
            texts_with.update({key(word) for word in words if not is_punctuation(word)})
        return frozenset(word for word, _ in texts_with.most_common(int(number)))
    fix = "Write en, frequent:100, or a file with a word per line"
    try:
        lines = read_small_text(name, fix).splitlines()
    except InputError as error:
        raise error.inside("stop_words") from error
    return frozenset(line.strip().lower() for line in lines if line.strip())


def identity_of(name: str) -> str:
    """The identity of the words that a setting names: frequent:N, whose words depend on the texts, or their digest.

    Raises:
        InputError: as `stop_words`.
    """
    if name.startswith("frequent:"):
        return name
    plain = "\n".join(sorted(stop_words(name, ()))).encode("utf-8", "surrogatepass")
    return blake2b(plain, digest_size=16).hexdigest()


def key(word: str) -> str:
    """How a word is looked up.

    >>> key(" The")
    'the'
    """
    return word.strip().lower()


class Edit(NamedTuple):
    """The words [start, end) of an anchor give way to others."""

    start: int
    end: int
    words: Words
    operations: int = 1  # insertions, deletions and replacements in it

    @property
    def kind(self) -> Literal["insert", "delete", "replace"]:
        """The edit's effect."""
        if not self.words:
            return "delete"
        return "insert" if self.start == self.end else "replace"


def edits_between(anchor: Sequence[str], neighbour: Sequence[str]) -> list[Edit]:
    """All edits that turn `anchor` into `neighbour`, disjoint and from left to right, as many as it takes.

    >>> edits_between(["a", "b", "c", "d"], ["b", "x", "d"])
    [Edit(start=0, end=1, words=(), operations=1), Edit(start=2, end=3, words=('x',), operations=1)]
    """
    edits: list[Edit] = []
    i = j = 0  # words done of either side
    start: tuple[int, int] | None = None  # where the run of operations that are no matches began
    count = 0
    bare_anchor = [word.strip() for word in anchor]
    bare_neighbour = [word.strip() for word in neighbour]
    for operation in [*_operations(bare_anchor, bare_neighbour), MATCH]:
        if operation == MATCH:
            if start is not None:
                new_words = tuple(neighbour[start[1] : j])
                edits.append(Edit(start[0], i, new_words, count))
            start, count = None, 0
        elif start is None:
            start = i, j
        count += operation != MATCH
        i += operation != INSERT
        j += operation != DELETE
    return edits


def applied(anchor: Sequence[str], edits: Iterable[Edit]) -> Words:
    """The anchor's words after disjoint edits."""
    words: list[str] = []
    at = 0
    for edit in sorted(edits):
        words += [*anchor[at : edit.start], *edit.words]
        at = edit.end
    return (*words, *anchor[at:])


def _operations(anchor: Sequence[str], neighbour: Sequence[str]) -> list[int]:
    """Operations of a shortest path, from the start."""
    # previous[j]: the distance of the anchor's words so far from the neighbour's first j words;
    # table[i][j]: the last operation on the way there
    width = len(neighbour) + 1
    previous = list(range(width))
    table = [[INSERT] * width]
    for i, word in enumerate(anchor, 1):
        row = [i] * width
        last = [DELETE] * width
        for j, other in enumerate(neighbour, 1):
            if word == other:
                row[j] = previous[j - 1]
                last[j] = MATCH
                continue
            insert = row[j - 1]
            delete = previous[j]
            replace = previous[j - 1]
            best = min(insert, delete, replace)
            row[j] = best + 1
            if insert == best:
                last[j] = INSERT
            elif delete == best:
                last[j] = DELETE
            else:
                last[j] = REPLACE
        table.append(last)
        previous = row
    # back from the end
    i = len(anchor)
    j = len(neighbour)
    path = []
    while i or j:
        operation = table[i][j]
        path.append(operation)
        i -= operation != INSERT
        j -= operation != DELETE
    return path[::-1]


def mined(edits: Sequence[Edit]) -> list[Edit]:
    """The edits of a neighbour that are small enough to serve as a mistake."""
    return [edit for edit in edits if edit.operations <= MAX_OPERATIONS]


def sampled(
    proposals: Sequence[Edit],
    words: int,
    random: Generator,
    drops: float = 1 / 3,
) -> list[Edit]:
    """One to `MAX_MISTAKES` disjoint edits of a text, from left to right; none where nothing is possible.

    Args:
        proposals: disjoint edits that a neighbour suggests.
        words: the number of words of the text.
        random: where draws come from.
        drops: the probability that a mistake is a random drop.
    """
    # how many mistakes, and how many of them are drops
    mistakes = int(random.integers(1, MAX_MISTAKES + 1))
    num_drops = int((random.random(mistakes) < drops).sum())
    num_proposals = min(mistakes - num_drops, len(proposals))
    # proposals first: they cannot move, drops go where there is room
    order = random.permutation(len(proposals))
    chosen = [proposals[i] for i in order[:num_proposals]]
    for _ in range(num_drops):
        lost = sum(edit.end - edit.start for edit in chosen if edit.kind == "delete")
        left = words - lost - 1  # a text keeps a word
        drop = _drop(_free(chosen, words), random, left)
        if drop:
            chosen.append(drop)
    return sorted(chosen)


def _free(chosen: Sequence[Edit], words: int) -> list[bool]:
    """Which words no edit touches; an insertion touches the word behind it."""
    free = [True] * words
    for edit in chosen:
        end = max(edit.end, edit.start + 1)
        for place in range(edit.start, min(words, end)):
            free[place] = False
    return free


def _drop(
    free: Sequence[bool],
    random: Generator,
    max_words: int,
) -> Edit | None:
    """A drop of at most `max_words` free words; None where there is nothing to drop."""
    places = [place for place, is_free in enumerate(free) if is_free]
    if max_words < 1 or not places:
        return None
    start = places[int(random.integers(len(places)))]
    run = 1  # free words from there on
    while run <= MAX_DROP_WORDS and start + run < len(free) and free[start + run]:
        run += 1
    longest = min(run, MAX_DROP_WORDS)
    length = int(random.integers(1, max(2, longest + 1)))
    length = min(length, max_words)
    return Edit(start, start + length, (), length)
