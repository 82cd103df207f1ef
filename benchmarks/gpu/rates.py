"""Texts and pairs per second beside plain loops of transformers, as shares of the card's peak, by batch tokens.

The model's seconds are those of its passes and of what follows them, without tokenising. Operations are counted by the
project's own formula (`Scorer.passes`); the peak is the data sheet's of an H100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import islice, product
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu.models import Model, made, source_of, texts_of
from benchmarks.gpu.record import PEAKS, Place
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import Block
from discorank.metrics.scorer import Scorer
from discorank.metrics.text.texts import NO_CONTEXT, Comparison

PLAIN_BATCH = 64  # texts or pairs of a plain loop's batch
SIDE = 8192  # of the matrix product that gives the measured peak
TOP = 6  # kernels that a profile names


class Case(NamedTuple):
    """What is measured of a family.

    Attributes:
        family, size: of the model.
        texts: how many are represented, each against the first, or compared with all others where pairs are passes.
        dtypes: in which precisions, the first of them with all the batches.
        batches: tokens of a batch; None for the default, which the others have.
    """

    family: str
    size: str
    texts: int
    dtypes: Sequence[str]
    batches: Sequence[int | None]


CASES = {
    "comet": Case("comet", "large", 6144, ("bfloat16", "float32"), (None, 1 << 13, 1 << 16)),
    "encoder": Case("encoder", "large", 2048, ("bfloat16",), (None,)),
    "metricx": Case("metricx", "large", 32, ("bfloat16",), (None, 1 << 13)),
    "bleurt": Case("bleurt", "large", 48, ("bfloat16",), (None,)),
    "causal": Case("causal", "1.5b", 256, ("bfloat16",), (None, 1 << 13)),
    "seq2seq": Case("seq2seq", "large", 32, ("bfloat16",), (None,)),
    "xcomet": Case("xcomet", "xl", 24, ("bfloat16",), (None,)),
}


def flops_of(scorer: Scorer, comparison: Comparison) -> tuple[float, int]:
    """Operations and tokens of the passes that a comparison needs."""
    items = list(dict.fromkeys(comparison.items))
    place = {item: row for row, item in enumerate(items)}
    prepared, _ = scorer.prepare(items)
    hypotheses = np.array([place[item] for item in comparison.hypotheses])
    references = np.array([place[item] for item in comparison.references], np.int64)
    source = -1 if comparison.source is None else place[comparison.source]
    passes = scorer.passes(prepared, Block(hypotheses, references, source))
    return passes.flops, int(passes.lengths.sum())


def compared(metric: Any, comparison: Comparison) -> dict[str, float]:
    """Seconds by stage of a comparison from nothing: prepare, represent, compare."""
    scorer = metric.scorer
    store = Store(scorer)
    blocks = store.add([comparison])
    start = perf_counter()
    scorer.compare(store.reps, blocks)
    return {**store.meter.take().seconds, "compare": perf_counter() - start}


def rates(place: Place) -> None:
    """The case that the part is named after."""
    case = CASES[place.part]
    size = place.size(case.size)
    start = perf_counter()
    model = made(place.root, case.family, size, place.device)
    place.write(size, "", "made", perf_counter() - start, "s")
    for dtype in case.dtypes:
        peak(place, dtype)
        is_first = dtype == case.dtypes[0]
        count = case.texts if is_first else case.texts // 3
        texts = texts_of(8 if place.rehearses else count, seed=2)
        ours(place, case.batches if is_first else (None,), model, dtype, texts)
        plain(place, case, model, dtype, texts)
    if "float32" in case.dtypes and place.device == "cuda":
        import torch

        torch.backends.cuda.matmul.allow_tf32 = True
        ours(place, (None,), model, "float32", texts, "with TF32")


def peak(place: Place, dtype: str) -> None:
    """The rate of one large matrix product."""
    import torch

    side = SIDE if place.device == "cuda" else 256
    of = {"device": place.device, "dtype": getattr(torch, dtype)}
    a, b = (torch.randn(side, side, **of) for _ in range(2))
    best = place.seconds(lambda: a @ b, 5)
    place.write("matrix product", dtype, "rate", 2 * side**3 / best / 1e12, "TFLOP/s")


def comparison_of(metric: Any, texts: Sequence[str]) -> Comparison:
    """Each text against the first, or all pairs where these are passes."""
    has_passes = metric.info.needs_references and metric.costly_pairs
    references = texts if has_passes else texts[:1]
    comparison: Comparison = metric.comparison(
        texts, references, source_of(metric, texts), NO_CONTEXT
    )
    return comparison


def ours(
    place: Place,
    batches: Sequence[int | None],
    model: Model,
    dtype: str,
    texts: Sequence[str],
    about: str = "",
) -> None:
    """This project's rates by batch tokens, and a profile of the first of them."""
    for batch_tokens in batches:
        start = perf_counter()
        metric = model.loaded(place.device, dtype, batch_tokens)
        scorer = metric.scorer
        loaded = perf_counter() - start
        comparison = comparison_of(metric, texts)
        compared(metric, comparison_of(metric, texts[: max(4, len(texts) // 8)]))  # warms up
        flops, tokens = flops_of(scorer, comparison)
        turns = [compared(metric, comparison) for _ in range(2)]
        seconds = min(turns, key=lambda turn: turn["represent"] + turn["compare"])
        of_model = seconds["represent"] + seconds["compare"]
        batch = f"{scorer.batch_tokens} tokens a batch {about}".strip()
        place.write(batch, dtype, "loaded", loaded, "s")
        for stage, value in seconds.items():
            place.write(batch, dtype, stage, value, "s")
        pairs = len(comparison.hypotheses) * max(1, len(comparison.references))
        place.write(batch, dtype, "texts or pairs", pairs / of_model, "per s", f"{pairs} of them")
        place.write(batch, dtype, "tokens", tokens / of_model, "per s", f"{tokens} of them")
        share = flops / of_model / PEAKS[dtype]
        place.write(
            batch, dtype, "share of the peak", 100 * share, "%", f"{flops / 1e12:.3g} TFLOP"
        )
        held = place.peak_gibibytes(partial(compared, metric, comparison))
        place.write(batch, dtype, "memory", held, "GiB")
        if batch_tokens is None and not about:
            try:
                profile(place, batch, dtype, partial(compared, metric, comparison))
            except Exception as error:  # the rates are there already
                place.failed(batch, dtype, error)


def profile(place: Place, case: str, dtype: str, call: Callable[[], Any]) -> None:
    """How busy the device is in a call, how many kernels it runs, and the longest of them."""
    import torch

    activity = torch.profiler.ProfilerActivity
    on = activity.CUDA if place.device == "cuda" else activity.CPU
    call()
    with torch.profiler.profile(activities=[on]) as profiled:
        start = perf_counter()
        call()
        place.wait()
        wall = perf_counter() - start
    seconds: Counter[str] = Counter()
    launches = 0
    # The raw events: a summary of a hundred thousand of them takes longer than the call.
    for event in profiled.profiler.kineto_results.events():
        if place.device != "cuda" or "CUDA" in str(event.device_type()):
            seconds[event.name()] += event.duration_ns() / 1e9
            launches += 1
    busy = sum(seconds.values())
    place.write(case, dtype, "device busy", 100 * busy / wall, "%", "profiled")
    place.write(case, dtype, "kernels", launches, "", f"in {wall:.3g} s")
    for name, value in seconds.most_common(TOP):
        place.write(case, dtype, "kernel", value, "s", name[:90])


def plain(place: Place, case: Case, model: Model, dtype: str, texts: Sequence[str]) -> None:
    """The plain loops of a family, and other packages where they import."""
    import torch

    for name, loop in PLAIN.get(case.family, {}).items():
        if not all(find_spec(package) for package in NEEDS.get(name, ())):
            place.write(name, dtype, "not there", "", "", "does not import")
            continue
        try:
            with torch.inference_mode():
                run, units = loop(place, model, dtype, texts)
                run(units[: PLAIN_BATCH // 4])
                seconds = place.seconds(partial(run, units))
        except Exception as error:  # a peer that fails costs its row alone
            place.failed(name, dtype, error)
            continue
        about = f"{len(units)} of them"
        place.write(name, dtype, "texts or pairs", len(units) / seconds, "per s", about)


Loop = tuple[Callable[[Sequence[Any]], Any], Sequence[Any]]


def in_batches(units: Sequence[Any]) -> Any:
    """Some of them at a time, in order."""
    remaining = iter(units)
    return iter(lambda: list(islice(remaining, PLAIN_BATCH)), [])


def _transformer(place: Place, folder: str, kind: str, dtype: str) -> tuple[Any, Any]:
    """A model and its tokenizer, as people load them."""
    import torch
    import transformers

    library: Any = transformers
    tokenizer = library.AutoTokenizer.from_pretrained(folder)
    loaded = getattr(library, kind).from_pretrained(folder, dtype=getattr(torch, dtype))
    return loaded.to(place.device).eval(), tokenizer


def _pooled(place: Place, model: Model, dtype: str, texts: Sequence[str]) -> Loop:
    """Mean vectors of the last layer, padded in the order of the list; tokens are there already."""
    folder = model.settings.get("encoder_path") or model.settings["model"]
    network, tokenizer = _transformer(place, folder, "AutoModel", dtype)
    ids = [tokenizer(text).input_ids for text in texts]

    def run(units: Sequence[list[int]]) -> None:
        for rows in in_batches(units):
            batch = tokenizer.pad({"input_ids": rows}, return_tensors="pt").to(place.device)
            states = network(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None].to(states.dtype)
            ((states * mask).sum(1) / mask.sum(1)).float().cpu()

    return run, ids


def _metricx(place: Place, model: Model, dtype: str, texts: Sequence[str]) -> Loop:
    """The released class, one decoder step, padded batches of pairs."""
    import torch

    from benchmarks.support.peers.learned import MetricX

    peer = MetricX(model.settings["model"])
    peer.model.to(place.device, getattr(torch, dtype))

    def run(units: Sequence[tuple[str, str]]) -> None:
        for pairs in in_batches(units):
            peer.values(pairs, texts[0]).float().cpu()

    return run, list(product(texts, texts))


def _causal(place: Place, model: Model, dtype: str, texts: Sequence[str]) -> Loop:
    """All logits of prompt and text, a log-softmax over them, padded batches in order."""
    network, tokenizer = _transformer(place, model.settings["model"], "AutoModelForCausalLM", dtype)
    prompt = tokenizer(texts[0]).input_ids
    ids = [prompt + tokenizer(text).input_ids for text in texts]

    def run(units: Sequence[list[int]]) -> None:
        for rows in in_batches(units):
            batch = tokenizer.pad({"input_ids": rows}, return_tensors="pt").to(place.device)
            logits = network(**batch, use_cache=False).logits[:, :-1].float()
            labels = batch["input_ids"][:, 1:, None]
            logits.log_softmax(-1).gather(2, labels)[:, :, 0].sum(1).cpu()

    return run, ids


def _seq2seq(place: Place, model: Model, dtype: str, texts: Sequence[str]) -> Loop:
    """The released code of BARTScore: both texts padded, a log-softmax over all logits, one direction."""
    network, tokenizer = _transformer(
        place, model.settings["model"], "AutoModelForSeq2SeqLM", dtype
    )
    ids = {text: tokenizer(text).input_ids for text in texts}

    def run(units: Sequence[tuple[str, str]]) -> None:
        for pairs in in_batches(units):
            sides = [
                tokenizer.pad(
                    {"input_ids": [ids[pair[side]] for pair in pairs]}, return_tensors="pt"
                )
                for side in (0, 1)
            ]
            given, target = (side.to(place.device) for side in sides)
            logits = network(**given, labels=target["input_ids"]).logits.float()
            values = logits.log_softmax(-1).gather(2, target["input_ids"][..., None])[..., 0]
            (values * target["attention_mask"]).sum(1).cpu()

    return run, list(product(texts, texts))


def _bert_score(place: Place, model: Model, dtype: str, texts: Sequence[str]) -> Loop:
    """bert-score's own vectors, of each text once."""
    import torch
    from bert_score import BERTScorer, utils  # type: ignore[import-not-found]

    scorer = BERTScorer(
        model_type=model.settings["model"],
        num_layers=model.settings["layer"],
        device=place.device,
        use_fast_tokenizer=True,
    )
    scorer._model.to(getattr(torch, dtype))
    idf = dict.fromkeys(range(len(scorer._tokenizer)), 1.0)

    def run(units: Sequence[str]) -> None:
        of = {"batch_size": PLAIN_BATCH, "device": place.device}
        utils.get_bert_embedding(units, scorer._model, scorer._tokenizer, idf, **of)[0].cpu()

    return run, texts


def _unbabel(place: Place, model: Model, dtype: str, texts: Sequence[str]) -> Loop:
    """`predict` of unbabel-comet: three texts a segment."""
    from comet import load_from_checkpoint  # type: ignore[import-not-found]

    network = load_from_checkpoint(f"{model.settings['model']}/checkpoints/model.ckpt")
    segments = [{"src": texts[0], "mt": text, "ref": texts[1]} for text in texts]
    gpus = int(place.device == "cuda")
    return partial(network.predict, batch_size=PLAIN_BATCH, gpus=gpus, progress_bar=False), segments


PLAIN: dict[str, dict[str, Callable[[Place, Model, str, Sequence[str]], Loop]]] = {
    "comet": {"plain loop": _pooled, "unbabel-comet": _unbabel},
    "encoder": {"plain loop": _pooled, "bert-score": _bert_score},
    "metricx": {"plain loop": _metricx},
    "causal": {"plain loop": _causal},
    "seq2seq": {"plain loop": _seq2seq},
}
NEEDS = {"unbabel-comet": ("comet",), "bert-score": ("bert_score",)}
