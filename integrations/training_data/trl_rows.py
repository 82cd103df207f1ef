"""Rows of the forms that TRL documents for data sets, standard and conversational, with where they come from beside.

    pairs      {"prompt", "chosen", "rejected"}        preferences with an explicit prompt
    sft        {"prompt", "completion"}                prompt and completion
    kto        {"prompt", "completion", "label"}       unpaired preferences
    ranking    {"prompt", "completions", "utilities"}  best first; TRL has no such form, losses over lists take it
In the standard form a prompt and a completion are texts, in the conversational one lists of messages. Beside them stand
`id`, the list; `utility`, the signature of what decided it; the values, and gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...metrics.errors import InputError, excerpt
from ...metrics.text.prompt_template import Template
from ...metrics.text.texts import NO_CONTEXT
from .decided_lists import DecidedList
from .preference_pairs import PreferencePair, are_equal, valued

Kind = Literal["pairs", "sft", "ranking", "kto"]
Row = dict[str, Any]
_ROLES = frozenset({"system", "user", "assistant", "developer", "tool"})


@dataclass(frozen=True)
class RowPrompts:
    """What stands in rows as prompt, and how completions stand beside it.

    Args:
        template: the prompt of a list, with the fields of ``discorank generate``.
        conversational: whether rows hold messages.
        system: a message before the prompt.
        messages: the key of lists that holds the messages of the conversation, in place of the template.

    Raises:
        InputError: messages in rows that hold texts, or a template that reads context.
    """

    template: Template
    conversational: bool = False
    system: str | None = None
    messages: str | None = None

    def __post_init__(self) -> None:
        if not self.conversational and (self.system is not None or self.messages is not None):
            where = "messages" if self.system is None else "system"
            problem = "is for rows that hold messages"
            raise InputError(problem, where=f"--{where}", fix="Add --conversational")
        if self.template.reads_context:
            problem = "reads the sentences before, which rows do not hold"
            raise InputError(problem, where="--prompt", fix="Put in a key of the lists")

    def prompt(self, decided: DecidedList) -> Any:
        """The prompt of a list.

        Raises:
            InputError: the list has no source, or nothing under a key.
        """
        if self.messages is not None:
            first = _messages(decided.extra, self.messages)
        else:
            text = self._text(decided)
            if not self.conversational:
                return text
            first = [{"role": "user", "content": text}]
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*system, *first]

    def completion(self, text: str) -> Any:
        """A text behind the prompt."""
        return [{"role": "assistant", "content": text}] if self.conversational else text

    def _text(self, decided: DecidedList) -> str:
        if decided.source is None and "source" in self.template.fields:
            problem = "no source, which the prompt reads"
            fix = "Give the run --sources, or --prompt with a key that lists have"
            raise InputError(problem, where="source", fix=fix)
        source = "" if decided.source is None else str(decided.source)
        return self.template.filled(source, NO_CONTEXT, decided.extra)


def _messages(extra: Mapping[str, Any], key: str) -> list[dict[str, str]]:
    """The messages under a key."""
    value = extra.get(key)
    fix = 'Messages are [{"role": "user", "content": "..."}]'
    if not isinstance(value, list) or not value:
        raise InputError(f"found {excerpt(value)}, expected messages", where=key, fix=fix)
    messages = []
    for i, message in enumerate(value):
        where = f"{key}[{i}]"
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if role not in _ROLES or not isinstance(content, str):
            problem = f"found {excerpt(message)}, expected a role and a text"
            raise InputError(problem, where=where, fix=fix)
        messages.append({"role": str(role), "content": content})
    return messages


def pair_rows(
    decided: DecidedList, prompts: RowPrompts, pairs: Sequence[PreferencePair], utility: str
) -> Iterator[Row]:
    """A row for every pair."""
    prompt = prompts.prompt(decided) if pairs else None
    for pair in pairs:
        yield {
            "prompt": prompt,
            "chosen": prompts.completion(pair.chosen.text),
            "rejected": prompts.completion(pair.rejected.text),
            "id": decided.id,
            "utility": utility,
            "chosen_utility": pair.chosen.utility,
            "rejected_utility": pair.rejected.utility,
            "gap": pair.gap,
            "standardised_gap": pair.standardised_gap,
        }


def label_rows(
    decided: DecidedList, prompts: RowPrompts, pairs: Sequence[PreferencePair], utility: str
) -> Iterator[Row]:
    """A row for every text that is only preferred in the pairs, or only the other; what is both has no label."""
    preferred = {pair.chosen: True for pair in pairs}
    others = {pair.rejected: False for pair in pairs}
    labels = preferred | others
    prompt = prompts.prompt(decided) if pairs else None
    for text, label in labels.items():
        if text in preferred and text in others:
            continue
        yield {
            "prompt": prompt,
            "completion": prompts.completion(text.text),
            "label": label,
            "id": decided.id,
            "utility": utility,
            "completion_utility": text.utility,
            "standardised_utility": text.standardised,
        }


def chosen_rows(decided: DecidedList, prompts: RowPrompts, utility: str) -> Iterator[Row]:
    """The row of the chosen text; none where nothing in the list has a value."""
    best = decided.standings[0]
    if best.utility is None:
        return
    yield {
        "prompt": prompts.prompt(decided),
        "completion": prompts.completion(best.text),
        "id": decided.id,
        "utility": utility,
        "completion_utility": best.utility,
        "gap": decided.gap,
    }


def ranking_rows(decided: DecidedList, prompts: RowPrompts, utility: str) -> Iterator[Row]:
    """The row of all texts, best first; none where they are all as good as each other."""
    texts = valued(decided.standings)
    if not texts or are_equal(texts[0].utility, texts[-1].utility):
        return
    yield {
        "prompt": prompts.prompt(decided),
        "completions": [prompts.completion(text.text) for text in texts],
        "utilities": [text.utility for text in texts],
        "id": decided.id,
        "utility": utility,
        "gap": texts[0].utility - texts[1].utility,
    }
