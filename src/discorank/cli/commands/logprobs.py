"""``discorank logprobs LISTS --generator MODEL -o OUT``: the log-probabilities of candidates under a model."""

from __future__ import annotations

from typing import Annotated, Literal

from ...integrations.generation.generator import unescaped
from ...integrations.generation.prompt_templates import CANDIDATE, FewShotTemplates
from ...integrations.huggingface.forced_passes import ScoringSettings
from ...integrations.scoring.list_prompts import (
    ListPrompts,
    TextScorer,
    read_chosen_texts,
)
from ...integrations.scoring.scoring_run import ListScoring, ValueFields, run_scoring
from ...integrations.server.exchange import Client, Exchange
from ...integrations.server.prompt_logprobs import FORMS, ServerScoringOptions
from ...integrations.server.server_probe import ProbeOptions, ServerFacts, ServerProbe, table_of
from ...integrations.server.settings import Connection, further_keys
from ...metrics.errors import InputError
from ...metrics.execution.meter import Meter
from ...metrics.spec.checked_settings import Field, setting_names, settings
from ...metrics.text.prompt_template import SEPARATOR, Template, read_examples
from ..options import Given, command, needed
from ..options.command_options import ModelOptions
from ..options.inputs import InputOptions, file_key
from ..options.output_formats import OutputOptions
from ..running import check_output, closing_line
from ..terminal.console import Progress, say


@settings
class PromptOptions:
    """What scores, and after which prompt.

    Args:
        backend: what kind of model it is: of Hugging Face, or on a server.
        generator: the model: a folder or a name on the hub, or its name on the server.
        revision: which revision on the hub.
        prompt: what the model reads before a candidate; {source} is the source of the list, {source_context} and
            {target_context} are the preceding sentences of its document and what was chosen for them, any other {name}
            is a key of the list. {source} alone if not given, which decoder-only models need to be given.
        first_prompt: the prompt of lists without preceding sentences, where it is another.
        examples: a file of few-shot examples that stand before every prompt: JSON lines with source, target, and other
            fields of the prompt.
        separator: what stands behind each of them, such as \\n; an empty line if not given.
        context: how many preceding sentences the contexts hold.
        context_from: what stands for what was chosen: chosen, the key of that name that generate writes, or --choices;
            reference, the first reference; first, the first candidate.
        choices: rows of decode or rerank, which say what was chosen.
        reverse: score the source given the candidate, which is {candidate} in the prompt: the channel of a noisy
            channel.
        end_text: what stands behind a whole candidate and is scored with it in place of the model's own end, such as
            \\n.
        max_errors: how many error records a run may write before it stops.
    """

    backend: Literal["huggingface", "server"] = "huggingface"
    generator: str | None = None
    revision: str | None = None
    prompt: str | None = None
    first_prompt: str | None = None
    examples: str | None = None
    separator: str | None = None
    context: Annotated[int, Field(ge=0)] = 0
    context_from: Literal["chosen", "reference", "first"] = "chosen"
    choices: str | None = None
    reverse: bool = False
    end_text: str | None = None
    max_errors: Annotated[int, Field(ge=0)] = 0


# the settings that only one backend has, by the other
OF_OTHERS = {
    "huggingface": (
        *setting_names(Connection),
        *setting_names(ServerScoringOptions),
        *setting_names(ProbeOptions),
    ),
    "server": ("revision", "source_lang", "target_lang", "device", "dtype", "batch_tokens"),
}


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
    value_fields: ValueFields,
    scoring: ScoringSettings,
    connection: Connection | None,
    server: ServerScoringOptions,
    probe: ProbeOptions,
    models: ModelOptions,
    given: Given,
) -> int:
    """Scores; returns the exit code."""
    _check(options, scoring, probe, given)
    model = needed(options.generator, "generator")
    if options.backend == "server":
        if not probe.probe:
            needed(options.prompt, "prompt")
        connection = needed(connection, "base_url")
    if probe.probe and connection is not None:
        print(table_of(_facts(model, server, connection)))
        return 0
    needed(input.input, "input", "INPUT")
    out = check_output(to.output, [*input.paths, options.choices, options.examples])
    prompts = _prompts(options)
    identity = input.identity()
    if options.choices:
        fix = "Give the rows that decode or rerank wrote"
        identity["choices"] = file_key(options.choices, fix)
    scorer: TextScorer
    if connection is not None:
        from ...integrations.server.prompt_logprobs import ServerScorer

        scorer = ServerScorer(model, connection, server, probes=not probe.skip_probe)
    else:
        scorer = _loaded(model, options, scoring, models)
    with input.opened() as lists, Progress("lists", lists.fraction) as progress:
        counts = run_scoring(
            ListScoring(prompts, scorer, value_fields),
            lists,
            lists.name,
            out,
            options.max_errors,
            progress,
            identity,
            Meter(),
        )
    say(closing_line(counts, lists.name, out, "lists", "scored"))
    return 3 if counts.get("errors") else 0


