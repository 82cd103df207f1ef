"""Trains the regression model on synthetic pairs: mean squared error, AdamW, linear decay (Xu et al. 2023, section 5).

A step is a function of the weights before it, the seed and its number: batches and dropout are drawn anew for each, so
a run that is resumed from its last state ends in the same weights on the same machine. The best model by validation is
kept, where there is validation, which goes by rank or correlation: without dropout all scores are nearer to 0. Scores
of the test data must not serve for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from ..errors import InputError, ResumeError
from ..neural.models import model_files as files
from ..neural.models.encoder import device_of, pretrained
from ..representations import FloatArray, Ragged
from ..spec.checked_settings import settings
from ..text.texts import Item
from .examples import FEWEST, Examples, sample
from .job_stages import Stage, complete_file
from .regression_network import (
    UNIT,
    batch_of,
    freeze,
    head_scores,
    make_network,
    pooled,
    scores,
    set_dropout,
    vectors_of,
)
from .rescaling import bounds
from .saved_models import reader_of, save_model

Predict = Callable[[Sequence[str], Sequence[str]], FloatArray]
HELD_OUT, MAX_HELD_OUT = 0.02, 500  # references
FEWEST_TO_HOLD_OUT = round(FEWEST / HELD_OUT)


@settings
class Training:
    """How the model is trained.

    Args:
        backbone: the encoder to start from: minilm, a folder or a name on the hub.
        pairs: how many synthetic pairs are used, drawn at random; all if not given.
        epochs: passes over them.
        batch_size: pairs in one step of the optimiser.
        accumulation: parts that a batch is computed in, one after the other, where it does not fit the memory.
        learning_rate: of the encoder at the first step; it falls to 0 in a line.
        head_learning_rate: of the head, which starts from nothing.
        warmup: share of the steps over which rates rise first.
        weight_decay: of AdamW.
        dropout: of encoder and head.
        frozen_layers: the embeddings and so many layers of the encoder stay as they are; -1 for all of it, so that each
            text is encoded once, without dropout, and only the head is trained.
        identical: how often an anchor is paired with itself, beside each synthetic pair.
        strange: how often with another anchor.
        max_tokens: the longest text.
        validate_every: steps between validations; once an epoch if not given.
        patience: so many validations in a row without gain end the training; never if not given. It needs validation.
        save_every_seconds: time between states to resume from.
        devices: GPUs that share the work, such as cuda:0 cuda:1; --device alone if not given.
        seed: of all draws.
    """

    backbone: str = "minilm"
    pairs: Annotated[int, Field(ge=1)] | None = None
    epochs: Annotated[int, Field(ge=1)] = 1
    batch_size: Annotated[int, Field(ge=1)] = 32
    accumulation: Annotated[int, Field(ge=1)] = 1
    learning_rate: Annotated[float, Field(ge=0, le=1)] = 3e-5
    head_learning_rate: Annotated[float, Field(ge=0, le=1)] = 3e-4
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.01
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    frozen_layers: Annotated[int, Field(ge=-1)] = 0
    identical: Annotated[float, Field(ge=0, le=1)] = 1 / 16
    strange: Annotated[float, Field(ge=0, le=1)] = 1 / 16
    max_tokens: Annotated[int, Field(ge=8)] = 256
    validate_every: Annotated[int, Field(ge=1)] | None = None
    patience: Annotated[int, Field(ge=1)] | None = None
    save_every_seconds: Annotated[float, Field(ge=0)] = 120.0
    devices: tuple[str, ...] = ()
    seed: Annotated[int, Field(ge=0)] = 1


class Told(NamedTuple):
    """What is told of a step."""

    step: int
    steps: int
    loss: float
    validation: float | None = None


class Run:
    """One training; see `fitting.fit` for the arguments."""

    def __init__(
        self,
        stage: Stage,
        pairs: Stage,
        how: Training,
        device: str | None,
        validate: Callable[[Predict], float] | None,
        on_progress: Callable[[Told], None],
    ) -> None:
        import torch

        self.torch, self.stage, self.how, self.on_progress = torch, stage, how, on_progress
        self.device = device_of(how.devices[0] if how.devices else device)
        self.folder = files.locate(how.backbone)
        torch.manual_seed(how.seed)
        self.network = make_network(pretrained(self.folder), how.dropout)
        set_dropout(self.network, how.dropout)
        freeze(self.network, how.frozen_layers)
        self.network.to(self.device)
        self.padding = self.network["encoder"].config.pad_token_id or 0
        self.reader = reader_of(self.folder, self.network["encoder"], how.max_tokens)
        count = (pairs.counts or {}).get("pairs", 0)
        examples = Examples.of(pairs.rows(), sample(count, how.pairs, how.seed))
        self.ids = self._read(examples.texts)
        self.vectors: Any = None  # of all texts, where the encoder stays as it is
        self.examples, self.held = examples.split(HELD_OUT, MAX_HELD_OUT, how.seed)
        self.validate = validate or (self._held_out_score if len(self.held.scores) else None)
        if how.patience is not None and self.validate is None:
            fix = f"Give rated texts, --validation, or more texts ({FEWEST_TO_HOLD_OUT} have pairs held out)"
            raise InputError("there is nothing to validate on", where="patience", fix=fix)
        with torch.no_grad():
            self.network["estimator"][-1].bias.fill_(float(self.examples.scores.mean()) / UNIT)
        self.optimizer = torch.optim.AdamW(self._groups(), weight_decay=how.weight_decay)
        self.step, self.best, self.worse, self.saved_at = 0, -np.inf, 0, monotonic()

    def train(self) -> dict[str, int]:
        """All steps from where an earlier run stopped; the best weights stay in the network."""
        how = self.how
        epochs = [self._epoch(number)[1] for number in range(how.epochs)]
        steps = sum(map(len, epochs))
        every = how.validate_every or max(map(len, epochs))
        self._resume()
        if how.frozen_layers < 0 and self.step < steps:
            encoder = self.network["encoder"].train(False)
            self.vectors = vectors_of(encoder, self.ids, self.padding, self.device)
        for number, batches in enumerate(epochs):
            first = sum(map(len, epochs[:number]))
            if self._stopped or self.step >= first + len(batches):
                continue
            examples = self._epoch(number)[0]
            for batch in batches[self.step - first :]:
                loss = self._step(examples, batch, steps)
                due = self.step % every == 0 or self.step == steps
                found = self._validated() if due and self.validate is not None else None
                if monotonic() - self.saved_at >= how.save_every_seconds or self.step == steps:
                    self._save()
                self.on_progress(Told(self.step, steps, loss, found))
                if self._stopped:
                    break
        if (path := self.stage.folder / "best.pt").exists():
            self.network.load_state_dict(self._load(path))
        return {
            "steps": self.step,
            "pairs": len(self.examples.scores),
            "held out": len(self.held.scores),
        }

    def write(self, out: Path) -> None:
        """The model, with the bounds that rescaling needs."""
        random = np.random.default_rng([self.how.seed, 4])
        rows, views = np.unique(self.examples.references), self.how.frozen_layers >= 0
        low, high = bounds(self.network, self.ids, rows, self.padding, random, views=views)
        training = {
            name: list(v) if isinstance(v, tuple) else v for name, v in lasting(self.how).items()
        }
        about = {
            "max_tokens": self.how.max_tokens,
            "low": low,
            "high": high,
            "training": training,
            "stage": self.stage.digest,
        }
        save_model(out, self.network, self.folder, about)

    @property
    def _stopped(self) -> bool:
        return self.how.patience is not None and self.worse >= self.how.patience

    def _read(self, texts: Sequence[str]) -> Ragged:
        ids: Ragged = self.reader.read([Item(text) for text in texts])["ids"]
        return ids

    def _groups(self) -> list[dict[str, Any]]:
        encoder, head = (
            [p for p in self.network[name].parameters() if p.requires_grad]
            for name in ("encoder", "estimator")
        )
        rates = ((encoder, self.how.learning_rate), (head, self.how.head_learning_rate))
        return [{"params": params, "lr": rate, "first": rate} for params, rate in rates if params]

    def _epoch(self, number: int) -> tuple[Examples, list[Any]]:
        how = self.how
        examples = self.examples.epoch(number, how.identical, how.strange, how.seed)
        return examples, examples.batches(how.batch_size, self.ids.lengths, how.seed, number)

    def _step(self, examples: Examples, batch: Any, steps: int) -> float:
        """One step of the optimiser; the loss before it."""
        torch = self.torch
        rising = max(1, round(self.how.warmup * steps))
        rate = min((self.step + 1) / rising, (steps - self.step) / max(1, steps - rising + 1))
        for group in self.optimizer.param_groups:
            group["lr"] = group["first"] * rate
        torch.manual_seed((self.how.seed << 32) + self.step)
        self.network.train()
        self.optimizer.zero_grad()
        total = 0.0
        for part in np.array_split(batch, min(len(batch), self.how.accumulation)):
            with self._precision():
                loss = self._loss(examples, part) / len(batch)
            loss.backward()
            total += loss.item()
        if not np.isfinite(total):
            raise self._diverged(f"the loss is {total}")
        self.optimizer.step()
        self.step += 1
        return total

    def _loss(self, examples: Examples, part: Any) -> Any:
        """Summed squared error; both sides of a pair are encoded, so that identical texts are two views."""
        rows = np.concatenate((examples.hypotheses[part], examples.references[part]))
        if self.vectors is not None:
            h, r = self.vectors[self.torch.from_numpy(rows).to(self.device)].chunk(2)
        else:
            tokens = batch_of(self.ids, rows, self.padding, self.device)
            h, r = pooled(self.network["encoder"], *tokens, self.how.devices).chunk(2)
        wanted = self.torch.from_numpy(examples.scores[part]).float().to(self.device)
        return ((head_scores(self.network["estimator"], h, r).float() - wanted) ** 2).sum()

    def _precision(self) -> Any:
        """bfloat16 on a GPU."""
        return (
            self.torch.autocast("cuda", self.torch.bfloat16)
            if self.device.type == "cuda"
            else nullcontext()
        )

    def _validated(self) -> float:
        """How good the model is now; keeps the weights of the best."""
        self._check_weights()
        self.network.train(False)
        found = float(self.validate(self._predict))  # type: ignore[misc]
        if not np.isfinite(found):
            raise self._diverged(f"validation gave {found}")
        if found > self.best:
            self.best, self.worse = found, 0
            with complete_file(self.stage.folder / "best.pt") as path:
                self.torch.save(self.network.state_dict(), path)
        else:
            self.worse += 1
        return found

    def _check_weights(self) -> None:
        if not all(bool(self.torch.isfinite(value).all()) for value in self.network.parameters()):
            raise self._diverged("weights are not finite")

    def _diverged(self, found: str) -> InputError:
        fix = f"Lower the learning rates, and remove {self.stage.folder}"
        return InputError(found, where=f"step {self.step}", fix=fix)

    def _predict(self, hypotheses: Sequence[str], references: Sequence[str]) -> FloatArray:
        texts = list(dict.fromkeys((*hypotheses, *references)))
        number = {text: i for i, text in enumerate(texts)}
        rows = np.array(
            [[number[h], number[r]] for h, r in zip(hypotheses, references, strict=True)]
        )
        return scores(self.network, self._read(texts), rows, self.padding, self.device)

    def _held_out_score(self, _: Predict) -> float:
        rows = np.stack((self.held.hypotheses, self.held.references), 1)
        if self.vectors is None:
            found = scores(self.network, self.ids, rows, self.padding, self.device)
        else:
            with self.torch.no_grad():
                h, r = (
                    self.vectors[self.torch.from_numpy(side).to(self.device)] for side in rows.T
                )
                found = head_scores(self.network["estimator"], h, r).double().cpu().numpy()
        x, y = (values - values.mean() for values in (found, self.held.scores))
        return float(x @ y / max(1e-12, np.sqrt((x @ x) * (y @ y))))

    def _save(self) -> None:
        self._check_weights()
        state = {"step": self.step, "best": self.best, "worse": self.worse}
        weights = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}
        with complete_file(self.stage.folder / "state.pt") as path:
            self.torch.save({**state, **weights}, path)
        self.saved_at = monotonic()

    def _resume(self) -> None:
        path = self.stage.folder / "state.pt"
        if not path.exists():
            return
        state = self._load(path)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.best, self.worse = state["step"], state["best"], state["worse"]

    def _load(self, path: Path) -> Any:
        try:
            return self.torch.load(path, map_location=self.device, weights_only=True)
        except Exception as error:  # a damaged file: many kinds
            fix = "Remove its folder and run the stage again"
            raise ResumeError(
                f"cannot be read: {type(error).__name__}", where=str(path), fix=fix
            ) from error


def lasting(how: Training) -> dict[str, Any]:
    """The settings that weights depend on."""
    passing = {"save_every_seconds", "devices"}
    return {name: value for name, value in asdict(how).items() if name not in passing}
