"""COMET over all pairs as mbrs computes it: by its own code, or (``--plain``) by the same steps written out.

    PYTHON -m benchmarks.support.peers.comet FOLDER THREADS [--plain | --predict]

With ``--predict`` it scores segments alone, by unbabel-comet's own `predict`.

Texts are encoded once, in batches of 64 in the order of the list, padded; then a loop over references runs the whole
estimator on every pair.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.support.peers.process import serve, weights_under

BATCH, PREDICT_BATCH = 64, 16


class Loop:
    """mbrs' metric."""

    def __init__(self, folder: Path) -> None:
        from mbrs.metrics import comet  # type: ignore[import-not-found]

        comet.download_model = lambda name: f"{name}/checkpoints/model.ckpt"
        self.metric = comet.MetricCOMET(
            comet.MetricCOMET.Config(model=str(folder), batch_size=BATCH, cpu=True)
        )

    def encode(self, texts: list[str]) -> Any:
        return self.metric.encode(texts)

    def compare(self, h: Any, r: Any, s: Any) -> Any:
        return self.metric.pairwise_scores_from_ir(h, r, s)

    def pairwise(self, texts: list[str], source: str) -> Any:
        return self.metric.pairwise_scores(texts, texts, source)

    def scores(self, hypotheses: list[str], references: list[str], sources: list[str]) -> Any:
        return self.metric.scores(hypotheses, references, sources)

    def in_context(self, wanted: bool) -> None:
        self.metric.scorer.use_context = wanted


class Plain:
    """The same steps."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoConfig, AutoModel, AutoTokenizer

        checkpoint = torch.load(folder / "checkpoints" / "model.ckpt", weights_only=True)
        state, settings = checkpoint["state_dict"], checkpoint["hyper_parameters"]

        encoder = settings["pretrained_model"]
        self.torch, self.tokenizer = torch, AutoTokenizer.from_pretrained(encoder)
        kind: Any = AutoModel
        self.encoder = kind.from_config(
            AutoConfig.from_pretrained(encoder), add_pooling_layer=False
        ).eval()
        self.encoder.load_state_dict(weights_under(state, "encoder.model."))
        mix = weights_under(state, "layerwise_attention.scalar_parameters.")
        self.shares = torch.cat([mix[str(layer)] for layer in range(len(mix))]).softmax(0)
        widths = (6 * self.encoder.config.hidden_size, *settings["hidden_sizes"])
        layers: list[Any] = []
        for into, out in pairwise(widths):
            layers += [torch.nn.Linear(into, out), torch.nn.Tanh(), torch.nn.Dropout(0.1)]
        self.head = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], 1)).eval()
        self.head.load_state_dict(weights_under(state, "estimator.ff."))
        self.context = False

    def encode(self, texts: list[str]) -> Any:
        parts = [self._batch(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        return self.torch.cat(parts)

    def _batch(self, texts: list[str]) -> Any:
        batch = self.tokenizer(
            texts, return_tensors="pt", padding=True, truncation=True, max_length=510
        )
        mask = batch.attention_mask.float()[..., None]
        mixed: Any = 0
        for share, x in zip(
            self.shares, self.encoder(**batch, output_hidden_states=True).hidden_states, strict=True
        ):
            size = mask.sum((1, 2), keepdim=True) * x.shape[2]
            mean = (x * mask).sum((1, 2), keepdim=True) / size
            variance = (((x - mean) * mask) ** 2).sum((1, 2), keepdim=True) / size
            mixed = mixed + share * (x - mean) / (variance + 1e-12).sqrt()
        if self.context:
            for row, ids in zip(mask, batch.input_ids, strict=True):
                row[1 : int((ids == self.tokenizer.sep_token_id).nonzero()[-2]) + 1] = 0
        return (mixed * mask).sum(1) / mask.sum(1)

    def compare(self, h: Any, r: Any, s: Any) -> Any:
        s = s.repeat(len(h), 1)
        columns = []
        for reference in r:
            reference = reference.repeat(len(h), 1)
            features = (h, reference, h * reference, (h - reference).abs(), h * s, (h - s).abs())
            columns.append(self.head(self.torch.cat(features, 1)))
        return self.torch.cat(columns, 1)

    def pairwise(self, texts: list[str], source: str) -> Any:
        e = self.encode(texts)
        return self.compare(e, e, self.encode([source]))

    def scores(self, hypotheses: list[str], references: list[str], sources: list[str]) -> Any:
        h, r, s = (self.encode(texts) for texts in (hypotheses, references, sources))
        return self.head(self.torch.cat((h, r, h * r, (h - r).abs(), h * s, (h - s).abs()), 1))[
            :, 0
        ]

    def in_context(self, wanted: bool) -> None:
        self.context = wanted


def predicted_by(folder: str) -> Callable[..., list[float]]:
    """Scores of segments by unbabel-comet."""
    from comet import load_from_checkpoint  # type: ignore[import-not-found]

    model: Any = load_from_checkpoint(str(Path(folder, "checkpoints", "model.ckpt")))
    quiet: dict[str, Any] = {"gpus": 0, "num_workers": 0, "progress_bar": False}

    def scores(hypotheses: list[str], references: list[str], sources: list[str]) -> list[float]:
        triples = []
        for hypothesis, reference, source in zip(hypotheses, references, sources, strict=True):
            triples.append({"src": source, "mt": hypothesis, "ref": reference})
        predicted = model.predict(triples, batch_size=PREDICT_BATCH, **quiet)
        return [float(score) for score in predicted.scores]

    return scores


def main(folder: str, threads: str, *plain: str) -> None:
    import torch

    torch.set_num_threads(int(threads))
    if "--predict" in plain:
        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        serve({"scores": predicted_by(folder)})
        return
    peer = Plain(Path(folder)) if plain else Loop(Path(folder))
    kept: list[Any] = []

    def encode(texts: list[str], source: str) -> None:
        kept[:] = peer.encode(texts), peer.encode([source])

    def compare() -> Any:
        return peer.compare(kept[0], kept[0], kept[1]).tolist()

    def all_pairs(texts: list[str], source: str, context: bool = False) -> Any:
        peer.in_context(context)
        return peer.pairwise(texts, source).tolist()

    def scores(hypotheses: list[str], references: list[str], sources: list[str]) -> Any:
        peer.in_context(True)
        return peer.scores(hypotheses, references, sources).tolist()

    with torch.no_grad():
        serve({"encode": encode, "compare": compare, "pairwise": all_pairs, "scores": scores})


if __name__ == "__main__":
    main(*sys.argv[1:])
