"""Fine-tunes a copy of a small encoder-decoder by likelihood or by preference (DPO); one core, goes on after a kill."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.training.caption_model import LONGEST, batches, loss_of, padded

WARM_UP = 0.1
"""The share of the steps in which the rate rises to its peak; from there it falls to zero."""

LIKELIHOOD_RATE = 3e-4
"""The peak rate of fine-tuning by likelihood: a fifth of the peak that the teacher was trained with."""

PREFERENCE_RATE, BETA = 3e-5, 0.3
"""The peak rate of DPO, and how strongly a difference from the teacher counts: less of either moves the model less."""

PAIRS_AT_ONCE = 24
"""Pairs of a step of DPO; a pair is two rows of the model."""


def loaded(teacher: Path) -> tuple[Any, Any]:
    """Tokenizer and a copy of the model."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokenizer: Any = AutoTokenizer.from_pretrained(teacher)
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(teacher, dtype=torch.float32)
    return tokenizer, model


def encoded(tokenizer: Any, texts: Iterable[Sequence[str]]) -> list[Any]:
    """The token ids of every row of texts, without rows that hold a long text."""
    rows = [tuple(tokenizer(list(row))["input_ids"]) for row in texts]
    return [row for row in rows if max(map(len, row)) <= LONGEST]


def fitted(
    tokenizer: Any,
    model: Any,
    folder: Path,
    epochs: Sequence[Sequence[Any]],
    loss: Callable[[Any, Any], Any],
    rate: float,
    dropout: bool,
) -> None:
    """Takes a step on every batch of every epoch and writes the model; what it was after an epoch is kept till then."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    num_steps = sum(map(len, epochs))
    kept = folder.with_suffix(".kept.pt")
    first, step = 0, 0
    if kept.exists():
        state = torch.load(kept, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        first, step = state["epoch"], state["step"]
    for epoch in range(first, len(epochs)):
        model.train(dropout)
        begun, losses = process_time(), []
        for batch in epochs[epoch]:
            done = step / num_steps
            for group in optimizer.param_groups:
                group["lr"] = rate * min(done / WARM_UP, (1 - done) / (1 - WARM_UP))
            value = loss(model, batch)
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(value.detach()))
            step += 1
        spent = process_time() - begun
        mean = sum(losses) / len(losses)
        print(f"{folder.name}, epoch {epoch + 1}: loss {mean:.3f}, {spent:.0f} s", flush=True)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state |= {"random": torch.get_rng_state(), "epoch": epoch + 1, "step": step}
        unfinished = kept.with_suffix(".part")
        torch.save(state, unfinished)
        os.replace(unfinished, kept)
    part = folder.with_suffix(".part")
    model.eval()
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    os.replace(part, folder)
    kept.unlink()


def fitted_to_texts(
    teacher: Path, pairs: Iterable[tuple[str, str]], folder: Path, num_epochs: int
) -> None:
    """A copy of the teacher that has learned (prompt, completion) by likelihood, with the teacher's dropout."""
    if (folder / "model.safetensors").exists():
        return
    tokenizer, model = loaded(teacher)
    rows = encoded(tokenizer, pairs)
    epochs = [list(batches(rows, epoch)) for epoch in range(num_epochs)]
    fitted(tokenizer, model, folder, epochs, loss_of, LIKELIHOOD_RATE, dropout=True)


def log_ratios(model: Any, rows: Sequence[Any]) -> Any:
    """log p(chosen) - log p(rejected) of rows (prompt, chosen, rejected); shape [rows]."""
    import torch

    prompts = padded([row[0] for row in rows] * 2, 0)
    labels = padded([row[1] for row in rows] + [row[2] for row in rows], -100)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(
            input_ids=prompts, attention_mask=(prompts != 0).long(), labels=labels
        ).logits
    losses = torch.nn.functional.cross_entropy(
        logits.float().transpose(1, 2), labels, ignore_index=-100, reduction="none"
    )
    chosen, rejected = -losses.sum(1).reshape(2, len(rows))
    return chosen - rejected


def preference_loss(model: Any, batch: tuple[Sequence[Any], Any]) -> Any:
    """DPO: the mean of -log sigmoid(beta (log ratio of the model - log ratio of the teacher))."""
    import torch

    rows, of_teacher = batch
    margins = log_ratios(model, rows) - of_teacher
    return -torch.nn.functional.logsigmoid(BETA * margins).mean()


def fitted_to_preferences(
    teacher: Path, pairs: Iterable[tuple[str, str, str]], folder: Path, num_epochs: int
) -> None:
    """A copy of the teacher that has learned (prompt, chosen, rejected) by DPO, without dropout."""
    import torch

    if (folder / "model.safetensors").exists():
        return
    tokenizer, model = loaded(teacher)
    rows = sorted(encoded(tokenizer, pairs), key=lambda row: (len(row[0]), len(row[1])))
    of_rows = [rows[i : i + PAIRS_AT_ONCE] for i in range(0, len(rows), PAIRS_AT_ONCE)]
    model.eval()
    with torch.no_grad():
        known = [(some, log_ratios(model, some)) for some in of_rows]
    epochs = [random.Random(epoch).sample(known, len(known)) for epoch in range(num_epochs)]
    fitted(tokenizer, model, folder, epochs, preference_loss, PREFERENCE_RATE, dropout=False)
