"""A student fine-tuned on what MBR chose: how much of MBR's gain does its beam search have, at a beam's cost?

    python -m benchmarks.training.student_of_choices DATA TEACHER WORK [--train 3200] [--test 1000] [--epochs 6]

DATA are the captions and TEACHER the model that `caption_model` trained on them. The teacher draws candidates for
captions of its training part (their references are never read), `discorank decode` chooses, `discorank export sft`
writes what was chosen as prompts and completions, and a copy of the teacher is fine-tuned on these. The control is
fine-tuned in the same way on the first candidate of each list in place of the choice.

The table compares on the last captions, which no model has seen: the beam of teacher, control and student, and the
teacher's MBR. chrF, BLEU and TER are those of the corpus, BERTScore the mean F1 with MiniLM, all with 95 % intervals by
bootstrap over captions (1000 draws, the same for all rows); "share" is the student's gain over the teacher's beam in
parts of MBR's. Every step keeps what it has done in WORK: the same command goes on after a kill.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.support.measuring import cpu_seconds
from benchmarks.training.caption_model import HELD_BACK, LONGEST, batches, captions, loss_of
from discorank import load_metric
from discorank.cli.main import main as discorank
from discorank.metrics.execution.evaluate import scores_and_statistics

BEAM, SAMPLES, DRAWS, SEED = 5, 32, 1000, 1
RATE, WARM_UP = 3e-4, 0.1
MEASURES = {"chrF": "chrf", "BLEU": "bleu", "TER": "ter", "BERTScore": 'bertscore(model="minilm")'}
LOWER = ("TER",)
Scores = dict[
    str, np.ndarray[Any, Any]
]  # by measure: the score and those of every draw, [1 + draws]


def command(*arguments: object) -> None:
    """Runs a command of discorank in this process; a run that is there already is looked at and left."""
    code = discorank([str(argument) for argument in arguments])
    if code:
        raise SystemExit(code)


def write_sources(path: Path, pairs: Sequence[tuple[str, str]], with_references: bool) -> None:
    """The German sides as inputs of ``discorank generate``."""
    rows = []
    for i, (german, english) in enumerate(pairs):
        references = {"references": [english]} if with_references else {}
        rows.append(json.dumps({"id": str(i), "source": german, **references}, ensure_ascii=False))
    if not path.exists():
        path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def generated(inputs: Path, model: Path, out: Path, *options: object) -> Path:
    """The candidate lists of a model."""
    common = ("--max-new-tokens", 60, "--set", "sequences_at_once=256", "--device", "cpu")
    command("generate", inputs, "--generator", model, "-o", out, *common, *options)
    return out


def beam(inputs: Path, model: Path, out: Path) -> Path:
    """The beams of a model."""
    return generated(inputs, model, out, "-n", BEAM, "--sampling", "beam")


def samples(inputs: Path, model: Path, out: Path, temperature: float) -> Path:
    """Samples of a model."""
    how = ("--sampling", "epsilon", "--temperature", temperature, "--seed", SEED)
    return generated(inputs, model, out, "-n", SAMPLES, *how)


def decoded(lists: Path, utility: str, out: Path) -> Path:
    """What MBR chose, with every place."""
    command("decode", lists, "-u", utility, "--nbest", "all", "-o", out)
    return out


def texts_in(path: Path, of_list: bool) -> list[str]:
    """The chosen texts of a run, or the first candidates of lists."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if not of_list:
        return [row["text"] for row in rows]
    first = [row["candidates"][0] for row in rows]
    return [one["text"] if isinstance(one, dict) else one for one in first]


