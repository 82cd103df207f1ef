"""MetricX, BLEURT and XCOMET over all pairs, by mbrs' code or (``--plain``) by forward passes of released classes.

    PYTHON -m benchmarks.support.peers.learned METRIC FOLDER [--plain]

METRIC is metricx, bleurt or xcomet. Plain are transformers' classes as the released code runs them: pairs in the order
of the list, padded in batches of mbrs' default size, every pair by itself.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.support.peers.learned_models import REGRESSION_TOKEN
from benchmarks.support.peers.process import serve, weights_under

# Pairs of one batch, as mbrs has them by default.
BATCHES = {"metricx": 8, "bleurt": 64, "xcomet": 8}
Pair = tuple[str, str]


def mbrs_metric(name: str, folder: str) -> Any:
    """mbrs' metric; it knows models by their names on the hub, and is shown a folder instead."""
    if name == "metricx":
        from mbrs.metrics import metricx  # type: ignore[import-not-found]

        kind, tokenizers = metricx.MetricMetricX, metricx.AutoTokenizer
        kind.METRICX_VERSION_MAP[folder] = kind.MetricXVersion.metricx_24
        load = tokenizers.from_pretrained
        tokenizers.from_pretrained = lambda _, **settings: load(folder, **settings)
    elif name == "bleurt":
        from bleurt_pytorch.bleurt.tokenization_bleurt_sp import (  # type: ignore[import-not-found]
            BleurtSPTokenizer,
        )
        from mbrs.metrics import bleurt

        kind = bleurt.MetricBLEURT
        BleurtSPTokenizer.max_model_input_sizes[folder] = 512
    else:
        from mbrs.metrics import xcomet

        kind = xcomet.MetricXCOMET
        xcomet.download_model = lambda path: f"{path}/checkpoints/model.ckpt"
    return kind(kind.Config(model=folder, cpu=True))


class Mbrs:
    """mbrs' own code."""

    def __init__(self, name: str, folder: str) -> None:
        self.metric = mbrs_metric(name, folder)
        self.reads_source = name != "bleurt"

    def pairwise(self, texts: list[str], source: str) -> Any:
        more = [source] if self.reads_source else []
        return self.metric.pairwise_scores(texts, texts, *more)


class MetricX:
    """The released class of MetricX-24, which is mT5's for generation with one decoder step."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoTokenizer, MT5ForConditionalGeneration

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        kind: Any = MT5ForConditionalGeneration
        self.model = kind.from_pretrained(folder).eval()

    def values(self, pairs: list[Pair], source: str) -> Any:
        import torch

        written = [f"source: {source} candidate: {h} reference: {r}" for h, r in pairs]
        # Without the end token, as the released code takes it away.
        batch = self.tokenizer(written, add_special_tokens=False, padding=True, return_tensors="pt")
        batch = batch.to(self.model.device)
        start = torch.zeros(len(pairs), 1, dtype=torch.long, device=self.model.device)
        logits = self.model(**batch, decoder_input_ids=start, use_cache=False).logits
        token = min(REGRESSION_TOKEN, logits.shape[2] - 1)
        return logits[:, 0, token].clamp(0, 25)


class Bleurt:
    """BLEURT-20 by RemBERT's class, which converted weights fit under other names."""

    def __init__(self, folder: str) -> None:
        import json

        import sentencepiece
        import torch
        from transformers import RemBertConfig, RemBertForSequenceClassification

        about = json.loads(Path(folder, "config.json").read_text())
        config = RemBertConfig(input_embedding_size=about.pop("embedding_size"), **about)
        kind: Any = RemBertForSequenceClassification
        self.model = kind(config).eval()
        state = torch.load(Path(folder, "pytorch_model.bin"), weights_only=True)
        renamed = {}
        for name, value in state.items():
            name = name.replace("bleurt.", "rembert.")
            renamed[name.replace("embedding_projection", "embedding_hidden_mapping_in")] = value
        self.model.load_state_dict(renamed)
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/spm.model")

    def values(self, pairs: list[Pair], _: str) -> Any:
        import torch

        rows, types = [], []
        for h, r in pairs:
            reference, hypothesis = [2, *self.pieces.encode(r), 3], [*self.pieces.encode(h), 3]
            rows.append(torch.tensor(reference + hypothesis))
            types.append(torch.tensor([0] * len(reference) + [1] * len(hypothesis)))
        padded = torch.nn.utils.rnn.pad_sequence
        return self.model(
            input_ids=padded(rows, batch_first=True),
            token_type_ids=padded(types, batch_first=True),
            attention_mask=padded([torch.ones_like(row) for row in rows], batch_first=True),
        ).logits[:, 0]


