"""A text encoder: hidden states of token sequences, whatever else is in their batch.

Encoders of the BERT family run packed (see `packed_attention`); any other on sequences of one length, on a CPU one at
a time, padded to a multiple of 16. Either way the states of a sequence are a function of its ids alone, to the last bit
on a CPU. It knows nothing of texts or metrics; torch and transformers are imported when one is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...errors import InputError, ModelLoadError
from ...representations import IntArray, Ragged
from .files.gguf_models import as_plain, is_gguf, source_of, unpacked
from .packed_attention import ROWS, attention_within, slabs_of, use_packed_attention
from .pass_flops import Stack

DType = Literal["float32", "bfloat16", "float16"]
# `model_type` of the configurations whose models run packed.
PACKED = {"bert", "camembert", "electra", "roberta", "xlm-roberta", "xlm-roberta-xl"}
# Of these, those with a last norm over the last layer, so that no layer can be taken away.
NORMED_AT_THE_END = {"xlm-roberta-xl"}
# What a configuration may ask for: all else is code on the hub, which the package kernels would fetch and run.
KERNELS: dict[str, tuple[str | None, ...]] = {
    "attn_implementation": (None, "eager", "sdpa", "flex_attention"),
    "experts_implementation": (None, "eager", "batched_mm", "grouped_mm"),
}
# Tokens of one batch.
CPU_TOKENS, GPU_TOKENS = 1024, 1 << 15


class Encoder:
    """A transformer encoder without its pooler.

    Args:
        model: a transformers model in evaluation mode.
        device: where it runs.
        dtype: in which precision.
        layer: the last layer that runs, 0 the embeddings; all if not given.
    """

    def __init__(
        self,
        model: Any,
        device: str | None,
        dtype: DType,
        layer: int | None = None,
    ) -> None:
        import torch

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
        self.device = device_of(device)
        self.model = model.to(self.device, getattr(torch, dtype)).train(False)
        self.batch_tokens = CPU_TOKENS if self.device.type == "cpu" else GPU_TOKENS

    @property
    def max_tokens(self) -> int:
        """The longest sequence it has positions for."""
        return longest_input(self.model)

    def flops(self, lengths: IntArray) -> float:
        """Floating point operations of passes over sequences of these lengths, [n]."""
        return Stack.of_encoder(self.config, self.layer).flops(lengths)

    def states(
        self,
        ids: Ragged,
        all_layers: bool = False,
        types: Ragged | None = None,
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
        self,
        ids: Ragged,
        types: Ragged | None,
        order: IntArray,
    ) -> Iterator[tuple[IntArray, list[Any]]]:
        """As `states`, all rows in one pass; order: the rows by length, [rows]."""
        lengths = ids.lengths[order]
        tokens = ids[order].values
        starts = np.repeat(lengths.cumsum() - lengths, lengths)  # [tokens]
        position = np.arange(len(tokens)) - starts + first_position(self.model)  # [tokens]
        spare = -len(tokens) % ROWS
        slabs = slabs_of(lengths.tolist())
        # The last token again and again, up to a multiple of 16.
        input_ids = np.pad(tokens, (0, spare), mode="edge")
        position_ids = np.pad(position, (0, spare), mode="edge")
        more = {}
        if types is not None:
            more["token_type_ids"] = self._row(np.pad(types[order].values, (0, spare), mode="edge"))
        out = self.model(
            input_ids=self._row(input_ids),
            position_ids=self._row(position_ids),
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
        self,
        ids: Ragged,
        types: Ragged | None,
        order: IntArray,
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


@contextmanager
def quietly() -> Iterator[None]:
    """Without the progress bars and reports of transformers."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def pretrained(
    folder: Path,
    kind: str = "AutoModel",
    weights: bool = True,
    dtype: DType = "float32",
) -> Any:
    """A transformers model with every weight of its folder or GGUF file, or with none, on the device "meta".

    Raises:
        ModelLoadError: the folder is no model, lacks weights, or has some that are no numbers.
    """
    try:
        empty = _empty(folder, kind)
        if not weights:
            return empty
        with quietly(), source_of(folder) as (place, options):
            if is_gguf(folder):
                options |= unpacked(empty.config)
            model, about = type(empty).from_pretrained(
                place,
                **options,
                output_loading_info=True,
                dtype=dtype,
                **_without_pooler(empty),
            )
    except Exception as error:  # configuration, weights or tokenizer: many kinds
        raise _unreadable(folder, error) from error
    missing = sorted(about["missing_keys"])
    if missing or about["mismatched_keys"]:
        problem = "weights of other shapes"
        if missing:
            names = ", ".join(missing[:3])
            problem = f"{len(missing)} weights are missing ({names})"
        raise ModelLoadError(problem, where=str(folder), fix="Give the folder of the whole model")
    _check_finite(model, folder)
    return as_plain(model) if is_gguf(folder) else _in_memory(model)


