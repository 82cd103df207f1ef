"""Tiny sequence classifiers with random weights: decoders with a head over their last token, and encoders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .tiny_causal import POSITIONS, WINDOW, byte_tokenizer

CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] | trim }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": POSITIONS,
}
DECODERS: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Qwen2": {},
    "Qwen3": {"head_dim": 8},
    "Gemma2": {"head_dim": 16, "sliding_window": WINDOW},
    "Mistral": {"sliding_window": WINDOW},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "DebertaV2": {
        "relative_attention": True,
        "position_biased_input": False,
        "pos_att_type": ["p2c", "c2p"],
        "type_vocab_size": 0,
        "pooler_hidden_size": 32,
    },
    "Roberta": {"max_position_embeddings": POSITIONS + 5},
    "Bert": {},
}


def classifier(family: str, labels: int | list[str] = 1, seed: int = 0, **more: Any) -> Any:
    """A model for sequence classification with random weights that tell texts apart."""
    import torch
    import transformers as library

    transformers: Any = library
    vocabulary = len(byte_tokenizer())
    own = {**SIZES, "vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 1}
    # An encoder gives padding no place: its token is "#", which no text has.
    own |= (
        {"pad_token_id": 1, "num_key_value_heads": 2} if family in DECODERS else {"pad_token_id": 4}
    )
    names = [f"LABEL_{i}" for i in range(labels)] if isinstance(labels, int) else labels
    own["id2label"] = dict(enumerate(names))
    own["label2id"] = {name: i for i, name in enumerate(names)}
    settings = {**own, **{**DECODERS, **ENCODERS}[family], **more}
    config = getattr(transformers, f"{family}Config")(**settings)
    torch.manual_seed(seed)
    model = getattr(transformers, f"{family}ForSequenceClassification")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    return model.train(False)


def write_classifier(
    folder: Path, family: str, labels: int | list[str] = 1, chat: bool = True, **more: Any
) -> Path:
    """A folder with such a model and tokenizer; `chat`: with a chat template, else one that joins two texts.

    more: settings of the configuration.
    """
    from tokenizers import processors

    from discorank.metrics.neural.models.pretrained import quietly

    tokenizer: Any = byte_tokenizer()
    with quietly():
        classifier(family, labels, **more).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if chat:
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": CHAT}))
        return folder
    path = folder / "tokenizer.json"
    from tokenizers import Tokenizer

    joined: Any = Tokenizer.from_file(str(path))
    between = "</s> </s>" if family == "Roberta" else "</s>"
    joined.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair=f"<s> $A {between} $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    joined.save(str(path))
    return folder