def _check(
    options: PromptOptions, scoring: ScoringSettings, probe: ProbeOptions, given: Given
) -> None:
    """Raises InputError for an option that has no effect beside the others."""
    backend = options.backend
    if probe.probe and backend != "server":
        raise InputError("is for servers", where="probe", fix="Add --backend server")
    given.refuse(OF_OTHERS[backend], f"is no option of the backend {backend}")
    if options.separator is not None and not options.examples:
        raise InputError("stands behind examples", where="separator", fix="Leave it out")
    if options.end_text is not None and scoring.end is not None:
        problem = "cannot be combined with --end"
        raise InputError(problem, where="end_text", fix="Leave one of them out")
    if backend == "server" and scoring.chat:
        problem = "servers give no log-probabilities of a text behind a chat template"
        fix = "Write the template out in --prompt, as the model knows it"
        raise InputError(problem, where="chat", fix=fix)
    if backend == "server" and scoring.end:
        problem = "servers give no log-probability of the model's own end"
        fix = "Leave it out, or say what ends a text: --end-text"
        raise InputError(problem, where="end", fix=fix)


def _facts(model: str, server: ServerScoringOptions, connection: Connection) -> ServerFacts:
    """What the server does."""
    further = further_keys(server.request)

    async def facts(exchange: Exchange) -> ServerFacts:
        probe = ServerProbe(exchange, model, False, further, {"temperature": 1.0})
        return await probe.facts(tuple(FORMS.values()))

    with Client(connection) as client:
        return client.result_of(facts)


def _unescaped(text: str | None, name: str) -> str | None:
    """A text as it was typed, with the escapes of stop strings."""
    if text is None:
        return None
    try:
        return unescaped(text)
    except InputError as error:
        raise InputError(error.problem, where=name, fix=error.fix) from None


def _prompts(options: PromptOptions) -> ListPrompts:
    """The questions for lists."""
    default = f"{{{CANDIDATE}}}" if options.reverse else "{source}"
    template = Template(default if options.prompt is None else options.prompt)
    first = None
    if options.first_prompt is not None:
        first = Template(options.first_prompt, "first_prompt")
    examples = read_examples(options.examples) if options.examples else None
    separator = _unescaped(options.separator, "separator")
    templates = FewShotTemplates(
        template, first, examples, SEPARATOR if separator is None else separator, options.reverse
    )
    choices = read_chosen_texts(options.choices) if options.choices else None
    end_text = _unescaped(options.end_text, "end_text")
    return ListPrompts(templates, options.context, options.context_from, choices, end_text)


def _loaded(
    model: str, options: PromptOptions, scoring: ScoringSettings, models: ModelOptions
) -> TextScorer:
    """The scorer of a model of Hugging Face."""
    from ...integrations.huggingface.forced_passes import HuggingFaceScorer
    from ...integrations.huggingface.model_loading import load

    dtype = models.dtype or "float32"
    loaded = load(model, options.revision, models.device, dtype)
    if not loaded.model.config.is_encoder_decoder and options.prompt is None:
        raise InputError(
            "is missing, and a decoder-only model reads prompt and candidate as one text",
            where="prompt",
            fix="Give it, with the space or line break at its end that stands before a candidate",
        )
    digest = f"sha256:{loaded.digest} {dtype}"
    return HuggingFaceScorer(loaded.model, loaded.tokenizer, scoring, digest, models.batch_tokens)
