"""Tiny causal models with random weights and a byte-level vocabulary, made once per test run."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

TEXTS = ("the cat sat on a mat .", "the dog sees a man .", "a man reads = the old house")
WINDOW = 8
POSITIONS = 128


@cache
def byte_tokenizer(begins: bool = True) -> Any:
    """A byte-level tokenizer with a beginning-of-text token, or none; its texts merge ".", a break and a space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS * 3, trainer)
    kind: Any = PreTrainedTokenizerFast
    names = {"eos_token": "</s>"} | ({"bos_token": "<s>"} if begins else {})
    return kind(tokenizer_object=made, **names)


def causal_model(family: str, vocabulary: int = 97, seed: int = 0, **more: Any) -> Any:
    """A model whose random weights are large enough that its distributions differ from token to token.

    more: settings of the configuration of "llama" and "gpt2".
    """
    import torch
    import transformers as library

    transformers: Any = library
    sizes: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 3,
        "max_position_embeddings": POSITIONS,
    }
    ends: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    torch.manual_seed(seed)
    if family == "llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**sizes, **ends, **more}))
    elif family == "gemma3":
        layers = ["sliding_attention", "full_attention", "sliding_attention"]
        window = {"sliding_window": WINDOW, "layer_types": layers, "head_dim": 16}
        config = transformers.Gemma3TextConfig(**sizes, **ends, **window)
        model = transformers.Gemma3ForCausalLM(config)
    elif family == "qwen2":
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes, **ends))
    elif family == "gemma2":
        config = transformers.Gemma2Config(**sizes, **ends, head_dim=16, sliding_window=WINDOW)
        model = transformers.Gemma2ForCausalLM(config)
    elif family == "mixtral":
        model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**sizes, **ends))
    else:
        gpt2: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS}
        config = transformers.GPT2Config(**{"vocab_size": vocabulary, **gpt2, **ends, **more})
        model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    return model.train(False)


def write_causal(folder: Path, family: str, begins: bool = True) -> Path:
    """A folder with such a model and tokenizer."""
    from discorank.metrics.neural.models.pretrained import quietly

    tokenizer = byte_tokenizer(begins)
    with quietly():
        causal_model(family, len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
