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
        fix = "Load it with AutoModelForSeq2SeqLM or AutoModelForCausalLM"
        raise InputError(f"a {kind} generates no text", where="model", fix=fix)
    if model.config.is_encoder_decoder and model.generation_config.decoder_start_token_id is None:
        fix = "Set model.generation_config.decoder_start_token_id"
        raise InputError(
            f"the {kind} does not know how its output begins", where="generation_config", fix=fix
        )
    if not callable(tokenizer) or not hasattr(tokenizer, "batch_decode"):
        found = type(tokenizer).__name__
        raise InputError(f"found {found}, expected a tokenizer of transformers", where="tokenizer")
    own, known = len(tokenizer), model.get_input_embeddings().weight.shape[0]
    if own > known:
        raise InputError(
            f"the tokenizer has {own} tokens, the model's vocabulary {known}",
            where="tokenizer",
            fix="Load both from the same folder, or call model.resize_token_embeddings",
        )


def check_settings(model: Any, tokenizer: Any, settings: GenerationSettings) -> None:
    """Raises InputError for settings that this model or tokenizer cannot follow."""
    if settings.chat and not getattr(tokenizer, "chat_template", None):
        raise InputError("the tokenizer has no chat template", where="chat", fix="Leave chat out")
    if settings.chat and model.config.is_encoder_decoder:
        raise InputError("an encoder-decoder is not talked to", where="chat", fix="Leave chat out")
    for name in ("source_lang", "target_lang"):
        if getattr(settings, name) is not None:
            language_id(tokenizer, getattr(settings, name), name)


def check_target(tokenizer: Any, config: Any) -> None:
    """Raises InputError if a tokenizer of many languages meets a configuration that names none to write in."""
    if not hasattr(tokenizer, "src_lang") or config.forced_bos_token_id is not None:
        return
    codes = getattr(tokenizer, "lang_code_to_id", {}).values()
    if config.decoder_start_token_id not in codes:
        raise InputError(
            "the language to write in is not set", where="target_lang", fix="Give it, such as en_XX"
        )


def check_config(config: Any) -> None:
    """Raises InputError for a generation configuration with constraints that cannot be kept."""
    for name in ("stop_strings", "force_words_ids", "constraints"):
        if getattr(config, name, None):
            fix = "Take it out of the model's generation_config; an eos_token_id may end candidates"
            raise InputError("cannot be followed", where=f"generation_config.{name}", fix=fix)


def language_id(tokenizer: Any, code: str, where: str) -> int:
    """The token of a language.

    Raises:
        InputError: the tokenizer has no languages, or not this one.
    """
    if not hasattr(tokenizer, "src_lang"):
        raise InputError("the tokenizer has no languages", where=where, fix="Leave it out")
    codes = getattr(tokenizer, "lang_code_to_id", {})
    if code in codes:
        return int(codes[code])
    found = tokenizer.convert_tokens_to_ids(code)
    if found is None or found == tokenizer.unk_token_id:
        near = (
            f"Such as {', '.join(sorted(codes)[:5])}"
            if codes
            else "See the tokenizer's special tokens"
        )
        raise InputError(
            f"the tokenizer does not know the language {code!r}", where=where, fix=near
        )
    return int(found)


def new_tokens(model: Any, config: Any, settings: GenerationSettings) -> int:
    """How long an output may become, its end included.

    Raises:
        InputError: longer than the model's decoder has positions for.
    """
    limit = settings.max_new_tokens or config.max_new_tokens
    if limit is None:
        own = (config.max_length or 0) - 1 if model.config.is_encoder_decoder else 0
        limit = own if own > 0 else DEFAULT_NEW_TOKENS
    most = positions(model)
    if model.config.is_encoder_decoder and most is not None and limit >= most:
        if settings.max_new_tokens is None:
            return most - 1
        raise InputError(
            f"found {limit}, the model has {most} positions", where="max_new_tokens", fix="Lower it"
        )
    return int(limit)


def positions(model: Any) -> int | None:
    """The longest sequence that the model has positions for; None where they have no end."""
    found = getattr(model.config, "max_position_embeddings", None)
    return int(found) if isinstance(found, int) and found > 0 else None


def check_length(model: Any, tokens: int, max_new_tokens: int) -> None:
    """Raises InputError for an input too long for the model."""
    most = positions(model)
    needed = tokens if model.config.is_encoder_decoder else tokens + max_new_tokens
    if most is None or needed <= most:
        return
    beside = "" if model.config.is_encoder_decoder else f" and {max_new_tokens} new ones"
    fix = "Shorten it, set max_input_tokens to cut it" + (
        ", or lower max_new_tokens" if beside else ""
    )
    raise InputError(
        f"{tokens} tokens{beside}, the model has {most} positions", where="text", fix=fix
    )


def check_ids(ids: Sequence[int], tokenizer: Any, generates_on: bool) -> None:
    """Raises InputError for an input that the model reads nothing of, or, `generates_on`, takes for finished."""
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    words = [token for token in ids if token not in special]
    if not words:
        raise InputError(
            "there is nothing to read", where="text", fix="Give a text that is not empty"
        )
    if (
        len(words) > 1
        and tokenizer.unk_token_id is not None
        and set(words) == {tokenizer.unk_token_id}
    ):
        fix = "Load the tokenizer with from_pretrained from its folder; is it the model's?"
        raise InputError("the tokenizer knows none of the words", where="text", fix=fix)
    if generates_on and ids[-1] == tokenizer.eos_token_id:
        fix = "Load the tokenizer with add_eos_token=False"
        raise InputError(
            "the tokenizer ends the prompt, so that nothing can follow", where="text", fix=fix
        )
