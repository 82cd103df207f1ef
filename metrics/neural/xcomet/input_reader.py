"""What XCOMET gives for one input, texts side by side: a sentence score, and labels of the first text's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...execution.batches import in_batches
from ...representations import FloatArray, IntArray, Ragged
from ..comet.head import Head
from ..comet.pooling import Mixer
from ..comet.side_by_side import JoinedTexts, SideBySide
from ..models.encoder import Encoder


class Read(NamedTuple):
    """What one input gives for n pairs: sentence scores [n], and label probabilities of the hypothesis's tokens."""

    scores: FloatArray
    labels: Ragged  # float32 [tokens, 4] of each pair

    def take(self, rows: IntArray) -> Read:
        """Those of some pairs."""
        return Read(self.scores[rows], self.labels[rows])


class InputReader:
    """Runs the encoder, the estimator and the labels.

    Args:
        encoder: the encoder.
        mixer: makes one vector of its layers.
        head: the estimator of the sentence score.
        word_layer: whose states give labels.
        word_labels: weight [4, d] and bias [4] of the labels.
        joining: how the texts of an input stand side by side.
    """

    def __init__(
        self,
        encoder: Encoder,
        mixer: Mixer,
        head: Head,
        word_layer: int,
        word_labels: tuple[Any, Any],
        joining: SideBySide,
    ) -> None:
        self.encoder = encoder
        self.mixer = mixer
        self.head = head
        self.word_layer = word_layer
        weight, bias = word_labels
        self.label_weight = weight.float().to(encoder.device)  # [4, d]
        self.label_bias = bias.float().to(encoder.device)  # [4]
        self.joining = joining

    def read(self, ids: Ragged, parts: Sequence[IntArray]) -> Read:
        """What the input made of one row of each part gives, the hypothesis first; rows of the texts, [n] each."""
        joined = self.joining.sequences(ids, parts)
        num_tokens = ids.lengths[parts[0]]  # of the hypotheses, [n]

        def run(numbers: IntArray) -> Read:
            return self._batch(joined.take(numbers), num_tokens[numbers])

        batches, places = in_batches(joined.ids.lengths, self.encoder.batch_tokens, run)
        scores = np.concatenate([batch.scores for batch in batches])
        values = np.concatenate([batch.labels.values for batch in batches])
        of_batches = [batch.labels.lengths for batch in batches]
        labels = Ragged.of_lengths(values, np.concatenate(of_batches))
        return Read(scores, labels).take(places)

    def _batch(self, joined: JoinedTexts, num_tokens: IntArray) -> Read:
        """What some sequences give; num_tokens: of their hypotheses, [n]."""
        width = self.encoder.config.hidden_size
        first = np.empty((len(joined.ids), width), np.float32)
        labels: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(joined.ids)
        for rows, states in self.encoder.states(joined.ids, True, joined.types):
            # the vector of the whole input, mixed over the layers, is what its score is made of
            used = states if self.mixer.shares is not None else states[-1:]
            first[rows] = self.mixer.vectors(used, None).cpu().numpy()
            # the tokens of the hypothesis, which stands first, have labels
            of_tokens = self._label_probabilities(states[self.word_layer])  # [rows, length, 4]
            for place, row in enumerate(rows.tolist()):
                labels[row] = of_tokens[place, : num_tokens[row]]
        with self.encoder.torch.inference_mode():
            vectors = self.encoder.torch.from_numpy(first).to(self.encoder.device)
            scores = self.head.whole(vectors)
        return Read(scores, Ragged.of_rows(labels))

    def _label_probabilities(self, states: Any) -> NDArray[np.float32]:
        """Probabilities of the four labels, float32 [n, length, 4], of states [n, length, d]."""
        with self.encoder.torch.inference_mode():
            # Products and sums of single rows: no probability depends on other tokens.
            logits = [(states * weight).sum(2) for weight in self.label_weight]
            stacked = self.encoder.torch.stack(logits, 2) + self.label_bias  # [n, length, 4]
            probabilities: NDArray[np.float32] = stacked.softmax(2).cpu().numpy()
            return probabilities
