"""``discorank generate INPUT --generator MODEL -o OUT``: candidate lists from a model that generates.

The generator of ``discorank generate --backend server``, from the options of the command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from time import monotonic
from typing import Annotated, Any, ClassVar, Literal

from ...integrations.arrow.open_rows import open_rows
from ...integrations.generation.document_turns import Turns
from ...integrations.generation.generation_run import run_generation
from ...integrations.generation.generator import Generator, unescaped
from ...integrations.generation.prompts import PromptEntry, read_prompts
from ...integrations.huggingface.model_loading import GenerationSettings
from ...integrations.server import ServerGenerator, ServerSettings
from ...integrations.server.exchange import Client
from ...integrations.server.server_probe import ProbeOptions, ServerFacts, table_of
from ...integrations.server.settings import Connection, further_keys
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.text.prompt_template import Template, read_examples
from ...rerank.engines.local import LocalEngine
from ...rerank.mbr import MBRDecoder
from ..options import Options, build, needed
from ..options.inputs import CodeOptions, cache_in, check_model, metric_in
from ..running import OutputOptions, check_output, closing_line
from ..terminal.console import Progress, say

NUCLEUS = 0.9
# options that servers have no word for
_FOREIGN = ("revision", "max_input_tokens", "source_lang", "target_lang")


@settings
class ServerOptions:
    """What only servers take.

    Args:
        system: with --chat: what the system says before.
        request: more keys of the request, as a JSON object, such as {"top_k": -1}.
    """

    heading: ClassVar = "server"

    system: str | None = None
    request: str | None = None

    def __post_init__(self) -> None:
        further_keys(self.request)  # refused before it is printed or kept


def server_generator(values: Mapping[str, Any], logprobs: bool) -> ServerGenerator:
    """The generator that the options name.

    Args:
        values: of `Connection`, `ServerOptions`, and the options that all generators share.
        logprobs: whether log-probabilities are needed.

    Raises:
        InputError: an option that servers do not have; further as `ServerSettings` and `Connection`.
    """
    for name in _FOREIGN:
        if values.get(name) is not None:
            raise InputError(
                "is no option of servers", where=f"--{name.replace('_', '-')}", fix="Leave it out"
            )
    top_p = _top_p(values, "sampling", "cutoff")
    reference_top_p = _top_p(values, "reference_sampling", "reference_cutoff")
    own_default = ("max_new_tokens",) if values["max_new_tokens"] is None else ()
    server_settings = build(
        ServerSettings,
        {name: value for name, value in values.items() if name not in own_default},
        model=needed(values, "generator", "--generator"),
        top_p=top_p or 1.0,
        reference_top_p=reference_top_p,
        logprobs=logprobs,
    )
    needed(values, "base_url", "--base-url")
    connection = build(Connection, values)
    return ServerGenerator(server_settings, connection, not values.get("skip_probe"))


def _top_p(values: Mapping[str, Any], sampling: str, cutoff: str) -> float | None:
    """The nucleus that a way of sampling stands for: 1 is ancestral sampling, None where the option is not given."""
    method, value = values[sampling], values[cutoff]
    if method == "nucleus":
        return NUCLEUS if value is None else float(value)
    if method not in ("ancestral", None):
        fix = f"Give --{sampling.replace('_', '-')} ancestral or nucleus; more with --request"
        raise InputError(f"servers do not know {method} sampling", where=sampling, fix=fix)
    if value is not None:
        raise InputError(
            f"{method or 'no'} sampling has no cutoff", where=cutoff, fix="Leave it out"
        )
    return None if method is None else 1.0


@settings
class GeneratorOptions:
    """What generates, from what.

    Args:
        input: the file of inputs (.gz too; .csv, .tsv, .parquet, .arrow, .arrows, .feather), or - for stdin.
        input_format: its format: jsonl (id, source, and document, position, references where there are some) or text
            (one input per line).
        columns: which column of a table, or key of JSON lines, is which key, such as source=prompt.
        backend: what kind of generator it is.
        generator: the model that generates: a folder, a GGUF file, a name on the hub, or what a package brings: smollm2
            (Apache-2.0) or gemma3-270m (Gemma terms of use, ai.google.dev/gemma/terms).
        revision: which revision on the hub.
        prompt: what the model reads of an input; {source_context} and {target_context} are the preceding sentences of
            its document and what was chosen for them, any other {name} is a key of the input.
        examples: a file of JSON lines with source, target and any other key that the prompt reads: few-shot examples
            that stand before the prompt of every input, each with an empty line behind it.
        first_prompt: the prompt of inputs without preceding sentences, where it is another.
        context: how many preceding sentences the contexts hold.
        max_errors: how many error records a run may write before it stops.
    """

    input: str | None = None
    input_format: Literal["jsonl", "text"] = "jsonl"
    columns: tuple[str, ...] = ()
    backend: Literal["huggingface", "server"] = "huggingface"
    generator: str | None = None
    revision: str | None = None
    prompt: str = "{source}"
    first_prompt: str | None = None
    examples: str | None = None
    context: Annotated[int, Field(ge=0)] = 0
    max_errors: Annotated[int, Field(ge=0)] = 0


@settings
class ChoiceOptions:
    """What chooses among the candidates of a sentence before the next one is generated.

    Args:
        utility: the utility that chooses, where the prompt reads {target_context}.
        weights: weights of pseudo-references, as for decode.
        self_pair: whether a candidate counts as a pseudo-reference for itself.
    """

    utility: str | None = None
    weights: str = "uniform"
    self_pair: bool = True


OPTIONS = Options(
    "generate",
    "Write a candidate list for every input. Run the same command again to resume after an interruption.",
    [
        GeneratorOptions,
        GenerationSettings,
        Connection,
        ServerOptions,
        ProbeOptions,
        ChoiceOptions,
        OutputOptions,
        CodeOptions,
    ],
    positional={"input": "?"},
    short={"output": "o", "num_candidates": "n", "utility": "u"},
    first=["input", "generator", "num_candidates", "output", "prompt", "utility"],
    examples=[
        "generate examples:inputs.jsonl --generator smollm2 -n 4 --max-new-tokens 8 -o lists.jsonl",
        "generate examples:src.txt --from text --generator Helsinki-NLP/opus-mt-de-en -n 16 -o lists.jsonl",
        "generate inputs.jsonl --backend server --base-url http://localhost:8000/v1 --generator MODEL -o out.jsonl",
    ],
)


def run(arguments: Sequence[str]) -> int:
    """Generates; returns the exit code."""
    values = OPTIONS.parse(arguments)
    if values["probe"]:
        _check_used(values)
        print(table_of(_probed(values)))
        return 0
    path = needed(values, "input", "INPUT")
    values["stop"] = tuple(map(unescaped, values["stop"]))
    out = check_output(values["output"], [values["input"], values["examples"]])
    template, first_template = Template(values["prompt"]), None
    if values["first_prompt"] is not None:
        first_template = Template(values["first_prompt"], "first_prompt")
    examples = None if values["examples"] is None else read_examples(values["examples"])
    _check_used(values)
    decider = _decider(values)
    generator = BACKENDS[values["backend"]](values)
    engine = LocalEngine(cache_in(values))
    turns = Turns(generator, template, first_template, values["context"], decider, engine, examples)
    reading = GenerationWatch(turns)
    with (
        closing(open_rows(path, values["columns"], "input")) as source,
        Progress("lists", source.fraction, values["quiet"], reading) as progress,
    ):
        about = {"seeds": {"generation": values["seed"]}}
        entries = reading.counted(read_prompts(source, values["input_format"]))
        counts = run_generation(
            turns, entries, source.name, out, values["max_errors"], progress, about
        )
    done = closing_line(counts, source.name, out, "inputs", "generated")
    say(f"{done}{reading.tokens}", values["quiet"])
    return 3 if counts.get("errors") else 0


class GenerationWatch:
    """How many inputs are read, which is ahead of the lists written, and how fast tokens come.

    Args:
        turns: what generates.
    """

    def __init__(self, turns: Turns) -> None:
        self.turns, self.read, self.begun = turns, 0, monotonic()

    def counted(self, entries: Iterable[PromptEntry]) -> Iterator[PromptEntry]:
        """The entries; `read` counts them."""
        for entry in entries:
            self.read += 1
            yield entry

    @property
    def seconds(self) -> float:
        """How long it has been at work."""
        return monotonic() - self.begun

    def note(self) -> str:
        """Tokens per second so far."""
        return self.tokens.removeprefix(", ")

    @property
    def tokens(self) -> str:
        """How many tokens this process has generated, and how many per second; empty if it does not know."""
        count = self.turns.work.tokens
        return f", {count} tokens ({count / max(self.seconds, 1e-9):.1f}/s)" if count else ""


def _decider(values: Mapping[str, Any]) -> MBRDecoder | None:
    """The decoder of the candidates of a sentence, None without a utility."""
    if values["utility"] is None:
        named = [name for name in ("model", "encoder_path", "tokenizer_path") if values[name]]
        if named:
            flag = f"--{named[0].replace('_', '-')}"
            raise InputError(
                "is that of a metric",
                where=flag,
                fix="Name the model that generates with --generator",
            )
        return None
    utility = metric_in(values, values["utility"])
    check_model(values, [utility])
    return MBRDecoder(utility=utility, weights=values["weights"], self_pair=values["self_pair"])


def _huggingface(values: Mapping[str, Any]) -> Generator:
    from ...integrations.huggingface import HuggingFaceGenerator
    from ...integrations.huggingface.model_loading import load

    logprobs = _needs_logprobs(values)
    chosen = build(GenerationSettings, values, logprobs=logprobs)
    name, dtype = needed(values, "generator", "--generator"), values["dtype"] or "float32"
    loaded = load(name, values["revision"], values["device"], dtype)
    return HuggingFaceGenerator(
        loaded.model, loaded.tokenizer, chosen, f"sha256:{loaded.digest} {dtype}"
    )


def _probed(values: Mapping[str, Any]) -> ServerFacts:
    """What the server of the options does."""
    if values["backend"] != "server":
        raise InputError("is for servers", where="--probe", fix="Add --backend server")
    generator = server_generator(values, _needs_logprobs(values))
    with Client(generator.connection) as client:
        return client.result_of(generator.facts)


def _server(values: Mapping[str, Any]) -> Generator:
    return server_generator(values, _needs_logprobs(values))


def _needs_logprobs(values: Mapping[str, Any]) -> bool:
    weighs_by_logprob = values["utility"] is not None and values["weights"] == "logprob"
    return bool(values["logprobs"] or weighs_by_logprob)


def _check_used(values: Mapping[str, Any]) -> None:
    """Raises InputError for an option that has no effect beside the others."""
    backend = values["backend"]
    problems = dict.fromkeys(FOREIGN[backend], f"is no option of the backend {backend}")
    if values["utility"] is None:
        for name in ("weights", "self_pair"):
            problems[name] = "has no effect where no utility chooses"
    for name, problem in problems.items():
        if values[name] != OPTIONS.defaults[name]:
            raise InputError(problem, where=f"--{name.replace('_', '-')}", fix="Leave it out")


FOREIGN = {  # what only the other backend takes
    "huggingface": [
        field.name for part in (Connection, ServerOptions, ProbeOptions) for field in fields(part)
    ],
    "server": ["sequences_at_once"],
}
BACKENDS: dict[str, Callable[[Mapping[str, Any]], Generator]] = {
    "huggingface": _huggingface,
    "server": _server,
}
