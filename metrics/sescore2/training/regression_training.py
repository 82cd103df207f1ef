"""Trains the regression model on synthetic pairs: mean squared error, AdamW, linear decay (Xu et al. 2023, section 5).

A step is a function of the weights before it, the seed and its number: batches and dropout are drawn anew for each, so
a run that is resumed from its last state ends in the same weights on the same machine. The best model by validation is
kept, where there is validation, which goes by rank or correlation: without dropout all scores are nearer to 0. Scores
of the test data must not serve for that.

An epoch has synthetic pairs, identical pairs and pairs of strangers, in batches of like length. As in the released
code, an anchor is paired with itself (score 0; dropout makes two views of it) and with another anchor (score -50),
each with its own probability, beside every synthetic pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from ...errors import InputError, ResumeError
from ...neural.models.encoder import device_of
from ...neural.models.files import model_files as files
from ...neural.models.pretrained import pretrained
from ...representations import FloatArray, IntArray, Ragged
from ...spec.checked_settings import Field, settings
from ...storage.atomic_files import complete_file
from ...storage.bounded_files import check_regular
from ...text.texts import Item
from ..metric import reader_of
from .job_stages import Stage, finished, opened
from .regression_network import (
    UNIT,
    batch_of,
    bounds,
    check_free,
    head_scores,
    head_state,
    make_network,
    pooled,
    save_model,
    scores,
    stage_of,
    vectors_of,
)


@settings
class Training:
    """How the model is trained.

    Args:
        backbone: the encoder to start from: minilm, a folder or a name on the hub.
        epochs: passes over the synthetic pairs.
        batch_size: pairs in one step of the optimiser.
        learning_rate: of the encoder at the first step; it falls to 0 in a line.
        head_learning_rate: of the head, which starts from nothing.
        warmup: share of the steps over which rates rise first.
        weight_decay: of AdamW.
        dropout: of encoder and head.
        frozen: keep the encoder as it is, so that each text is encoded once, without dropout, and train only the head.
        identical: how often an anchor is paired with itself, beside each synthetic pair.
        strange: how often with another anchor.
        max_tokens: the longest text.
        validate_every: steps between validations; once an epoch if not given.
        save_every_seconds: time between states to resume from.
        seed: of all draws.
    """

    backbone: str = "minilm"
    epochs: Annotated[int, Field(ge=1)] = 1
    batch_size: Annotated[int, Field(ge=1)] = 32
    learning_rate: Annotated[float, Field(ge=0, le=1)] = 3e-5
    head_learning_rate: Annotated[float, Field(ge=0, le=1)] = 3e-4
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.01
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    frozen: bool = False
    identical: Annotated[float, Field(ge=0, le=1)] = 1 / 16
    strange: Annotated[float, Field(ge=0, le=1)] = 1 / 16
    max_tokens: Annotated[int, Field(ge=8)] = 256
    validate_every: Annotated[int, Field(ge=1)] | None = None
    save_every_seconds: Annotated[float, Field(ge=0)] = 120.0
    seed: Annotated[int, Field(ge=0)] = 1


def lasting(settings: Training) -> dict[str, Any]:
    """The settings that weights depend on."""
    values = asdict(settings)
    del values["save_every_seconds"]
    return values


SAME = 0.0
STRANGE = -50.0
MIN_HELD_OUT = 20  # references that can tell one model from another
POOL = 64  # batches whose pairs are sorted by length together


class Examples(NamedTuple):
    """Pairs of texts with scores."""

    texts: list[str]  # distinct
    hypotheses: IntArray  # [n], numbers of texts
    references: IntArray  # [n]
    scores: FloatArray  # [n]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Examples:
        """The rows of `severity.label`.

        Raises:
            InputError: there is none.
        """
        number: dict[str, int] = {}
        pairs: list[tuple[int, int, float]] = []
        for row in rows:
            hypothesis = number.setdefault(row["hypothesis"], len(number))
            reference = number.setdefault(row["reference"], len(number))
            pairs.append((hypothesis, reference, float(row["score"])))
        if not pairs:
            fix = "Give more texts, or a smaller margin"
            raise InputError("no synthetic pair", where="examples", fix=fix)
        hypotheses, references, scores = zip(*pairs, strict=True)
        return cls(
            list(number),
            np.array(hypotheses),
            np.array(references),
            np.array(scores),
        )

    def split(
        self,
        share: float,
        max_references: int,
        seed: int,
    ) -> tuple[Examples, Examples]:
        """Those to train on, and those held out: the pairs of a share of the references, of `max_references` at most.

        None are held out where that would be fewer than `MIN_HELD_OUT` references.
        """
        references = np.unique(self.references)
        count = min(max_references, int(share * len(references)))
        if count < MIN_HELD_OUT:
            count = 0
        order = np.random.default_rng([seed, 1]).permutation(references)
        held_out = np.isin(self.references, order[:count])
        return self._take(~held_out), self._take(held_out)

    def epoch(
        self,
        number: int,
        identical: float,
        strange: float,
        seed: int,
    ) -> Examples:
        """The pairs of an epoch: the synthetic ones, and more of the other two kinds."""
        random = np.random.default_rng([seed, 2, number])
        count = len(self.references)
        same = self.references[random.random(count) < identical]
        anchors = self.references[random.random(count) < strange]
        others = self.references[random.integers(count, size=len(anchors))]
        differ = anchors != others
        same_scores = np.full(len(same), SAME)
        strange_scores = np.full(int(differ.sum()), STRANGE)
        return Examples(
            self.texts,
            np.concatenate((self.hypotheses, same, others[differ])),
            np.concatenate((self.references, same, anchors[differ])),
            np.concatenate((self.scores, same_scores, strange_scores)),
        )

    def batches(
        self,
        size: int,
        lengths: IntArray,
        seed: int,
        number: int,
    ) -> list[IntArray]:
        """Numbers of pairs: batches of like length in random order; `lengths` are those of the texts."""
        random = np.random.default_rng([seed, 3, number])
        order = random.permutation(len(self.scores))
        longest = np.maximum(lengths[self.hypotheses], lengths[self.references])  # [n]
        batches = []
        for start in range(0, len(order), POOL * size):
            pool = order[start : start + POOL * size]
            pool = pool[np.argsort(longest[pool], kind="stable")]
            batches += [pool[i : i + size] for i in range(0, len(pool), size)]
        return [batches[i] for i in random.permutation(len(batches))]

    def _take(self, chosen: Any) -> Examples:
        return Examples(
            self.texts,
            self.hypotheses[chosen],
            self.references[chosen],
            self.scores[chosen],
        )


Predict = Callable[[Sequence[str], Sequence[str]], FloatArray]
HELD_OUT, MAX_HELD_OUT = 0.02, 500  # references
FEWEST_TO_HOLD_OUT = round(MIN_HELD_OUT / HELD_OUT)


class TrainingProgress(NamedTuple):
    """How far a training is after a step."""

    step: int
    steps: int
    loss: float
    validation: float | None = None


class Run:
    """One training; see `fit` for the arguments."""

    def __init__(
        self,
        stage: Stage,
        pairs: Stage,
        settings: Training,
        device: str | None,
        validate: Callable[[Predict], float] | None,
        on_progress: Callable[[TrainingProgress], None],
    ) -> None:
        import torch

        self.torch = torch
        self.stage = stage
        self.settings = settings
        self.on_progress = on_progress
        self.device = device_of(device)
        self.folder = files.locate(settings.backbone)
        torch.manual_seed(settings.seed)
        self.network = make_network(pretrained(self.folder), settings.dropout)
        self.network["encoder"].requires_grad_(not settings.frozen)
        self.network.to(self.device)
        self.padding = self.network["encoder"].config.pad_token_id or 0
        self.reader = reader_of(self.folder, self.network["encoder"], settings.max_tokens)

        examples = Examples.of(pairs.rows())
        self.ids = self._read(examples.texts)
        self.vectors: Any = None  # of all texts, where the encoder stays as it is
        self.examples, self.held_out = examples.split(HELD_OUT, MAX_HELD_OUT, settings.seed)

        self.validate = validate
        if not validate and len(self.held_out.scores):
            self.validate = self._held_out_score

        # the head begins with the mean score
        mean_score = float(self.examples.scores.mean())
        with torch.no_grad():
            self.network["estimator"][-1].bias.fill_(mean_score / UNIT)
        rates = {
            "encoder": settings.learning_rate,
            "estimator": settings.head_learning_rate,
        }
        groups = []
        for part, rate in rates.items():
            trained = [p for p in self.network[part].parameters() if p.requires_grad]
            if trained:
                groups.append({"params": trained, "lr": rate, "first": rate})
        self.optimizer = torch.optim.AdamW(groups, weight_decay=settings.weight_decay)
        self.step = 0
        self.best = -np.inf  # validation so far
        self.saved_at = monotonic()

    def train(self) -> dict[str, int]:
        """All steps from where an earlier run stopped; the best weights stay in the network."""
        settings = self.settings
        sizes = [len(self._epoch(number)[1]) for number in range(settings.epochs)]
        steps = sum(sizes)
        every = settings.validate_every or max(sizes)
        self._resume()
        if settings.frozen and self.step < steps:
            self.vectors = self._vectors(self.ids)
        while self.step < steps:
            ends = np.cumsum(sizes)
            number = int(np.searchsorted(ends, self.step, "right"))
            examples, batches = self._epoch(number)
            for batch in batches[self.step - ends[number] :]:
                loss = self._step(examples, batch, steps)
                is_last = self.step == steps
                validation = None
                if self.validate is not None and (is_last or self.step % every == 0):
                    validation = self._validated(self.validate)
                if is_last or monotonic() - self.saved_at >= settings.save_every_seconds:
                    self._save()
                self.on_progress(TrainingProgress(self.step, steps, loss, validation))
        best = self.stage.folder / "best.pt"
        if best.exists():
            self.network.load_state_dict(self._load(best))
        return {
            "steps": self.step,
            "pairs": len(self.examples.scores),
            "held out": len(self.held_out.scores),
        }

    def write(self, out: Path) -> None:
        """The model, with the bounds that rescaling needs."""
        random = np.random.default_rng([self.settings.seed, 4])
        rows = np.unique(self.examples.references)
        views = not self.settings.frozen
        low, high = bounds(self.network, self.ids, rows, self.padding, random, views=views)
        about = {
            "max_tokens": self.settings.max_tokens,
            "low": low,
            "high": high,
            "training": lasting(self.settings),
            "stage": self.stage.digest,
        }
        save_model(out, self.network["encoder"], head_state(self.network), self.folder, about)

    def _read(self, texts: Sequence[str]) -> Ragged:
        items = [Item(text) for text in texts]
        ids: Ragged = self.reader.read(items)["ids"]
        return ids

    def _vectors(self, ids: Ragged) -> Any:
        """Text vectors [n, d] without dropout."""
        return vectors_of(self.network["encoder"].train(False), ids, self.padding, self.device)

    def _epoch(self, number: int) -> tuple[Examples, list[Any]]:
        """The pairs of an epoch, and their batches."""
        settings = self.settings
        examples = self.examples.epoch(number, settings.identical, settings.strange, settings.seed)
        batches = examples.batches(settings.batch_size, self.ids.lengths, settings.seed, number)
        return examples, batches

    def _step(self, examples: Examples, batch: IntArray, steps: int) -> float:
        """One step of the optimiser; the loss before it."""
        torch = self.torch
        # the rate rises to 1, then falls to 0 in a line
        rising = max(1, round(self.settings.warmup * steps))
        falling = max(1, steps - rising + 1)
        rate = min(
            (self.step + 1) / rising,
            (steps - self.step) / falling,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = group["first"] * rate
        # dropout of a step depends on its number alone
        torch.manual_seed((self.settings.seed << 32) + self.step)
        self.network.train()
        self.optimizer.zero_grad()
        # bfloat16 on a GPU
        on_gpu = self.device.type == "cuda"
        with torch.autocast("cuda", torch.bfloat16) if on_gpu else nullcontext():
            mean_loss = self._loss(examples, batch) / len(batch)
        mean_loss.backward()
        loss = float(mean_loss.item())
        if not np.isfinite(loss):
            raise self._diverged(f"the loss is {loss}")
        self.optimizer.step()
        self.step += 1
        return loss

    def _loss(self, examples: Examples, batch: IntArray) -> Any:
        """Summed squared error; both sides of a pair are encoded, so that identical texts are two views."""
        rows = np.concatenate((examples.hypotheses[batch], examples.references[batch]))
        if self.vectors is not None:
            vectors = self.vectors[self.torch.from_numpy(rows).to(self.device)]
        else:
            tokens, mask = batch_of(self.ids, rows, self.padding, self.device)
            vectors = pooled(self.network["encoder"], tokens, mask)
        h, r = vectors.chunk(2)
        gold = self.torch.from_numpy(examples.scores[batch]).float()
        values = head_scores(self.network["estimator"], h, r).float()
        return ((values - gold.to(self.device)) ** 2).sum()

    def _validated(self, validate: Callable[[Predict], float]) -> float:
        """How good the model is now; keeps the weights of the best."""
        self._check_weights()
        self.network.train(False)
        score = float(validate(self._predict))
        if not np.isfinite(score):
            raise self._diverged(f"validation gave {score}")
        if score > self.best:
            self.best = score
            self._write("best.pt", self.network.state_dict())
        return score

    def _check_weights(self) -> None:
        """Raises InputError where a weight is not finite."""
        finite = [bool(self.torch.isfinite(value).all()) for value in self.network.parameters()]
        if not all(finite):
            raise self._diverged("weights are not finite")

    def _diverged(self, problem: str) -> InputError:
        fix = f"Lower the learning rates, and remove {self.stage.folder}"
        return InputError(problem, where=f"step {self.step}", fix=fix)

    def _predict(self, hypotheses: Sequence[str], references: Sequence[str]) -> FloatArray:
        """Scores [n] of texts, every different one encoded once."""
        texts = list(dict.fromkeys((*hypotheses, *references)))
        number = {text: i for i, text in enumerate(texts)}
        pairs = zip(hypotheses, references, strict=True)
        rows = np.array([[number[h], number[r]] for h, r in pairs])
        return scores(self.network, self._vectors(self._read(texts)), rows)

    def _held_out_score(self, _: Predict) -> float:
        """The correlation of scores with those of the pairs held out."""
        rows = np.stack((self.held_out.hypotheses, self.held_out.references), 1)
        vectors = self.vectors
        if vectors is None:
            needed, place = np.unique(rows, return_inverse=True)
            vectors, rows = self._vectors(self.ids[needed]), place.reshape(rows.shape)
        values = scores(self.network, vectors, rows)
        x = values - values.mean()
        y = self.held_out.scores - self.held_out.scores.mean()
        lengths = np.sqrt((x @ x) * (y @ y))
        return float(x @ y / max(1e-12, lengths))

    def _save(self) -> None:
        """Writes the state that `_resume` reads."""
        self._check_weights()
        weights = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}
        self._write("state.pt", {"step": self.step, "best": self.best, **weights})
        self.saved_at = monotonic()

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        """Writes a file of the stage, whole or not at all."""
        with complete_file(self.stage.folder / name) as path, open(path, "wb") as file:
            self.torch.save(dict(values), file)

    def _resume(self) -> None:
        """Restores the state that an earlier run saved, if there is one."""
        path = self.stage.folder / "state.pt"
        if not path.exists():
            return
        state = self._load(path)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        self.best = state["best"]

    def _load(self, path: Path) -> Any:
        try:
            check_regular(path)
            with ZipFile(path) as archive:  # torch does not look at its checksums
                damaged = archive.testzip()
            if damaged:
                raise BadZipFile(damaged)
            return self.torch.load(path, map_location=self.device, weights_only=True)
        except Exception as error:  # a damaged file: many kinds
            problem = f"cannot be read: {type(error).__name__}"
            fix = "Remove its folder and run the stage again"
            raise ResumeError(problem, where=str(path), fix=fix) from error


def fit(
    work: Path,
    out: Path,
    settings: Training,
    device: str | None = None,
    validate: Callable[[Predict], float] | None = None,
    validation: str | None = None,
    on_progress: Callable[[TrainingProgress], None] = lambda progress: None,
    folder: str = "fit",
) -> Stage:
    """Trains on the pairs of a work folder and writes the model to `out`.

    Args:
        work: the work folder.
        out: the folder of the model.
        settings: the settings.
        device: where it is trained.
        validate: says how good a model is, higher is better; the correlation on pairs held out if not given.
        validation: the digest of the data of `validate`; a training is not resumed on other data.
        on_progress: called after every step.
        folder: the stage of the training.

    Raises:
        ResumeError: the pairs are not there, or a training with other settings is.
        InputError: the training diverged.
        ModelLoadError: something other than a model of this kind is at `out`.
    """
    check_free(out)
    pairs = finished(work / "label")
    identity = {
        "before": pairs.digest,
        "encoder": files.digest(files.locate(settings.backbone)),
        "validation": validation,
        **lasting(settings),
    }
    with opened(work / folder, identity) as stage:
        if not stage.complete or stage_of(out) != stage.digest:
            run = Run(stage, pairs, settings, device, validate, on_progress)
            counts = run.train()
            run.write(out)
            stage.finish(counts)
        return stage
