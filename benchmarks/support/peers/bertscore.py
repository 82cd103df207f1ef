"""BERTScore over all pairs by the code of bert_score and of mbrs.

    PYTHON -m benchmarks.support.peers.bertscore FOLDER LAYER THREADS

bert_score encodes every distinct text once and then pads, multiplies and masks 64 pairs at a time; mbrs does the same
with all hypotheses and one reference at a time. Context is part of a text, before the last separator, and is given no
weight, as in the released code of Doc-BERTScore.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.support.peers.process import serve


class BertScore:
    """bert_score; after `encode`, `compare` takes the embeddings from there."""

    def __init__(self, folder: str, layer: int) -> None:
        from bert_score import BERTScorer, utils  # type: ignore[import-not-found]

        self.utils, self.embed, self.collate = utils, utils.get_bert_embedding, utils.collate_idf
        self.scorer = BERTScorer(
            model_type=folder, num_layers=layer, device="cpu", use_fast_tokenizer=True
        )
        self.kept: dict[str, Any] = {}
        utils.collate_idf = self._collate

    def _collate(self, texts: list[str], tokenizer: Any, *settings: Any, **more: Any) -> Any:
        ids, weights, lengths, mask = self.collate(texts, tokenizer, *settings, **more)
        for row, weight in zip(ids, weights, strict=True):
            separators = (row == tokenizer.sep_token_id).nonzero()
            if len(separators) > 1:
                weight[: int(separators[-2])] = 0
        return ids, weights, lengths, mask

    def encode(self, texts: list[str]) -> None:
        tokenizer = self.scorer._tokenizer
        idf = dict.fromkeys(range(len(tokenizer)), 1.0) | {
            tokenizer.sep_token_id: 0.0,
            tokenizer.cls_token_id: 0.0,
        }
        for text in dict.fromkeys(texts):
            vectors, _, weights = self.embed(
                [text], self.scorer._model, tokenizer, idf, device="cpu"
            )
            self.kept[text] = vectors[0], weights[0]

    def _known(self, texts: list[str], *_: Any, **__: Any) -> Any:
        """What `encode` kept, in place of a forward pass."""
        import torch

        vectors, weights = zip(*(self.kept[text] for text in texts), strict=True)
        padded = [
            torch.nn.utils.rnn.pad_sequence(list(some), batch_first=True)
            for some in (vectors, weights)
        ]
        lengths = torch.tensor([len(one) for one in vectors])
        return padded[0], (torch.arange(padded[0].shape[1]) < lengths[:, None]).long(), padded[1]

    def pairwise(self, texts: list[str]) -> Any:
        hypotheses = [text for text in texts for _ in texts]
        return self.scorer.score(hypotheses, texts * len(texts))[2].view(len(texts), -1).tolist()

    def compare(self, texts: list[str]) -> Any:
        self.utils.get_bert_embedding = self._known
        try:
            return self.pairwise(texts)
        finally:
            self.utils.get_bert_embedding = self.embed


class Mbrs:
    """mbrs' metric, without context."""

    def __init__(self, folder: str, layer: int) -> None:
        from mbrs.metrics.bertscore import MetricBERTScore  # type: ignore[import-not-found]

        settings = MetricBERTScore.Config(
            model_type=folder, num_layers=layer, use_fast_tokenizer=True, cpu=True
        )
        self.metric = MetricBERTScore(settings)

    def encode(self, texts: list[str]) -> None:
        self.kept = self.metric.encode(texts)

    def compare(self, texts: list[str]) -> Any:
        return self.metric.pairwise_scores_from_ir(self.kept, self.kept).tolist()

    def pairwise(self, texts: list[str]) -> Any:
        return self.metric.pairwise_scores(texts, texts).tolist()


def main(folder: str, layer: str, threads: str) -> None:
    import torch

    torch.set_num_threads(int(threads))
    peers = {"bert_score": BertScore(folder, int(layer)), "mbrs": Mbrs(folder, int(layer))}
    calls = ("encode", "compare", "pairwise")
    with torch.no_grad():
        serve(
            {
                f"{name} {call}": getattr(peer, call)
                for name, peer in peers.items()
                for call in calls
            }
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
