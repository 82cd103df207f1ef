"""Classifiers of token sequences: a model of transformers with a head of one or several outputs.

Encoders run packed where they can, then their head on sixteen first states at a time; other families run whole, on a
CPU one sequence at a time, padded to a multiple of 16. Decoders read once what several sequences begin with; their head
is

    logits = W x,     x the state of the last token that is not padding.

The outputs of a sequence are a function of its tokens alone, to the last bit on a CPU. It knows neither texts nor what
labels mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...execution.store import in_batches
from ...representations import Array, FloatArray, IntArray, Ragged
from .attention import ROWS
from .causal_lm import CausalModel, decoder_stack
from .encoder import DType, Encoder, PackedModel
from .pretrained import pretrained
from .prompt_pass import Prompted, PromptPass

KIND = "AutoModelForSequenceClassification"


class SequenceClassifier(ABC):
    """A loaded classifier.

    Args:
        model: a transformers model with a head.
        body: what it is without the head, on its device.

    Attributes:
        names: of its outputs.
        device: where it runs.
        batch_tokens: tokens of a pass.
        max_tokens: the longest sequence that it has positions for.
    """

    def __init__(self, model: Any, body: PackedModel) -> None:
        self.model = model.to(body.device, body.model.dtype).train(False)
        self.config = model.config
        self.names = tuple(str(self.config.id2label[i]) for i in range(self.config.num_labels))
        self.torch, self.device = body.torch, body.device
        self.batch_tokens, self.max_tokens = body.batch_tokens, body.max_tokens

    def logits(
        self, ids: Ragged, shared: IntArray | None = None, types: Ragged | None = None
    ) -> FloatArray:
        """The outputs of some sequences, float64 [n, outputs].

        Args:
            ids: the sequences.
            shared: how many tokens each begins with that others may begin with too, [n]; decoders read these once.
            types: of the tokens, in rows as long as those of `ids`; encoders read them, and all are 0 if not given.
        """
        if not len(ids):
            return np.empty((0, len(self.names)))
        with self.torch.inference_mode():
            return self._logits(ids, shared, types)

    @abstractmethod
    def _logits(self, ids: Ragged, shared: IntArray | None, types: Ragged | None) -> FloatArray:
        """As `logits`, of one sequence or more."""

    @abstractmethod
    def flops(self, lengths: IntArray) -> float:
        """Floating point operations of passes over sequences of these lengths, [n]."""


def load_sequence_classifier(
    folder: Path, device: str | None, dtype: DType, batch_tokens: int | None = None
) -> SequenceClassifier:
    """The classifier of a folder; on the device "meta" it has no weights and only counts.

    Raises:
        ModelLoadError: the folder is not a classifier, lacks weights, or is a decoder that reads what follows a token.
    """
    if hasattr(pretrained(folder, KIND, weights=False), "score"):
        model = pretrained(folder, KIND, device != "meta", dtype)
        return DecoderClassifier(model, CausalModel(model.base_model, device, dtype, batch_tokens))
    return load_encoder_classifier(folder, device, dtype, batch_tokens)


def load_encoder_classifier(
    folder: Path, device: str | None, dtype: DType, batch_tokens: int | None = None
) -> EncoderClassifier:
    """The classifier of a folder with an encoder; as `load_sequence_classifier`."""
    model = pretrained(folder, KIND, device != "meta")
    encoder = Encoder(model.base_model, device, dtype, batch_tokens=batch_tokens)
    return EncoderClassifier(model, encoder)


class EncoderClassifier(SequenceClassifier):
    """An encoder with the head of its family."""

    def __init__(self, model: Any, encoder: Encoder) -> None:
        super().__init__(model, encoder)
        self.encoder = encoder

    def _logits(self, ids: Ragged, shared: IntArray | None, types: Ragged | None) -> FloatArray:
        # A model that knows one type has no vectors for others.
        if (getattr(self.config, "type_vocab_size", None) or 0) <= 1:
            types = None
        forward = self._packed if self.encoder.packed else self._plain

        def run(rows: IntArray) -> FloatArray:
            logits = forward(ids[rows], None if types is None else types[rows])
            return np.asarray(logits.double().cpu().numpy())

        values, places = in_batches(ids.lengths, self.batch_tokens, run)
        return np.concatenate(values)[places]

    def flops(self, lengths: IntArray) -> float:
        """Those of the encoder."""
        return self.encoder.flops(lengths)

    def _packed(self, ids: Ragged, types: Ragged | None) -> Any:
        """Logits [n, outputs] by the packed encoder and the head."""
        states = self.encoder.states(ids, types=types)
        return in_blocks(states.packing.firsts(states.layers[-1]), self._head)

    def _head(self, first_states: Any) -> Any:
        """Logits [rows, outputs] of the first token's states [rows, d]."""
        states = first_states[:, None]  # [rows, 1, d]
        pooler = getattr(self.encoder.model, "pooler", None)
        return self.model.classifier(states if pooler is None else pooler(states))

    def _plain(self, ids: Ragged, types: Ragged | None) -> Any:
        """Logits [n, outputs] by the whole model, padded."""
        outputs = self.encoder.padded_passes(self.model, ids, types)
        return self.torch.cat([out.logits for out, _ in outputs])


