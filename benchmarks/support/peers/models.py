"""Models with random weights, of the shape of XLM-R but with a small vocabulary, which costs no time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
BASE = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "max_position_embeddings": 514,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
}
LARGE = {
    **BASE,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
}
HEAD = (3072, 1024)


def make_encoder(
    folder: Path, texts: Sequence[str], shape: Mapping[str, Any] = BASE, device: str = "cpu"
) -> Any:
    """An encoder in the layout of transformers, for these texts: configuration, tokenizer and weights; the model.

    device: where its weights are drawn.
    """
    import torch
    from transformers import AutoConfig, AutoModel
    from transformers.utils import logging

    folder.mkdir()
    size = write_tokenizer(folder, sorted({word for text in texts for word in text.split()}))
    ids = {
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "type_vocab_size": 1,
        "vocab_size": size,
    }
    config = {
        "architectures": ["XLMRobertaModel"],
        "model_type": "xlm-roberta",
        "layer_norm_eps": 1e-5,
        **shape,
        **ids,
    }
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    disable: Any = logging.disable_progress_bar
    disable()
    kind: Any = AutoModel
    with torch.device(device):
        model = kind.from_config(AutoConfig.from_pretrained(folder)).eval().cpu()
    model.save_pretrained(folder)
    return model


def write_tokenizer(folder: Path, words: Sequence[str]) -> int:
    """A tokenizer of these words; returns how many pieces it has.

    Three words in five are one piece and the others two, so that 25 words have about 37 tokens.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    pieces = {f"▁{word}" for i, word in enumerate(words) if i % 5 < 3 or len(word) < 2}
    pieces |= {
        piece for word in words for piece in (f"▁{word[: len(word) // 2]}", word[len(word) // 2 :])
    }
    letters = {letter for word in words for letter in word} | {"▁"}
    scored = [(name, 0.0) for name in SPECIAL]
    scored += [(piece, -8.0) for piece in sorted(pieces)] + [
        (letter, -40.0) for letter in sorted(letters - pieces)
    ]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=3, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer.add_special_tokens([*SPECIAL, "<mask>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {
        "bos": "<s>",
        "cls": "<s>",
        "eos": "</s>",
        "sep": "</s>",
        "pad": "<pad>",
        "unk": "<unk>",
        "mask": "<mask>",
    }
    settings = {"tokenizer_class": "XLMRobertaTokenizer", "model_max_length": 512}
    settings |= {f"{name}_token": token for name, token in named.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tokenizer.get_vocab_size()


def make_comet(folder: Path, encoder: Path, model: Any) -> None:
    """A checkpoint in COMET's own layout: a mix of all layers with normalisation, mean pooling, a large head."""
    import torch
    import yaml

    settings = {
        "activations": "Tanh",
        "batch_size": 4,
        "class_identifier": "regression_metric",
        "dropout": 0.1,
        "encoder_model": "XLM-RoBERTa",
        "final_activation": None,
        "hidden_sizes": list(HEAD),
        "layer": "mix",
        "layer_norm": True,
        "layer_transformation": "softmax",
        "local_files_only": True,
        "pool": "avg",
        "pretrained_model": str(encoder),
    }
    generator = torch.Generator().manual_seed(1)
    own = model.state_dict().items()
    state = {
        f"encoder.model.{name}": value for name, value in own if not name.startswith("pooler.")
    }
    for layer in range(model.config.num_hidden_layers + 1):
        state[f"layerwise_attention.scalar_parameters.{layer}"] = torch.randn(
            1, generator=generator
        )
    state["layerwise_attention.gamma"] = torch.ones(1)
    widths = (6 * model.config.hidden_size, *HEAD, 1)
    for place, (into, out) in enumerate(pairwise(widths)):
        state[f"estimator.ff.{3 * place}.weight"] = (
            torch.randn(out, into, generator=generator) * into**-0.5
        )
        state[f"estimator.ff.{3 * place}.bias"] = torch.randn(out, generator=generator) * 0.1
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "hparams.yaml").write_text(yaml.safe_dump(settings))
    content = {
        "state_dict": state,
        "hyper_parameters": settings,
        "pytorch-lightning_version": "2.5.0",
        "epoch": 0,
    }
    torch.save({**content, "global_step": 0, "loops": {}}, folder / "checkpoints" / "model.ckpt")
