"""The decoding method of this repository: the best of several candidates, by minimum Bayes risk or reranking.

transformers calls `generate` for ``model.generate(..., custom_generate=REPOSITORY)``.
"""

from __future__ import annotations

from typing import Any

from discorank import InputError
from discorank.integrations import huggingface
from discorank.integrations.huggingface.generator import DECODING, GENERATION

# settings that transformers has under the same name, and that it is left to say
_OF_TRANSFORMERS = frozenset({"max_new_tokens"})


def generate(
    model: Any,
    inputs: Any = None,
    tokenizer: Any = None,
    utility: Any = "chrf",
    messages: Any = None,
    **arguments: Any,
) -> Any:
    """The chosen sequences [inputs * num_return_sequences, longest], best first for each input.

    Args:
        model: a model that generates.
        inputs: token ids, as of `model.generate`; ``input_ids`` in `arguments` is the same.
        tokenizer: the model's tokenizer, by which candidates become texts.
        utility: a metric, its name or a sum (chrf, bleu, ``"chrf + 0.5*bleu"``), or a whole MBRDecoder or Reranker.
        messages: in place of inputs a conversation, or several, that the tokenizer's chat template makes inputs of.
        arguments: num_return_sequences; how candidates are drawn (num_candidates, sampling, cutoff, temperature, seed,
            ...; top_p stands for nucleus sampling); settings of MBRDecoder; everything else goes to `model.generate`.

    Raises:
        InputError: what does not fit together.
    """
    if tokenizer is None:
        fix = "Give model.generate(..., tokenizer=tokenizer)"
        raise InputError("candidates are compared as texts", where="tokenizer", fix=fix)
    given = {name: value for name, value in arguments.items() if value is not None}
    names = (GENERATION | DECODING) - _OF_TRANSFORMERS
    settings = {name: given.pop(name) for name in list(given) if name in names}
    if "top_p" in given:
        settings |= {"sampling": "nucleus", "cutoff": given.pop("top_p")}
    number = given.pop("num_return_sequences", None)
    if number is None:
        configured = given.get("generation_config", model.generation_config)
        number = configured.num_return_sequences or 1
    choose = huggingface.custom_generate(
        tokenizer, utility, num_return_sequences=number, **settings
    )
    if messages is not None:
        given |= _of_messages(tokenizer, messages, model.device)
    elif inputs is not None:
        given["inputs"] = inputs
    return model.generate(custom_generate=choose, num_return_sequences=1, **given)


def _of_messages(tokenizer: Any, messages: Any, device: Any) -> dict[str, Any]:
    """Token ids and mask of one conversation or several, padded at the start."""
    several = messages if isinstance(messages[0], list | tuple) else [messages]
    texts = tokenizer.apply_chat_template(several, add_generation_prompt=True, tokenize=False)
    side = tokenizer.padding_side
    tokenizer.padding_side = "left"
    try:
        made = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    finally:
        tokenizer.padding_side = side
    return {name: made[name].to(device) for name in ("input_ids", "attention_mask")}
