"""Models that generate and their tokenizers: loaded, checked against settings, and what they read of a text.

A model is a folder, a GGUF file or on the hub, and named with a digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, cast, get_args

from ...metrics.errors import InputError, ModelLoadError, unknown
from ...metrics.neural.models.context_tokens import PlainTexts, control_tokens
from ...metrics.neural.models.encoder import DType, device_of
from ...metrics.neural.models.files import model_files as files
from ...metrics.neural.models.pretrained import config_of, pretrained, tokenizer_of
from ...metrics.spec.checked_settings import Field, Rare, settings
from ...metrics.storage.bounded_files import read_small_file
from ..generation.generator import check_stops
from .sampling import DRAWING_VERSIONS, Method, cutoff_of

MAX_TOP = 20  # of the likeliest tokens, as servers have it
DEFAULT_NEW_TOKENS = 256


class ModelPool(NamedTuple):
    """A pool of texts to generate for every input."""

    name: str
    size: int
    method: Method
    cutoff: float | None
    temperature: float


@settings
class GenerationSettings:
    """How candidates are generated.

    Args:
        num_candidates: candidates per input.
        sampling: "epsilon", "nucleus" or "typical" sampling, which cut off improbable tokens; "ancestral" sampling from
            the model as it is; or "beam", the candidates of a beam search. "epsilon" if not given; a server's is
            "ancestral".
        cutoff: the method's threshold; 0.02 for epsilon, 0.9 for nucleus and typical if not given.
        temperature: divides logits before the cut.
        num_references: pseudo-references per input, generated apart; 0: the candidates serve as such.
        reference_sampling: how pseudo-references are drawn; as candidates if not given.
        reference_cutoff: threshold of reference_sampling.
        reference_temperature: divides logits for pseudo-references; as for candidates if not given.
        seed: the same seed, input and model give the same candidates.
        max_new_tokens: longest candidate; the model's own limit, or 256, if not given.
        max_input_tokens: longer inputs are cut at the end, and counted; an error if not given.
        source_lang: language code of the inputs, for tokenizers that have them (de_DE).
        target_lang: language code of the candidates (en_XX).
        chat: whether the input is put into the tokenizer's chat template as what the user says.
        logprobs: whether candidates carry their total natural log-probability under the model: of all their tokens,
            those of the end or of the stop string included.
        top_logprobs: keep how sure the model was: of every token its log-probability and those of so many of the
            likeliest (in Python alone), and of every candidate mean-logprob, certainty, tail-entropy and
            bottom-window, under the model as it is.
        stop: strings that end a candidate, which is the text before the first of them; on the command line with the
            escapes \\n, \\t, \\r and \\\\.
        sequences_at_once: sequences in one batch.
    """

    heading: ClassVar = "candidates"

    num_candidates: Annotated[int, Field(ge=1)] = 16
    sampling: Method | None = None
    cutoff: Annotated[float, Field(gt=0, lt=1)] | None = None
    temperature: Annotated[float, Field(ge=1e-6, allow_inf_nan=False)] = 1.0
    num_references: Annotated[int, Field(ge=0)] = 0
    reference_sampling: Annotated[Method | None, Rare()] = None
    reference_cutoff: Annotated[Annotated[float, Field(gt=0, lt=1)] | None, Rare()] = None
    reference_temperature: Annotated[
        Annotated[float, Field(ge=1e-6, allow_inf_nan=False)] | None, Rare()
    ] = None
    seed: int = 0
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    max_input_tokens: Annotated[Annotated[int, Field(ge=1)] | None, Rare()] = None
    source_lang: str | None = None
    target_lang: str | None = None
    chat: bool = False
    logprobs: bool = False
    top_logprobs: Annotated[Annotated[int, Field(ge=1, le=MAX_TOP)] | None, Rare()] = None
    stop: tuple[str, ...] = ()
    sequences_at_once: Annotated[int, Field(ge=1), Rare()] = field(default=64, compare=False)

    def __post_init__(self) -> None:
        check_stops(self.stop)
        of_references = self.reference_sampling, self.reference_cutoff, self.reference_temperature
        if not self.num_references and any(of_references):
            problem = "no pseudo-references are generated"
            raise InputError(problem, where="num_references", fix="Say how many")
        if any(pool.method == "beam" and pool.temperature != 1 for pool in self.pools):
            raise InputError("a beam has no temperature", where="temperature", fix="Leave it out")

    @property
    def pools(self) -> tuple[ModelPool, ...]:
        """The candidates, and the pseudo-references where they are generated apart."""
        method: Method = self.sampling or "epsilon"
        cutoff = cutoff_of(method, self.cutoff, "cutoff")
        candidates = ModelPool("candidates", self.num_candidates, method, cutoff, self.temperature)
        if not self.num_references:
            return (candidates,)
        return (candidates, self._pseudo_references)

    @property
    def _pseudo_references(self) -> ModelPool:
        """Drawn as candidates where nothing else is set; but a beam has no temperature, and each method its cutoff."""
        candidate_method: Method = self.sampling or "epsilon"
        method = self.reference_sampling or candidate_method
        cutoff = self.reference_cutoff
        if not cutoff and method == candidate_method:
            cutoff = self.cutoff
        temperature = self.reference_temperature
        if not temperature:
            temperature = 1.0 if method == "beam" else self.temperature
        return ModelPool(
            name="pseudo_references",
            size=self.num_references,
            method=method,
            cutoff=cutoff_of(method, cutoff, "reference_cutoff"),
            temperature=temperature,
        )

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of candidates, as JSON values."""
        methods = [pool.method for pool in self.pools]
        versions = {one: DRAWING_VERSIONS[one] for one in methods if one in DRAWING_VERSIONS}
        return {
            **{pool.name: list(pool[1:]) for pool in self.pools},
            "seed": self.seed,
            "max_new_tokens": self.max_new_tokens,
            "max_input_tokens": self.max_input_tokens,
            "languages": [self.source_lang, self.target_lang],
            "chat": self.chat,
            "logprobs": self.logprobs,
            **({"top_logprobs": self.top_logprobs} if self.top_logprobs else {}),
            **({"stop": list(self.stop)} if self.stop else {}),
            **({"drawing_versions": versions} if versions else {}),
        }


