"""Models on their device, and text encoders: hidden states of token sequences, whatever else is in their batch.

Encoders of the BERT family run packed (see `attention`); any other padded, on a CPU one sequence at a time, to a
multiple of 16. Either way the states of a sequence are a function of its ids alone, to the last bit on a CPU. It knows
nothing of texts or metrics; torch and transformers are imported when one is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from ...errors import InputError
from ...representations import IntArray, Ragged
from .attention import ROWS, Packing, padded_rows, use_packed_attention

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


class PackedModel:
    """A transformers model on its device, with layers whose rows stand alone; it only runs.

    Args:
        model: a transformers model.
        device: where it runs; the first GPU if there is one, else the CPU, if not given.
        dtype: in which precision.
        batch_tokens: tokens of one pass, chosen by device if not given.

    Attributes:
        max_tokens: the longest sequence that it has positions for.
    """

    # Tokens of one pass on a CPU.
    cpu_tokens: ClassVar[int] = CPU_TOKENS

    def __init__(
        self, model: Any, device: str | None, dtype: DType, batch_tokens: int | None = None
    ) -> None:
        import torch

        from .elementwise import use_elementwise
        from .linear_products import use_linear_products

        self.torch = torch
        use_linear_products(model)
        use_elementwise(model)
        self.device = device_of(device)
        self.model = model.to(self.device, getattr(torch, dtype)).train(False)
        self.config = model.config.get_text_config()
        self.batch_tokens = batch_tokens or (self.cpu_tokens if self.on_cpu else GPU_TOKENS)
        self.max_tokens = longest_input(model)

    @property
    def on_cpu(self) -> bool:
        """Whether states must not depend on their company, to the last bit."""
        return bool(self.device.type == "cpu")

    def tensor(self, values: Any) -> Any:
        """An array on the device."""
        return self.torch.from_numpy(values).to(self.device)


class States(NamedTuple):
    """Hidden states of a batch of sequences, [tokens and spare ones, d] each: of all layers and the embeddings, or one.

    Layers are in the model's precision; `last` is in float32 or better.
    """

    packing: Packing
    layers: Sequence[Any]

    @property
    def last(self) -> Any:
        """Those of the last layer, [tokens and spare ones, d]."""
        return self.layers[-1].float()

    def by_length(self) -> Iterator[tuple[IntArray, list[Any]]]:
        """Rows of one length at a time, and their states in every layer, [rows, length, d]."""
        first = 0
        for slab in self.packing.slabs:
            rows = self.packing.order[first : first + slab.sequences]
            yield rows, [slab.rows(x).float() for x in self.layers]
            first += slab.sequences


class Encoder(PackedModel):
    """A transformer encoder without its pooler.

    Args:
        model: a transformers model in evaluation mode.
        device, dtype, batch_tokens: as in `PackedModel`.
        layer: the last layer that runs, 0 the embeddings; all if not given.
    """

    def __init__(
        self,
        model: Any,
        device: str | None,
        dtype: DType,
        layer: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        layers = model.config.num_hidden_layers
        if layer is not None and not 0 <= layer <= layers:
            raise InputError(f"layer {layer} of an encoder with {layers} layers", where="layer")
        self.layer = layers if layer is None else layer
        self.packed = model.config.model_type in PACKED
        if self.packed:
            if model.config.model_type not in NORMED_AT_THE_END:
                model.encoder.layer = model.encoder.layer[: max(1, self.layer)]
            use_packed_attention(model)
        super().__init__(model, device, dtype, batch_tokens)

    def flops(self, lengths: IntArray) -> float:
        """Floating point operations of passes over sequences of these lengths, [n]."""
        return Stack.of_encoder(self.config, self.layer).flops(lengths)

    def states(self, ids: Ragged, all_layers: bool = False, types: Ragged | None = None) -> States:
        """The states of the encoder's `layer`, or of the embeddings and every layer up to it.

        types: of the tokens, in rows as long as those of `ids`; all 0 if not given.
        """
        packing = Packing(ids.lengths, self.device)
        chosen = slice(0 if all_layers else self.layer, self.layer + 1)
        with self.torch.inference_mode():
            if self.packed:
                return States(packing, self._packed(packing, ids, types)[chosen])
            in_order = None if types is None else types[packing.order]
            passes = self.padded_passes(self.model, ids[packing.order], in_order)
            parts = [[x[is_read] for x in out.hidden_states[chosen]] for out, is_read in passes]
            layers = [self.torch.cat(of_layer) for of_layer in zip(*parts, strict=True)]
            return States(packing, layers)

    def _packed(self, packing: Packing, ids: Ragged, types: Ragged | None) -> Any:
        """States of the embeddings and every layer [tokens and spare ones, d], all rows in one pass."""
        places = packing.spans.places + first_position(self.model)
        more = {} if types is None else {"token_type_ids": packing.row(types)}
        out = self.model(
            input_ids=packing.row(ids),
            position_ids=self.tensor(padded_rows(places))[None],
            output_hidden_states=True,
            packing=packing,
            **more,
        )
        return [x[0] for x in out.hidden_states]

    def padded_passes(
        self, model: Any, ids: Ragged, types: Ragged | None
    ) -> Iterator[tuple[Any, Any]]:
        """Outputs of a model that runs padded, on a CPU for one sequence at a time, and which tokens are read.

        Sequences are padded to a multiple of 16, as far as there are positions. The tokens that are read: [n, width].
        """
        step = 1 if self.on_cpu else max(1, len(ids))
        for start in range(0, len(ids), step):
            rows = np.arange(start, min(start + step, len(ids)))
            lengths = ids.lengths[rows]
            longest = int(lengths.max())
            width = min(longest + -longest % ROWS, max(longest, self.max_tokens))
            is_read = np.arange(width) < lengths[:, None]
            inputs = {"input_ids": (ids, self.config.pad_token_id or 0)}
            if types is not None:
                inputs["token_type_ids"] = (types, 0)
            tensors = {}
            for name, (values, filler) in inputs.items():
                padded = np.full(is_read.shape, filler)
                padded[is_read] = values[rows].values
                tensors[name] = self.tensor(padded)
            mask = self.tensor(is_read)
            out = model(**tensors, attention_mask=mask.long(), output_hidden_states=True)
            yield out, mask


def longest_input(model: Any) -> int:
    """The tokens of the longest sequence that a model has positions for."""
    positions = getattr(model.config, "max_position_embeddings", None) or 1 << 30
    return int(positions) - first_position(model)


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
