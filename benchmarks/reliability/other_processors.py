"""How far choices and values are apart between processors, as numpy, torch and oneDNN compute on them.

    python -m benchmarks.reliability.other_processors [--lists 50] [--candidates 8]

Lists of made-up texts of 25 words are decoded by utilities with the tiny models of the tests, and without models, in a
process per setting of OPENBLAS_CORETYPE, ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA; settings that this processor
cannot run are left out. Prints for each the lists whose choice is that of this processor without a setting, and the
largest difference of an expected utility, relative to the largest value of that utility.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.support.lists import synthetic
from discorank import MBRDecoder

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
TINY = GOLDEN / "docmetrics" / "models"
UTILITIES = (
    "chrf",
    "chrf + 0.5*bleu",
    f'ds-focus(model="{TINY}/tiny-bert")',
    f'ds-sent(model="{TINY}/tiny-xlmr")',
    f'embedding(model="{GOLDEN}/sentence_embedding/models/tiny-st-mean")',
    f'bertscore(model="{TINY}/tiny-bert",layer=2)',
    f'comet(model="{TINY}/tiny-comet-ref",encoder_path="{TINY}/tiny-xlmr")',
    f'bleurt(model="{GOLDEN}/bleurt/models/tiny-bleurt-20")',
)
VARIABLES = ("OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA")
# Kernels of numpy's OpenBLAS, of torch and of oneDNN that belong to one generation of processors.
PROCESSORS = (
    ("Prescott", "default", "SSE41"),
    ("Nehalem", "default", "SSE41"),
    ("Sandybridge", "default", "AVX"),
    ("Haswell", "avx2", "AVX2"),
    ("Zen", "avx2", "AVX2_VNNI"),
    ("SkylakeX", "avx512", "AVX512_CORE"),
    ("Cooperlake", "avx512", "AVX512_CORE_BF16"),
    ("SapphireRapids", "avx512", "AVX512_CORE_AMX"),
)


def environment_of(setting: dict[str, str]) -> dict[str, str]:
    """The environment with one thread, and no other processor than that of the setting."""
    inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**inherited, **setting, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def decided(num_lists: int, num_candidates: int) -> dict[str, list[Any]]:
    """Of every utility and list the choice, and the expected utilities in the order of the candidates."""
    lists = [
        {"id": str(i), "source": "the ferry", "candidates": synthetic(num_candidates, seed=i)}
        for i in range(num_lists)
    ]
    outcomes = {}
    for utility in UTILITIES:
        values = []
        for ranking in MBRDecoder(utility=utility, nbest=None).decode(lists):
            places = sorted(ranking.ranking, key=lambda place: place.index)
            values.append([ranking.index, [place.utility for place in places]])
        outcomes[utility.partition("(")[0]] = values
    return outcomes


def outcomes_under(
    setting: dict[str, str], options: argparse.Namespace
) -> dict[str, list[Any]] | None:
    """What another process decides; None where the processor cannot run it."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.reliability.other_processors"]
    command += ["--lists", str(options.lists), "--candidates", str(options.candidates), "--decide"]
    done = subprocess.run(
        command,
        env=environment_of(setting),
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode < 0:
        return None
    done.check_returncode()
    outcomes: dict[str, list[Any]] = json.loads(done.stdout)
    return outcomes


def compared(own: dict[str, list[Any]], other: dict[str, list[Any]]) -> tuple[int, int, float, str]:
    """Lists, those of one choice, the largest relative difference, and the utility that it is of."""
    num_lists = num_same = 0
    largest, where = 0.0, "-"
    for utility, lists in own.items():
        scale = max(abs(score) for _, scores in lists for score in scores)
        for (choice, scores), (other_choice, other_scores) in zip(
            lists, other[utility], strict=True
        ):
            num_lists += 1
            num_same += choice == other_choice
            pairs = zip(scores, other_scores, strict=True)
            difference = max(abs(a - b) for a, b in pairs) / scale
            if difference > largest:
                largest, where = difference, utility
    return num_lists, num_same, largest, where


def main() -> None:
    """Prints a row per setting."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lists", type=int, default=50)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--decide", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.decide:
        print(json.dumps(decided(options.lists, options.candidates)))
        return
    own = outcomes_under({}, options)
    assert own is not None
    print("numpy | torch | oneDNN | lists | same choice | largest difference | of")
    for processor in PROCESSORS:
        other = outcomes_under(dict(zip(VARIABLES, processor, strict=True)), options)
        if other is not None:
            lists, same, difference, where = compared(own, other)
            print(
                " | ".join(processor),
                f"| {lists} | {same} | {difference:.0e} | {where}",
                flush=True,
            )


if __name__ == "__main__":
    main()
