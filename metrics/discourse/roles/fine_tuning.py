"""Fine-tuning of an encoder to label sentences, each read alone, as in the PDD paper; the result is a transformers
model for sequence classification, weights as safetensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ModelLoadError
from ...neural.models.context_tokens import Frame, Reader
from ...neural.models.encoder import device_of
from ...neural.models.files import model_files as files
from ...neural.models.files.gguf_files import LOCAL
from ...neural.models.pretrained import check_kernels, quietly, tokenizer_of
from ...representations import Ragged
from .labelled_documents import Labelled, read_sentences
from .settings import RoleTraining

WARMUP = 0.1  # share of the steps
WEIGHT_DECAY = 0.01
MAX_GRADIENT_NORM = 1.0


def fine_tuned(
    settings: RoleTraining,
    names: Sequence[str],
    documents: Sequence[Labelled],
    out: Path,
    device: str | None,
    say: Callable[[str], None],
) -> None:
    """Trains an encoder with a new head by AdamW on the cross entropy of the roles, and saves it to `out`.

    Raises:
        ModelLoadError: the folder is no encoder that transformers gives a head for sequence classification.
    """
    import torch
    from transformers import get_linear_schedule_with_warmup

    torch.manual_seed(settings.seed)
    folder = files.locate(settings.encoder)
    model = _with_new_head(folder, names)
    tokenizer = tokenizer_of(folder)
    torch_device = device_of(device)

    limit = min(settings.max_tokens or 1 << 30, int(tokenizer.model_max_length))
    reader = Reader(tokenizer, Frame.of(tokenizer), limit, "oldest-context")
    ids, _ = read_sentences(reader, documents)
    roles = np.concatenate([document.roles for document in documents])

    model.to(torch_device).train(True)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=settings.learning_rate,
        weight_decay=WEIGHT_DECAY,
    )
    steps = settings.epochs * -(-len(roles) // settings.batch_sentences)
    linear: Any = get_linear_schedule_with_warmup
    schedule = linear(optimizer, int(WARMUP * steps), steps)
    random = np.random.default_rng(settings.seed)
    for epoch in range(1, settings.epochs + 1):
        order = random.permutation(len(roles))
        total = 0.0
        for start in range(0, len(order), settings.batch_sentences):
            rows = order[start : start + settings.batch_sentences]
            batch = _padded(ids[rows], model, torch_device)
            labels = torch.from_numpy(roles[rows]).to(torch_device)
            loss = model(**batch, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += float(loss.detach()) * len(rows)
        mean_loss = total / len(order)
        say(f"epoch {epoch} of {settings.epochs}: mean loss {mean_loss:.4f}")
    with quietly():
        model.to("cpu").save_pretrained(out)
        tokenizer.save_pretrained(out)


def _with_new_head(folder: Path, names: Sequence[str]) -> Any:
    """The encoder of a folder with an untrained head for the named labels."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    labels = dict(enumerate(names))
    try:
        check_kernels(AutoConfig.from_pretrained(folder, **LOCAL))
        with quietly():
            return AutoModelForSequenceClassification.from_pretrained(
                folder,
                **LOCAL,
                dtype="float32",
                num_labels=len(names),
                id2label=labels,
                label2id={name: i for i, name in labels.items()},
            )
    except Exception as error:  # configuration or weights: many kinds
        first_line = str(error).strip().splitlines()[0]
        problem = f"{type(error).__name__}: {first_line[:200]}"
        fix = "Give an encoder such as minilm"
        raise ModelLoadError(problem, where=str(folder), fix=fix) from error


def _padded(ids: Ragged, model: Any, device: Any) -> dict[str, Any]:
    """Sequences as one matrix [rows, longest] with the mask of what is text."""
    import torch

    longest = int(ids.lengths.max())
    mask = np.arange(longest) < ids.lengths[:, None]
    tokens = np.full(mask.shape, model.config.pad_token_id or 0)
    tokens[mask] = ids.values
    return {
        "input_ids": torch.from_numpy(tokens).to(device),
        "attention_mask": torch.from_numpy(mask.astype(np.int64)).to(device),
    }
