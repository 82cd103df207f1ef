"""Scores of pairs by jiwer and rouge_score, in an environment that has both: a `Peer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jiwer  # type: ignore[import-not-found]
from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

from benchmarks.support.peers.process import serve

Pairs = Sequence[tuple[str, str]]  # hypothesis and reference


def _word_transform(lowercase: bool, no_punct: bool) -> Any:
    steps = [jiwer.ToLowerCase()] * lowercase + [jiwer.RemovePunctuation()] * no_punct
    last = [jiwer.RemoveMultipleSpaces(), jiwer.Strip(), jiwer.ReduceToListOfListOfWords()]
    return jiwer.Compose([*steps, *last])


WORD_TRANSFORMS = {
    "default": jiwer.wer_default,
    "standardize": jiwer.wer_standardize,
    "lowercase, no_punct": _word_transform(True, True),
}


def wer(pairs: Pairs, transform: str) -> list[float]:
    """Word error rates."""
    how = WORD_TRANSFORMS[transform]
    return [float(jiwer.wer(r, h, how, how)) for h, r in pairs]


def cer(pairs: Pairs) -> list[float]:
    """Character error rates."""
    return [float(jiwer.cer(r, h)) for h, r in pairs]


def wer_of_corpus(pairs: Pairs) -> float:
    """The word error rate of all pairs together."""
    hypotheses, references = zip(*pairs, strict=True)
    return float(jiwer.wer(list(references), list(hypotheses)))


def rouge(pairs: Pairs, kind: str, stemmer: bool) -> list[float]:
    """F1 of one kind of ROUGE."""
    scorer = RougeScorer([kind], use_stemmer=stemmer)
    return [scorer.score(r, h)[kind].fmeasure for h, r in pairs]


if __name__ == "__main__":
    serve({"wer": wer, "cer": cer, "wer_of_corpus": wer_of_corpus, "rouge": rouge})
