"""Lists of all families of metrics, and an engine that has them go through the stages of Ray's workers without Ray."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from discorank.metrics.errors import DiscorankError
from discorank.metrics.mixture import Utility
from discorank.rerank.engines.interface import Engine, Result, Task, number_parts
from discorank.rerank.engines.ray import work as ray_work
from discorank.rerank.engines.ray.settings import RaySettings
from discorank.rerank.engines.ray.work import Work
from discorank.rerank.engines.ray.worker import Worker
from discorank.rerank.engines.status import Status
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.reranker import Reranker
from discorank.rerank.runs.run import json_row

from . import faulty
from .lists import made_lists

MODELS = Path(__file__).parents[1] / "golden" / "docmetrics" / "models"
QE = f'model="{MODELS}/tiny-comet-qe",encoder_path="{MODELS}/tiny-xlmr"'
DISCO = Path(__file__).parents[1] / "golden" / "discoscore" / "models" / "tiny2"
COMET = f'model="{MODELS}/tiny-comet-ref",encoder_path="{MODELS}/tiny-xlmr"'
ROLES = f'model="{MODELS.parents[1]}/pdd/tiny-roles",encoder_path="{MODELS}/tiny-bert"'
SHORT = [{**row, "source": "the ferry leaves"} for row in made_lists(2, 20, seed=5)]
TINY = f'model="{MODELS}/tiny-bert",layer=2'
LEARNED = MODELS.parents[1]
XCOMET = f'model="{LEARNED}/xcomet/models/tiny-xcomet",encoder_path="{LEARNED}/xcomet/models/tiny-xlmr-xl"'
METRICX = (
    f'model="{LEARNED}/metricx/models/tiny-metricx-24",'
    f'tokenizer_path="{LEARNED}/metricx/models/tiny-mt5-tokenizer",regression_token_id=11'
)
BLEURT = f'model="{LEARNED}/bleurt/models/tiny-bleurt-20"'
EMBEDDING = f'model="{LEARNED}/sentence_embedding/models/tiny-st-mean"'


class Reference(NamedTuple):
    """A value in an object store that is this process."""

    value: Any


class Here:
    """What `Work` needs of Ray where everything is in one process."""

    put = Reference


class StagedEngine:
    """Two workers in this process, which take turns at the steps of `Work`.

    Attributes:
        steps: how many steps of each method were done, and `nbytes` of what they leave in the object store.
    """

    def __init__(self) -> None:
        self.work = Work(Here, RaySettings())
        self.work.num_representing = self.work.num_comparing = 2
        self.work.store_bytes = float("inf")
        self.workers = [Worker(None), Worker(None)]
        self.steps: Counter[str] = Counter()
        self.nbytes: Counter[str] = Counter()

    def load(self, metrics: Sequence[Utility]) -> None:
        """Both workers load the metrics."""
        number_parts(metrics, self.work.metrics, self.work.metric_numbers)
        for worker in self.workers:
            outcome = worker.load(self.work.metrics)
            assert outcome.error is None
            self.work.pairwise = outcome.pairwise

    def submit(self, key: int, task: Task) -> None:
        """Takes a list."""
        self.work.add(key, task)

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        """Works until a list is done."""
        while not self.work.results:
            number = self.steps.total() % 2
            step = self.work.next(("model", "compare"), False, f"worker {number}")
            assert step is not None
            read = [one.value if isinstance(one, Reference) else one for one in step.arguments]
            returned = getattr(self.workers[number], step.method)(*read)
            value, outcome = (None, returned) if step.group is None else returned
            self.steps[step.method] += 1
            self.nbytes[step.method] += outcome.nbytes
            self.work.finished(step, Reference(value), outcome, f"worker {number}")
        return self.work.taken()

    def forget(self, keys: Collection[int]) -> None:
        """Lets go of lists."""
        self.work.forget(keys)

    def status(self) -> Status:
        """Nothing is counted."""
        return Status()


def cut_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every list is cut into many small pieces."""
    monkeypatch.setattr(ray_work, "SPLIT_BLOCKS", 0)
    monkeypatch.setattr(ray_work, "BLOCK_SECONDS", 0.001)
    monkeypatch.setattr(ray_work, "MIN_SECONDS", 0.0001)
    monkeypatch.setattr(ray_work, "MAX_STEPS", 6)


