"""Models with random weights in the layouts that MetricX, BLEURT and XCOMET are released in, of base size if not given.

MetricX has the whole vocabulary of mT5, as its score is a logit of one late token; the others' vocabularies are small,
which costs no time. Norms are not all 1 and biases not all 0, so that values differ where a computation does.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.support.peers.models import BASE, make_encoder

PIECES = 900
REGRESSION_TOKEN = 250089  # of mT5's vocabulary; the last one of a smaller one
XCOMET_HEAD = (1024, 512)
LABELS = ("minor", "major", "critical")


class Size(NamedTuple):
    """Sizes of a model, and of mT5's feed-forward part and vocabulary."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    inner: int = 3072
    t5_inner: int = 2048
    t5_vocabulary: int = 250112

    @property
    def regression_token(self) -> int:
        """The token whose logit is MetricX's score."""
        return min(REGRESSION_TOKEN, self.t5_vocabulary - 1)


class Weights:
    """Draws tensors by name; device: where, as a GPU is faster at it."""

    def __init__(self, seed: int, device: str = "cpu") -> None:
        import torch

        self.torch = torch
        self.generator = torch.Generator(device).manual_seed(seed)
        self.state: dict[str, Any] = {}

    def _drawn(self, *shape: int) -> Any:
        device = self.generator.device
        return self.torch.randn(*shape, generator=self.generator, device=device).cpu()

    def matrix(self, name: str, rows: int, columns: int, scale: float = 1.0) -> None:
        self.state[name] = self._drawn(rows, columns).mul_(scale * columns**-0.5)

    def vector(self, name: str, length: int, mean: float = 0.0) -> None:
        self.state[name] = mean + 0.1 * self._drawn(length)

    def linear(self, name: str, into: int, out: int) -> None:
        self.matrix(f"{name}.weight", out, into)
        self.vector(f"{name}.bias", out)

    def norm(self, name: str, width: int) -> None:
        self.vector(f"{name}.weight", width, mean=1.0)
        self.vector(f"{name}.bias", width)


def make_metricx(
    folder: Path, texts: Sequence[str], size: Size | None = None, device: str = "cpu"
) -> None:
    """MetricX-24, with a tokenizer trained on the texts."""
    size = size or Size()
    width, heads = size.width, size.heads
    folder.mkdir()
    names = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    (folder / "spiece.model").write_bytes(_sentence_pieces(texts, **names))
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    _write(folder / "special_tokens_map.json", special)
    tokenizer = {**special, "extra_ids": 0, "tokenizer_class": "T5Tokenizer"}
    _write(folder / "tokenizer_config.json", {**tokenizer, "additional_special_tokens": None})
    config = {
        "architectures": ["MT5ForRegression"],
        "model_type": "mt5",
        "vocab_size": size.t5_vocabulary,
        "d_model": width,
        "d_kv": width // heads,
        "d_ff": size.t5_inner,
        "num_layers": size.layers,
        "num_decoder_layers": size.layers,
        "num_heads": heads,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "layer_norm_epsilon": 1e-6,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
    }
    _write(folder / "config.json", config)
    weights = Weights(1, device)
    weights.matrix("shared.weight", size.t5_vocabulary, width, scale=width**0.5)
    weights.matrix("lm_head.weight", size.t5_vocabulary, width, scale=4.0)
    for stack, parts in (
        ("encoder", ("SelfAttention",)),
        ("decoder", ("SelfAttention", "EncDecAttention")),
    ):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights.matrix(bias, 32, heads)
        weights.vector(f"{stack}.final_layer_norm.weight", width, mean=1.0)
        for i in range(size.layers):
            for j, part in enumerate(parts):
                block = f"{stack}.block.{i}.layer.{j}"
                weights.vector(f"{block}.layer_norm.weight", width, mean=1.0)
                # Attention scores are not scaled: queries are small instead.
                for name, scale in (("q", 0.125), ("k", 1.0), ("v", 1.0), ("o", 0.5)):
                    weights.matrix(f"{block}.{part}.{name}.weight", width, width, scale)
            block = f"{stack}.block.{i}.layer.{len(parts)}"
            weights.vector(f"{block}.layer_norm.weight", width, mean=1.0)
            for name in ("wi_0", "wi_1"):
                weights.matrix(f"{block}.DenseReluDense.{name}.weight", size.t5_inner, width)
            weights.matrix(f"{block}.DenseReluDense.wo.weight", width, size.t5_inner, 0.5)
    # Scores in the middle of their range.
    weights.state["lm_head.weight"][size.regression_token] += (
        0.45 * weights.state["decoder.final_layer_norm.weight"]
    )
    from safetensors.torch import save_file

    save_file(weights.state, folder / "model.safetensors", metadata={"format": "pt"})