def from_state(folder: Path, state: Mapping[str, Any], weights: bool = True) -> Any:
    """An encoder with the configuration of a folder and the weights of a checkpoint, every one of them or none.

    Raises:
        ModelLoadError: the folder has no configuration, or the weights are not those of such an encoder.
    """
    try:
        model = _empty(folder, "AutoModel")
    except Exception as error:
        raise _unreadable(folder, error) from error
    shapes = {name: weight.shape for name, weight in model.state_dict().items()}
    shapes = {name: shape for name, shape in shapes.items() if not name.startswith("pooler.")}
    problems = _misfits(shapes, state)
    if problems:
        raise ModelLoadError(
            f"the checkpoint is not of this encoder: {'; '.join(problems)}",
            where=str(folder),
            fix="encoder_path must be the encoder that the checkpoint was trained from",
        )
    if not weights:
        return model
    with quietly():
        loaded = type(model).from_pretrained(
            None,
            config=model.config,
            state_dict=dict(state),
            dtype="float32",
            **_without_pooler(model),
        )
    _check_finite(loaded, folder)
    return _in_memory(loaded)


def _check_finite(model: Any, folder: Path) -> None:
    """Raises ModelLoadError for a weight that is no number: attention may hide it from what comes out."""
    for name, weight in model.named_parameters():
        low, high = weight.detach().aminmax() if weight.numel() else (weight.sum(), weight.sum())
        if not (low.isfinite() and high.isfinite()):
            problem = f"a weight that is no number ({name})"
            fix = "The file is damaged, or training went wrong: get another"
            raise ModelLoadError(problem, where=str(folder), fix=fix)


def _in_memory(model: Any) -> Any:
    """The model with weights of its own: those of a mapped file would change with the file."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    return model


def _misfits(shapes: Mapping[str, Any], state: Mapping[str, Any]) -> list[str]:
    """How the weights of a checkpoint differ from those of a model, in words; nothing if they fit."""
    missing = sorted(shapes.keys() - state.keys())
    left_over = sorted(state.keys() - shapes.keys())
    shared = shapes.keys() & state.keys()
    differences = []
    for name in sorted(shared):
        own, other = tuple(shapes[name]), tuple(state[name].shape)
        if own != other:
            differences.append(f"{name}: {other} against {own}")
    kinds = {
        "weights are missing": missing,
        "weights have no place": left_over,
        "shapes differ": differences,
    }
    misfits = []
    for kind, names in kinds.items():
        if names:
            first = ", ".join(names[:3])
            misfits.append(f"{len(names)} {kind} ({first})")
    return misfits


def _empty(folder: Path, kind: str) -> Any:
    """A model of a folder's configuration without weights: its class, names and shapes."""
    import torch
    import transformers

    config = config_of(folder)
    check_kernels(config)
    with torch.device("meta"):
        model = getattr(transformers, kind).from_config(config, trust_remote_code=False)
    if kind == "AutoModel" and config.is_encoder_decoder:
        raise InputError(f"{config.model_type} is an encoder-decoder, expected an encoder")
    return model


def config_of(folder: Path) -> Any:
    """The configuration of a model's folder or GGUF file; raises what transformers does, of many kinds."""
    if not (is_gguf(folder) or (folder / "config.json").is_file()):
        raise InputError("there is no config.json in it")
    from transformers import AutoConfig

    with quietly(), source_of(folder) as (place, options):
        return AutoConfig.from_pretrained(place, **options)


def check_kernels(config: Any) -> None:
    """Raises InputError if a configuration names code that transformers would fetch to compute with."""
    parts = [config, *(getattr(config, name, None) for name in config.sub_configs)]
    for part in parts:
        for name, known in KERNELS.items():
            value = getattr(part, f"_{name}", None)
            if value not in known:
                problem = f"its config.json names the code {value!r:.80} as {name}"
                raise InputError(f"{problem}: take that out, nothing is fetched to be run")


def _without_pooler(model: Any) -> dict[str, bool]:
    """The argument that leaves out the pooler, which no metric reads, where a class has one."""
    has_pooler = "add_pooling_layer" in signature(type(model).__init__).parameters
    return {"add_pooling_layer": False} if has_pooler else {}


def tokenizer_of(folder: Path) -> Any:
    """The tokenizer of a folder or a GGUF file; raises ModelLoadError."""
    if not (folder.is_dir() or is_gguf(folder)):
        raise _unreadable(folder, InputError("it is no folder"))
    from transformers import AutoTokenizer

    try:
        with quietly(), source_of(folder) as (place, options):
            return AutoTokenizer.from_pretrained(place, **options)
    except Exception as error:
        raise _unreadable(folder, error) from error


def _unreadable(folder: Path, error: Exception) -> ModelLoadError:
    lines = str(error).strip().splitlines() or [""]
    problem = lines[0]
    if not isinstance(error, InputError):
        problem = f"{type(error).__name__}: {problem[:200]}"
    fix = "Is this the folder of a transformers model?"
    return ModelLoadError(problem, where=str(folder), fix=fix)
