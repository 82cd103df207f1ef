"""``discorank logprobs LISTS --generator MODEL -o OUT``: the log-probabilities of candidates under a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from ...integrations.generation.generator import unescaped
from ...integrations.generation.prompt_templates import CANDIDATE, FewShotTemplates
from ...integrations.huggingface.forced_passes import ScoringSettings
from ...integrations.scoring.list_prompts import (
    ListPrompts,
    TextScorer,
    read_chosen_texts,
)
from ...integrations.scoring.scoring_run import ListScoring, ValueFields, run_scoring
from ...integrations.server.exchange import Exchange
from ...integrations.server.prompt_logprobs import FORMS, ServerScoringOptions
from ...integrations.server.server_probe import ProbeOptions, ServerFacts, ServerProbe
from ...integrations.server.settings import Connection, further_keys
from ...metrics.errors import InputError
from ...metrics.execution.meter import Meter
from ...metrics.spec.checked_settings import settings
from ...metrics.text.prompt_template import SEPARATOR
from ..options import Given, command, needed
from ..options.backends import BackendOptions, print_facts
from ..options.command_options import ModelOptions
from ..options.inputs import InputOptions, file_key
from ..options.output_formats import OutputOptions
from ..running import check_output, closing_line
from ..terminal.console import Progress, say


@settings
class PromptOptions:
    """How texts are scored.

    Args:
        separator: what stands behind each of them, such as \\n; an empty line if not given.
        context_from: what stands for what was chosen: chosen, the key of that name that generate writes, or --choices;
            reference, the first reference; first, the first candidate.
        choices: rows of decode or rerank, which say what was chosen.
        reverse: score the source given the candidate, which is {candidate} in the prompt: the channel of a noisy
            channel.
        end_text: what stands behind a whole candidate and is scored with it in place of the model's own end, such as
            \\n.
    """

    separator: str | None = None
    context_from: Literal["chosen", "reference", "first"] = "chosen"
    choices: str | None = None
    reverse: bool = False
    end_text: str | None = None


OF_MODELS = ("source_lang", "target_lang", "device", "dtype", "batch_tokens")  # not of servers


@command(
    "Write into every candidate how likely a model finds it. Run the same command again to resume after an "
    "interruption.",
    positional={"input": "?"},
    short={"output": "o", "num_candidates": "n"},
    hidden=["cache", "cache_bytes"],
    first=["input", "generator", "output", "prompt", "field", "backend"],
    examples=[
        "logprobs examples:demo.jsonl --generator smollm2 --overwrite -o scored.jsonl",
        "logprobs examples:summaries.jsonl --generator smollm2 --prompt '{source} In short: ' -o scored.jsonl",
        "logprobs lists.jsonl --backend server --base-url http://localhost:8000/v1 --generator MODEL -o out.jsonl",
    ],
)
def logprobs(
    input: InputOptions,
    to: OutputOptions,
    options: PromptOptions,
    model: BackendOptions,
    value_fields: ValueFields,
    scoring: ScoringSettings,
    connection: Connection | None,
    server: ServerScoringOptions,
    probe: ProbeOptions,
    models: ModelOptions,
    given: Given,
) -> int:
    """Scores; returns the exit code."""
    model.check(probe, given, ServerScoringOptions, OF_MODELS)
    _check(options, model, scoring)
    name = needed(model.generator, "generator")
    if model.backend == "server":
        if not probe.probe:
            needed(model.prompt, "prompt")
        connection = needed(connection, "base_url")
    if probe.probe and connection is not None:
        print_facts(connection, _facts_of(name, server))
        return 0
    needed(input.input, "input", "INPUT")
    out = check_output(to.output, [*input.paths, options.choices, model.examples])
    prompts = _prompts(options, model)
    identity = input.identity()
    if options.choices:
        fix = "Give the rows that decode or rerank wrote"
        identity["choices"] = file_key(options.choices, fix)
    scorer: TextScorer
    if connection is not None:
        from ...integrations.server.prompt_logprobs import ServerScorer

        scorer = ServerScorer(name, connection, server, probes=not probe.skip_probe)
    else:
        scorer = _loaded(model, name, scoring, models)
    with input.opened() as lists, Progress("lists", lists.fraction) as progress:
        counts = run_scoring(
            ListScoring(prompts, scorer, value_fields),
            lists,
            lists.name,
            out,
            model.max_errors,
            progress,
            identity,
            Meter(),
        )
    say(closing_line(counts, lists.name, out, "lists", "scored"))
    return 3 if counts.get("errors") else 0


def _check(options: PromptOptions, model: BackendOptions, scoring: ScoringSettings) -> None:
    """Raises InputError for an option that has no effect with the others."""
    on_server = model.backend == "server"
    if options.separator is not None and not model.examples:
        raise InputError("stands behind examples", where="separator", fix="Leave it out")
    if options.end_text is not None and scoring.end is not None:
        problem = "cannot be combined with --end"
        raise InputError(problem, where="end_text", fix="Leave one of them out")
    if on_server and scoring.chat:
        problem = "servers give no log-probabilities of a text behind a chat template"
        fix = "Write the template out in --prompt, as the model knows it"
        raise InputError(problem, where="chat", fix=fix)
    if on_server and scoring.end:
        problem = "servers give no log-probability of the model's own end"
        fix = "Leave it out, or say what ends a text: --end-text"
        raise InputError(problem, where="end", fix=fix)


def _facts_of(
    model: str, server: ServerScoringOptions
) -> Callable[[Exchange], Awaitable[ServerFacts]]:
    """The probe of a server."""
    further = further_keys(server.request)

    async def facts(exchange: Exchange) -> ServerFacts:
        probe = ServerProbe(exchange, model, False, further, {"temperature": 1.0})
        return await probe.facts(tuple(FORMS.values()))

    return facts


def _unescaped(text: str | None, name: str) -> str | None:
    """A text as it was typed, with the escapes of stop strings."""
    if text is None:
        return None
    try:
        return unescaped(text)
    except InputError as error:
        raise InputError(error.problem, where=name, fix=error.fix) from None


def _prompts(options: PromptOptions, model: BackendOptions) -> ListPrompts:
    """The questions for lists."""
    default = f"{{{CANDIDATE}}}" if options.reverse else "{source}"
    template, first = model.templates(default)
    separator = _unescaped(options.separator, "separator")
    templates = FewShotTemplates(
        template,
        first,
        model.few_shot(),
        SEPARATOR if separator is None else separator,
        options.reverse,
    )
    choices = read_chosen_texts(options.choices) if options.choices else None
    end_text = _unescaped(options.end_text, "end_text")
    return ListPrompts(templates, model.context, options.context_from, choices, end_text)


def _loaded(
    model: BackendOptions,
    name: str,
    scoring: ScoringSettings,
    models: ModelOptions,
) -> TextScorer:
    """The scorer of a model of Hugging Face."""
    from ...integrations.huggingface.forced_passes import HuggingFaceScorer

    loaded, digest = model.loaded(name, models)
    if not loaded.model.config.is_encoder_decoder and model.prompt is None:
        raise InputError(
            "is missing, and a decoder-only model reads prompt and candidate as one text",
            where="prompt",
            fix="Give it, with the space or line break at its end that stands before a candidate",
        )
    return HuggingFaceScorer(loaded.model, loaded.tokenizer, scoring, digest, models.batch_tokens)
