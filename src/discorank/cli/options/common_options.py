"""The options that every subcommand takes."""

from __future__ import annotations

from typing import Annotated, Literal

from ...metrics.spec.checked_settings import Field, settings

MODEL_OPTIONS = ("model", "encoder_path", "tokenizer_path", "device", "dtype", "batch_tokens")


@settings
class CommonOptions:
    """What every subcommand takes.

    Args:
        engine: where metrics run: local, or ray, for decode, rerank and serve (its settings: --set ray.actors=2).
        jobs: processes that share the lists of decode and rerank, with the same output; each loads the metrics itself.
            By auto, more than one only where they pay: JSON lines, metrics without models, some seconds of work left.
        model: the model of metrics that have one, where they do not name it: a folder or a name on the hub.
        encoder_path: the encoder of checkpoints that come without configuration and tokenizer.
        tokenizer_path: the tokenizer of models that come without one, such as MetricX.
        device: where models run, such as cpu or cuda:0; the first GPU if there is one.
        dtype: precision of models: float32, bfloat16 or float16.
        batch_tokens: tokens in one batch of a model; chosen by device if not given.
        cache: a folder that keeps what models made of texts, for later runs.
        cache_bytes: how many bytes are kept there.
        lang: language of the texts, such as de, for metrics that depend on it (bleu's tokenizer, bertscore's encoder,
            prism).
        align: metrics of segments compare whole documents sentence by sentence, aligned by the metric itself, by the
            cheap chrf or by length; see aligned(METRIC).
        windows: metrics of segments read whole documents in overlapping windows of so many sentences, as many as fit;
            see windows(METRIC).
        split_sentences: makes documents of texts, for metrics of segments: lines, rule or pysbd:LANGUAGE; see
            split(METRIC).
        max: another bound on what is read, such as candidates=100000; see docs/limits.md.
        quiet: say nothing on stderr but errors.
    """

    engine: Literal["local", "ray"] = "local"
    jobs: Literal["auto"] | int = "auto"
    model: str | None = None
    encoder_path: str | None = None
    tokenizer_path: str | None = None
    device: str | None = None
    dtype: str | None = None
    batch_tokens: int | None = None
    cache: str | None = None
    cache_bytes: Annotated[int, Field(ge=1)] = 10**10
    lang: str | None = None
    align: Literal["metric", "chrf", "length"] | None = None
    windows: Annotated[int, Field(ge=1)] | None = None
    split_sentences: str | None = None
    max: tuple[str, ...] = ()
    quiet: bool = False
