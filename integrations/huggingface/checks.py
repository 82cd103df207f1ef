"""What cannot work is refused before anything is generated: a tokenizer of another model, settings a model lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...metrics.errors import InputError
from .settings import GenerationSettings

DEFAULT_NEW_TOKENS = 256


def check_model(model: Any, tokenizer: Any) -> None:
    """Raises InputError for a model that generates no text, or a tokenizer that is not the model's."""
    kind = type(model).__name__
    if not getattr(model, "can_generate", bool)():
        raise InputError(
            f"a {kind} generates no text",
            where="model",
            fix="Load it with AutoModelForSeq2SeqLM or AutoModelForCausalLM",
        )
    if model.config.is_encoder_decoder and model.generation_config.decoder_start_token_id is None:
        raise InputError(
            f"the {kind} does not know how its output begins",
            where="generation_config",
            fix="Set model.generation_config.decoder_start_token_id",
        )
    if not callable(tokenizer) or not hasattr(tokenizer, "batch_decode"):
        problem = f"found {type(tokenizer).__name__}, expected a tokenizer of transformers"
        raise InputError(problem, where="tokenizer")
    num_tokens = len(tokenizer)
    vocabulary = model.get_input_embeddings().weight.shape[0]
    if num_tokens > vocabulary:
        raise InputError(
            f"the tokenizer has {num_tokens} tokens, the model's vocabulary {vocabulary}",
            where="tokenizer",
            fix="Load both from the same folder, or call model.resize_token_embeddings",
        )


def check_settings(model: Any, tokenizer: Any, settings: GenerationSettings) -> None:
    """Raises InputError for settings that this model or tokenizer cannot follow."""
    if settings.chat and not getattr(tokenizer, "chat_template", None):
        raise InputError(
            "the tokenizer has no chat template",
            where="chat",
            fix="Leave chat out",
        )
    if settings.chat and model.config.is_encoder_decoder:
        raise InputError(
            "an encoder-decoder is not talked to",
            where="chat",
            fix="Leave chat out",
        )
    if settings.source_lang is not None:
        language_id(tokenizer, settings.source_lang, "source_lang")
    if settings.target_lang is not None:
        language_id(tokenizer, settings.target_lang, "target_lang")


def check_target(tokenizer: Any, config: Any) -> None:
    """Raises InputError if a tokenizer of many languages meets a configuration that names none to write in."""
    if not hasattr(tokenizer, "src_lang") or config.forced_bos_token_id is not None:
        return
    language_ids = getattr(tokenizer, "lang_code_to_id", {}).values()
    if config.decoder_start_token_id not in language_ids:
        raise InputError(
            "the language to write in is not set",
            where="target_lang",
            fix="Give it, such as en_XX",
        )


def check_config(config: Any) -> None:
    """Raises InputError for a generation configuration with constraints that cannot be kept."""
    for name in ("stop_strings", "force_words_ids", "constraints"):
        if getattr(config, name, None):
            fix = "Take it out of the model's generation_config; stop=[...] and eos_token_id end candidates"
            raise InputError(
                "cannot be followed",
                where=f"generation_config.{name}",
                fix=fix,
            )


def language_id(tokenizer: Any, code: str, where: str) -> int:
    """The token of a language.

    Raises:
        InputError: the tokenizer has no languages, or not this one.
    """
    if not hasattr(tokenizer, "src_lang"):
        raise InputError(
            "the tokenizer has no languages",
            where=where,
            fix="Leave it out",
        )
    id_of_code = getattr(tokenizer, "lang_code_to_id", {})
    if code in id_of_code:
        return int(id_of_code[code])
    token = tokenizer.convert_tokens_to_ids(code)
    if token is None or token == tokenizer.unk_token_id:
        fix = "See the tokenizer's special tokens"
        if id_of_code:
            fix = f"Such as {', '.join(sorted(id_of_code)[:5])}"
        raise InputError(
            f"the tokenizer does not know the language {code!r}",
            where=where,
            fix=fix,
        )
    return int(token)


def new_tokens(model: Any, config: Any, settings: GenerationSettings) -> int:
    """How long an output may become, its end included.

    Raises:
        InputError: longer than the model's decoder has positions for.
    """
    limit = settings.max_new_tokens or config.max_new_tokens
    if limit is None:
        is_encoder_decoder = model.config.is_encoder_decoder
        own_limit = (config.max_length or 0) - 1 if is_encoder_decoder else 0
        limit = own_limit if own_limit > 0 else DEFAULT_NEW_TOKENS
    max_positions = positions(model)
    if model.config.is_encoder_decoder and max_positions is not None and limit >= max_positions:
        if settings.max_new_tokens is None:
            return max_positions - 1
        raise InputError(
            f"found {limit}, the model has {max_positions} positions",
            where="max_new_tokens",
            fix="Lower it",
        )
    return int(limit)


def positions(model: Any) -> int | None:
    """The longest sequence that the model has positions for; None where they have no end."""
    value = getattr(model.config, "max_position_embeddings", None)
    return int(value) if isinstance(value, int) and value > 0 else None


def check_length(model: Any, num_tokens: int, max_new_tokens: int) -> None:
    """Raises InputError for an input too long for the model.

    An encoder-decoder needs positions for the input alone, a decoder-only model for the output behind it, too.
    """
    length = f"{num_tokens} tokens"
    needed = num_tokens
    fix = "Shorten it, set max_input_tokens to cut it"
    if not model.config.is_encoder_decoder:
        length += f" and {max_new_tokens} new ones"
        needed += max_new_tokens
        fix += ", or lower max_new_tokens"
    max_positions = positions(model)
    if max_positions is not None and needed > max_positions:
        raise InputError(
            f"{length}, the model has {max_positions} positions",
            where="text",
            fix=fix,
        )


def check_ids(ids: Sequence[int], tokenizer: Any, generates_on: bool) -> None:
    """Raises InputError for token ids with nothing to read, or that seem finished to a model that `generates_on`."""
    unknown_token = tokenizer.unk_token_id
    special = set(tokenizer.all_special_ids) - {unknown_token}
    words = [token for token in ids if token not in special]
    if not words:
        raise InputError(
            "there is nothing to read",
            where="text",
            fix="Give a text that is not empty",
        )
    if len(words) > 1 and unknown_token is not None and set(words) == {unknown_token}:
        raise InputError(
            "the tokenizer knows none of the words",
            where="text",
            fix="Load the tokenizer with from_pretrained from its folder; is it the model's?",
        )
    if generates_on and ids[-1] == tokenizer.eos_token_id:
        raise InputError(
            "the tokenizer ends the prompt, so that nothing can follow",
            where="text",
            fix="Load the tokenizer with add_eos_token=False",
        )
