"""Trains the small German-English model whose samples `caption_choice` chooses from; one core, weights stay outside.

    python -m benchmarks.training.caption_model DATA FOLDER [--minutes 35]

DATA is a file of parallel captions (JSON lines, gzip, with keys ``de`` and ``en``); the last 1500 are held back. The
model is an encoder-decoder of the Marian kind with a joint vocabulary of its own, trained for a set time in bfloat16,
without label smoothing, so that its samples are those of an honest distribution. The learning rate falls to zero at the
end of the time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

HELD_BACK, DEVELOPMENT = 1500, 500
VOCABULARY, WIDTH, FEED_FORWARD, LAYERS, HEADS = 4000, 192, 768, 3, 4
BATCH_TOKENS, PEAK_RATE, WARM_UP = 1600, 1.5e-3, 0.06
LONGEST = 48


def captions(path: str) -> list[tuple[str, str]]:
    """(German, English) of every line."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [(row["de"], row["en"]) for row in map(json.loads, lines)]


def make_tokenizer(texts: list[str]) -> Any:
    """A byte-pair vocabulary of both languages that ends every text with ``</s>``."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    )
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    kind: Any = PreTrainedTokenizerFast
    return kind(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=512,
    )


def make_model(vocabulary: int) -> Any:
    from transformers import MarianConfig, MarianMTModel

    sizes: dict[str, Any] = {"encoder_layers": LAYERS, "decoder_layers": LAYERS}
    sizes |= {"encoder_ffn_dim": FEED_FORWARD, "decoder_ffn_dim": FEED_FORWARD}
    sizes |= {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=WIDTH,
        max_position_embeddings=512,
        dropout=0.2,
        activation_function="relu",
        scale_embedding=True,
        init_std=WIDTH**-0.5,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=True,
        **sizes,
    )
    return MarianMTModel(config)


def batches(
    pairs: list[tuple[list[int], list[int]]], seed: int
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """One epoch of batches of about `BATCH_TOKENS` target tokens, each of one length, in random order."""
    draw = random.Random(seed)
    order = sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1]), draw.random()))
    epoch: list[list[tuple[list[int], list[int]]]] = []
    batch: list[tuple[list[int], list[int]]] = []
    for pair in order:
        if batch and (len(batch) + 1) * max(len(p[1]) for p in (*batch, pair)) > BATCH_TOKENS:
            epoch.append(batch)
            batch = []
        batch.append(pair)
    epoch.append(batch)
    draw.shuffle(epoch)
    yield from epoch


def padded(rows: list[list[int]], value: int) -> Any:
    import torch

    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


def loss_of(model: Any, batch: list[tuple[list[int], list[int]]]) -> Any:
    """Mean negative log-likelihood of the targets' tokens."""
    sources = padded([source for source, _ in batch], 0)
    labels = padded([target for _, target in batch], -100)
    import torch

    with torch.autocast("cpu", torch.bfloat16):
        return model(input_ids=sources, attention_mask=(sources != 0).long(), labels=labels).loss


def train(
    model: Any, pairs: list[tuple[list[int], list[int]]], held: list[Any], seconds: float
) -> None:
    import torch

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01
    )
    begun, epoch = monotonic(), 0
    while monotonic() - begun < seconds:
        model.train()
        losses = []
        for batch in batches(pairs, epoch):
            done = (monotonic() - begun) / seconds
            if done >= 1:
                break
            rate = PEAK_RATE * min(done / WARM_UP, (1 - done) / (1 - WARM_UP))
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = loss_of(model, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
        epoch += 1
        model.eval()
        with torch.inference_mode():
            dev = [(float(loss_of(model, batch)), len(batch)) for batch in batches(held, 0)]
        mean = sum(loss * n for loss, n in dev) / sum(n for _, n in dev)
        print(
            f"epoch {epoch}: {(monotonic() - begun) / 60:5.1f} min, "
            f"train {sum(losses) / len(losses):.3f}, held back {mean:.3f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--minutes", type=float, default=35)
    options = parser.parse_args()
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    texts = captions(options.data)
    seen, held = texts[:-HELD_BACK], texts[-HELD_BACK:][:DEVELOPMENT]
    tokenizer = make_tokenizer([text for pair in seen for text in pair])
    model = make_model(len(tokenizer))
    size = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    print(
        f"{len(seen)} pairs, vocabulary {len(tokenizer)}, {size:.1f} million parameters", flush=True
    )
    encoded = [tuple(tokenizer(list(pair))["input_ids"]) for pair in (*seen, *held)]
    short = [pair for pair in encoded[: len(seen)] if max(map(len, pair)) <= LONGEST]
    train(model, short, encoded[len(seen) :], options.minutes * 60)
    model.generation_config.update(max_length=64, num_beams=1)
    Path(options.folder).mkdir(parents=True, exist_ok=True)
    model.save_pretrained(options.folder)
    tokenizer.save_pretrained(options.folder)


if __name__ == "__main__":
    main()
