"""A student fine-tuned on what MBR chose: how much of MBR's gain does its beam search have, at a beam's cost?

    python -m benchmarks.training.student_of_choices DATA TEACHER WORK [--train 3200] [--test 1000]

DATA are the captions and TEACHER the model that `caption_model` trained on them. The teacher draws candidates for
captions of its training part (their references are never read) and `discorank decode` chooses. The student is a copy
of the teacher that learns preferences (DPO) from what `discorank export pairs` writes. The imitator is one that learns
what was chosen (`discorank export sft`) by likelihood, and the control learns the first candidate of each list so.

The table compares on the last captions, which no model has seen: the beam of teacher, control, imitator and student,
and the teacher's MBR. chrF, BLEU and TER are those of the corpus, BERTScore the mean F1 with MiniLM, all with 95 %
intervals by bootstrap over captions (1000 draws, the same for all rows); "share" is the student's gain over the
teacher's beam in parts of MBR's. Every step keeps what it has done in WORK: the same command goes on after a kill.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measuring import cpu_seconds
from benchmarks.training.caption_model import HELD_BACK, captions
from benchmarks.training.fine_tuning import fitted_to_preferences, fitted_to_texts
from discorank import load_metric
from discorank.cli.main import main as discorank
from discorank.metrics.execution.segment_scores import scores_and_statistics

BEAM, SAMPLES, DRAWS, SEED = 5, 32, 1000, 1
PAIRS = ("--pairs", "best-worst")
"""The pairs to learn from: the best text of every list against its worst."""
MEASURES = {"chrF": "chrf", "BLEU": "bleu", "TER": "ter", "BERTScore": 'bertscore(model="minilm")'}
LOWER = ("TER",)
# by measure: the score and those of every draw, [1 + draws]
Scores = dict[str, np.ndarray[Any, Any]]


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


def exported(chosen: Path, out: Path, kind: str, columns: Sequence[str], *options: object) -> Any:
    """These columns of the rows that `discorank export` writes of a run."""
    if not out.exists():
        command("export", kind, chosen, "-o", out, *options)
    rows = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    return [tuple(row[column] for column in columns) for row in rows]


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
    parser.add_argument("--likelihood-epochs", type=int, default=6)
    parser.add_argument("--preference-epochs", type=int, default=1)
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
    texts_chosen = exported(chosen, work / "train.sft.jsonl", "sft", ("prompt", "completion"))
    fitted_to_texts(teacher, texts_chosen, work / "imitator", options.likelihood_epochs)
    firsts = texts_in(lists, of_list=True)
    control = [(prompt, first) for (prompt, _), first in zip(texts_chosen, firsts, strict=True)]
    fitted_to_texts(teacher, control, work / "control", options.likelihood_epochs)
    columns = ("prompt", "chosen", "rejected")
    preferences = exported(chosen, work / "train.pairs.jsonl", "pairs", columns, *PAIRS)
    fitted_to_preferences(teacher, preferences, work / "student", options.preference_epochs)

    systems, seconds = {}, {}
    for name in ("teacher", "control", "imitator", "student"):
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
        f"{len(texts_chosen)} captions and {len(preferences)} pairs to train on, "
        f"{len(references)} captions to test, utility {options.utility}"
    )
    print_table(systems)
    spent = ", ".join(f"{name} {value:.0f}" for name, value in seconds.items())
    print(f"CPU seconds of this session: {spent}")


if __name__ == "__main__":
    main()
