"""Decoders that approximate lexical MBR: fastchrf's reference aggregation, and mbrs' own where mbrs is installed.

    PYTHON -m benchmarks.support.peers.approximate

Every call takes lists of texts, each its own pseudo-references, and returns the index that it would choose in each.
mbrs scores BLEU in a pool of processes; here its pool is a loop in this process, which spares it starting them, and
its CPU seconds are all counted. mbrs has centroids for COMET alone; here they are rebuilt for chrF: k-means by
mbrs' class over counts of character n-grams, and each cluster, aggregated by fastchrf, has the weight of its size.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any
from zlib import crc32

from benchmarks.support.peers.process import Calls, serve

CHRF: dict[str, Any] = {
    "char_order": 6,
    "beta": 2.0,
    "remove_whitespace": True,
    "eps_smoothing": False,
}
COLUMNS = 4096  # n-grams are counted by hash
Lists = list[list[str]]


def best(values: Sequence[float]) -> int:
    """The index of the first best value."""
    return max(range(len(values)), key=lambda i: values[i])


def all_pairs(lists: Lists) -> list[int]:
    """fastchrf's exact pairs, one list after the other."""
    import fastchrf

    chosen = []
    for texts in lists:
        (matrix,) = fastchrf.pairwise_chrf([texts], [texts], **CHRF)
        chosen.append(best([sum(row) for row in matrix]))
    return chosen


def aggregated(lists: Lists) -> list[int]:
    """fastchrf's aggregate: chrF against the mean counts of all pseudo-references."""
    import fastchrf

    return [best(values) for values in fastchrf.aggregate_chrf(lists, lists, **CHRF)]


def centroids(lists: Lists) -> list[int]:
    """chrF against the mean counts of each of eight clusters."""
    import fastchrf
    import torch
    from mbrs.modules.kmeans import Kmeans  # type: ignore[import-not-found]

    chosen = []
    for texts in lists:
        counts = torch.tensor([_counts(text) for text in texts])
        _, assigned = Kmeans(Kmeans.Config()).train(counts)
        clusters: dict[int, list[str]] = {}
        for text, cluster in zip(texts, assigned.tolist(), strict=True):
            clusters.setdefault(cluster, []).append(text)
        references = list(clusters.values())
        values = torch.tensor(
            fastchrf.aggregate_chrf([texts] * len(references), references, **CHRF)
        )
        sizes = torch.tensor([float(len(cluster)) for cluster in references])
        chosen.append(int((sizes @ values).argmax()))
    return chosen


def _counts(text: str) -> list[float]:
    """Counts of character n-grams by hash."""
    letters = "".join(text.split())
    counts = [0.0] * COLUMNS
    for order in range(1, CHRF["char_order"] + 1):
        for start in range(len(letters) - order + 1):
            counts[crc32(letters[start : start + order].encode()) % COLUMNS] += 1
    return counts


class Loop:
    """A pool of processes that is a loop in this one."""

    def __init__(self, **_: Any) -> None:
        pass

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(
        self, function: Callable[..., float], *values: Iterable[str], **_: Any
    ) -> Iterable[float]:
        """As the pool's."""
        return map(function, *values)


def by_mbrs(decoder: str, metric: str, lists: Lists) -> list[int]:
    """mbrs' decoder with its default settings; its first choice in each list."""
    import torch
    from mbrs.decoders import get_decoder  # type: ignore[import-not-found]
    from mbrs.metrics import get_metric  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    concurrent.futures.ProcessPoolExecutor = Loop  # type: ignore[assignment,misc]
    kind, decoding = get_metric(metric), get_decoder(decoder)
    settings = kind.Config(fastchrf=True) if metric == "chrf" else kind.Config()
    decoders = decoding(decoding.Config(), kind(settings))
    return [int(decoders.decode(texts, texts, nbest=1).idx[0]) for texts in lists]


def calls() -> Calls:
    """What this interpreter can do; the names are a utility and a method."""
    found: dict[str, Callable[..., Any]] = {
        "chrf fastchrf all pairs": all_pairs,
        "chrf fastchrf aggregate": aggregated,
    }
    if find_spec("mbrs"):
        found["chrf centroids"] = centroids
        for metric in ("chrf", "bleu"):
            found[f"{metric} mbrs pruning"] = partial(by_mbrs, "pruning_mbr", metric)
            found[f"{metric} mbrs low-rank"] = partial(by_mbrs, "probabilistic_mbr", metric)
        found["bleu mbrs aggregate"] = partial(by_mbrs, "aggregate_mbr", "bleu")
    return found


if __name__ == "__main__":
    known = calls()
    serve({**known, "methods": lambda: list(known)})
