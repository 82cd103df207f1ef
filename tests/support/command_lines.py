"""A good command line of each subcommand; IN stands for its input, OUT for its output."""

from __future__ import annotations

from collections.abc import Mapping

GENERATE = (
    "generate",
    "IN",
    "--backend",
    "server",
    "--base-url",
    "http://localhost:9/v1",
    "-n",
    "1",
)
COMMAND_LINES: Mapping[str, tuple[str, ...]] = {
    "decode": ("decode", "IN", "-u", "chrf", "-o", "OUT"),
    "rerank": ("rerank", "IN", "-m", "logprob", "-o", "OUT"),
    "explain": ("explain", "IN", "-u", "chrf"),
    "compare": ("compare", "IN", "-m", "chrf", "--draws", "10"),
    "compare --save": ("compare", "IN", "-m", "chrf", "--draws", "10", "--save", "OUT"),
    "report": ("report", "IN", "-o", "OUT"),
    "check": ("check", "IN"),
    "generate": (
        *GENERATE,
        *("--generator", "m", "--sampling", "ancestral", "--retries", "0", "-o", "OUT"),
    ),
    "logprobs": (
        *("logprobs", "IN", "--backend", "server", "--base-url", "http://localhost:9/v1"),
        *("--generator", "m", "--prompt", "{source} ", "--retries", "0", "-o", "OUT"),
    ),
    "sescore2": ("train", "sescore2", "texts", "IN", "-o", "OUT"),
    "combination": ("train", "combination", "IN", "-m", "chrf", "--teacher", "bleu", "-o", "OUT"),
    "prior": ("train", "prior", "IN", "--human", "mqm:lower", "-o", "OUT"),
    "rst": ("train", "rst", "IN", "-o", "OUT"),
    "roles": ("train", "roles", "IN", "-o", "OUT"),
}
