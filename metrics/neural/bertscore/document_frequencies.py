"""Weights of tokens by how few texts they are in.

    idf(t) = log((n + 1) / (n_t + 1))

n is the number of texts and n_t how many of them have the token t, special tokens included. At least 0; 0 for a token
that every text has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import log

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...representations import IntArray
from ...text.texts import Item
from ..models.context_tokens import Reader

# Under this key, which is no token, the number of texts is counted.
TEXTS = -1


def document_frequencies(reader: Reader, texts: Iterable[str]) -> Counter[int]:
    """In how many texts each token is; the number of texts under -1."""
    items = [Item(text) for text in texts]
    if not items:
        fix = "Give the sentences to count tokens in, one per line"
        raise InputError("no texts", where="idf", fix=fix)
    ids = reader.read(items)["ids"]
    bounds = zip(ids.offsets[:-1], ids.offsets[1:], strict=True)
    distinct = [set(ids.values[start:end].tolist()) for start, end in bounds]
    frequencies = Counter(token for tokens in distinct for token in tokens)
    return frequencies + Counter({TEXTS: len(distinct)})


def inverse(frequencies: Counter[int], tokens: IntArray) -> NDArray[np.float32]:
    """Inverse document frequency of tokens [tokens], float32 [tokens]."""
    texts = frequencies[TEXTS]
    values = []
    for token in tokens.tolist():
        ratio = (texts + 1) / (frequencies[token] + 1)
        values.append(log(ratio))
    return np.array(values, np.float32)
