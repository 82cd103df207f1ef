"""What is too large is refused in under 2 CPU seconds and 300 MB of memory, whatever it is."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

MAX_CPU_SECONDS, MAX_MEGABYTES = 2.0, 300
# Runs a command as its only child, and prints its code, CPU seconds, megabytes and messages: a child that pytest itself
# starts begins with the memory of pytest.
MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True, stdin=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
about = [done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, done.stderr]
print(json.dumps(about))
"""


class Cost(NamedTuple):
    """What a command came to."""

    code: int
    cpu_seconds: float
    megabytes: float
    messages: str


def _bounded() -> None:
    """What a command that is not refused may take."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))


def cost(*arguments: str, cwd: Path) -> Cost:
    words = [sys.executable, "-m", "discorank", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        preexec_fn=_bounded,
        check=True,
    )
    return Cost(*json.loads(done.stdout))


def least_cost(*arguments: str, cwd: Path) -> Cost:
    """The cost of a command, tried again where a machine that is busy with other work made it dear."""
    for _ in range(4):
        tried = cost(*arguments, cwd=cwd)
        if tried.cpu_seconds < MAX_CPU_SECONDS:
            break
    return tried


LIST = {"id": "a", "source": "x", "references": ["a b"], "candidates": ["a b", "a c"]}
CONFIG = {"model_type": "bert", "num_hidden_layers": 2, "hidden_size": 32, "vocab_size": 30}


def model(folder: Path, **changes: object) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    return folder


def config_of_a_device(cwd: Path) -> None:
    (model(cwd / "m") / "config.json").unlink()
    (cwd / "m" / "config.json").symlink_to("/dev/zero")


def vocabulary_of_a_pipe(cwd: Path) -> None:
    (model(cwd / "m") / "vocab.txt").unlink()
    os.mkfifo(cwd / "m" / "vocab.txt")


def many_layers(cwd: Path) -> None:
    model(cwd / "m", num_hidden_layers=200_000)


def large_config(cwd: Path) -> None:
    os.truncate(model(cwd / "m") / "config.json", 200 << 20)


def no_config(cwd: Path) -> None:
    (cwd / "m").mkdir()


def weights_cut_off(cwd: Path) -> None:
    (model(cwd / "m") / "model.safetensors").write_bytes((1 << 20).to_bytes(8, "little") + b"{")


def nothing(cwd: Path) -> None:
    pass


def many_candidates(cwd: Path) -> None:
    (cwd / "l.jsonl").write_text(json.dumps({"id": "a", "candidates": ["a"] * 900_000}) + "\n")


def many_systems(cwd: Path) -> None:
    systems = {f"s{i}": ["a b"] for i in range(100_000)}
    row = {"id": "a", "references": ["x y"], "systems": systems}
    (cwd / "s.jsonl").write_text(json.dumps(row) + "\n")


MODEL = ("decode", "l.jsonl", "-u", 'bertscore(model="./m",layer=1)')
CASES: dict[str, tuple[Callable[[Path], None], tuple[str, ...], int, str]] = {
    "a combination that is a device": (
        nothing,
        ("decode", "l.jsonl", "-u", 'combination(model="/dev/zero")'),
        2,
        "is a device or a pipe",
    ),
    "a prior that is a device": (
        nothing,
        ("decode", "l.jsonl", "-u", "chrf", "--prior", "/dev/zero"),
        2,
        "is a device or a pipe",
    ),
    "config.json is a device": (config_of_a_device, MODEL, 2, "config.json: is a device"),
    "a vocabulary that is a pipe": (vocabulary_of_a_pipe, MODEL, 2, "vocab.txt: is a device"),
    "200,000 layers": (
        many_layers,
        MODEL,
        2,
        "num_hidden_layers: found 200000, expected 0 to 4096",
    ),
    "a configuration of 200 MB": (large_config, MODEL, 2, "config.json: larger than"),
    "no configuration": (no_config, MODEL, 2, "there is no config.json in it"),
    "weights cut off": (weights_cut_off, MODEL, 2, "model.safetensors: not whole"),
    "a generator": (
        vocabulary_of_a_pipe,
        ("generate", "l.jsonl", "--generator", "./m", "-o", "out.jsonl"),
        2,
        "vocab.txt: is a device",
    ),
    "900,000 candidates": (
        many_candidates,
        ("decode", "l.jsonl", "-u", "chrf"),
        3,
        "900000 candidates, at most 32768 are read",
    ),
    "100,000 systems": (
        many_systems,
        ("compare", "s.jsonl", "-m", "chrf"),
        2,
        "100000 systems, at most 1024 are read",
    ),
}


# The others, measured in the same way, are of kinds that a case among these has.
FAST = {"a prior that is a device", "a vocabulary that is a pipe", "900,000 candidates"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in CASES],
)
def test_a_refusal_costs_little(tmp_path: Path, name: str) -> None:
    make, command, code, problem = CASES[name]
    (tmp_path / "l.jsonl").write_text(json.dumps(LIST) + "\n")
    make(tmp_path)
    refused = least_cost(*command, cwd=tmp_path)
    assert (refused.code, problem in refused.messages) == (code, True), refused.messages[-500:]
    assert refused.cpu_seconds < MAX_CPU_SECONDS
    assert refused.megabytes < MAX_MEGABYTES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "more"),
    [
        ("comet", ""),
        ("comet-qe", ""),
        ("sescore2", ""),
        ("prism", ',lang="de"'),
        ("bartscore", ""),
        ("ds-focus", ""),
        ("entity-graph", ',focus="entity"'),
        ("pdd", ""),
        ("role-match", ""),
    ],
)
def test_every_metric_looks_at_its_model_first(tmp_path: Path, metric: str, more: str) -> None:
    (tmp_path / "l.jsonl").write_text(json.dumps(LIST) + "\n")
    vocabulary_of_a_pipe(tmp_path)
    utility = f'{metric}(model="./m"{more})'
    refused = least_cost("decode", "l.jsonl", "-u", utility, cwd=tmp_path)
    assert refused.code == 2
    assert "vocab.txt: is a device or a pipe" in refused.messages
    assert refused.cpu_seconds < MAX_CPU_SECONDS
    assert refused.megabytes < MAX_MEGABYTES
