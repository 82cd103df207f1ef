"""fairseq from its preprocessing to its log: the task and `decode` of the log make the same choices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest

from discorank.integrations.formats.open_lists import open_lists
from discorank.rerank.lists import CandidateList

pytestmark = [
    pytest.mark.fairseq,
    pytest.mark.skipif(find_spec("fairseq") is None, reason="fairseq is not installed"),
]
SUBJECTS = {
    "the dog": "der hund",
    "the cat": "die katze",
    "a child": "ein kind",
    "the farmer": "der bauer",
}
VERBS = {"finds": "findet", "sees": "sieht", "buys": "kauft"}
OBJECTS = {"the book": "das buch", "a house": "ein haus", "your bread": "dein brot"}
PLACES = {"today": "heute", "in the garden": "im garten"}
SPLITS = {"train": slice(48), "valid": slice(48, 60), "test": slice(60, 72)}
EVERY_SENTENCE = ("--required-batch-size-multiple", "1")
ON_CPU = ("--cpu", "--num-workers", "0", "--seed", "1", *EVERY_SENTENCE)
NBEST = ("--path", "model/checkpoint_best.pt", "--beam", "5", "--nbest", "5", *ON_CPU)


def start(
    folder: Path, module: str, *arguments: str, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})}
    environment = {**environment, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def run(folder: Path, module: str, *arguments: str, variables: dict[str, str] | None = None) -> str:
    done = start(folder, module, *arguments, variables=variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def generate(folder: Path, name: str, *options: str) -> list[CandidateList]:
    """The lists of the log that fairseq-generate writes with the plugin."""
    plugin = run(folder, "discorank.integrations.fairseq").strip()
    log = run(folder, "fairseq_cli.generate", "data", *NBEST, "--user-dir", plugin, *options)
    (folder / name).write_text(log)
    with open_lists(folder / name, "fairseq") as lists:
        return [entry.record for entry in lists if entry.record is not None]


def texts(record: CandidateList) -> list[str]:
    return [str(candidate.text) for candidate in record.candidates]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with preprocessed data and a model that was trained for 20 updates."""
    folder = tmp_path_factory.mktemp("fairseq")
    pairs = []
    for a, b, c, d in product(SUBJECTS, VERBS, OBJECTS, PLACES):
        pairs.append((f"{a} {b} {c} {d} .", f"{SUBJECTS[a]} {VERBS[b]} {OBJECTS[c]} {PLACES[d]} ."))
    shuffled = [pairs[i * 29 % len(pairs)] for i in range(len(pairs))]
    for split, part in SPLITS.items():
        for language, lines in zip(("en", "de"), zip(*shuffled[part], strict=True), strict=True):
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))
    files = [argument for split in SPLITS for argument in (f"--{split}pref", split)]
    run(folder, "fairseq_cli.preprocess", "-s", "en", "-t", "de", *files, "--destdir", "data")
    model = ("--arch", "transformer_tiny", "--save-dir", "model", "--max-update", "20")
    training = ("--optimizer", "adam", "--lr", "0.005", "--max-tokens", "256")
    run(folder, "fairseq_cli.train", "data", *model, *training, *ON_CPU)
    return folder


@pytest.fixture(scope="module")
def plain(folder: Path) -> list[CandidateList]:
    return generate(folder, "generate.out")


def test_the_plugin_lets_torch_load_the_arguments_in_a_checkpoint(
    folder: Path, plain: list[CandidateList]
) -> None:
    done = start(folder, "fairseq_cli.generate", "data", *NBEST)
    assert done.returncode == 1
    assert "Unsupported global: GLOBAL argparse.Namespace" in done.stderr
    trusting = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    log = run(folder, "fairseq_cli.generate", "data", *NBEST, variables=trusting)
    assert len(plain) == 12
    assert log == (folder / "generate.out").read_text()


def test_the_task_chooses_what_decoding_the_log_chooses(
    folder: Path, plain: list[CandidateList]
) -> None:
    decode = ("decode", "generate.out", "--from", "fairseq", "-u", "chrf", "--quiet")
    choices = run(folder, "discorank", *decode)
    decoded = [json.loads(line)["text"] for line in choices.splitlines()]
    task = ("--task", "discorank_translation", "--discorank-utility", "chrf")
    chosen = generate(folder, "chosen.out", *task)
    assert [texts(record)[0] for record in chosen] == decoded
    assert [sorted(texts(record)) for record in chosen] == [
        sorted(texts(record)) for record in plain
    ]
    assert decoded != [texts(record)[0] for record in plain]
    kept = generate(folder, "kept.out", *task, "--discorank-keep", "1")
    assert [texts(record) for record in kept] == [[text] for text in decoded]
