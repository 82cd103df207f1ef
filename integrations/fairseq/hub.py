"""Choices through fairseq's hub interface, as ``TransformerModel.from_pretrained`` gives it.

    hub = load(folder, "checkpoint_best.pt", source_lang="en", target_lang="de")
    lists = candidate_lists(hub, ["the dog finds your cat ."], num_candidates=16)
    rankings = MBRDecoder(utility="chrf").decode(lists)
In process fairseq's scores are natural logarithms. fairseq is imported by `load` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from ...metrics.errors import InputError
from ...rerank.lists import Candidate, CandidateList
from ..generation.generator import Prompt
from .task import allow_arguments

SENTENCES_AT_ONCE = 32  # fairseq makes one batch of what it is handed


def load(
    folder: str | Path,
    checkpoint: str = "checkpoint_best.pt",
    **options: Any,
) -> Any:
    """The hub interface of a translation model.

    Args:
        folder: it holds the checkpoint and, unless the options name another place, the dictionaries.
        checkpoint: its file name; several are separated by ``:``.
        options: of ``TransformerModel.from_pretrained``, such as ``data_name_or_path``, ``bpe``, ``tokenizer``.
    """
    from fairseq.models.transformer import TransformerModel  # pyright: ignore[reportMissingImports]

    allow_arguments()
    options = {"data_name_or_path": str(Path(folder).absolute()), **options}
    return TransformerModel.from_pretrained(str(folder), checkpoint, **options)


def candidate_lists(
    hub: Any,
    texts: Iterable[str | Prompt],
    num_candidates: int = 16,
    *,
    seed: int | None = None,
    **generation: Any,
) -> Iterator[CandidateList]:
    """The hypotheses for every text, in order, streamed; a text without an id of its own is called ``0``, ``1``, ...

    Args:
        hub: a ``GeneratorHubInterface``.
        texts: what to translate.
        num_candidates: beam size, which is the number of samples too.
        seed: of sampling; fairseq draws for a batch together, so it stands for all texts in this order.
        generation: options of fairseq-generate, such as ``sampling=True, sampling_topp=0.9``.

    Raises:
        InputError: fairseq left out a sentence.
    """
    if num_candidates < 1:
        raise InputError(f"found {num_candidates}, expected at least 1", where="num_candidates")
    prompts = _prompts(texts)
    for number in count():
        batch = list(islice(prompts, SENTENCES_AT_ONCE))
        if not batch:
            return
        batch_seed = None if seed is None else seed + number
        yield from _batch_lists(hub, batch, num_candidates, batch_seed, generation)


def _prompts(texts: Iterable[str | Prompt]) -> Iterator[Prompt]:
    """The texts as prompts, named ``0``, ``1``, ... where they have no id."""
    for i, text in enumerate(texts):
        yield text if isinstance(text, Prompt) else Prompt(str(i), text)


def _batch_lists(
    hub: Any,
    batch: list[Prompt],
    num_candidates: int,
    seed: int | None,
    generation: Mapping[str, Any],
) -> Iterator[CandidateList]:
    """The candidate lists of a batch; torch's random state is afterwards what it was before."""
    import torch

    options = {"nbest": num_candidates, **generation}
    tokens = [hub.encode(prompt.text) for prompt in batch]
    with torch.random.fork_rng(enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        nbest_lists = hub.generate(tokens, beam=num_candidates, **options)
    if len(nbest_lists) != len(batch):
        raise InputError(
            f"{len(nbest_lists)} lists for {len(batch)} texts",
            where="fairseq",
            fix="Leave skip_invalid_size_inputs out",
        )
    for prompt, hypotheses in zip(batch, nbest_lists, strict=True):
        candidates = [_candidate(hub, hypothesis) for hypothesis in hypotheses]
        record = prompt.with_candidates(candidates)
        if record.source is None:
            record = replace(record, source=prompt.text)
        yield record


def _candidate(hub: Any, hypothesis: Mapping[str, Any]) -> Candidate:
    """A hypothesis: total log-probability, and the normalised score beside it."""
    text = hub.decode(hypothesis["tokens"])
    logprob = float(hypothesis["positional_scores"].sum())
    score = float(hypothesis["score"])
    return Candidate(text, logprob, {"score": score})
