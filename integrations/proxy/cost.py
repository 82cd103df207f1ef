"""What a request may cost: how many texts of how many tokens, bounded before anything goes upstream.

One account for all requests, chosen and passed through, on every path, over the keys of every protocol that servers
of this kind speak: a bound that holds for one key alone is none.
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
# which key bounds the tokens of what a path answers
KEY_OF_PATH = {
    "chat/completions": "max_tokens",
    "completions": "max_tokens",
    "responses": "max_output_tokens",
    "messages": "max_tokens",
}
MAX_COUNT = 1 << 31


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
    result = {**body, **{key: dict(body[key]) for key in INNER if isinstance(body.get(key), dict)}}
    num_prompts = _num_prompts(body)
    texts = max(1, drawing.most_candidates // num_prompts)
    if num_prompts > drawing.most_candidates:
        problem = f"found {num_prompts} prompts, at most {drawing.most_candidates} texts are given"
        raise bad(problem, "prompt")
    keep_below(result, TEXT_KEYS, texts, drawing, "texts are given")
    if drawing.max_candidate_tokens is None and drawing.max_request_tokens is None:
        return result
    _keep_tokens(result, drawing)
    cost = cost_of(result)
    if cost.tokens is None and path in KEY_OF_PATH:
        tokens = default_tokens(cost.num_texts, cost.num_texts, drawing)
        if tokens is not None:
            result[KEY_OF_PATH[path]] = tokens
    else:
        _keep_total(result, cost, drawing)
    return result


def cost_of(body: Mapping[str, Any]) -> Cost:
    """The cost of a request whose numbers were looked at."""
    texts = [part[key] for part, key in _found(body, TEXT_KEYS)]
    tokens = [part[key] for part, key in _found(body, TOKEN_KEYS)]
    return Cost(_num_prompts(body) * max([1, *texts]), max(tokens) if tokens else None)


def tokens_of_choices(
    body: MutableMapping[str, Any], wanted: int, drawing: DrawingSettings
) -> int | None:
    """The most tokens that a request asks of each candidate that is drawn for it; None if it says nothing.

    Args:
        body: the request, whose numbers are lowered where `drawing.over_limit` says so.
        wanted: how many choices the answer has, all of which have to be within the bound of all tokens.
        drawing: the bounds.

    Raises:
        ApiError: it asks for more, or for something that is no number.
    """
    if drawing.max_candidate_tokens is None and drawing.max_request_tokens is None:
        return None
    _keep_tokens(body, drawing)
    if drawing.max_request_tokens is not None:
        share = max(1, drawing.max_request_tokens // wanted)
        what = f"are given to each of {wanted}"
        keep_below(body, (*TOKEN_KEYS, *MIN_TOKEN_KEYS), share, drawing, what)
    return cost_of(body).tokens


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
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < MAX_COUNT:
            problem = f"found {shown(number)}, expected a whole number below {MAX_COUNT}"
            raise bad(problem, key)
        if bound is not None and number > bound:
            if drawing.over_limit == "refuse":
                raise bad(f"found {number}, at most {bound} {what}", key)
            part[key] = bound


def _keep_tokens(body: MutableMapping[str, Any], drawing: DrawingSettings) -> None:
    """Keeps every number of tokens within the bound of a text."""
    cap = drawing.max_candidate_tokens
    keep_below(body, (*TOKEN_KEYS, *MIN_TOKEN_KEYS), cap, drawing, "tokens are given")


def _keep_total(body: MutableMapping[str, Any], cost: Cost, drawing: DrawingSettings) -> None:
    """Keeps the tokens of all texts together within their bound."""
    budget = drawing.max_request_tokens
    if budget is None or cost.tokens is None or cost.num_texts * cost.tokens <= budget:
        return
    share = budget // cost.num_texts
    if drawing.over_limit == "refuse" or share < 1:
        problem = f"{cost.num_texts} texts of {cost.tokens} tokens, at most {budget} are given"
        raise bad(problem, "n")
    keep_below(body, (*TOKEN_KEYS, *MIN_TOKEN_KEYS), share, drawing, "tokens are given")


def _found(
    body: Mapping[str, Any], keys: tuple[str, ...]
) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    """The places of a request that say something under one of the keys."""
    inner = (body.get(key) for key in INNER)
    for part in (body, *inner):
        if isinstance(part, MutableMapping):
            yield from ((part, key) for key in keys if part.get(key) is not None)


def _num_prompts(body: Mapping[str, Any]) -> int:
    """How many prompts a request has: texts, or lists of tokens."""
    prompt = body.get("prompt")
    if not isinstance(prompt, list) or all(isinstance(token, int) for token in prompt):
        return 1
    return max(1, len(prompt))
