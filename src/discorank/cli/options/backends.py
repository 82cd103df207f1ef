"""The model that generates or scores, of Hugging Face or behind a server, and the prompts that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...integrations.server.exchange import Client
from ...integrations.server.server_probe import ProbeOptions, table_of
from ...integrations.server.settings import Connection
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, setting_names, settings
from ...metrics.text.prompt_template import Template, read_examples
from .command_options import Given, ModelOptions

if TYPE_CHECKING:
    from ...integrations.huggingface.model_loading import LoadedModel


@settings
class BackendOptions:
    """The model, where it runs, and its prompts.

    Args:
        backend: huggingface, or server for a model on a server.
        generator: the model: a folder, a GGUF file, a name on the hub or on the server, or what a package brings:
            smollm2 (Apache-2.0) or gemma3-270m (Gemma terms of use, ai.google.dev/gemma/terms).
        revision: which revision on the hub.
        prompt: what the model reads before the text: {source} is the source, {source_context} and {target_context} are
            the preceding sentences of its document and what was chosen for them, any other {name} is a key of the
            input. {source} alone if not given; decoder-only models that score need one.
        first_prompt: the prompt of inputs without preceding sentences, where it is another.
        examples: a file of JSON lines with source, target and any other key that the prompt reads: few-shot examples
            before the prompt of every input, each followed by an empty line.
        context: how many preceding sentences the contexts hold.
        max_errors: how many error records a run may write before it stops.
    """

    backend: Literal["huggingface", "server"] = "huggingface"
    generator: str | None = None
    revision: str | None = None
    prompt: str | None = None
    first_prompt: str | None = None
    examples: str | None = None
    context: Annotated[int, Field(ge=0)] = 0
    max_errors: Annotated[int, Field(ge=0)] = 0

    def templates(self, default: str = "{source}") -> tuple[Template, Template | None]:
        """The prompt, and the one of inputs without preceding sentences where it is another."""
        first = self.first_prompt
        template = Template(default if self.prompt is None else self.prompt)
        return template, None if first is None else Template(first, "first_prompt")

    def few_shot(self) -> Any:
        """The few-shot examples; None without any."""
        return read_examples(self.examples) if self.examples else None

    def check(
        self, probe: ProbeOptions, given: Given, of_server: type, of_model: Sequence[str]
    ) -> None:
        """Refuse the options that only the other backend has.

        Args:
            probe: whether the server is probed.
            given: all options.
            of_server: further options of servers.
            of_model: names of options of models of Hugging Face.

        Raises:
            InputError: one of them is given.
        """
        others: list[str] = [*of_model, "revision"]
        if self.backend != "server":
            if probe.probe:
                raise InputError("is for servers", where="probe", fix="Add --backend server")
            kinds: Sequence[Any] = (Connection, of_server, ProbeOptions)
            others = [name for kind in kinds for name in setting_names(kind)]
        given.refuse(others, f"is no option of the backend {self.backend}")

    def loaded(self, name: str, models: ModelOptions) -> tuple[LoadedModel, str]:
        """Load a model of Hugging Face; return it with the digest that results depend on."""
        from ...integrations.huggingface.model_loading import load

        dtype = models.dtype or "float32"
        loaded = load(name, self.revision, models.device, dtype)
        return loaded, f"sha256:{loaded.digest} {dtype}"


def print_facts(connection: Connection, facts: Any) -> None:
    """Print the table of ``--probe``; `facts` is the coroutine function that asks the server."""
    with Client(connection) as client:
        print(table_of(client.result_of(facts)))
