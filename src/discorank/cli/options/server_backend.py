"""The generator of ``discorank generate --backend server``, from the options of the command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...integrations.server import Connection, ServerGenerator, ServerSettings
from ...integrations.server.settings import further_keys
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import settings
from . import build, needed

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
    return ServerGenerator(server_settings, build(Connection, values))


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