class DecoderClassifier(SequenceClassifier):
    """A decoder with a linear head over the state of its last token.

    Raises:
        ModelLoadError: the model reads what follows a token.
    """

    def __init__(self, model: Any, decoder: CausalModel) -> None:
        super().__init__(model, decoder)
        self.decoder = decoder
        if self.device.type != "meta":
            decoder.check(_all_states, str(self.config.name_or_path))

    def _logits(self, ids: Ragged, shared: IntArray | None, types: Ragged | None) -> FloatArray:
        texts = self._texts(ids, np.ones(len(ids), np.int64) if shared is None else shared)
        states = np.array(self.decoder.values(_last_states, texts))  # [n, d]
        of_all = self.decoder.tensor(states).to(self.decoder.model.dtype)
        return np.asarray(in_blocks(of_all, self._head).double().cpu().numpy())

    def _head(self, states: Any) -> Any:
        """Logits [rows, outputs] of states [rows, d]; the width of the product is a multiple of 16, as everywhere."""
        from .linear_products import linear

        pad, score, spare = self.torch.nn.functional.pad, self.model.score, -len(self.names) % ROWS
        bias = None if score.bias is None else pad(score.bias, (0, spare))
        return linear(states, pad(score.weight, (0, 0, 0, spare)), bias)[:, : len(self.names)]

    def flops(self, lengths: IntArray) -> float:
        """Those of the decoder, with nothing shared; its head is small next to it."""
        return decoder_stack(self.decoder.config).flops(lengths)

    def _texts(self, ids: Ragged, shared: IntArray) -> Prompted:
        """The sequences up to the last token that is not padding, and what they share as prompts.

        One token more stands at the end of each: the state before a token is what a pass gives of it.
        """
        padding = getattr(self.decoder.config, "pad_token_id", None)
        rows, first = [], []
        for row in range(len(ids)):
            tokens = ids.values[ids.offsets[row] : ids.offsets[row + 1]]
            end = len(tokens)
            if padding is not None:
                is_read = np.flatnonzero(tokens != padding)
                end = int(is_read[-1]) + 1 if len(is_read) else 1
            rows.append(np.concatenate((tokens[:end], tokens[:1])))
            first.append(min(max(1, int(shared[row])), len(rows[-1]) - 1))
        return Prompted(Ragged.of_rows(rows), np.array(first, np.int64))


def _all_states(states: Any, prompt_pass: PromptPass) -> list[Array]:
    """The states before all scored tokens of every sequence, float32 [scored, d]; states: [rows, d]."""
    scoring: Array = states.float().cpu().numpy()[prompt_pass.states]
    return prompt_pass.by_sequence(scoring[prompt_pass.scored_by])


def _last_states(states: Any, prompt_pass: PromptPass) -> list[Array]:
    """The state before the last scored token of every sequence, float32 [d]; states: [rows, d]."""
    last = prompt_pass.num_scored.cumsum() - 1
    at = prompt_pass.states[prompt_pass.scored_by[last]]
    return list(states[at.tolist()].float().cpu().numpy())


def in_blocks(states: Any, head: Callable[[Any], Any]) -> Any:
    """Outputs of a head over states [n, d], on a CPU on full blocks of 16, so that none depends on their number."""
    import torch

    padded = torch.nn.functional.pad(states, (0, 0, 0, -len(states) % ROWS))
    blocks: Any = torch.split(padded, ROWS if states.device.type == "cpu" else len(padded))
    return torch.cat([head(block) for block in blocks])[: len(states)]


def check_output(name: str | int | None, names: Sequence[str], where: str) -> int:
    """The number of the output that is meant: the only one, or one by its name or number.

    Raises:
        InputError: several and none is named, or there is none of this name.
    """
    known = f"Outputs: {', '.join(names[:12])}" + (", ..." if len(names) > 12 else "")
    if name is None:
        if len(names) == 1:
            return 0
        raise InputError(
            f"the model has {len(names)} outputs", where=where, fix=f"Name one: {known}"
        )
    if isinstance(name, int) and 0 <= name < len(names):
        return name
    if name in names:
        return list(names).index(str(name))
    raise InputError(f"no output {name!r}", where=where, fix=known)