def make_bleurt(
    folder: Path, texts: Sequence[str], size: Size | None = None, device: str = "cpu"
) -> None:
    """A converted BLEURT, with narrower embeddings as BLEURT-20 has."""
    size = size or Size()
    width, inner = size.width, size.inner
    folder.mkdir()
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    names = {
        "pad_id": 0,
        "pad_piece": "[PAD]",
        "unk_id": 1,
        "unk_piece": "[UNK]",
        "bos_id": 2,
        "bos_piece": "[CLS]",
        "eos_id": 3,
        "eos_piece": "[SEP]",
        "control_symbols": "[MASK]",
    }
    (folder / "spm.model").write_bytes(_sentence_pieces(texts, **names))
    tokens = {f"{name}_token": token for name, token in special.items()}
    tokens |= {"bos_token": "[CLS]", "eos_token": "[SEP]"}
    _write(folder / "special_tokens_map.json", tokens)
    settings = {**tokens, "do_lower_case": False, "tokenizer_class": "BleurtSPTokenizer"}
    _write(folder / "tokenizer_config.json", {**settings, "model_max_length": 512})
    narrow = width // 48 * 16
    config = {
        "architectures": ["BleurtForSequenceClassification"],
        "model_type": "bleurt",
        "vocab_size": PIECES,
        "embedding_size": narrow,
        "hidden_size": width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "intermediate_size": inner,
        "hidden_act": "gelu",
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
    }
    _write(folder / "config.json", config)
    weights = Weights(2, device)
    embeddings = "bleurt.embeddings"
    for name, rows in (("word", PIECES), ("position", 512), ("token_type", 2)):
        weights.matrix(f"{embeddings}.{name}_embeddings.weight", rows, narrow, scale=narrow**0.5)
    weights.norm(f"{embeddings}.LayerNorm", narrow)
    weights.linear("bleurt.encoder.embedding_projection", narrow, width)
    for i in range(size.layers):
        layer = f"bleurt.encoder.layer.{i}"
        for name in ("query", "key", "value"):
            weights.linear(f"{layer}.attention.self.{name}", width, width)
        weights.linear(f"{layer}.attention.output.dense", width, width)
        weights.norm(f"{layer}.attention.output.LayerNorm", width)
        weights.linear(f"{layer}.intermediate.dense", width, inner)
        weights.linear(f"{layer}.output.dense", inner, width)
        weights.norm(f"{layer}.output.LayerNorm", width)
    weights.linear("bleurt.pooler.dense", width, width)
    weights.linear("classifier", width, 1)
    import torch

    torch.save(weights.state, folder / "pytorch_model.bin")


def make_xcomet(
    folder: Path,
    encoder: Path,
    texts: Sequence[str],
    size: Size | None = None,
    device: str = "cpu",
) -> None:
    """A checkpoint in COMET's layout over an XLM-R-XL, whose folder is made too."""
    import torch
    import yaml

    size = size or Size()
    shape: dict[str, Any] = {"model_type": "xlm-roberta-xl", "architectures": ["XLMRobertaXLModel"]}
    sizes: dict[str, Any] = {
        "hidden_size": size.width,
        "intermediate_size": size.inner,
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
    }
    model = make_encoder(encoder, texts, {**BASE, **sizes, **shape}, device)
    settings = {
        "activations": "Tanh",
        "class_identifier": "xcomet_metric",
        "cross_entropy_weights": [0.08, 0.486, 0.505, 0.533],
        "dropout": 0.1,
        "encoder_model": "XLM-RoBERTa-XL",
        "error_labels": list(LABELS),
        "final_activation": None,
        "hidden_sizes": list(XCOMET_HEAD),
        "layer_norm": False,
        "layer_transformation": "softmax",
        "load_pretrained_weights": False,
        "local_files_only": True,
        "loss_lambda": 0.055,
        "pretrained_model": str(encoder),
        "sent_layer": "mix",
        "word_layer": size.layers,
        "word_level_training": True,
    }
    weights = Weights(3, device)
    for name, value in model.state_dict().items():
        if "layer" in name and value.dim() == 2:
            weights.linear(f"encoder.model.{name.removesuffix('.weight')}", *reversed(value.shape))
        elif not name.startswith("pooler."):
            weights.state.setdefault(f"encoder.model.{name}", value)
    for layer in range(size.layers + 1):
        weights.vector(f"layerwise_attention.scalar_parameters.{layer}", 1)
    weights.state["layerwise_attention.gamma"] = torch.ones(1)
    for place, (into, out) in enumerate(pairwise((size.width, *XCOMET_HEAD, 1))):
        weights.linear(f"estimator.ff.{3 * place}", into, out)
    weights.linear("hidden2tag", size.width, 1 + len(LABELS))
    # Mistakes, but not in every word.
    weights.state["hidden2tag.bias"][0] += 1.5
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "hparams.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    content = {
        "state_dict": weights.state,
        "hyper_parameters": settings,
        "pytorch-lightning_version": "2.5.0",
        "epoch": 0,
        "global_step": 0,
        "loops": {},
    }
    torch.save(content, folder / "checkpoints" / "model.ckpt")


def _sentence_pieces(texts: Sequence[str], **names: Any) -> bytes:
    """A unigram model of the texts."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=PIECES,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **names,
    )
    return model.getvalue()


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