class LoadedModel(NamedTuple):
    """A model, its tokenizer, and the digest of all their files."""

    model: Any
    tokenizer: Any
    digest: str


def load(
    name: str,
    revision: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
) -> LoadedModel:
    """The model of a folder, a GGUF file, a bundled name or a name on the hub, ready to generate; no code of it is run.

    Raises:
        ModelLoadError: it is not here and cannot be fetched, or is no model that generates.
        InputError: there is no such device.
    """
    if dtype not in get_args(DType):
        raise unknown("dtype", dtype, get_args(DType))
    folder = files.locate(name, revision)
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    try:
        config = config_of(folder)
    except Exception as error:  # many kinds
        problem = f"no model of transformers ({' '.join(str(error).split())[:200]})"
        raise ModelLoadError(problem, where=name, fix="Give the model's folder") from error
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = pretrained(folder, kind.__name__, dtype=cast(DType, dtype))
    model = model.to(device_of(device)).train(False)
    return LoadedModel(model, tokenizer_of(folder), _digest(folder))


def _digest(folder: Path) -> str:
    """The digest of the model, and of the files that matter where it generates; a GGUF file is alone."""
    digest = sha256(files.digest(folder).encode())
    for name in files.GENERATION_FILES:
        path = folder / name
        if path.is_file():
            digest.update(read_small_file(path, "Give the model's folder"))
    return digest.hexdigest()[: files.DIGITS]


