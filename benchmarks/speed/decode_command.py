"""The whole command ``discorank decode`` against ``mbrs-decode`` on the same texts, start-up included.

    python -m benchmarks.speed.decode_command PATH/TO/mbrs-decode [--only METRIC,N,LISTS] [--script]

mbrs (MBR decoding by naist-nlp) lives in an environment of its own. Its chrF runs with fastchrf, its faster choice; its
BLEU with a pool of two workers. Prints wall and CPU seconds of both (children included), and whether both chose the
same texts (ties may fall differently). `--script` adds a script of one's own, which scores every pair with sacrebleu.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.support.lists import synthetic, with_duplicates

CASES = (
    ("chrf", 8, 500),
    ("chrf", 32, 100),
    ("chrf", 128, 10),
    ("chrf", 512, 1),
    ("bleu", 32, 20),
    ("bleu", 128, 2),
)
SCRIPT = """
import json, sys
import sacrebleu

source, target, name = sys.argv[1:]
metric = {"chrf": sacrebleu.CHRF(), "bleu": sacrebleu.BLEU(effective_order=True)}[name]
with open(source) as lines, open(target, "w") as out:
    for line in lines:
        texts = json.loads(line)["candidates"]
        expected = [sum(metric.sentence_score(text, [other]).score for other in texts) for text in texts]
        print(texts[expected.index(max(expected))], file=out)
"""
OPTIONS = {"chrf": ["--metric.fastchrf", "true"], "bleu": ["--metric.num_workers", "2"]}


def run(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command and its children."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(mbrs: str, metric: str, lists: list[list[str]], folder: Path, with_script: bool) -> str:
    width = len(lists[0])
    (folder / "flat.txt").write_text("".join(text + "\n" for texts in lists for text in texts))
    rows = ({"id": str(i), "candidates": texts} for i, texts in enumerate(lists))
    (folder / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for path in folder.glob("ours*"):
        path.unlink()
    ours = [
        sys.executable,
        "-m",
        "discorank",
        "decode",
        str(folder / "lists.jsonl"),
        "-u",
        metric,
        "--quiet",
    ]
    wall, cpu = run([*ours, "-o", str(folder / "ours"), "--format", "text"])
    theirs = [
        mbrs,
        str(folder / "flat.txt"),
        "-n",
        str(width),
        "--decoder",
        "mbr",
        "--metric",
        metric,
    ]
    peer_wall, peer_cpu = run([*theirs, *OPTIONS[metric], "-o", str(folder / "theirs")])
    chosen, other = ((folder / name).read_text().splitlines() for name in ("ours", "theirs"))
    same = sum(a == b for a, b in zip(chosen, other, strict=True))
    ratios = f"{peer_wall / wall:6.1f}x {peer_cpu / cpu:6.1f}x"
    row = f"{peer_wall:9.2f} {wall:8.2f} {peer_cpu:9.2f} {cpu:8.2f} {ratios} {same:6}/{len(lists)}"
    if with_script:
        names = [str(folder / "lists.jsonl"), str(folder / "script"), metric]
        script_wall, script_cpu = run([sys.executable, "-c", SCRIPT, *names])
        scripted = (folder / "script").read_text().splitlines()
        same = sum(a == b for a, b in zip(chosen, scripted, strict=True))
        row += f"  script {script_wall:.2f} wall, {script_cpu:.2f} CPU, {script_cpu / cpu:.0f}x, {same}/{len(lists)}"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mbrs")
    parser.add_argument("--only", help="one case: METRIC,N,LISTS")
    parser.add_argument("--script", action="store_true")
    arguments = parser.parse_args()
    print(
        f"{'case':42} {'mbrs wall':>9} {'ours':>8} {'mbrs CPU':>9} {'ours':>8} {'wall':>7} {'CPU':>7}   same"
    )
    for metric, width, count in CASES:
        if arguments.only not in (None, f"{metric},{width},{count}"):
            continue
        for kind, make in (("no duplicates", synthetic), ("40 % duplicates", with_duplicates)):
            lists = [make(width, seed) for seed in range(count)]
            with tempfile.TemporaryDirectory() as folder:
                line = compare(arguments.mbrs, metric, lists, Path(folder), arguments.script)
            print(f"{f'{metric}, {count} of N={width}, {kind}':42} {line}", flush=True)


if __name__ == "__main__":
    main()
