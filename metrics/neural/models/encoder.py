"""A text encoder: hidden states of token sequences, whatever else is in their batch.

Encoders of the BERT family run packed (see `attention`); any other on sequences of one length, on a CPU one at
a time, padded to a multiple of 16. Either way the states of a sequence are a function of its ids alone, to the last bit
on a CPU. It knows nothing of texts or metrics; torch and transformers are imported when one is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from ...errors import InputError
from ...representations import IntArray, Ragged
from .attention import ROWS, attention_within, padded_rows, slabs_of, use_packed_attention

DType = Literal["float32", "bfloat16", "float16"]
# `model_type` of the configurations whose models run packed.
PACKED = {"bert", "camembert", "electra", "roberta", "xlm-roberta", "xlm-roberta-xl"}
# Of these, those with a last norm over the last layer, so that no layer can be taken away.
NORMED_AT_THE_END = {"xlm-roberta-xl"}
# Tokens of one batch.
CPU_TOKENS, GPU_TOKENS = 1024, 1 << 15


class Stack(NamedTuple):
    """Sizes of a stack of layers: how many, their width, that of all heads together, that of the feed-forward part.

    A multiplication with its addition counts as two operations. Of a token, a layer of width d multiplies with the four
    matrices of attention (d times the width i of all heads) and the two or, gated, three of the feed-forward part (d
    times f), and compares it with each of the T tokens of its sequence:

        FLOP = 2 layers sum over sequences of T (4 d i + products d f + 2 i T)
    """

    layers: int
    width: int
    heads_width: int
    feed_forward: int
    feed_forward_products: int = 2

    @classmethod
    def of_encoder(cls, config: Any, layers: int) -> Self:
        """That of an encoder's configuration, as transformers names its sizes; of DistilBERT and its kin too."""
        width = config.hidden_size
        feed_forward = getattr(config, "intermediate_size", None) or getattr(
            config, "hidden_dim", 0
        )
        return cls(layers, width, width, feed_forward or 4 * width)

    @property
    def products(self) -> int:
        """Multiplications of one token with the matrices of one layer."""
        attention = 4 * self.width * self.heads_width
        return attention + self.feed_forward_products * self.width * self.feed_forward

    def flops(self, lengths: IntArray) -> float:
        """Of sequences of these lengths [n], each attending to itself."""
        tokens = lengths.astype(np.float64)
        of_tokens = self.products * tokens.sum() + 2 * self.heads_width * np.square(tokens).sum()
        return float(2 * self.layers * of_tokens)


