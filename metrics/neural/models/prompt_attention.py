"""Attention over shared prompts as an attention implementation of transformers, and which models can be run with it.

A model calls it for every layer with the arguments of its attention interface; what attends to what comes with the
pass (`Attending`), so that no mask is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .prompt_pass import PromptPass
from .span_attention import Attention

NAME = "discorank-prompts"
# Kinds of layers that can run packed.
LAYERS = {"full_attention", "sliding_attention"}
# Settings of configurations with experts, where the rows of a product are as many as tokens chose it.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def attends_over_interface(model: Any, config: Any) -> bool:
    """Whether all layers of a model attend over the interface, as far as its class and configuration say."""
    layers = set(getattr(config, "layer_types", None) or ())
    if not layers <= LAYERS or any(getattr(config, name, None) for name in EXPERTS):
        return False
    return bool(getattr(type(model), "_supports_attention_backend", False))


def use_prompt_attention(model: Any) -> None:
    """Makes a model attend over shared prompts: every pass needs ``attend=``, an `Attending`."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _no_mask)
    model.set_attn_implementation(NAME)


def rope_types(config: Any) -> set[str]:
    """The kinds of rotary positions that a configuration names, of all kinds of layers."""
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(parameters, Mapping):
        return set()
    of_layers = [value for value in parameters.values() if isinstance(value, Mapping)]
    kinds = [one.get("rope_type") or one.get("type") for one in (parameters, *of_layers)]
    return {str(kind) for kind in kinds if kind}


class Attending:
    """The attention of one pass, for layers with windows and without."""

    def __init__(self, prompt_pass: PromptPass, rows: int, device: Any) -> None:
        self.prompt_pass, self.rows, self.device = prompt_pass, rows, device
        self.by_window: dict[int | None, Attention] = {}

    def within(self, window: int | None) -> Attention:
        """That of layers with a window of so many tokens."""
        if window not in self.by_window:
            spans, before = self.prompt_pass.spans, self.prompt_pass.before
            self.by_window[window] = Attention(
                spans, before, self.rows, self.device, own=True, window=window
            )
        return self.by_window[window]


def _attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    *,
    attend: Attending,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **_: Any,
) -> tuple[Any, None]:
    """Attention as transformers calls it: query [1, heads, tokens, d], key and value [1, key heads, tokens, d]."""
    if softcap is not None or s_aux is not None:
        raise ValueError("attention of another kind")
    scaling = scaling or query.shape[-1] ** -0.5
    # Tokens first: [tokens, heads, d].
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    return attend.within(sliding_window)(q, k, v, scaling)[None], None


def _no_mask(*_: Any, **__: Any) -> None:
    return None
