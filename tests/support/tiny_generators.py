"""Tiny random models that generate, with a small vocabulary of their own; made once per test run."""

from __future__ import annotations

from functools import cache
from typing import Any

TEXTS = (
    "a red car stands on the street",
    "the dog sees a man",
    "two men walk to the old house and the dog runs",
    "a man reads",
)
LANGUAGES = ("en_XX", "de_DE", "ro_RO")
FAMILIES = ("bart", "t5", "mbart", "llama")
SIZES: dict[str, Any] = {"vocab_size": 0, "pad_token_id": 0, "eos_token_id": 1}


@cache
def tokenizer_of(family: str) -> Any:
    """A word-piece vocabulary; `</s>` ends what an encoder reads, `<s>` begins what a decoder-only model reads."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>", "<s>", *LANGUAGES]
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=80, special_tokens=special))
    single = "<s> $A" if family == "llama" else "$A </s>"
    made.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", 3), ("</s>", 1)]
    )
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "bos_token": "<s>"}
    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=made, additional_special_tokens=list(LANGUAGES), **names)


@cache
def model_of(family: str) -> Any:
    """A model whose random weights are large enough that its distributions differ from input to input."""
    import torch
    import transformers as library

    transformers: Any = library
    sizes = SIZES | {"vocab_size": len(tokenizer_of(family)), "decoder_start_token_id": 1}
    bart: dict[str, Any] = {
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
    }
    bart |= {
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "max_position_embeddings": 64,
        "bos_token_id": 3,
    }
    torch.manual_seed(0)
    if family == "bart":
        config = transformers.BartConfig(**sizes, **bart, forced_eos_token_id=1)
        model = transformers.BartForConditionalGeneration(config)
    elif family == "mbart":
        config = transformers.MBartConfig(**sizes, **bart, forced_eos_token_id=1)
        model = transformers.MBartForConditionalGeneration(config)
        model.generation_config.forced_bos_token_id = tokenizer_of(family).convert_tokens_to_ids(
            "ro_RO"
        )
    elif family == "t5":
        sizes["decoder_start_token_id"] = 0
        config = transformers.T5Config(
            **sizes, d_model=32, d_kv=16, d_ff=48, num_layers=1, num_heads=2
        )
        model = transformers.T5ForConditionalGeneration(config)
    else:
        del sizes["decoder_start_token_id"]
        heads: dict[str, Any] = {
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "num_hidden_layers": 2,
        }
        config = transformers.LlamaConfig(
            **sizes,
            **heads,
            hidden_size=32,
            intermediate_size=48,
            bos_token_id=3,
            max_position_embeddings=64,
        )
        model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model.train(False)
