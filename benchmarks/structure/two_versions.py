"""CPU seconds of MBR decoding by two versions of discorank, in turns, each run a process of its own, and their ratio.

    python -m benchmarks.structure.two_versions BEFORE AFTER [--rounds 4]

BEFORE and AFTER are folders with an importable package ``discorank``, as for `benchmarks.same_outputs`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from statistics import median

WORK = (
    ("chrf", 8, 1000),
    ("chrf", 32, 150),
    ("chrf", 128, 15),
    ("chrf", 512, 2),
    ("chrf", 1024, 1),
    ("bleu", 32, 100),
    ("bleu", 1024, 1),
    ("rouge-l", 32, 100),
)
RUN = """
import random, time
from discorank import MBRDecoder
random.seed(3)
letters = "abcdefghijklmnop"
words = ["".join(random.choices(letters, k=random.randint(2, 9))) for _ in range(900)]
for utility, width, lists in WORK:
    made = []
    for number in range(lists):
        base = random.choices(words, k=25)
        texts = [
            " ".join(w if random.random() > 0.3 else random.choice(words) for w in base)
            for _ in range(width)
        ]
        made.append({"id": str(number), "candidates": texts})
    decoder = MBRDecoder(utility=utility)
    list(decoder.decode(made[:2]))
    begin = time.process_time()
    list(decoder.decode(made))
    print(time.process_time() - begin)
"""


def seconds(folder: str) -> list[float]:
    """CPU seconds of every piece of work, by the version in a folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": folder,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", f"WORK = {WORK!r}\n{RUN}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    """Prints a row per piece of work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    rounds = [(seconds(options.before), seconds(options.after)) for _ in range(options.rounds)]
    print("utility      N  lists  before s   after s  after/before, median [min, max]")
    for i, (utility, width, lists) in enumerate(WORK):
        pairs = [(before[i], after[i]) for before, after in rounds]
        ratios = [after / before for before, after in pairs]
        sides = [median(side) for side in zip(*pairs, strict=True)]
        spread = f"{median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
        print(f"{utility:8} {width:5} {lists:6}  {sides[0]:8.3f}  {sides[1]:8.3f}  {spread}")


if __name__ == "__main__":
    main()
