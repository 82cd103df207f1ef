"""A tiny GGUF file: a Llama with random weights and a byte-level tokenizer of a few merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

MERGES = ("Ġ t", "Ġt h", "Ċ Ċ")
WIDTH, FEED_FORWARD, LAYERS, HEADS, KEY_HEADS, POSITIONS = 32, 64, 2, 4, 2, 256


def tokens() -> list[str]:
    """The vocabulary: three special tokens, every byte, and what the merges make."""
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    return ["<s>", "</s>", "<|endoftext|>", *letters, *(merge.replace(" ", "") for merge in MERGES)]


def write_gguf(path: Path, seed: int = 0, **more: Any) -> Path:
    """Writes the file; more: further texts and whole numbers of its metadata, by keys with _ for the dots."""
    import gguf

    vocabulary = tokens()
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3] * 3 + [1] * (len(vocabulary) - 3))
    writer.add_token_merges(list(MERGES))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    for key, value in more.items():
        add = writer.add_uint32 if isinstance(value, int) else writer.add_string
        add(key.replace("_", "."), value)
    for name, weight in weights(len(vocabulary), seed).items():
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def weights(vocabulary: int, seed: int) -> dict[str, Any]:
    """The tensors by their names, float32."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Any:
        return (rng.normal(size=shape) * 0.3).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    keys = WIDTH // HEADS * KEY_HEADS
    made = {
        "token_embd.weight": normal(vocabulary, WIDTH),
        "output_norm.weight": ones,
        "output.weight": normal(vocabulary, WIDTH),
    }
    for i in range(LAYERS):
        shapes = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (keys, WIDTH),
            "attn_v": (keys, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (FEED_FORWARD, WIDTH),
            "ffn_up": (FEED_FORWARD, WIDTH),
            "ffn_down": (WIDTH, FEED_FORWARD),
        }
        made |= {f"blk.{i}.{name}.weight": normal(*shape) for name, shape in shapes.items()}
        made |= {f"blk.{i}.{name}.weight": ones for name in ("attn_norm", "ffn_norm")}
    return made
