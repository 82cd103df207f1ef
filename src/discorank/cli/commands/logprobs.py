"""``discorank logprobs LISTS --generator MODEL -o OUT``: the log-probabilities of candidates under a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal

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
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.text.prompt_template import SEPARATOR, Template, read_examples
from ..options import MODEL_OPTIONS, Options, build, needed
from ..options.inputs import InputOptions, file_key, open_input, reading_in
from ..running import OutputOptions, check_output, closing_line
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


OPTIONS = Options(
    "logprobs",
    "Write into every candidate how likely a model finds it. Run the same command again to resume after an "
    "interruption.",
    [
        InputOptions,
        OutputOptions,
        PromptOptions,
        ValueFields,
        ScoringSettings,
        Connection,
        ServerScoringOptions,
        ProbeOptions,
    ],
    positional={"input": "?"},
    short={"output": "o", "num_candidates": "n"},
    first=["input", "generator", "output", "prompt", "field", "backend"],
    examples=[
        "logprobs examples:demo.jsonl --generator smollm2 --overwrite -o scored.jsonl",
        "logprobs examples:summaries.jsonl --generator smollm2 --prompt '{source} In short: ' -o scored.jsonl",
        "logprobs lists.jsonl --backend server --base-url http://localhost:8000/v1 --generator MODEL -o out.jsonl",
    ],
)


def run(arguments: Sequence[str]) -> int:
    """Scores; returns the exit code."""
    values = OPTIONS.parse(arguments)
    for name in ("end_text", "separator"):
        values[name] = _unescaped(values[name], f"--{name.replace('_', '-')}")
    if values["probe"]:
        print(table_of(_probed(values)))
        return 0
    needed(values, "input", "INPUT")
    needed(values, "generator", "--generator")
    inputs = [
        values[name]
        for name in ("input", "sources", "documents", "requests", "choices", "examples")
    ]
    out = check_output(values["output"], inputs)
    _check_used(values)
    prompts = _prompts(values)
    value_fields = build(ValueFields, values)
    reading = reading_in(values)
    if values["choices"]:
        reading["choices"] = file_key(
            values["choices"], "Give the rows that decode or rerank wrote"
        )
    scorer = BACKENDS[values["backend"]](values)
    with (
        open_input(values) as lists,
        Progress("lists", lists.fraction, values["quiet"]) as progress,
    ):
        counts = run_scoring(
            ListScoring(prompts, scorer, value_fields),
            lists,
            lists.name,
            out,
            values["max_errors"],
            progress,
            reading,
            Meter(),
        )
    say(closing_line(counts, lists.name, out, "lists", "scored"), values["quiet"])
    return 3 if counts.get("errors") else 0


def _probed(values: Mapping[str, Any]) -> ServerFacts:
    """What the server of the options does."""
    if values["backend"] != "server":
        raise InputError("is for servers", where="--probe", fix="Add --backend server")
    model = needed(values, "generator", "--generator")
    needed(values, "base_url", "--base-url")
    further = further_keys(build(ServerScoringOptions, values).request)

    async def facts(exchange: Exchange) -> ServerFacts:
        probe = ServerProbe(exchange, model, False, further, {"temperature": 1.0})
        return await probe.facts(tuple(FORMS.values()))

    with Client(build(Connection, values)) as client:
        return client.result_of(facts)


def _unescaped(text: str | None, where: str) -> str | None:
    """A text as it was typed, with the escapes of stop strings."""
    if text is None:
        return None
    try:
        return unescaped(text)
    except InputError as error:
        raise InputError(error.problem, where=where, fix=error.fix) from None


def _prompts(values: Mapping[str, Any]) -> ListPrompts:
    """The questions for lists."""
    default = f"{{{CANDIDATE}}}" if values["reverse"] else "{source}"
    template = Template(default if values["prompt"] is None else values["prompt"])
    first = None
    if values["first_prompt"] is not None:
        first = Template(values["first_prompt"], "first_prompt")
    examples = read_examples(values["examples"]) if values["examples"] else None
    separator = SEPARATOR if values["separator"] is None else values["separator"]
    templates = FewShotTemplates(template, first, examples, separator, values["reverse"])
    choices = read_chosen_texts(values["choices"]) if values["choices"] else None
    return ListPrompts(
        templates, values["context"], values["context_from"], choices, values["end_text"]
    )


def _huggingface(values: Mapping[str, Any]) -> TextScorer:
    from ...integrations.huggingface.forced_passes import HuggingFaceScorer
    from ...integrations.huggingface.model_loading import load

    dtype = values["dtype"] or "float32"
    loaded = load(values["generator"], values["revision"], values["device"], dtype)
    if not loaded.model.config.is_encoder_decoder and values["prompt"] is None:
        raise InputError(
            "is missing, and a decoder-only model reads prompt and candidate as one text",
            where="--prompt",
            fix="Give it, with the space or line break at its end that stands before a candidate",
        )
    return HuggingFaceScorer(
        loaded.model,
        loaded.tokenizer,
        build(ScoringSettings, values),
        f"sha256:{loaded.digest} {dtype}",
        values["batch_tokens"],
    )


def _server(values: Mapping[str, Any]) -> TextScorer:
    from ...integrations.server.prompt_logprobs import ServerScorer

    needed(values, "prompt", "--prompt")
    needed(values, "base_url", "--base-url")
    return ServerScorer(
        values["generator"],
        build(Connection, values),
        build(ServerScoringOptions, values),
        probes=not values["skip_probe"],
    )


_OF_METRICS = ("lang", "align", "windows", "split_sentences")


def _check_used(values: Mapping[str, Any]) -> None:
    """Raises InputError for an option that has no effect beside the others."""
    backend = values["backend"]
    problems = dict.fromkeys(FOREIGN[backend], f"is no option of the backend {backend}")
    of_metrics = ("model", "encoder_path", "tokenizer_path", *_OF_METRICS)
    problems |= dict.fromkeys(of_metrics, "is that of a metric")
    for name, problem in problems.items():
        if values[name] != OPTIONS.defaults[name]:
            fix = "Name the model with --generator" if name in MODEL_OPTIONS else "Leave it out"
            raise InputError(problem, where=f"--{name.replace('_', '-')}", fix=fix)
    if values["separator"] is not None and not values["examples"]:
        raise InputError("stands behind examples", where="--separator", fix="Leave it out")
    if values["end_text"] is not None and values["end"] is not None:
        fix = "Leave one of them out"
        raise InputError("stands beside --end", where="--end-text", fix=fix)
    if backend == "server" and values["chat"]:
        raise InputError(
            "servers give no log-probabilities of a text behind a chat template",
            where="--chat",
            fix="Write the template out in --prompt, as the model knows it",
        )
    if backend == "server" and values["end"]:
        raise InputError(
            "servers give no log-probability of the model's own end",
            where="--end",
            fix="Leave it out, or say what ends a text: --end-text",
        )


FOREIGN = {  # what only the other backend takes
    "huggingface": [
        field.name
        for part in (Connection, ServerScoringOptions, ProbeOptions)
        for field in fields(part)
    ],
    "server": ["revision", "source_lang", "target_lang", "device", "dtype", "batch_tokens"],
}
BACKENDS: dict[str, Callable[[Mapping[str, Any]], TextScorer]] = {
    "huggingface": _huggingface,
    "server": _server,
}