def checked_config(model: Any, tokenizer: Any, settings: Any, config: Any = None) -> Any:
    """The generation configuration of a model under settings of generation or scoring; its own if `config` is None.

    Raises:
        InputError: model, tokenizer and settings do not fit together.
    """
    _check_pair(model, tokenizer)
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if settings.chat and (not has_template or model.config.is_encoder_decoder):
        problem = "the tokenizer has no chat template, or the model encodes its input"
        raise InputError(problem, where="chat", fix="Leave chat out")
    if settings.source_lang is not None:
        _language_id(tokenizer, settings.source_lang, "source_lang")
    config = deepcopy(model.generation_config if config is None else config)
    if settings.target_lang is not None:
        config.forced_bos_token_id = _language_id(tokenizer, settings.target_lang, "target_lang")
    elif hasattr(tokenizer, "src_lang") and config.forced_bos_token_id is None:
        language_ids = getattr(tokenizer, "lang_code_to_id", {}).values()
        if config.decoder_start_token_id not in language_ids:
            problem = "the language to write in is not set"
            raise InputError(problem, where="target_lang", fix="Give it, such as en_XX")
    if config.eos_token_id is None:
        config.eos_token_id = tokenizer.eos_token_id
    return config


def _check_pair(model: Any, tokenizer: Any) -> None:
    """Raises InputError for a model that generates no text, or a tokenizer that is not the model's."""
    if not getattr(model, "can_generate", bool)():
        problem = f"a {type(model).__name__} generates no text"
        fix = "Load it with AutoModelForSeq2SeqLM or AutoModelForCausalLM"
        raise InputError(problem, where="model", fix=fix)
    if not callable(tokenizer):
        problem = f"found {type(tokenizer).__name__}, expected a tokenizer of transformers"
        raise InputError(problem, where="tokenizer")
    num_tokens, vocabulary = len(tokenizer), model.get_input_embeddings().weight.shape[0]
    if num_tokens > vocabulary:
        problem = f"the tokenizer has {num_tokens} tokens, the model's vocabulary {vocabulary}"
        fix = "Load both from the same folder, or call model.resize_token_embeddings"
        raise InputError(problem, where="tokenizer", fix=fix)


def _language_id(tokenizer: Any, code: str, where: str) -> int:
    """The token of a language; raises InputError where the tokenizer has no languages, or not this one."""
    if not hasattr(tokenizer, "src_lang"):
        raise InputError("the tokenizer has no languages", where=where, fix="Leave it out")
    ids = getattr(tokenizer, "lang_code_to_id", {})
    token = ids[code] if code in ids else tokenizer.convert_tokens_to_ids(code)
    if token is None or token == tokenizer.unk_token_id:
        known = ", ".join(sorted(ids)[:5])
        problem = f"the tokenizer does not know the language {code!r}"
        fix = f"Such as {known}" if known else "See the tokenizer's special tokens"
        raise InputError(problem, where=where, fix=fix)
    return int(token)


def ends_of(config: Any) -> list[int]:
    """The tokens that end a text, by a generation configuration."""
    ends = config.eos_token_id
    return [ends] if isinstance(ends, int) else list(ends or [])


def new_tokens(model: Any, config: Any, settings: GenerationSettings) -> int:
    """How long an output may become, its end included.

    Raises:
        InputError: longer than the model's decoder has positions for.
    """
    encodes, max_positions = model.config.is_encoder_decoder, positions(model)
    limit = settings.max_new_tokens or config.max_new_tokens
    if limit is None and encodes and (config.max_length or 0) > 1:
        limit = config.max_length - 1
    limit = int(limit or DEFAULT_NEW_TOKENS)
    if encodes and max_positions is not None and limit >= max_positions:
        if settings.max_new_tokens is None:
            return max_positions - 1
        problem = f"found {limit}, the model has {max_positions} positions"
        raise InputError(problem, where="max_new_tokens", fix="Lower it")
    return limit


