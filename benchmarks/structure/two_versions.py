"""CPU seconds of MBR decoding by two versions of discorank, in turns, each run a process of its own, and their ratio.

Lists have a base text of 25 words, 30 % of them replaced in every candidate, but where the work says how many words;
there two blocks of words have moved in every candidate too.

    python -m benchmarks.structure.two_versions BEFORE AFTER [--rounds 4] [--utilities ter]

BEFORE and AFTER are folders with an importable package ``discorank``, as for `benchmarks.same_outputs`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.support.measuring import one_thread

WORK: tuple[tuple[Any, ...], ...] = (
    ("chrf", 8, 1000),
    ("chrf", 32, 150),
    ("chrf", 128, 15),
    ("chrf", 512, 2),
    ("chrf", 1024, 1),
    ("bleu", 32, 100),
    ("bleu", 1024, 1),
    ("rouge-l", 32, 100),
    ("ter", 12, 40),
    ("ter", 12, 12, 84),
    ("ter", 6, 3, 300),
    ("meteor", 12, 12, 300),
    ("rouge-w", 12, 12, 300),
)
RUN = """
import random, time
from discorank import MBRDecoder
random.seed(3)
letters = "abcdefghijklmnop"
words = ["".join(random.choices(letters, k=random.randint(2, 9))) for _ in range(900)]
def candidate(base, moves):
    text = [w if random.random() > 0.3 else random.choice(words) for w in base]
    for _ in range(moves):
        start = random.randrange(len(text))
        block = text[start : start + 5]
        del text[start : start + 5]
        target = random.randint(0, len(text))
        text[target:target] = block
    return " ".join(text)
for utility, width, lists, *length in WORK:
    made = []
    for number in range(lists):
        base = random.choices(words, k=length[0] if length else 25)
        texts = [candidate(base, 2 * len(length)) for _ in range(width)]
        made.append({"id": str(number), "candidates": texts})
    decoder = MBRDecoder(utility=utility)
    list(decoder.decode(made[:2]))
    begin = time.process_time()
    list(decoder.decode(made))
    print(time.process_time() - begin)
"""


def seconds(folder: str, work: Sequence[tuple[Any, ...]]) -> list[float]:
    """CPU seconds of every piece of work, by the version in a folder."""
    environment = {**one_thread(), "PYTHONPATH": folder}
    command = [sys.executable, "-c", f"WORK = {work!r}\n{RUN}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    """Prints a row per piece of work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--utilities", nargs="+")
    options = parser.parse_args()
    work = [piece for piece in WORK if piece[0] in (options.utilities or [piece[0]])]
    rounds = [
        (seconds(options.before, work), seconds(options.after, work)) for _ in range(options.rounds)
    ]
    print("utility  words     N  lists  before s   after s  after/before, median [min, max]")
    for i, (utility, width, lists, *length) in enumerate(work):
        pairs = [(before[i], after[i]) for before, after in rounds]
        ratios = [after / before for before, after in pairs]
        sides = [median(side) for side in zip(*pairs, strict=True)]
        spread = f"{median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
        words = length[0] if length else 25
        print(
            f"{utility:8} {words:5} {width:5} {lists:6}  {sides[0]:8.3f}  {sides[1]:8.3f}  {spread}"
        )


if __name__ == "__main__":
    main()
