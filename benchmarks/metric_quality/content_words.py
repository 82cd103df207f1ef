"""How well content words by frequency (`nouns="wordfreq:de"`) agree with the nouns that HanTa finds.

    python -m benchmarks.metric_quality.content_words DATA [--sentences 400]

DATA holds text_gum.en.jsonl.gz and mt_mqm_*.en-de.jsonl.gz, whose German references are read; documents are spread
over all. Printed for both languages and several limits of the Zipf frequency: precision, recall and F1 of content words
against HanTa's nouns, over occurrences of words with a letter, and over foci that come back: words that two sentences
of a document share. The limit in force is marked.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from discorank.metrics.discourse.coherence.content_words import ZIPF, content_words
from discorank.metrics.discourse.coherence.nouns import Nouns

LIMITS = (4.5, 5.0, 5.25, 5.5, 5.75, 6.0)
Place = tuple[int, int, int]  # document, sentence, first character
Occurrences = dict[Place, str]  # the word there, in small letters


def gum(data: Path) -> Iterator[list[str]]:
    """English documents as sentences."""
    for document in _rows(data / "text_gum.en.jsonl.gz"):
        yield document["sentences"]


def references(data: Path) -> Iterator[list[str]]:
    """German documents as segments of their first reference."""
    for path in sorted(data.glob("mt_mqm_*.en-de.jsonl.gz")):
        for document in _rows(path):
            yield [text for text in next(iter(document["references"].values())) if text]


def _rows(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def spread(documents: Iterable[list[str]], most: int) -> list[list[str]]:
    """Documents evenly spread that have about so many sentences together."""
    every = list(documents)
    total = sum(map(len, every))
    return list(islice(every, 0, None, max(1, round(total / most))))


def occurrences(nouns: Nouns, documents: Sequence[Sequence[str]]) -> Occurrences:
    """The occurrences that a finder finds."""
    places: Occurrences = {}
    for d, sentences in enumerate(documents):
        for s, sentence in enumerate(sentences):
            for noun in nouns.of(sentence):
                word = sentence[noun.start : noun.end].lower()
                if any(map(str.isalpha, word)):
                    places[d, s, noun.start] = word
    return places


def coming_back(places: Occurrences) -> Occurrences:
    """Those whose word is in another sentence of the document too."""
    sentences = {(d, s, word) for (d, s, _), word in places.items()}
    counts = Counter((d, word) for d, _, word in sentences)
    return {place: word for place, word in places.items() if counts[place[0], word] > 1}


def agreement(guessed: Occurrences, gold: Occurrences) -> str:
    """Precision, recall and F1."""
    both = len(guessed.keys() & gold.keys())
    precision, recall = both / len(guessed), both / len(gold)
    f1 = 2 * precision * recall / (precision + recall)
    return f"{precision:.3f} | {recall:.3f} | {f1:.3f}"


def table(language: str, documents: Sequence[Sequence[str]]) -> None:
    """Prints the rows of a language."""
    gold = occurrences(Nouns(f"hanta:{language}"), documents)
    readings: tuple[Callable[[Occurrences], Occurrences], ...] = (dict, coming_back)
    for limit in LIMITS:
        words = Nouns(f"wordfreq:{language}")
        words.finder = content_words(language, limit)
        guessed = occurrences(words, documents)
        cells = [agreement(read(guessed), read(gold)) for read in readings]
        mark = " (in force)" if limit == ZIPF else ""
        print(f"| {language} | {limit}{mark} | {' | '.join(cells)} |", flush=True)
    num_sentences = sum(map(len, documents))
    print(f"{language}: {num_sentences} sentences, {len(gold)} nouns\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--sentences", type=int, default=400)
    options = parser.parse_args()
    print("| language | Zipf below | P | R | F1 | P, coming back | R | F1 |")
    print("|---" * 8 + "|")
    for language, documents in (("en", gum(options.data)), ("de", references(options.data))):
        table(language, spread(documents, options.sentences))


if __name__ == "__main__":
    main()
