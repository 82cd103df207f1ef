"""A tiny entailment model for the summary study: MiniLM trained on pairs that are made by program.

    python -m benchmarks.choice_quality.entailment_study DATA MODEL_FOLDER [--pairs 6000] [--epochs 1]

DATA holds news in English: ``summ_newsroom_ner18`` and the English sides of ``mt_mqm_*`` and ``judged_wmt22`` (JSON
lines, gzip); no article of SummEval or REALSumm. A premise is a sentence or two. As in FactCC (Kryscinski et al.
2020) a pair is made by rules: the text is a sentence of the premise, or a shorter form of it; or it is false, with a
number, a name or a negation changed; or it is from elsewhere. The model is saved for ``entail`` and its accuracy on
pairs of other documents is printed. The study compared utilities by

    discorank decode FILE --from systems -u 'chrf + entail(model="MODEL_FOLDER")' --normalize-parts zscore -o chosen
    discorank compare FILE --human consistency -m chrf --decoded chosen
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoTokenizer, BertForSequenceClassification

from benchmarks.support.measuring import table
from discorank.metrics.neural.models.files import model_files
from discorank.metrics.text.sentence_splitting import sentences

NEWSTEST, WMT23 = "mt_mqm_newstest2021", "mt_mqm_wmt23"
MT = (f"{NEWSTEST}.en-de", f"{NEWSTEST}.zh-en", f"{WMT23}.he-en", f"{WMT23}.zh-en")
SETS = ("summ_newsroom_ner18", *MT, "judged_wmt22.en-de")
TRUE = ("same", "shortened")
FALSE = ("number", "name", "negation", "elsewhere")
KEPT_APART = 0.15  # of the documents
MAX_TOKENS, BATCH, RATE, SEED = 128, 32, 2e-4, 0
NUMBER = re.compile(r"\b\d+(?:[.,]\d+)*\b")
NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*")
VERB = re.compile(r"\b(?:is|are|was|were|will|would|can|could|has|have|had|should|may|might)\b")
NOT = re.compile(r" (?:not|never)\b| ?n't\b")
CUTS = (
    r" ?\([^)]*\)",
    r", (?:who|which|where|whose|as|but|while|and|after)\b[^,]*",
    r"^[^,]{5,60}, ",
)


Texts = Sequence[str]
Change = Callable[[str], str]


class Pair(NamedTuple):
    premise: str
    text: str
    entailed: bool
    kind: str


def documents(folder: Path) -> Iterator[list[str]]:
    """The English sentences of every document, those of 5 to 50 words."""
    for name in SETS:
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                texts = [record["source"]]
                if "seg_ids" in record:
                    english = record["src_lang"] == "en"
                    texts = record["source" if english else "references"]
                    texts = texts if isinstance(texts, list) else next(iter(texts.values()))
                split = [sentence for text in texts if text for sentence in sentences(text)]
                kept = [sentence for sentence in split if 5 <= len(sentence.split()) <= 50]
                if len(kept) > 3:
                    yield kept


def changed(sentence: str, kind: str, others: Texts, rng: random.Random) -> str | None:
    """The sentence with a change of this kind, or None if it has no place for one."""
    if kind == "negation":
        if NOT.search(sentence):
            return NOT.sub("", sentence, count=1)
        return _replaced(sentence, VERB, lambda verb: f"{verb} not", rng)
    if kind == "number":
        return _replaced(sentence, NUMBER, lambda number: _other_number(number, rng), rng)
    names = sorted({name for other in others for name in NAME.findall(other)})
    names = [name for name in names if name not in sentence]
    return _replaced(sentence, NAME, lambda _: rng.choice(names), rng) if names else None


def _replaced(
    sentence: str, pattern: re.Pattern[str], new: Change, rng: random.Random
) -> str | None:
    places = list(pattern.finditer(sentence))
    if not places:
        return None
    place = rng.choice(places)
    return sentence[: place.start()] + new(place.group()) + sentence[place.end() :]


def _other_number(number: str, rng: random.Random) -> str:
    """A number of as many digits, the first digit another."""
    first = rng.choice([digit for digit in "123456789" if digit != number[0]])
    return first + "".join(rng.choice("0123456789") if c.isdigit() else c for c in number[1:])


def shortened(sentence: str, rng: random.Random) -> str | None:
    """The sentence without a parenthesis, a clause or its opening words."""
    cut = [re.sub(pattern, "", sentence, count=1) for pattern in CUTS]
    cut = [text for text in cut if text != sentence and len(text.split()) >= 4]
    return rng.choice([text[0].upper() + text[1:] for text in cut]) if cut else None


def pairs(texts: Sequence[Texts], count: int, rng: random.Random) -> list[Pair]:
    """So many pairs, half of them entailed, every kind as often as another of its half."""
    made: dict[str, list[Pair]] = {kind: [] for kind in TRUE + FALSE}
    for kind, found in made.items():
        wanted = count // 2 // len(TRUE if kind in TRUE else FALSE)
        while len(found) < wanted:
            document = rng.choice(texts)
            start = rng.randrange(len(document) - 2)
            window = document[start : start + rng.choice((1, 1, 1, 2))]
            text = _text(kind, window, document, rng.choice(texts), rng)
            if text and (kind in TRUE or text not in " ".join(window)):
                found.append(Pair(" ".join(window), text, kind in TRUE, kind))
    return [pair for found in made.values() for pair in found]


def _text(kind: str, near: Texts, document: Texts, far: Texts, rng: random.Random) -> str | None:
    """A text of this kind for sentences near it, or None if what chance took has no place for it."""
    sentence = rng.choice(rng.choice((document, far)) if kind == "elsewhere" else near)
    # Half of the false texts are shortened too, before the change: their length must not tell.
    if kind == "shortened" or (kind in FALSE and rng.random() < 0.5):
        sentence = shortened(sentence, rng) or ("" if kind in TRUE else sentence)
    return sentence if kind in ("elsewhere", *TRUE) else changed(sentence, kind, document, rng)


def batches(reader: Any, of: Sequence[Pair], rng: random.Random) -> Iterator[tuple[Any, list[int]]]:
    """Batches of pairs of about one length, in an order by chance, with the places of their pairs."""
    lengths = [(len(pair.premise + pair.text) // 20, rng.random()) for pair in of]
    order = sorted(range(len(of)), key=lengths.__getitem__)
    parts = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    rng.shuffle(parts)
    for part in parts:
        texts = [of[i].premise for i in part], [of[i].text for i in part]
        options = {"truncation": True, "max_length": MAX_TOKENS, "padding": True}
        yield reader(*texts, return_tensors="pt", **options), part


def train(model: Any, tokenizer: Any, of: Sequence[Pair], epochs: int) -> None:
    """AdamW with a rate that rises for a tenth of the steps and then falls to 0; bfloat16 where that is safe."""
    for part in (model.bert.embeddings, *model.bert.encoder.layer[:2]):
        part.requires_grad_(
            False
        )  # half of the weights are embeddings, and most words are rare here
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=RATE, weight_decay=0.01)
    steps = epochs * -(-len(of) // BATCH)
    rise = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rise, (steps - step) / max(1, steps - rise))
    )
    rng, losses = random.Random(SEED), []
    for _ in range(epochs):
        for read, places in batches(tokenizer, of, rng):
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(
                    **read, labels=torch.tensor([int(of[i].entailed) for i in places])
                ).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learned, 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            if len(losses) % 20 == 0:
                print(f"step {len(losses)}/{steps}: loss {np.mean(losses[-20:]):.3f}", flush=True)


@torch.inference_mode()
def right(model: Any, tokenizer: Any, of: Sequence[Pair]) -> dict[str, list[bool]]:
    """Whether each pair is told rightly, by kind."""
    found = defaultdict(list)
    for read, part in batches(tokenizer, of, random.Random(SEED)):
        for i, said in zip(part, model(**read).logits.argmax(1).tolist(), strict=True):
            found[of[i].kind].append(bool(said) == of[i].entailed)
            found["all"].append(bool(said) == of[i].entailed)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("model_folder", type=Path)
    parser.add_argument("--pairs", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(SEED)
    torch.manual_seed(SEED)
    texts = list(documents(options.data))
    rng.shuffle(texts)
    apart = round(KEPT_APART * len(texts))
    learned, kept = pairs(texts[apart:], options.pairs, rng), pairs(texts[:apart], 800, rng)
    folder = model_files.locate("minilm", None)
    names = {0: "not_entailment", 1: "entailment"}
    labels = {name: number for number, name in names.items()}
    model: Any = BertForSequenceClassification.from_pretrained(
        folder, id2label=names, label2id=labels
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    print(f"{len(texts)} documents, {apart} apart; {len(learned)} pairs, {len(kept)} apart")
    model.train()
    train(model, tokenizer, learned, options.epochs)
    model.eval()
    model.save_pretrained(options.model_folder)
    tokenizer.save_pretrained(options.model_folder)
    told = right(model, tokenizer, kept)
    kinds = (*TRUE, *FALSE, "all")
    rows = [[kind, f"{np.mean(told[kind]):.3f}", str(len(told[kind]))] for kind in kinds]
    print(table(["kind of pair", "right", "pairs"], rows))


if __name__ == "__main__":
    main()
