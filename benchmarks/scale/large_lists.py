"""CPU seconds and peak memory of MBR decoding of one list of thousands of different candidates; a process per list.

    python -m benchmarks.scale.large_lists [--utilities chrf bleu] [--sizes 1024 4096 10000 20000] [--folder SRC]

With --folder the package stands there, as for `benchmarks.structure.two_versions`: to compare with another version.
The last column tells whether two versions choose alike: a digest of the chosen text's expected utilities.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.support.measuring import one_thread

RUN = """
import resource, sys, time
from hashlib import blake2b
import random
from discorank import MBRDecoder
from discorank.metrics.registry import load_metric
utility, size = sys.argv[1], int(sys.argv[2])
r = random.Random(5)
letters = "abcdefghijklmnopqrstuvwxyz"
vocabulary = ["".join(r.choices(letters, k=r.randint(2, 9))) for _ in range(400)]
base = r.choices(vocabulary, k=25)
texts = {}
while len(texts) < size:
    text = " ".join(r.choice(vocabulary) if r.random() < 0.3 else word for word in base)
    texts[text] = None
decoder = MBRDecoder(utility=load_metric(utility).fit(list(texts)), nbest=None)
start = time.process_time()
(ranking,) = decoder.decode([{"id": "1", "candidates": list(texts)}])
seconds = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
values = repr([(place.index, place.utility) for place in ranking.ranking])
print(seconds, peak, blake2b(values.encode(), digest_size=8).hexdigest())
"""


def main() -> None:
    """Prints a row per list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--utilities", nargs="+", default=["chrf", "bleu"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 4096, 10_000, 20_000])
    parser.add_argument("--folder")
    options = parser.parse_args()
    environment = one_thread()
    if options.folder:
        environment["PYTHONPATH"] = options.folder
    for utility in options.utilities:
        for size in options.sizes:
            command = [sys.executable, "-c", RUN, utility, str(size)]
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            seconds, peak, digest = done.stdout.split()
            pairs = float(seconds) / size**2 * 1e6
            print(
                f"{utility:8} N={size:6} {float(seconds):8.2f} CPU s, {pairs:.3f} us a pair, "
                f"{float(peak):7.0f} MiB, {digest}",
                flush=True,
            )


if __name__ == "__main__":
    main()
