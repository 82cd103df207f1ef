"""One batch of texts whose rows have settings of their own: prompt, seed, temperature, nucleus, length, stop strings.

    p = softmax(logits / temperature),   cut to the nucleus of top_p;   the likeliest token where either is 0
The chance of a row is a function of its seed, its prompt and its number (`sampling.uniforms`): what else is in the
batch changes a text by rounding alone. Log-probabilities are those of the model as it is, before temperature and cut.

`TokenGenerator` runs the batch. The rows' own processor leaves each of them one token, and their own criterion ends
each in its time, so that the batch ends with its longest row. Rows with the same prompt stand together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...metrics.execution.store import in_halves
from ...metrics.representations import FloatArray
from ..generation.generator import before_stop
from .generator import HuggingFaceGenerator
from .model_loading import ModelPool
from .sampling import drawn, uniforms
from .token_generator import TokenGenerator

MIN_TEMPERATURE = 1e-6  # below it the likeliest token is taken
_POOL = "candidates"


@dataclass(frozen=True, slots=True)
class TextRow:
    """A text to generate.

    Args:
        ids: the tokens of its prompt.
        number: which it is of those with its prompt and seed.
        seed: of its chance.
        temperature: divides logits.
        top_p: the probability of the nucleus; 1 cuts nothing off.
        max_tokens: longest text, its end included.
        stop: strings that end it, which is the text before the first of them.
        top_logprobs: of how many of the likeliest tokens log-probabilities are kept beside the text's own; None for
            none at all.
        is_wanted: whether it is still waited for; if not it ends with the next token.
    """

    ids: tuple[int, ...]
    number: int
    seed: int
    temperature: float
    top_p: float
    max_tokens: int
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None
    is_wanted: Callable[[], bool] = lambda: True


class TokenChoice(NamedTuple):
    """A token of a text, its natural log-probability, and the likeliest tokens with theirs, falling."""

    token: int
    logprob: float
    likeliest: tuple[tuple[int, float], ...]


class RowText(NamedTuple):
    """What was generated for a row.

    Args:
        text: without special tokens, and before the first stop string.
        num_tokens: those of the end or of the stop string included.
        is_finished: whether it came to its end, or to a stop string, before it became too long.
        choices: how each token was chosen, where log-probabilities are kept.
    """

    text: str
    num_tokens: int
    is_finished: bool
    choices: tuple[TokenChoice, ...] = ()


class MixedRows:
    """Generates rows.

    Args:
        generator: the model and its tokenizer.
    """

    def __init__(self, generator: HuggingFaceGenerator) -> None:
        self._generator = generator

    def texts(self, rows: Sequence[TextRow]) -> list[RowText]:
        """The texts of some rows, in their order; in halves where memory runs out."""
        return in_halves(self._texts, rows)

    def _texts(self, rows: Sequence[TextRow]) -> list[RowText]:
        """The texts of rows: those whose prompts have equally many rows are one batch."""
        of_prompt: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for i, row in enumerate(rows):
            of_prompt[row.ids].append(i)
        by_count: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for ids, numbers in of_prompt.items():
            by_count[len(numbers)].append(ids)
        text_of: dict[int, RowText] = {}
        for count, prompts in by_count.items():
            prompts.sort(key=len)  # as the token generator has them
            numbers = [i for ids in prompts for i in of_prompt[ids]]
            batch = [rows[i] for i in numbers]
            text_of.update(zip(numbers, self._batch(prompts, count, batch), strict=True))
        return [text_of[i] for i in range(len(rows))]

    def _batch(
        self, prompts: Sequence[tuple[int, ...]], count: int, rows: Sequence[TextRow]
    ) -> list[RowText]:
        """The texts of rows [prompts * count], prompt by prompt, the shortest first."""
        generator = self._generator.token_generator
        drawing = _drawing(rows)
        tokens = TokenGenerator(
            generator.model,
            generator.config,
            max_new_tokens=max(row.max_tokens for row in rows),
            padding=generator.padding,
            sequences_at_once=len(rows),
            processors=[drawing],
            criteria=[self._ending(rows, drawing)],
        ).outputs(prompts, ModelPool(_POOL, count, "ancestral", None, 1.0), seed=0)
        outputs = [output for outputs in tokens for output in outputs]
        return [
            self._text(row, output, drawing.choices.get(i, []))
            for i, (row, output) in enumerate(zip(rows, outputs, strict=True))
        ]

    def _text(self, row: TextRow, tokens: list[int], choices: list[TokenChoice]) -> RowText:
        """The text of generated tokens."""
        whole = self._decoded(tokens)
        before = before_stop(whole, row.stop)
        ended = before is not None or self._generator.token_generator.ended(tokens)
        text = whole if before is None else before
        return RowText(text, len(tokens), ended, tuple(choices[: len(tokens)]))

    def _decoded(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self._generator.tokenizer.decode(tokens, skip_special_tokens=True))

    def _ending(self, rows: Sequence[TextRow], drawing: Any) -> Any:
        """The criterion that ends each row in its time."""
        import torch
        from transformers import StoppingCriteria

        decoded = self._decoded

        class RowEnding(StoppingCriteria):  # type: ignore[misc, unused-ignore]
            def __call__(self, input_ids: Any, scores: Any, **more: Any) -> Any:
                """Token ids [rows, length]: whether each row is to end, [rows]."""
                ended = []
                for row, sequence in zip(rows, input_ids, strict=True):
                    is_over = len(sequence) - drawing.start >= row.max_tokens
                    if row.stop and not is_over:
                        text = decoded(sequence[drawing.start :].tolist())
                        is_over = before_stop(text, row.stop) is not None
                    ended.append(is_over or not row.is_wanted())
                return torch.tensor(ended, device=input_ids.device)

        return RowEnding()


def _drawing(rows: Sequence[TextRow]) -> Any:
    """The processor that leaves each row the token that its chance draws, and keeps log-probabilities."""
    import torch
    from transformers import LogitsProcessor

    chance = _chance(rows)
    places_of = _places(rows)
    kept, most = _kept(rows)

    class RowDrawing(LogitsProcessor):  # type: ignore[misc, unused-ignore]
        step = 0
        start = 0  # tokens before the first that is generated
        choices: dict[int, list[TokenChoice]]

        def __init__(self) -> None:
            self.choices = {i: [] for i in kept}

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            """Logits [rows, vocabulary]: 0 at the token drawn, -inf elsewhere."""
            if len(scores) != len(rows):
                # a part of the batch, whose rows nobody knows: there was no memory for the whole
                raise MemoryError("the batch does not fit into memory")
            self.start = self.start or input_ids.shape[1]
            u = torch.from_numpy(chance[:, self.step].copy()).to(scores.device)
            self.step += 1
            tokens = torch.empty(len(rows), dtype=torch.int64, device=scores.device)
            for (temperature, top_p), places in places_of.items():
                tokens[places] = _tokens(scores[places].float(), u[places], temperature, top_p)
            if kept:
                self._keep(scores[kept].float(), tokens[kept])
            return torch.full_like(scores, -torch.inf).scatter_(1, tokens[:, None], 0.0)

        def _keep(self, scores: Any, tokens: Any) -> None:
            """Keeps log-probabilities of tokens [kept] under logits [kept, vocabulary]."""
            logprobs = scores.log_softmax(dim=1)
            own = logprobs.gather(1, tokens[:, None])[:, 0].tolist()
            values, likeliest = logprobs.topk(min(most, logprobs.shape[1]), dim=1)
            columns = (own, tokens.tolist(), likeliest.tolist(), values.tolist())
            for i, logprob, token, best, of_best in zip(kept, *columns, strict=True):
                pairs = list(zip(best, of_best, strict=True))[: rows[i].top_logprobs]
                self.choices[i].append(TokenChoice(token, logprob, tuple(pairs)))

    return RowDrawing()


def _places(rows: Sequence[TextRow]) -> Mapping[tuple[float, float], list[int]]:
    """Numbers of the rows by temperature and nucleus."""
    places_of: dict[tuple[float, float], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        places_of[row.temperature, row.top_p].append(i)
    return places_of


def _chance(rows: Sequence[TextRow]) -> FloatArray:
    """The chance of some rows, [rows, most tokens of any]."""
    chance = np.zeros((len(rows), max(row.max_tokens for row in rows)))
    for own, row in zip(chance, rows, strict=True):
        steps = row.max_tokens
        own[:steps] = uniforms(row.seed, _POOL, row.ids, row.number, steps)
    return chance


def _kept(rows: Sequence[TextRow]) -> tuple[list[int], int]:
    """Numbers of the rows whose log-probabilities are kept, and the most of the likeliest tokens for any."""
    asked = {i: row.top_logprobs for i, row in enumerate(rows) if row.top_logprobs is not None}
    return list(asked), max(asked.values(), default=0)


def _tokens(scores: Any, u: Any, temperature: float, top_p: float) -> Any:
    """The tokens [rows] drawn from logits [rows, vocabulary] by chance `u` [rows]."""
    if temperature < MIN_TEMPERATURE or top_p <= 0:
        return scores.argmax(dim=1)
    if temperature != 1:
        scores = scores / temperature
    if top_p >= 1:
        return drawn(scores, u)
    return drawn(scores, u, "nucleus", top_p)
