"""Every family of promises by its name: what tries it so many times with a seed, in an empty folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks.reliability import (
    comparison_storms,
    damage,
    decode_storms,
    door_storms,
    full_disk,
    generate_storms,
    judge_storms,
    logprobs_storms,
    ray_storms,
    sharing,
    training_storms,
)
from benchmarks.reliability.storms import Target, Tried, stormed
from discorank.integrations.formats.format_table import formats

Trial = Callable[[int, int, Path], list[Tried]]


def storm(target_in: Callable[[Path], Target]) -> Trial:
    """The trial that disturbs a command; `target_in` makes its inputs in a folder."""

    def trial(tries: int, seed: int, folder: Path) -> list[Tried]:
        return stormed(target_in(folder / "inputs"), tries, seed, folder / "runs")

    return trial


def form_storm(form: str) -> Trial:
    """The trial that disturbs decoding into an n-best list."""
    return storm(partial(decode_storms.into_form, form=form))


def generate_from_server(tries: int, seed: int, folder: Path) -> list[Tried]:
    """The storm of a command that asks a server."""
    with generate_storms.server(folder / "inputs") as target:
        return stormed(target, tries, seed, folder / "runs")


def logprobs_from_server(tries: int, seed: int, folder: Path) -> list[Tried]:
    """The storm of a command that has a server score."""
    with logprobs_storms.server(folder / "inputs") as target:
        return stormed(target, tries, seed, folder / "runs")


FAMILIES: Mapping[str, Trial] = {
    "decode": storm(decode_storms.decode),
    "decode-sum": storm(decode_storms.decode_plain),
    "decode-parquet": storm(decode_storms.decode_table),
    **{
        f"decode-{form}": form_storm(form)
        for form, declared in formats().items()
        if declared.written
    },
    "decode-cache": storm(decode_storms.decode_cached),
    "decode-budget": storm(decode_storms.under_budget),
    "decode-budget-stops": storm(
        partial(
            decode_storms.under_budget,
            name="decode-budget-stops",
            stop=("--regret", "0.1", "--confidence", "0.8"),
        )
    ),
    "rerank": storm(decode_storms.rerank),
    "rerank-shrink": storm(decode_storms.rerank_shrunk),
    "rerank-parquet": storm(decode_storms.rerank_table),
    "generate": generate_storms.counted(generate_storms.model_in_turns),
    "generate-batches": generate_storms.counted(generate_storms.model_by_batches),
    "generate-server": generate_from_server,
    "decode-judge": judge_storms.decode_in_context,
    "rerank-judge": judge_storms.rerank,
    "logprobs": storm(logprobs_storms.causal),
    "logprobs-reverse": storm(logprobs_storms.encoder_decoder),
    "logprobs-server": logprobs_from_server,
    "train-sescore2": storm(training_storms.all_stages),
    "compare": storm(comparison_storms.comparison),
    "ray-actor": ray_storms.workers,
    "ray-node": ray_storms.whole_nodes,
    "ray-driver": ray_storms.drivers,
    "damage": damage.flipped_bits,
    "sharing": sharing.two_processes,
    "full-disk": full_disk.full_disks,
    "door": door_storms.doors,
}