def positions(model: Any) -> int | None:
    """The longest sequence that the model has positions for; None where they have no end."""
    value = getattr(model.config, "max_position_embeddings", None)
    return int(value) if isinstance(value, int) and value > 0 else None


def check_length(model: Any, num_tokens: int, behind: int = 0) -> None:
    """Raises InputError for so many tokens to read, and to generate `behind` them, if the model has too few positions.

    An encoder-decoder needs positions for the input alone, a decoder-only model for the output, too.
    """
    if model.config.is_encoder_decoder:
        behind = 0
    max_positions = positions(model)
    if max_positions is not None and num_tokens + behind > max_positions:
        more = f" and {behind} new ones" if behind else ""
        problem = f"{num_tokens} tokens{more}, the model has {max_positions} positions"
        fix = "Shorten it; to generate, max_input_tokens cuts it, and max_new_tokens can be lower"
        raise InputError(problem, where="text", fix=fix)


def check_ids(ids: Sequence[int], tokenizer: Any, generates_on: bool) -> None:
    """Raises InputError for token ids with nothing to read, or that seem finished to a model that `generates_on`."""
    unknown_token = tokenizer.unk_token_id
    special = set(tokenizer.all_special_ids) - {unknown_token}
    words = [token for token in ids if token not in special]
    problem = ""
    if not words:
        problem, fix = "there is nothing to read", "Give a text that is not empty"
    elif len(words) > 1 and unknown_token is not None and set(words) == {unknown_token}:
        problem = "the tokenizer knows none of the words"
        fix = "Load the tokenizer with from_pretrained from its folder; is it the model's?"
    elif generates_on and ids[-1] == tokenizer.eos_token_id:
        problem = "the tokenizer ends the prompt, so that nothing can follow"
        fix = "Load the tokenizer with add_eos_token=False"
    if problem:
        raise InputError(problem, where="text", fix=fix)


class PromptReader:
    """Turns texts into the token ids that a model reads.

    Args:
        tokenizer: the model's.
        chat: whether a text is put into the tokenizer's chat template as what the user says.
        languages: attributes that the tokenizer has while it reads, such as src_lang; None leaves one as it is.
    """

    def __init__(self, tokenizer: Any, chat: bool, languages: Mapping[str, str | None]) -> None:
        self.tokenizer, self.chat = tokenizer, chat
        self._languages = {name: code for name, code in languages.items() if code is not None}
        self.plain_text = PlainTexts(tokenizer, control_tokens(tokenizer)).without_special

    def framed(self, text: str, messages: Sequence[Mapping[str, Any]] = ()) -> str:
        """A text, or a conversation in its place, in the chat template, where there is one.

        Raises:
            InputError: a conversation that the template does not take, or no template.
        """
        if not (messages or self.chat):
            return text
        if getattr(self.tokenizer, "chat_template", None) is None:
            fix = "Give texts, or a model made for conversations"
            raise InputError("the tokenizer has no chat template", where="texts", fix=fix)
        from jinja2 import TemplateError

        said = list(messages) or [{"role": "user", "content": text}]
        options: dict[str, Any] = {"add_generation_prompt": True, "tokenize": False}
        try:
            return str(self.tokenizer.apply_chat_template(said, **options))
        except TemplateError as error:
            problem = f"the chat template refuses the conversation ({error})"
            raise InputError(problem, where="texts") from None

    def ids(self, *texts: Any, is_framed: bool = False, **options: Any) -> Any:
        """The token ids of a text, or of every text of a list; a chat template writes special tokens itself."""
        if is_framed:
            options["add_special_tokens"] = False
        before = {name: getattr(self.tokenizer, name, None) for name in self._languages}
        try:
            for name, code in self._languages.items():
                setattr(self.tokenizer, name, code)
            return self.tokenizer(*texts, **options)["input_ids"]
        finally:
            for name, earlier in before.items():
                setattr(self.tokenizer, name, earlier)
