"""What a request may cost: how many texts of how many tokens, bounded before anything goes upstream.

One account for all requests, chosen and passed through, on every path, over the keys of every protocol that servers
of this kind speak: a bound that holds for one key alone is none. Keys count in any case of their letters, as servers
in Go read them so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

from .api_errors import bad, shown
from .settings import DrawingSettings

# how many tokens a text may have
TOKEN_KEYS = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "max_tokens_to_sample",
    "max_length",
    "n_predict",
    "num_predict",
    "maxOutputTokens",
)
MIN_TOKEN_KEYS = ("min_tokens", "min_new_tokens", "min_length", "budget_tokens")
# how many texts a prompt has
TEXT_KEYS = ("n", "best_of", "num_return_sequences", "num_beams", "beam_width", "candidate_count")
# where these may stand beside the request itself
INNER = ("options", "parameters", "sampling_params", "thinking", "extra_body", "generationConfig")
# which keys bound the tokens of what a path answers, in every server
KEYS_OF_PATH = {
    "chat/completions": ("max_tokens", "max_completion_tokens"),
    "completions": ("max_tokens",),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}
MAX_COUNT = 1 << 31
_FOLDED_TOKEN_KEYS = {key.casefold() for key in TOKEN_KEYS}
_FOLDED_INNER = {key.casefold() for key in INNER}


class Cost(NamedTuple):
    """What a request asks for: texts in all, and of how many tokens each at most, None if it does not say."""

    num_texts: int
    tokens: int | None


def bounded(body: Mapping[str, Any], path: str, drawing: DrawingSettings) -> dict[str, Any]:
    """A request that passes through, within the bounds.

    Args:
        body: the request; what is over a bound is lowered in a copy where `drawing.over_limit` says so.
        path: beneath the address of the server.
        drawing: the bounds.

    Raises:
        ApiError: it is over a bound, or says something that is no number.
    """
    inner = {key: dict(part) for key, part in body.items() if _is_inner(key, part)}
    result = {**body, **inner}
    num_prompts = _num_prompts(body)
    texts = max(1, drawing.most_candidates // num_prompts)
    if num_prompts > drawing.most_candidates:
        problem = f"found {num_prompts} prompts, at most {drawing.most_candidates} texts are given"
        raise bad(problem, "prompt")
    keep_below(result, TEXT_KEYS, texts, drawing, "texts are given")
    if drawing.max_candidate_tokens is None and drawing.max_request_tokens is None:
        return result
    _keep_tokens(result, drawing)
    num_texts = cost_of(result).num_texts
    bounded_tokens(result, path, default_tokens(num_texts, num_texts, drawing))
    _keep_total(result, num_texts, drawing)
    return result


def bounded_tokens(body: MutableMapping[str, Any], path: str, default: int | None) -> int | None:
    """The most tokens of each text of a request, once it has a key for them that no server of its path overlooks.

    Args:
        body: the request, which gets that key where it has none, or others alone.
        path: beneath the address of the server.
        default: the most tokens of a request that does not say it; None where there is no bound.
    """
    if default is None:
        return None  # whatever stands there, which nobody looked at
    tokens = cost_of(body).tokens
    keys = KEYS_OF_PATH.get(path, ())
    if not keys or any(body.get(key) is not None for key in keys):
        return tokens
    body[keys[0]] = default if tokens is None else min(default, tokens)
    return cost_of(body).tokens


def cost_of(body: Mapping[str, Any]) -> Cost:
    """The cost of a request whose numbers were looked at."""
    texts = [part[key] for part, key in _found(body, TEXT_KEYS)]
    tokens = [part[key] for part, key in _found(body, TOKEN_KEYS)]
    return Cost(_num_prompts(body) * max([1, *texts]), max(tokens) if tokens else None)


def keep_choices(body: MutableMapping[str, Any], wanted: int, drawing: DrawingSettings) -> None:
    """Keeps the tokens of a request whose answer is chosen within their bounds.

    Args:
        body: the request, whose numbers are lowered where `drawing.over_limit` says so.
        wanted: how many choices the answer has, all of which have to be within the bound of all tokens.
        drawing: the bounds.

    Raises:
        ApiError: it asks for more, or for something that is no number.
    """
    if drawing.max_candidate_tokens is None and drawing.max_request_tokens is None:
        return
    _keep_tokens(body, drawing)
    if drawing.max_request_tokens is not None:
        share = max(1, drawing.max_request_tokens // wanted)
        what = f"are given to each of {wanted}"
        keep_below(body, (*TOKEN_KEYS, *MIN_TOKEN_KEYS), share, drawing, what)


def default_tokens(num_texts: int, wanted: int, drawing: DrawingSettings) -> int | None:
    """The most tokens of each text of a request that does not say it; None where there is no bound.

    Args:
        num_texts: how many are drawn, which is fewer where each may have `drawing.max_candidate_tokens`.
        wanted: how many have to be.
        drawing: the bounds.
    """
    budget, cap = drawing.max_request_tokens, drawing.max_candidate_tokens
    if budget is None:
        return cap
    if cap is None:
        return max(1, budget // num_texts)
    return min(cap, max(1, budget // wanted))


def keep_below(
    body: MutableMapping[str, Any],
    keys: tuple[str, ...],
    bound: int | None,
    drawing: DrawingSettings,
    what: str,
) -> None:
    """Lowers what is over a bound, or raises ApiError for it, as the settings say; also for what is no number."""
    for part, key in _found(body, keys):
        number = part[key]
        # some servers take 0 tokens for as many as there may be
        least = 1 if key.casefold() in _FOLDED_TOKEN_KEYS else 0
        if type(number) is not int or not least <= number < MAX_COUNT:
            problem = (
                f"found {shown(number)}, expected a whole number from {least} below {MAX_COUNT}"
            )
            raise bad(problem, key)
        if bound is not None and number > bound:
            if drawing.over_limit == "refuse":
                raise bad(f"found {number}, at most {bound} {what}", key)
            part[key] = bound


def _keep_tokens(body: MutableMapping[str, Any], drawing: DrawingSettings) -> None:
    """Keeps every number of tokens within the bound of a text."""
    cap = drawing.max_candidate_tokens
    keep_below(body, (*TOKEN_KEYS, *MIN_TOKEN_KEYS), cap, drawing, "tokens are given")


def _keep_total(body: MutableMapping[str, Any], num_texts: int, drawing: DrawingSettings) -> None:
    """Keeps the tokens of all texts together within their bound."""
    budget = drawing.max_request_tokens
    keys = (*TOKEN_KEYS, *MIN_TOKEN_KEYS)
    tokens = max((part[key] for part, key in _found(body, keys)), default=0)
    if budget is None or num_texts * tokens <= budget:
        return
    share = budget // num_texts
    if drawing.over_limit == "refuse" or share < 1:
        problem = f"{num_texts} texts of {tokens} tokens, at most {budget} are given"
        raise bad(problem, "n")
    keep_below(body, keys, share, drawing, "tokens are given")


def _found(
    body: Mapping[str, Any], keys: tuple[str, ...]
) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    """The places of a request that say something under one of the keys."""
    wanted = {key.casefold() for key in keys}
    inner = [part for key, part in body.items() if _is_inner(key, part)]
    for part in (body, *inner):
        for key in [key for key in part if key.casefold() in wanted]:
            if part[key] is not None:
                yield part, key


def _is_inner(key: str, value: Any) -> bool:
    """Whether a value of a request is an object in which numbers of this kind may stand."""
    return isinstance(value, dict) and key.casefold() in _FOLDED_INNER


def _num_prompts(body: Mapping[str, Any]) -> int:
    """How many prompts a request has: texts, or lists of tokens."""
    prompt = body.get("prompt")
    if not isinstance(prompt, list) or all(isinstance(token, int) for token in prompt):
        return 1
    return max(1, len(prompt))
