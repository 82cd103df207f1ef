"""``discorank generate INPUT --generator MODEL -o OUT``: candidate lists from a model that generates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from time import monotonic
from typing import ClassVar, Literal

from ...integrations.arrow.open_rows import open_rows
from ...integrations.generation.document_turns import Turns
from ...integrations.generation.generation_run import run_generation
from ...integrations.generation.generator import Generator, unescaped
from ...integrations.generation.prompts import PromptEntry, read_prompts
from ...integrations.huggingface.model_loading import GenerationSettings
from ...integrations.server import ServerGenerator, ServerSettings
from ...integrations.server.server_probe import ProbeOptions
from ...integrations.server.settings import Connection, further_keys
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import settings
from ...rerank.engines.local import LocalEngine
from ...rerank.mbr import MBRDecoder
from ..options import Given, command, flag_of, needed
from ..options.backends import BackendOptions, print_facts
from ..options.decoders import MODELS, MetricOptions
from ..options.output_formats import OutputOptions
from ..running import check_output, closing_line
from ..terminal.console import Progress, say

NUCLEUS = 0.9
OF_MODELS = (
    "sequences_at_once",
    "max_input_tokens",
    "source_lang",
    "target_lang",
)  # not of servers


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


@settings
class SourceOptions:
    """The inputs.

    Args:
        input: the file of inputs (.gz too; .csv, .tsv, .parquet, .arrow, .arrows, .feather), or - for stdin.
        input_format: its format: jsonl (id, source, and document, position, references where there are some) or text
            (one input per line).
        columns: which column of a table, or key of JSON lines, is which key, such as source=prompt.
    """

    input: str | None = None
    input_format: Literal["jsonl", "text"] = "jsonl"
    columns: tuple[str, ...] = ()


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


@command(
    "Write a candidate list for every input. Run the same command again to resume after an interruption.",
    positional={"input": "?"},
    short={"output": "o", "num_candidates": "n", "utility": "u"},
    hidden=["max_calls", "max_tokens"],
    first=["input", "generator", "num_candidates", "output", "prompt", "utility"],
    examples=[
        "generate examples:inputs.jsonl --generator smollm2 -n 4 --max-new-tokens 8 -o lists.jsonl",
        "generate examples:src.txt --from text --generator Helsinki-NLP/opus-mt-de-en -n 16 -o lists.jsonl",
        "generate inputs.jsonl --backend server --base-url http://localhost:8000/v1 --generator MODEL -o out.jsonl",
    ],
)
def generate(
    options: SourceOptions,
    model: BackendOptions,
    drawing: GenerationSettings,
    connection: Connection | None,
    server: ServerOptions,
    probe: ProbeOptions,
    choice: ChoiceOptions,
    to: OutputOptions,
    metrics: MetricOptions,
    given: Given,
) -> int:
    """Generates; returns the exit code."""
    model.check(probe, given, ServerOptions, OF_MODELS)
    if choice.utility is None:
        given.refuse(("weights", "self_pair"), "has no effect where no utility chooses")
        fix = "Name the model that generates with --generator"
        given.refuse(MODELS, "is that of a metric", fix)
    weighs_by_logprob = choice.utility is not None and choice.weights == "logprob"
    drawing = replace(
        drawing,
        logprobs=drawing.logprobs or weighs_by_logprob,
        stop=tuple(map(unescaped, drawing.stop)),
    )
    if probe.probe:
        asking = server_generator(model, drawing, server, connection)
        print_facts(asking.connection, asking.facts)
        return 0
    path = needed(options.input, "input", "INPUT")
    out = check_output(to.output, [path, model.examples])
    template, first_template = model.templates()
    decider = None
    if choice.utility is not None:
        (utility,) = metrics.load_all([choice.utility])
        decider = MBRDecoder(utility, weights=choice.weights, self_pair=choice.self_pair)
    generator: Generator
    if model.backend == "server":
        generator = server_generator(model, drawing, server, connection, not probe.skip_probe)
    else:
        from ...integrations.huggingface import HuggingFaceGenerator

        loaded, digest = model.loaded(needed(model.generator, "generator"), metrics.models)
        generator = HuggingFaceGenerator(loaded.model, loaded.tokenizer, drawing, digest)
    engine = LocalEngine(metrics.cache())
    turns = Turns(
        generator, template, first_template, model.context, decider, engine, model.few_shot()
    )
    watch = GenerationWatch(turns)
    with (
        closing(open_rows(path, options.columns, "input")) as source,
        Progress("lists", source.fraction, watch) as progress,
    ):
        about = {"seeds": {"generation": drawing.seed}}
        entries = watch.counted(read_prompts(source, options.input_format))
        counts = run_generation(turns, entries, source.name, out, model.max_errors, progress, about)
    done = closing_line(counts, source.name, out, "inputs", "generated")
    say(f"{done}{watch.tokens}")
    return 3 if counts.get("errors") else 0


def server_generator(
    model: BackendOptions,
    drawing: GenerationSettings,
    server: ServerOptions,
    connection: Connection | None,
    probes: bool = True,
) -> ServerGenerator:
    """The generator of a server.

    Raises:
        InputError: a way of sampling that servers do not have; further as `ServerSettings`.
    """
    top_p = _top_p(drawing.sampling, drawing.cutoff, "sampling")
    reference_top_p = _top_p(
        drawing.reference_sampling, drawing.reference_cutoff, "reference_sampling"
    )
    longest = drawing.max_new_tokens
    own_settings = ServerSettings(
        model=needed(model.generator, "generator"),
        chat=drawing.chat,
        system=server.system,
        num_candidates=drawing.num_candidates,
        temperature=drawing.temperature,
        top_p=top_p or 1.0,
        num_references=drawing.num_references,
        reference_temperature=drawing.reference_temperature,
        reference_top_p=reference_top_p,
        seed=drawing.seed,
        **({} if longest is None else {"max_new_tokens": longest}),
        logprobs=drawing.logprobs,
        top_logprobs=drawing.top_logprobs,
        stop=drawing.stop,
        request=server.request,
    )
    return ServerGenerator(own_settings, needed(connection, "base_url"), probes)


def _top_p(method: str | None, cutoff: float | None, name: str) -> float | None:
    """The nucleus that a way of sampling stands for: 1 is ancestral sampling, None where the option is not given."""
    if method == "nucleus":
        return NUCLEUS if cutoff is None else cutoff
    if method not in ("ancestral", None):
        fix = f"Give {flag_of(name)} ancestral or nucleus; more with --request"
        raise InputError(f"servers do not know {method} sampling", where=name, fix=fix)
    if cutoff is not None:
        where = name.replace("sampling", "cutoff")
        raise InputError(
            f"{method or 'no'} sampling has no cutoff", where=where, fix="Leave it out"
        )
    return None if method is None else 1.0


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
