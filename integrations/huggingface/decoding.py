"""Runs ``model.generate`` over token ids: sampled continuations, a beam, and log-probabilities of what came out.

Encoder-decoders and decoder-only models alike; what is returned for an input is the generated part alone, up to and
with its end-of-sequence token. An input is encoded once per batch, whatever the number of its candidates. It knows
nothing of texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from ...metrics.execution.batches import in_halves
from .sampling import CELLS, drawing, uniforms, warpers
from .settings import Pool

Ids = Sequence[int]
NEUTRAL: dict[str, Any] = {  # no warping by transformers, and none of its other ways to decode
    "do_sample": False,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "min_p": None,
    "top_h": None,
    "num_beams": 1,
    "num_return_sequences": 1,
    "max_length": None,
    "max_time": None,
    "prompt_lookup_num_tokens": None,
    "assistant_early_exit": None,
    "use_mtp": None,
    "penalty_alpha": None,
    "dola_layers": None,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "token_healing": False,
    "stop_strings": None,  # these three are refused unless they are empty
    "force_words_ids": None,
    "constraints": None,
    "return_dict_in_generate": False,
    "output_scores": False,
    "output_logits": False,
    "output_attentions": False,
    "output_hidden_states": False,
}


class Decoding:
    """A model and how its output ends.

    Args:
        model: a transformers model that generates.
        config: its generation configuration: special tokens and constraints such as no_repeat_ngram_size count, its
            ways of sampling do not.
        max_new_tokens: longest output, its end included.
        padding: the id that fills up batches.
        sequences_at_once: sequences in one batch.
        processors: further logits processors, which come before the cut.
        criteria: further stopping criteria; an output ends with the first token at which one holds.
    """

    def __init__(
        self,
        model: Any,
        config: Any,
        max_new_tokens: int,
        padding: int,
        sequences_at_once: int,
        processors: Sequence[Any] = (),
        criteria: Sequence[Any] = (),
    ) -> None:
        self.model, self.padding, self.at_once = model, padding, sequences_at_once
        self.encodes = bool(model.config.is_encoder_decoder)
        self.processors, self.criteria = list(processors), list(criteria)
        self.config = deepcopy(config)
        self.config.update(**NEUTRAL, max_new_tokens=max_new_tokens, pad_token_id=padding)
        ends = self.config.eos_token_id
        self.ends = frozenset([] if ends is None else [ends] if isinstance(ends, int) else ends)

    def outputs(self, inputs: Sequence[Ids], pool: Pool, seed: int) -> list[list[list[int]]]:
        """The generated tokens of every candidate of every input, [inputs][pool.size][tokens]."""
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i]))
        found: list[list[list[int]]] = [[] for _ in inputs]
        if pool.method == "beam":
            step, work = max(1, self.at_once // pool.size), [(i, 0) for i in order]
        else:
            step, work = self.at_once, [(i, j) for i in order for j in range(pool.size)]

        def run(part: Sequence[tuple[int, int]]) -> list[list[list[int]]]:
            if pool.method == "beam":
                return self._beams([inputs[i] for i, _ in part], pool.size)
            return [[output] for output in self._samples(inputs, part, pool, seed)]

        with _prepared(self.model, self.config):
            for start in range(0, len(work), step):
                part = work[start : start + step]
                for (i, _), outputs in zip(part, in_halves(run, part), strict=True):
                    found[i] += outputs
        return found

    def _samples(
        self, inputs: Sequence[Ids], work: Sequence[tuple[int, int]], pool: Pool, seed: int
    ) -> list[list[int]]:
        """One output of every (input, number of the candidate)."""
        steps = self.config.max_new_tokens
        chance = np.stack([uniforms(seed, pool.name, inputs[i], j, steps) for i, j in work])
        distinct = list(dict.fromkeys(i for i, _ in work))
        rows = [distinct.index(i) for i, _ in work]
        draw = drawing(chance, warpers(pool.method, pool.cutoff, pool.temperature))
        given = self._given([inputs[i] for i in distinct], rows)
        return self._generated(given, self.config, [*self.processors, draw])

    def _beams(self, inputs: Sequence[Ids], size: int) -> list[list[list[int]]]:
        config = deepcopy(self.config)
        config.update(num_beams=size, num_return_sequences=size)
        outputs = self._generated(
            self._given(inputs, list(range(len(inputs)))), config, self.processors
        )
        return [outputs[start : start + size] for start in range(0, len(outputs), size)]

    def _given(self, inputs: Sequence[Ids], rows: list[int]) -> dict[str, Any]:
        """What the model reads: `rows` of the inputs, padded; for an encoder-decoder the encoder's states."""
        ids, mask = self._padded(inputs, left=not self.encodes)
        if not self.encodes:
            return {"input_ids": ids[rows], "attention_mask": mask[rows]}
        return {"encoder_outputs": self._encoded(ids, mask, rows), "attention_mask": mask[rows]}

    def _encoded(self, ids: Any, mask: Any, rows: list[int]) -> Any:
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        with torch.inference_mode():
            states = self.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
            return BaseModelOutput(last_hidden_state=states[rows])

    def _generated(
        self, given: dict[str, Any], config: Any, processors: list[Any]
    ) -> list[list[int]]:
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        start = 1 if self.encodes else given["input_ids"].shape[1]
        stopping = StoppingCriteriaList(self.criteria)
        with torch.inference_mode():
            found = self.model.generate(
                **given,
                generation_config=config,
                logits_processor=LogitsProcessorList(processors),
                stopping_criteria=stopping,
            )
            lengths = (
                _lengths(found, start, stopping) if self.criteria else [found.shape[1]] * len(found)
            )
        return [
            self._cut(row[start:length])
            for row, length in zip(found.tolist(), lengths, strict=True)
        ]

    def _cut(self, tokens: list[int]) -> list[int]:
        """The tokens up to and with the first that ends them."""
        end = next((at for at, token in enumerate(tokens) if token in self.ends), len(tokens))
        return tokens[: end + 1]

    def ended(self, tokens: Ids) -> bool:
        """Whether an output came to its end before it became too long."""
        return not self.ends or (bool(tokens) and tokens[-1] in self.ends)

    def log_probabilities(
        self, inputs: Sequence[Ids], outputs: Sequence[Sequence[Ids]]
    ) -> list[list[float]]:
        """Natural log-probability of every output [inputs][outputs] given its input, under the model as it is.

        The sum over its tokens, the end included where there is one, without temperature, cut or constraint. A first
        token that the configuration forces is given and does not count.
        """
        work = list(
            dict.fromkeys((i, tuple(tokens)) for i, some in enumerate(outputs) for tokens in some)
        )
        work.sort(key=lambda pair: (len(inputs[pair[0]]), len(pair[1])))
        longest = max((len(tokens) + len(inputs[i]) for i, tokens in work), default=1)
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        step = max(1, min(self.at_once, CELLS // (longest * vocabulary)))
        found: dict[tuple[int, tuple[int, ...]], float] = {}
        with _prepared(self.model, self.config):
            for start in range(0, len(work), step):
                part = work[start : start + step]
                values = in_halves(lambda some: self._scored(inputs, some), part)
                found.update(zip(part, values, strict=True))
        return [[found[i, tuple(tokens)] for tokens in some] for i, some in enumerate(outputs)]

    def _scored(
        self, inputs: Sequence[Ids], work: Sequence[tuple[int, tuple[int, ...]]]
    ) -> list[float]:
        """Log-probabilities of (input, output) pairs, one forward pass."""
        import torch

        begin = self.config.decoder_start_token_id
        heads = [[begin] if self.encodes else list(inputs[i]) for i, _ in work]
        read, mask = self._padded(
            [[*head, *tokens] for head, (_, tokens) in zip(heads, work, strict=True)], left=False
        )
        with torch.inference_mode():
            if self.encodes:
                distinct = list(dict.fromkeys(i for i, _ in work))
                ids, seen = self._padded([inputs[i] for i in distinct], left=False)
                rows = [distinct.index(i) for i, _ in work]
                states = self._encoded(ids, seen, rows)
                out = self.model(
                    encoder_outputs=states, attention_mask=seen[rows], decoder_input_ids=read
                )
            else:
                out = self.model(input_ids=read, attention_mask=mask)
            logits = out.logits[:, :-1].float()
            own = logits.gather(2, read[:, 1:, None])[..., 0] - logits.logsumexp(dim=2)
        sums = []
        for values, head, (_, tokens) in zip(own.double().cpu(), heads, work, strict=True):
            first = len(head) - 1
            forced = self.config.forced_bos_token_id
            skipped = int(forced is not None and tokens[:1] == (forced,))
            sums.append(min(0.0, float(values[first + skipped : first + len(tokens)].sum())))
        return sums

    def _padded(self, rows: Sequence[Ids], left: bool) -> tuple[Any, Any]:
        """Token ids and mask [rows, longest] on the model's device."""
        import torch

        width = max(map(len, rows))
        gaps = [[self.padding] * (width - len(row)) for row in rows]
        ids = [[*gap, *row] if left else [*row, *gap] for row, gap in zip(rows, gaps, strict=True)]
        ones = [[0] * len(gap) + [1] * len(row) for row, gap in zip(rows, gaps, strict=True)]
        mask = ones if left else [row[::-1] for row in ones]
        device = self.model.device
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _lengths(rows: Any, start: int, stopping: Any) -> list[int]:
    """The length of every row [rows, longest] up to the first token behind `start` at which a criterion holds."""
    found = [rows.shape[1]] * len(rows)
    for length in range(rows.shape[1], start, -1):
        for i, done in enumerate(stopping(rows[:, :length], None).tolist()):
            found[i] = length if done else found[i]
    return found


@contextmanager
def _prepared(model: Any, config: Any) -> Iterator[None]:
    """Without dropout, and with a configuration that transformers does not fill up from the model's own."""
    before = model.training, model.generation_config
    model.train(False)
    model.generation_config = config
    try:
        yield
    finally:
        model.train(before[0])
        model.generation_config = before[1]
