"""Commands that run with every subcommand, or with every metric of a kind.

Both versions must know all of SUBCOMMANDS and METRICS; a name that only one knows shows as a difference.
"""

from __future__ import annotations

SUBCOMMANDS = (
    "decode",
    "rerank",
    "explain",
    "score",
    "compare",
    "report",
    "check",
    "convert",
    "generate",
    "logprobs",
    "cite",
    "metrics",
    "train",
    "train rst",
    "train roles",
    "train sescore2",
    "train combination",
    "train prior",
)
METRICS = (
    "bartscore",
    "bartscore-faithfulness",
    "bertscore",
    "bleu",
    "chrf",
    "chrf++",
    "combination",
    "comet",
    "comet-qe",
    "discotk-light",
    "doc-bertscore",
    "doc-comet",
    "doc-comet-qe",
    "doc-prism",
    "dr",
    "dr-lex",
    "dr-nolex",
    "ds-focus",
    "ds-sent",
    "entity-graph",
    "lexical-chain",
    "meteor",
    "nist",
    "pdd",
    "prism",
    "role-match",
    "rouge-l",
    "rouge-w",
    "sescore2",
    "ter",
)
# metrics of words, of discourse trees, and of nouns
LEXICAL = ("chrf", "chrf++", "bleu", "ter", "rouge-l", "rouge-w", "meteor")
TREES = ("dr", "dr-nolex", "dr-lex", "discotk-light")
NOUNS = ("cohesion", "lexical-chain", "entity-graph")
# subcommands that refuse to run without input
NEED_INPUT = ("decode", "rerank", "explain", "check", "convert", "score", "compare")

# names, and the lines that each of them makes; {dashed} is the name without spaces
FAMILIES = (
    (SUBCOMMANDS, ("help-{dashed}: alone {name} --help",)),
    (METRICS, ("metric-{name}: metrics {name}", "cite-{name}: cite {name}")),
    (LEXICAL, ("decode-{name}: decode lists.jsonl -u {name} --nbest 3 -o @/out.jsonl",)),
    (TREES, ("decode-{name}: decode summaries.jsonl -u {name} --nbest 2 -o @/out.jsonl",)),
    (NOUNS, ("decode-{name}: decode summaries.jsonl -u {name} -o @/out.jsonl",)),
    (NEED_INPUT, ("no-input-{name}: {name}",)),
)


def family_lines() -> list[str]:
    """The lines of all families, written as in ``commands.txt``."""
    lines = []
    for names, templates in FAMILIES:
        for name in names:
            dashed = name.replace(" ", "-")
            lines += [template.format(name=name, dashed=dashed) for template in templates]
    return lines
