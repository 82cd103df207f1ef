"""Trains the regression model on synthetic pairs: mean squared error, AdamW, linear decay (Xu et al. 2023, section 5).

    f = [y, x, x*y, |y - x|],    score = w3 . tanh(W2 tanh(W1 f + b1) + b2) + b3

for a hypothesis y and a reference x, each the mean of the last layer over all tokens; dropout follows every tanh. While
it is trained, the last layer gives the score in tens (`UNIT`): Adam moves all weights by steps of one size, and steps
that reach -50 in w3 would saturate the tanh below it. Saved weights are those of the equation. Scoring uses the packed
encoder and the factorised head of `metric`, which give the same numbers.

An epoch has synthetic pairs, identical pairs and pairs of strangers, in batches of like length. As in the released
code, an anchor is paired with itself (score 0; dropout makes two views of it) and with another anchor (score -50),
each with its own probability, in addition to every synthetic pair.

A step is a function of the weights before it, the seed and its number, so a run that is resumed from its last state
ends in the same weights on the same machine. A state is saved every `SAVE_STEPS` steps and after each epoch. The best
weights by validation are kept, which goes by rank or correlation: without dropout all scores are nearer to 0. Scores
of the test data must not serve for that.

The bounds of rescaling are means over texts: low of random pairs, high of texts paired with themselves, encoded twice
with dropout, or without where the encoder was trained without it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from ...errors import InputError, ModelLoadError, ResumeError
from ...neural.models.encoder import device_of
from ...neural.models.files import model_files as files
from ...neural.models.files.model_files import with_files
from ...neural.models.pretrained import pretrained, quietly
from ...representations import FloatArray, IntArray, Ragged
from ...spec.checked_settings import Field, settings
from ...storage.atomic_files import complete_file, complete_folder
from ...storage.bounded_files import check_regular
from ...storage.json_and_yaml import read_small_json
from ...text.texts import Item
from ..metric import ABOUT, AGAIN, HEAD, LINEAR, reader_of

UNIT = 10.0  # of the last layer's output while it is trained
SAME = 0.0
STRANGE = -50.0
WEIGHT_DECAY = 0.01
SAVE_STEPS = 1000
POOL = 64  # batches whose pairs are sorted by length together
ROWS = 64  # texts that are encoded together without gradients
BOUND_TEXTS = 512  # that the bounds are means over
HELD_OUT, MAX_HELD_OUT = 0.02, 500  # references
MIN_HELD_OUT = 20  # references that can tell one model from another
FEWEST_TO_HOLD_OUT = round(MIN_HELD_OUT / HELD_OUT)


class SyntheticPair(NamedTuple):
    """A synthetic text, the text it was made of, and the sum of its mistakes."""

    hypothesis: str
    reference: str
    score: float


@settings
class Training:
    """How the model is trained.

    Args:
        backbone: the encoder to start from: minilm, a folder or a name on the hub.
        epochs: passes over the synthetic pairs.
        batch_size: pairs in one step of the optimiser.
        learning_rate: of the encoder at the first step; it falls to 0 in a line.
        head_learning_rate: of the head, which starts from nothing.
        dropout: of encoder and head.
        frozen: keep the encoder as it is, so that each text is encoded once, without dropout, and train only the head.
        identical: how often an anchor is paired with itself, beside each synthetic pair.
        strange: how often with another anchor.
        max_tokens: the longest text.
        seed: of all draws.
    """

    backbone: str = "minilm"
    epochs: Annotated[int, Field(ge=1)] = 1
    batch_size: Annotated[int, Field(ge=1)] = 32
    learning_rate: Annotated[float, Field(ge=0, le=1)] = 3e-5
    head_learning_rate: Annotated[float, Field(ge=0, le=1)] = 3e-4
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    frozen: bool = False
    identical: Annotated[float, Field(ge=0, le=1)] = 1 / 16
    strange: Annotated[float, Field(ge=0, le=1)] = 1 / 16
    max_tokens: Annotated[int, Field(ge=8)] = 256
    seed: Annotated[int, Field(ge=0)] = 1


class TrainingProgress(NamedTuple):
    """How far a training is after a step."""

    step: int
    share: float  # of all steps
    loss: float
    validation: float | None = None


Predict = Callable[[Sequence[str], Sequence[str]], FloatArray]
Validate = Callable[[Predict], float]
OnProgress = Callable[[TrainingProgress], None]


def fit(
    work: Path,
    out: Path,
    pairs: Sequence[SyntheticPair],
    settings: Training,
    device: str | None = None,
    validate: Validate | None = None,
    data: str = "",
    on_progress: OnProgress = lambda progress: None,
) -> dict[str, int]:
    """Train on pairs, and write the model.

    Args:
        work: the folder of the states that a training resumes from.
        out: the folder of the model; one that the same training has written is kept.
        pairs: synthetic pairs.
        settings: the settings.
        device: where it is trained.
        validate: how good a model is, higher is better; the correlation on pairs held out if not given.
        data: identifies the pairs and the data of `validate`.
        on_progress: called after every step.

    Returns:
        Counts by name, such as "steps" and "held out".

    Raises:
        InputError: the training diverged, or there are no pairs.
        ModelLoadError: something other than a model of this kind is at `out`.
        ResumeError: a state is damaged.
    """
    check_free(out)
    if not pairs:
        fix = "Give more texts, or a smaller margin"
        raise InputError("no synthetic pair", where="examples", fix=fix)
    encoder = files.digest(files.locate(settings.backbone))
    identity = json.dumps([data, encoder, asdict(settings)]).encode()
    digest = blake2b(identity, digest_size=8).hexdigest()
    about = _about(out)
    if about.get("job") != digest:
        run = Run(pairs, settings, device, validate)
        state = work / f"{digest}-state.pt"
        counts = run.train(state, on_progress)
        about = {"training": asdict(settings), "job": digest, "counts": counts}
        run.write(out, about)
        state.unlink(missing_ok=True)
    return dict(about["counts"])


class Run:
    """One training; see `fit` for the arguments."""

    def __init__(
        self,
        pairs: Sequence[SyntheticPair],
        settings: Training,
        device: str | None,
        validate: Validate | None,
    ) -> None:
        import torch

        self.torch = torch
        self.settings = settings
        self.folder = files.locate(settings.backbone)
        torch.manual_seed(settings.seed)
        self.network = make_network(pretrained(self.folder), settings.dropout)
        self.network["encoder"].requires_grad_(not settings.frozen)
        self.network.to(device_of(device))
        self.reader = reader_of(self.folder, self.network["encoder"], settings.max_tokens)

        self.trained_on, held_out = split(pairs, settings.seed)
        self.num_held_out = len(held_out)
        self.validate = validate
        if not validate and held_out:
            self.validate = correlation_with(held_out)

        number: dict[str, int] = {}
        rows = []
        for hypothesis, reference, _ in self.trained_on:
            h = number.setdefault(hypothesis, len(number))
            rows.append((h, number.setdefault(reference, len(number))))
        self.pairs: IntArray = np.array(rows)  # [n, 2] of hypothesis and reference
        self.scores: FloatArray = np.array([pair.score for pair in self.trained_on])
        self.ids = self._read(list(number))
        self.vectors: Any = None  # of all texts, where the encoder stays as it is

        # the head begins with the mean score
        with torch.no_grad():
            self.network["estimator"][-1].bias.fill_(float(self.scores.mean()) / UNIT)
        groups = [{"params": self.network["estimator"].parameters(), "lr": 1.0}]
        self.rates = [settings.head_learning_rate]
        if not settings.frozen:
            groups.append({"params": self.network["encoder"].parameters(), "lr": 1.0})
            self.rates.append(settings.learning_rate)
        self.optimizer = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
        self.step = 0
        self.best = -np.inf  # validation so far
        self.best_weights: dict[str, Any] | None = None

    def train(self, state: Path, on_progress: OnProgress) -> dict[str, int]:
        """Take all steps from the saved state on; the best weights stay in the network."""
        settings = self.settings
        self._resume(state)
        if settings.frozen:
            self.vectors = self._vectors(self.ids)
        before = 0  # steps of the epochs before
        for number in range(settings.epochs):
            pairs, scores = self.epoch(number)
            batches = self.batches(pairs, number)
            for i in range(self.step - before, len(batches)):
                rest = settings.epochs - number - i / len(batches)
                batch = batches[i]
                loss = self._step(pairs[batch], scores[batch], rest / settings.epochs)
                validation = None
                if self.step % SAVE_STEPS == 0 or i == len(batches) - 1:
                    validation = self._validated()
                    self._save(state)
                share = (number + (i + 1) / len(batches)) / settings.epochs
                on_progress(TrainingProgress(self.step, share, loss, validation))
            before += len(batches)
        if self.best_weights is not None:
            self.network.load_state_dict(self.best_weights)
        return {"steps": self.step, "pairs": len(self.scores), "held out": self.num_held_out}

    def epoch(self, number: int) -> tuple[IntArray, FloatArray]:
        """The pairs [n, 2] of an epoch and their scores [n]: synthetic ones, and more of the other two kinds."""
        random = np.random.default_rng([self.settings.seed, 2, number])
        references = self.pairs[:, 1]
        count = len(references)
        same = references[random.random(count) < self.settings.identical]
        anchors = references[random.random(count) < self.settings.strange]
        others = references[random.integers(count, size=len(anchors))]
        strange = np.stack((others, anchors), 1)[others != anchors]
        pairs = np.concatenate((self.pairs, np.stack((same, same), 1), strange))
        added = np.full(len(same), SAME), np.full(len(strange), STRANGE)
        return pairs, np.concatenate((self.scores, *added))

    def batches(self, pairs: IntArray, number: int) -> list[IntArray]:
        """Numbers of pairs [n, 2] of an epoch: batches of like length in random order."""
        random = np.random.default_rng([self.settings.seed, 3, number])
        size = self.settings.batch_size
        order = random.permutation(len(pairs))
        longest = self.ids.lengths[pairs].max(axis=1)  # [n]
        batches = []
        for start in range(0, len(order), POOL * size):
            pool = order[start : start + POOL * size]
            pool = pool[np.argsort(longest[pool], kind="stable")]
            batches += [pool[i : i + size] for i in range(0, len(pool), size)]
        return [batches[i] for i in random.permutation(len(batches))]

    def write(self, out: Path, about: Mapping[str, Any]) -> None:
        """Write the model, with the bounds that rescaling needs."""
        random = np.random.default_rng([self.settings.seed, 4])
        rows = random.permutation(np.unique(self.pairs[:, 1]))[:BOUND_TEXTS]
        low, high = bounds(self.network, self.ids[rows], views=not self.settings.frozen)
        bounded = {"max_tokens": self.settings.max_tokens, "low": low, "high": high, **about}
        save_model(out, self.network["encoder"], head_state(self.network), self.folder, bounded)

    def _read(self, texts: Sequence[str]) -> Ragged:
        ids: Ragged = self.reader.read([Item(text) for text in texts])["ids"]
        return ids

    def _vectors(self, ids: Ragged) -> Any:
        """Text vectors [n, d] without dropout."""
        return vectors_of(self.network["encoder"].train(False), ids)

    def _step(self, pairs: IntArray, scores: FloatArray, rate: float) -> float:
        """Take a step of the optimiser on pairs [batch, 2]; the loss before it."""
        torch = self.torch
        for group, first in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = first * rate
        # dropout of a step depends on its number alone
        torch.manual_seed((self.settings.seed << 32) + self.step)
        self.network.train()
        self.optimizer.zero_grad()
        # bfloat16 on a GPU
        on_gpu = torch.cuda.is_available() and next(self.network.parameters()).is_cuda
        with torch.autocast("cuda", torch.bfloat16) if on_gpu else nullcontext():
            mean_loss = self._loss(pairs, scores)
        mean_loss.backward()
        loss = float(mean_loss.item())
        if not np.isfinite(loss):
            raise self._diverged(f"the loss is {loss}")
        self.optimizer.step()
        self.step += 1
        return loss

    def _loss(self, pairs: IntArray, scores: FloatArray) -> Any:
        """Mean squared error; both sides of a pair are encoded, so that identical texts are two views."""
        rows = pairs.T.reshape(-1)
        if self.vectors is not None:
            vectors = self.vectors[self.torch.from_numpy(rows).to(self.vectors.device)]
        else:
            vectors = pooled(self.network["encoder"], self.ids[rows])
        values = head_scores(self.network["estimator"], *vectors.chunk(2)).float()
        gold = self.torch.from_numpy(scores).float().to(values.device)
        return self.torch.nn.functional.mse_loss(values, gold)

    def _validated(self) -> float | None:
        """How good the model is now, if that is known; the weights of the best are kept."""
        finite = [bool(self.torch.isfinite(value).all()) for value in self.network.parameters()]
        if not all(finite):
            raise self._diverged("weights are not finite")
        if self.validate is None:
            return None
        self.network.train(False)
        score = float(self.validate(self._predict))
        if not np.isfinite(score):
            raise self._diverged(f"validation gave {score}")
        if score > self.best:
            self.best = score
            weights = self.network.state_dict()
            self.best_weights = {name: value.clone() for name, value in weights.items()}
        return score

    def _predict(self, hypotheses: Sequence[str], references: Sequence[str]) -> FloatArray:
        """Scores [n] of texts, every different one encoded once."""
        texts = list(dict.fromkeys((*hypotheses, *references)))
        number = {text: i for i, text in enumerate(texts)}
        vectors = self._vectors(self._read(texts))
        sides = (vectors[[number[text] for text in side]] for side in (hypotheses, references))
        with self.torch.no_grad():
            values = head_scores(self.network["estimator"], *sides)
        return np.asarray(values.double().cpu().numpy())

    def _diverged(self, problem: str) -> InputError:
        return InputError(problem, where=f"step {self.step}", fix="Lower the learning rates")

    def _save(self, path: Path) -> None:
        """Write the state that `_resume` reads."""
        state = {
            "step": self.step,
            "best": self.best,
            "best_weights": self.best_weights,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        with complete_file(path) as draft, open(draft, "wb") as file:
            self.torch.save(state, file)

    def _resume(self, path: Path) -> None:
        """Restore the state that an earlier run saved, if there is one."""
        if path.exists():
            state = read_state(path)
            self.network.load_state_dict(state["network"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]
            self.best = state["best"]
            self.best_weights = state["best_weights"]


def read_state(path: Path) -> Any:
    """The tensors and numbers of a state; raises ResumeError where it is damaged."""
    import torch

    try:
        check_regular(path)
        with ZipFile(path) as archive:  # torch does not look at its checksums
            damaged = archive.testzip()
        if damaged:
            raise BadZipFile(damaged)
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file: many kinds
        problem = f"cannot be read: {type(error).__name__}"
        fix = "Remove it and run the command again"
        raise ResumeError(problem, where=str(path), fix=fix) from error


def split(
    pairs: Sequence[SyntheticPair], seed: int
) -> tuple[list[SyntheticPair], list[SyntheticPair]]:
    """The pairs to train on, and those held out: the pairs of a share of the references.

    None are held out where that would be fewer than `MIN_HELD_OUT` references.
    """
    references = list(dict.fromkeys(pair.reference for pair in pairs))
    count = min(MAX_HELD_OUT, int(HELD_OUT * len(references)))
    if count < MIN_HELD_OUT:
        return list(pairs), []
    order = np.random.default_rng([seed, 1]).permutation(len(references))
    chosen = {references[i] for i in order[:count]}
    rest = [pair for pair in pairs if pair.reference not in chosen]
    return rest, [pair for pair in pairs if pair.reference in chosen]


def correlation_with(held_out: Sequence[SyntheticPair]) -> Validate:
    """Pearson's correlation of a model's scores with those of pairs; 0 where either side is constant."""
    hypotheses, references, scores = zip(*held_out, strict=True)

    def validate(predict: Predict) -> float:
        values = predict(hypotheses, references)
        x = values - values.mean()
        y = np.array(scores) - np.mean(scores)
        return float(x @ y / max(1e-12, np.sqrt((x @ x) * (y @ y))))

    return validate


def make_network(encoder: Any, dropout: float) -> Any:
    """Encoder and a fresh head as one torch module with the parts "encoder" and "estimator".

    Every dropout of it has the given share, attention included.
    """
    from torch import nn

    width = encoder.config.hidden_size
    estimator = nn.Sequential(
        nn.Linear(4 * width, 2 * width),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(2 * width, width),
        nn.Tanh(),
        nn.Dropout(dropout),
        nn.Linear(width, 1),
    )
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = dropout
        elif isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = dropout
    return nn.ModuleDict({"encoder": encoder, "estimator": estimator})


def pooled(encoder: Any, ids: Ragged) -> Any:
    """Text vectors [n, d] of token ids."""
    import torch

    mask = np.arange(ids.lengths.max()) < ids.lengths[:, None]  # [n, longest]
    padded = np.full(mask.shape, encoder.config.pad_token_id or 0, np.int64)
    padded[mask] = ids.values
    tokens = torch.from_numpy(padded).to(encoder.device)
    present = torch.from_numpy(mask.astype(np.int64)).to(encoder.device)
    states = encoder(input_ids=tokens, attention_mask=present).last_hidden_state  # [n, longest, d]
    counted = present[..., None].to(states.dtype)
    return (states * counted).sum(1) / counted.sum(1)


def vectors_of(encoder: Any, ids: Ragged, on_progress: Callable[[int], None] | None = None) -> Any:
    """Text vectors [n, d] of token ids, without gradients; the encoder in the mode that it is in."""
    import torch

    order = np.argsort(ids.lengths, kind="stable")
    vectors = torch.empty(len(order), encoder.config.hidden_size, device=encoder.device)
    with torch.no_grad():
        for start in range(0, len(order), ROWS):
            part = order[start : start + ROWS]
            vectors[torch.from_numpy(part)] = pooled(encoder, ids[part]).float()
            if on_progress:
                on_progress(start + len(part))
    return vectors


def head_scores(estimator: Any, h: Any, r: Any) -> Any:
    """Scores [n] of hypothesis and reference vectors [n, d]."""
    import torch

    features = torch.cat((h, r, h * r, (h - r).abs()), 1)  # [n, 4 d]
    return estimator(features)[:, 0] * UNIT


def head_state(network: Any) -> dict[str, Any]:
    """The head's tensors by their names on disk, as the equation has them."""
    last = f"{LINEAR[-1]}."
    state = {}
    for name, value in network["estimator"].state_dict().items():
        scale = UNIT if name.startswith(last) else 1.0
        state[name] = value.float().cpu() * scale
    return state