def rows_of(deciders: Sequence[tuple[MBRDecoder | Reranker, Any]], engine: Engine) -> list[bytes]:
    """What the engine gives for every decider's lists."""
    engine.load([metric for decider, _ in deciders for metric in decider.metrics])
    return [
        json_row(ranking)
        for decider, lists in deciders
        for ranking in decider.decode(lists, engine)
    ]


LONG = [{**row, "source": "the ferry leaves"} for row in made_lists(3, 70, seed=3)]
CROSSED = [
    {**row, "pseudo_references": [candidate["text"] for candidate in other["candidates"]]}
    for row, other in zip(LONG, made_lists(3, 40, seed=4), strict=True)
]
SENTENCES = [{**row, "candidates": row["candidates"][:2]} for row in made_lists(30, seed=6)]
TEXTS = [candidate["text"] for candidate in LONG[0]["candidates"]]
UNEQUAL = [  # 40 documents of two to five sentences
    {"id": "unequal", "candidates": [TEXTS[i : i + 2 + i % 4] for i in range(40)]}
]
STAGED: dict[str, list[tuple[Any, Any]]] = {
    "chrf": [(MBRDecoder(utility="chrf", nbest=None), LONG)],
    "bleu": [(MBRDecoder(utility="bleu", nbest=None, self_pair=False), LONG)],
    "ter": [(MBRDecoder(utility="ter", nbest=None), CROSSED)],
    "a mix": [
        (
            MBRDecoder(utility=f"chrf + 0.5*bertscore({TINY}) + 2*role-match({ROLES})", nbest=None),
            LONG,
        )
    ],
    "ds-sent": [(MBRDecoder(utility=f'ds-sent(model="{DISCO}")', nbest=None), LONG)],
    "doc-bertscore": [(MBRDecoder(utility=f"doc-bertscore({TINY})", nbest=None), LONG)],
    "comet": [(MBRDecoder(utility=f"comet({COMET})", nbest=None, weights="logprob"), LONG)],
    "comet-qe": [(Reranker({f"comet-qe({QE})": 1.0, "logprob": 0.1}), LONG)],
    "prism": [
        (MBRDecoder(utility=f'prism(model="{MODELS}/tiny-mbart50",lang="en")', nbest=None), SHORT)
    ],
    "role-match": [(MBRDecoder(utility=f"role-match({ROLES})", nbest=None, self_pair=False), LONG)],
    "a shortlist": [
        (MBRDecoder(utility=f"bertscore({TINY})", shortlist="chrf", top_k=20, nbest=None), LONG)
    ],
    "whole documents": [
        (MBRDecoder(utility="chrf + ter", normalize_parts="zscore", choose="document"), SENTENCES)
    ],
    "documents of unequal sentences": [
        (MBRDecoder(utility=utility, nbest=None), UNEQUAL)
        for utility in (
            "aligned(chrf)",
            'aligned(ter,by="chrf")',
            f"aligned(bertscore({TINY}))",
            f"windows(bertscore({TINY}),size=2)",
            f"windows(bertscore({TINY}),size=3,stride=1)",
        )
    ],
    "a function": [(MBRDecoder(utility=faulty.overlap, nbest=None), SHORT)],
    "learned metrics": [
        (
            MBRDecoder(
                utility=f"xcomet({XCOMET}) + metricx({METRICX}) + bleurt({BLEURT}) + embedding({EMBEDDING})",
                nbest=None,
            ),
            SHORT,
        ),
        (MBRDecoder(utility=f"embedding({EMBEDDING})", nbest=None), LONG),
        (Reranker({f"xcomet-qe({XCOMET})": 1.0, f"metricx-qe({METRICX})": 1.0}), SHORT),
    ],
}
