"""Sets of systems whose every candidate is rated, with utility matrices that are computed once; see `system_prior`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks.support.mqm_lists import rated
from discorank.integrations.formats.human_scores import HumanKey
from discorank.integrations.formats.systems import SystemsOptions, read_documents
from discorank.metrics.combination import parts_of
from discorank.metrics.mixture import Mix, Utility
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray, IntArray
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.distinct import Distinct
from discorank.rerank.engines.interface import Result, Task
from discorank.rerank.expectation import expected_utility
from discorank.rerank.mbr_decoder import MBRDecoder
from discorank.rerank.prior import Prior
from discorank.rerank.selection.document_outputs import DocumentOutputs
from discorank.rerank.selection.system_prior import estimate_prior
from discorank.rerank.tuning.pair_weights import Tuning, gathered, learn
from discorank.rerank.tuning.preferences import by_scores

METRICS = (
    "chrf",
    "chrf(beta=1.0)",
    "chrf++",
    "bleu",
    "ter",
    "rouge-l",
)  # of the learned combination
NEURAL = ("bertscore",)  # into English beside them
LEXICAL = "chrf + 100*rouge-l"
BLOCK = 10  # segments of a block, in sets of few documents
HOW = Tuning(against="candidates", margin=0.5)


class Set:
    """A set whose every candidate is rated, with utility matrices that are computed once.

    An engine of its own: it values lists by these matrices, as `LocalEngine` values them.
    """

    def __init__(self, name: str, folder: Path, cache: Path | None) -> None:
        path = str(folder / f"mt_mqm_{name}.jsonl.gz")
        self.name, self.cache = name, cache
        self.lists = rated(path)
        self.place = {record.id: i for i, record in enumerate(self.lists)}
        self.mqm = np.array(
            [[float(c.fields["mqm"]) for c in record.candidates] for record in self.lists]
        )
        options = SystemsOptions((HumanKey("mqm", lower=True),))
        self.outputs = list(read_documents(LineSource(path), options))
        self.documents = np.array([str(record.document) for record in self.lists])
        self.number = np.unique(self.documents, return_inverse=True)[1]
        blocks = np.array([f"{document} {i // BLOCK}" for i, document in enumerate(self.documents)])
        self.blocks = np.unique(blocks, return_inverse=True)[1]
        self.is_tiny = int(self.number.max()) < 3
        self.groups = self.blocks if self.is_tiny else self.number  # of the bootstrap
        self.pairs = [by_scores(mqm.tolist(), HOW.margin, lower=True) for mqm in self.mqm]
        self.metrics = (*METRICS, *NEURAL) if name.endswith("-en") else METRICS
        self.matrices: dict[Utility, list[FloatArray]] = {
            load_metric(spec): self._matrices(spec) for spec in self.metrics
        }
        distinct = [Distinct(record.candidates) for record in self.lists]
        uniform = [d.pooled(np.ones(len(d.of))) for d in distinct]
        columns = [
            [
                expected_utility(u, w)[d.of]
                for u, w, d in zip(matrices, uniform, distinct, strict=True)
            ]
            for matrices in self.matrices.values()
        ]
        self.features = [np.stack(own, axis=1) for own in zip(*columns, strict=True)]
        self.done: list[tuple[int, Result]] = []

    def _matrices(self, spec: str) -> list[FloatArray]:
        path = self.cache and self.cache / f"{self.name}.{crc32(spec.encode()):08x}.npz"
        if path and path.exists():
            with np.load(path) as file:
                return [file[str(i)] for i in range(len(self.lists))]
        metric = load_metric(spec).for_language(self.name[-2:])
        decoder = MBRDecoder(utility=metric, keep_matrix=True)
        decoded = [ranking.matrix for ranking in decoder.decode(self.lists)]
        matrices = [matrix for matrix in decoded if matrix is not None]
        if path:
            np.savez(path, **{str(i): u for i, u in enumerate(matrices)})  # type: ignore[arg-type]
        return matrices

    def load(self, metrics: Sequence[Utility]) -> None:
        """There is nothing to load."""

    def submit(self, key: int, task: Task) -> None:
        """Values a list."""
        known = [self.matrices[part][self.place[task.id]] for _, part in task.metric.parts]
        self.done.append(
            (key, Result(np.array([expected_utility(u, task.weights, task.own) for u in known])))
        )

    def collect(self) -> list[tuple[int, Result]]:
        """Everything submitted."""
        done, self.done = self.done, []
        return done

    def utility(self, name: str) -> str:
        """What a name of `UTILITIES` stands for here."""
        if name == "chrf":
            return name
        return (
            f"{LEXICAL} + 250*bertscore"
            if name == "+bertscore" and len(self.metrics) > len(METRICS)
            else LEXICAL
        )

    def prior(self, train: IntArray) -> Prior:
        """What `discorank train prior` finds in the judgements of some segments."""
        judged = {self.lists[i].id for i in train.tolist()}
        return estimate_prior(
            [only(document, judged) for document in self.outputs], "mqm", lower=True
        )

    def combination(self, train: IntArray) -> Mix:
        """What `discorank train combination --against candidates` finds in the judgements of some segments."""
        rows = train.tolist()
        documents = [str(self.documents[i]) for i in rows]
        data = gathered([self.features[i] for i in rows], [self.pairs[i] for i in rows], documents)
        learned = learn(data, HOW)
        ends = zip(
            self.metrics,
            learned.weights.tolist(),
            *(end.tolist() for end in learned.scale),
            strict=True,
        )
        features = [{"metric": m, "weight": w, "min": a, "max": b} for m, w, a, b in ends]
        return Mix(parts_of(features, self.name, load_metric))

    def chosen(
        self, test: IntArray, utility: Utility | str, prior: Prior | None, strength: float
    ) -> FloatArray:
        """MQM of the candidates that an MBR decoder chooses, [test]."""
        decoder = MBRDecoder(utility=utility, prior=prior, prior_strength=strength)
        picks = [r.index for r in decoder.decode((self.lists[i] for i in test.tolist()), self)]  # type: ignore[call-overload]
        return np.asarray(self.mqm[test, picks])


def only(document: DocumentOutputs, judged: set[str]) -> DocumentOutputs:
    """A document with the judgements of these segments alone."""
    scores_of = {
        name: tuple(s if f"{document.id}:{i}" in judged else None for i, s in enumerate(scores))
        for name, scores in document.human["mqm"].items()
        if isinstance(scores, tuple)
    }
    return replace(document, human={"mqm": scores_of})