class Encoder:
    """A transformer encoder without its pooler.

    Args:
        model: a transformers model in evaluation mode.
        device: where it runs.
        dtype: in which precision.
        layer: the last layer that runs, 0 the embeddings; all if not given.
        batch_tokens: tokens of one batch, chosen by device if not given.
    """

    def __init__(
        self,
        model: Any,
        device: str | None,
        dtype: DType,
        layer: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        import torch

        from .elementwise import use_elementwise
        from .linear_products import use_linear_products

        self.torch = torch
        self.config = model.config
        layers = model.config.num_hidden_layers
        if layer is not None and not 0 <= layer <= layers:
            raise InputError(f"layer {layer} of an encoder with {layers} layers", where="layer")
        self.layer = layers if layer is None else layer
        self.packed = model.config.model_type in PACKED
        if self.packed:
            if model.config.model_type not in NORMED_AT_THE_END:
                model.encoder.layer = model.encoder.layer[: max(1, self.layer)]
            use_packed_attention(model)
        use_linear_products(model)
        use_elementwise(model)
        self.device = device_of(device)
        self.model = model.to(self.device, getattr(torch, dtype)).train(False)
        on_cpu = self.device.type == "cpu"
        self.batch_tokens = batch_tokens or (CPU_TOKENS if on_cpu else GPU_TOKENS)

    @property
    def max_tokens(self) -> int:
        """The longest sequence it has positions for."""
        return longest_input(self.model)

    def flops(self, lengths: IntArray) -> float:
        """Floating point operations of passes over sequences of these lengths, [n]."""
        return Stack.of_encoder(self.config, self.layer).flops(lengths)

    def states(
        self, ids: Ragged, all_layers: bool = False, types: Ragged | None = None
    ) -> Iterator[tuple[IntArray, list[Any]]]:
        """Rows of one length at a time, and their hidden states [rows, length, d] in float32 or better.

        The states are those of the encoder's `layer`, or of the embeddings and every layer up to it. types: of the
        tokens, in rows as long as those of `ids`; all 0 if not given.
        """
        order = np.argsort(ids.lengths, kind="stable")
        forward = self._packed if self.packed else self._plain
        with self.torch.inference_mode():
            for rows, states in forward(ids, types, order):
                layers = states if all_layers else states[-1:]
                yield rows, [x.float() for x in layers]

    def _packed(
        self, ids: Ragged, types: Ragged | None, order: IntArray
    ) -> Iterator[tuple[IntArray, list[Any]]]:
        """As `states`, all rows in one pass; order: the rows by length, [rows]."""
        lengths = ids.lengths[order]
        tokens = ids[order].values
        starts = np.repeat(lengths.cumsum() - lengths, lengths)  # [tokens]
        position = np.arange(len(tokens)) - starts + first_position(self.model)  # [tokens]
        slabs = slabs_of(lengths.tolist())
        more = {}
        if types is not None:
            more["token_type_ids"] = self._row(padded_rows(types[order].values))
        out = self.model(
            input_ids=self._row(padded_rows(tokens)),
            position_ids=self._row(padded_rows(position)),
            output_hidden_states=True,
            packing=attention_within(slabs),
            **more,
        )
        layers = out.hidden_states[: self.layer + 1]  # [1, tokens and spare ones, d] each
        first = 0
        for slab in slabs:
            rows = order[first : first + slab.sequences]
            yield rows, [slab.rows(x[0]) for x in layers]
            first += slab.sequences

    def _plain(
        self, ids: Ragged, types: Ragged | None, order: IntArray
    ) -> Iterator[tuple[IntArray, list[Any]]]:
        """As `states`, a pass for every length and on a CPU for every row; order: the rows by length, [rows]."""
        pad = self.torch.nn.functional.pad
        for slab in slabs_of(ids.lengths[order].tolist()):
            same, order = order[: slab.sequences], order[slab.sequences :]
            # Up to a multiple of 16, as far as the model has positions.
            free = max(0, self.max_tokens - slab.length)
            spare = (0, min(-slab.length % ROWS, free))
            step = 1 if self.device.type == "cpu" else slab.sequences
            for start in range(0, slab.sequences, step):
                rows = same[start : start + step]
                values = ids[rows].values.reshape(len(rows), -1)  # [rows, length]
                tokens = self.torch.from_numpy(values).to(self.device)
                more = {}
                if types is not None:
                    of_rows = types[rows].values.reshape(len(rows), -1)  # [rows, length]
                    of_tokens = self.torch.from_numpy(of_rows).to(self.device)
                    more["token_type_ids"] = pad(of_tokens, spare)
                out = self.model(
                    input_ids=pad(tokens, spare, value=self.config.pad_token_id or 0),
                    attention_mask=pad(self.torch.ones_like(tokens), spare),
                    output_hidden_states=True,
                    **more,
                )
                layers = out.hidden_states[: self.layer + 1]  # [rows, length and spare, d] each
                yield rows, [x[:, : slab.length] for x in layers]

    def _row(self, values: IntArray) -> Any:
        """Values [tokens] as a batch of one, [1, tokens]."""
        return self.torch.from_numpy(values)[None].to(self.device)


def longest_input(model: Any) -> int:
    """The tokens of the longest sequence that a model has positions for."""
    positions = int(getattr(model.config, "max_position_embeddings", 1 << 30))
    return positions - first_position(model)


def first_position(model: Any) -> int:
    """The position of the first token: RoBERTa and its kin count from behind that of padding."""
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def device_of(name: str | None) -> Any:
    """The device of a name: the first GPU if there is one, else the CPU, where none is given.

    Raises:
        InputError: there is no such device.
    """
    import torch

    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        problem = str(error).splitlines()[0]
        where = f"device {name!r}"
        raise InputError(problem, where=where, fix="Such as cpu or cuda:0") from error
    return device
