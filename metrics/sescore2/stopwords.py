"""Words of little meaning, whose loss is a minor mistake: a built-in English list, a file, or the frequent ones.

Negations are not among them: without one a text says something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

from ..errors import InputError
from ..storage.bounded_files import read_small_text
from .spaced_words import Words, bare, is_punctuation

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
    if kind == "frequent":
        if not number.isdecimal():
            fix = "Write frequent:100, with a number of words"
            raise InputError(f"found {name!r}", where="stop_words", fix=fix)
        texts_with: Counter[str] = Counter()
        for words in texts:
            keys = {key(word) for word in words if not is_punctuation(word)}
            texts_with.update(keys)
        return frozenset(word for word, _ in texts_with.most_common(int(number)))
    fix = "Write en, frequent:100, or a file with a word per line"
    try:
        lines = read_small_text(name, fix).splitlines()
    except InputError as error:
        raise InputError(error.problem, where=f"stop_words {name!r}", fix=error.fix) from error
    return frozenset(line.strip().lower() for line in lines if line.strip())


def identity_of(name: str) -> str:
    """Stands for the words that a setting names: frequent:N, whose words are those of the texts, or a digest of them.

    Raises:
        InputError: as `stop_words`.
    """
    words = stop_words(name, ())
    if name.startswith("frequent:"):
        return name
    plain = "\n".join(sorted(words)).encode("utf-8", "surrogatepass")
    return blake2b(plain, digest_size=16).hexdigest()


def key(word: str) -> str:
    """How a word is looked up.

    >>> key(" The")
    'the'
    """
    return bare(word).lower()