class XComet:
    """XCOMET as it is written down: three passes for every pair."""

    def __init__(self, folder: str) -> None:
        import torch
        from transformers import AutoConfig, AutoModel, AutoTokenizer

        content = torch.load(Path(folder, "checkpoints", "model.ckpt"), weights_only=True)
        state, settings = content["state_dict"], content["hyper_parameters"]

        encoder = settings["pretrained_model"]
        self.tokenizer = AutoTokenizer.from_pretrained(encoder)
        kind: Any = AutoModel
        self.encoder = kind.from_config(
            AutoConfig.from_pretrained(encoder), add_pooling_layer=False
        ).eval()
        self.encoder.load_state_dict(weights_under(state, "encoder.model."))
        mix = weights_under(state, "layerwise_attention.scalar_parameters.")
        self.shares = torch.cat([mix[str(layer)] for layer in range(len(mix))]).softmax(0)
        head = weights_under(state, "estimator.ff.")
        self.head = [(head[f"{place}.weight"], head[f"{place}.bias"]) for place in (0, 3, 6)]
        self.labels = state["hidden2tag.weight"], state["hidden2tag.bias"]
        self.word_layer = settings["word_layer"]

    def values(self, pairs: list[Pair], source: str) -> Any:
        import torch

        def ids(text: str) -> list[int]:
            numbers: list[int] = self.tokenizer(text).input_ids
            return numbers

        s = ids(source)
        triples = [(ids(h), ids(r)) for h, r in pairs]
        inputs = (
            [[h, s] for h, _ in triples],
            [[h, r] for h, r in triples],
            [[h, s, r] for h, r in triples],
        )
        lengths = [len(h) for h, _ in triples]
        total: Any = 0
        labels: Any = 0
        for texts, weight, share in zip(
            inputs, (0.12, 0.33, 0.33), (1 / 6, 1 / 3, 1 / 2), strict=True
        ):
            score, probabilities = self._read(texts, max(lengths))
            total = total + weight * score.clamp(max=1)
            labels = labels + share * probabilities
        mqm = [
            _mqm(of_one[:length].argmax(1).tolist())
            for of_one, length in zip(labels, lengths, strict=True)
        ]
        return total + 0.22 * torch.tensor(mqm)

    def _read(self, texts: list[list[list[int]]], length: int) -> tuple[Any, Any]:
        """Scores [n], and label probabilities of the first tokens, [n, length, 4]."""
        import torch

        rows = []
        for first, *others in texts:
            row = list(first)
            for other in others:
                row += [2, *other[1:]]
            rows.append(torch.tensor(row))
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)
        states = self.encoder(
            input_ids=ids, attention_mask=(ids != 1).long(), output_hidden_states=True
        ).hidden_states
        vector: Any = 0
        for share, x in zip(self.shares, states, strict=True):
            vector = vector + share * x[:, 0]
        for number, (weight, bias) in enumerate(self.head):
            vector = torch.nn.functional.linear(vector, weight, bias)
            vector = vector.tanh() if number < 2 else vector
        logits = torch.nn.functional.linear(states[self.word_layer][:, :length], *self.labels)
        return vector[:, 0], logits.softmax(2)


def _mqm(labels: list[int]) -> float:
    """What spans of labels leave of 1: a span has the weight of its first label, one at the end does not count."""
    penalty, inside, opened = 0, 0, 0
    for label in labels:
        if label and not inside:
            opened = (1, 5, 10)[label - 1]
        if inside and not label:
            penalty += opened
        inside = label
    return (25 - min(25, penalty)) / 25


class Plain:
    """Padded batches of pairs, in order."""

    def __init__(self, name: str, folder: str) -> None:
        kinds: dict[str, Any] = {"metricx": MetricX, "bleurt": Bleurt, "xcomet": XComet}
        self.scorer = kinds[name](folder)
        self.batch = BATCHES[name]

    def pairwise(self, texts: list[str], source: str) -> Any:
        import torch

        pairs = list(product(texts, texts))
        starts = range(0, len(pairs), self.batch)
        values = [self.scorer.values(pairs[i : i + self.batch], source) for i in starts]
        return torch.cat(values).view(len(texts), -1)


def main(name: str, folder: str, *plain: str) -> None:
    import torch

    torch.set_num_threads(1)
    peer = Plain(name, folder) if plain else Mbrs(name, folder)
    with torch.inference_mode():
        serve({"pairwise": lambda **arguments: peer.pairwise(**arguments).tolist()})


if __name__ == "__main__":
    main(*sys.argv[1:])