def bounds(
    network: Any, ids: Ragged, *, views: bool = True
) -> tuple[float, float] | tuple[None, None]:
    """low and high of a network, over texts; None where strangers score as high.

    Args:
        network: see `make_network`.
        ids: token ids of the texts.
        views: whether the two sides of a text with itself are encoded with dropout.
    """
    import torch

    torch.manual_seed(0)
    encoder, estimator = network.train(False)["encoder"], network["estimator"]
    vectors = vectors_of(encoder, ids)
    # a text with itself: two views of it, by dropout
    encoder.train(views)
    first, second = (vectors_of(encoder, ids) for _ in range(2))
    with torch.no_grad():
        high = float(head_scores(estimator, first, second).double().mean())
        low = float(head_scores(estimator, vectors, vectors.roll(1, 0)).double().mean())
    return (low, high) if high > low else (None, None)


def save_model(
    folder: Path,
    encoder: Any,
    head: Mapping[str, Any],
    tokenizer: Path,
    about: Mapping[str, Any],
) -> None:
    """Write a model's folder, complete or not at all; a model of this kind that is there gives way.

    Args:
        folder: where.
        encoder: a transformers model.
        head: the head's tensors, as `head_state` gives them.
        tokenizer: the folder of the encoder's tokenizer.
        about: "max_tokens", "low" and "high", and what else is to be kept.
    """
    from safetensors.torch import save_file

    check_free(folder)
    with complete_folder(folder) as draft:
        with quietly():
            encoder.save_pretrained(draft)
        for pattern in files.TOKENIZER_FILES:
            for file in tokenizer.glob(pattern):
                shutil.copyfile(file, draft / file.name)
        contiguous = {name: value.contiguous() for name, value in head.items()}
        save_file(contiguous, draft / HEAD)
        plain = json.dumps(with_files({"format": 1, **about}, draft), indent=1)
        (draft / ABOUT).write_text(plain + "\n", encoding="utf-8")
        # safetensors writes files that nobody else may read
        mode = (draft / ABOUT).stat().st_mode
        for file in draft.iterdir():
            file.chmod(mode)


def check_free(folder: Path) -> None:
    """Check that a model may be written there.

    Raises:
        ModelLoadError: a file, or a folder of something else, is there.
    """
    if not folder.exists() or (folder / ABOUT).is_file():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        problem = "is not a folder of such a model, and not empty"
        raise ModelLoadError(problem, where=str(folder), fix="Choose another folder")


def _about(folder: Path) -> dict[str, Any]:
    """The settings file of the model in a folder; empty where there is none, or another kind of model."""
    try:
        about = read_small_json(folder / ABOUT, AGAIN)
    except InputError:
        return {}
    return about if isinstance(about, dict) else {}