def pairs_of(path: Path) -> list[tuple[str, str]]:
    """(prompt, completion) of exported rows."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [(row["prompt"], row["completion"]) for row in rows]


def fine_tuned(teacher: Path, pairs: Sequence[tuple[str, str]], folder: Path, epochs: int) -> None:
    """Fine-tunes a copy of the teacher; what it was after each epoch is kept until it is done."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    if (folder / "model.safetensors").exists():
        return
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokenizer: Any = AutoTokenizer.from_pretrained(teacher)
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(teacher, dtype=torch.float32)
    encoded = [tuple(tokenizer(list(pair))["input_ids"]) for pair in pairs]
    short = [pair for pair in encoded if max(map(len, pair)) <= LONGEST]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    num_steps = epochs * sum(1 for _ in batches(short, 0))
    kept = folder.with_suffix(".kept.pt")
    first, step = 0, 0
    if kept.exists():
        state = torch.load(kept, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        first, step = state["epoch"], state["step"]
    for epoch in range(first, epochs):
        model.train()
        begun, losses = process_time(), []
        for batch in batches(short, epoch):
            done = step / num_steps
            rate = RATE * min(done / WARM_UP, (1 - done) / (1 - WARM_UP))
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = loss_of(model, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
            step += 1
        spent = process_time() - begun
        mean = sum(losses) / len(losses)
        print(f"{folder.name}, epoch {epoch + 1}: loss {mean:.3f}, {spent:.0f} s", flush=True)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state |= {"random": torch.get_rng_state(), "epoch": epoch + 1, "step": step}
        unfinished = kept.with_suffix(".part")
        torch.save(state, unfinished)
        os.replace(unfinished, kept)
    unfinished = folder.with_suffix(".part")
    model.eval()
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    os.replace(unfinished, folder)
    kept.unlink()


def scores(texts: Sequence[str], references: Sequence[str]) -> Scores:
    """Corpus scores by every measure, and their bootstrap."""
    size = len(references)
    draws = np.random.default_rng(0).integers(size, size=(DRAWS, size))
    measured = {}
    for name, spec in MEASURES.items():
        ((_, metric),) = load_metric(spec).parts
        values, statistics = scores_and_statistics(
            metric, metric.segments(texts, references, None, None)
        )
        if name == "BERTScore":
            values = 100 * np.asarray(values)
            measured[name] = np.array([values.mean(), *(values[draw].mean() for draw in draws)])
            continue
        scorer = metric.scorer
        drawn = [scorer.aggregate(statistics[draw]) for draw in draws]
        measured[name] = np.array([scorer.aggregate(statistics), *drawn])
    return measured


def shown(values: np.ndarray[Any, Any], sign: str = "") -> str:
    """A value with its interval."""
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return f"{values[0]:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def print_table(systems: dict[str, Scores]) -> None:
    """Every system, and beside its scores how they differ from the teacher's beam; then the shares of MBR's gain."""
    base = systems["teacher, beam"]
    print(f"\n| | {' | '.join(MEASURES)} |\n|---|{'---|' * len(MEASURES)}")
    for name, of_system in systems.items():
        print(f"| {name} | {' | '.join(shown(of_system[m]) for m in MEASURES)} |")
    for name, of_system in systems.items():
        if of_system is not base:
            gains = [shown(of_system[m] - base[m], "+") for m in MEASURES]
            print(f"| {name}, over the beam | {' | '.join(gains)} |")
    mbr, student = systems["teacher, MBR"], systems["student, beam"]
    for measure in MEASURES:
        sign = -1 if measure in LOWER else 1
        possible = sign * (mbr[measure] - base[measure])
        reached = sign * (student[measure] - base[measure])
        if np.quantile(possible[1:], 0.025) > 0:
            print(f"share of MBR's gain in {measure}: {shown(reached / possible)}")
        else:
            print(f"share of MBR's gain in {measure}: MBR gains nothing that is certain")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("teacher", metavar="TEACHER", type=Path)
    parser.add_argument("work", metavar="WORK", type=Path)
    parser.add_argument("--train", type=int, default=3200)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--utility", default="chrf")
    parser.add_argument("--temperature", type=float, default=0.5)
    options = parser.parse_args()
    work, teacher = options.work, options.teacher
    work.mkdir(parents=True, exist_ok=True)
    texts = captions(options.data)
    train, test = work / "train.jsonl", work / "test.jsonl"
    write_sources(train, texts[: len(texts) - HELD_BACK][: options.train], with_references=False)
    write_sources(test, texts[-options.test :], with_references=True)
    references = [english for _, english in texts[-options.test :]]

    lists = samples(train, teacher, work / "train.lists.jsonl", options.temperature)
    chosen = decoded(lists, options.utility, work / "train.chosen.jsonl")
    data = work / "train.sft.jsonl"
    if not data.exists():
        command("export", "sft", chosen, "-o", data)
    pairs = pairs_of(data)
    fine_tuned(teacher, pairs, work / "student", options.epochs)
    firsts = texts_in(lists, of_list=True)
    control = [(prompt, first) for (prompt, _), first in zip(pairs, firsts, strict=True)]
    fine_tuned(teacher, control, work / "control", options.epochs)

    systems, seconds = {}, {}
    for name in ("teacher", "control", "student"):
        begun = cpu_seconds()
        model = teacher if name == "teacher" else work / name
        out = beam(test, model, work / f"test.{name}.jsonl")
        seconds[f"{name}, beam"] = cpu_seconds() - begun
        systems[f"{name}, beam"] = scores(texts_in(out, of_list=True), references)
    begun = cpu_seconds()
    drawn = samples(test, teacher, work / "test.lists.jsonl", options.temperature)
    out = decoded(drawn, options.utility, work / "test.chosen.jsonl")
    seconds["teacher, MBR"] = cpu_seconds() - begun
    systems["teacher, MBR"] = scores(texts_in(out, of_list=False), references)
    print(
        f"{len(pairs)} captions to train on, {len(references)} to test, utility {options.utility}"
    )
    print_table(systems)
    spent = ", ".join(f"{name} {value:.0f}" for name, value in seconds.items())
    print(f"CPU seconds of this session: {spent}")


if __name__ == "__main__":
    main()
