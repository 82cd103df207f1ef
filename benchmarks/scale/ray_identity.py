"""Whether every engine writes the same bytes on a file: local, Ray with 1, 2 and 4 actors, and a cluster of two nodes.

    python -m benchmarks.scale.ray_identity LISTS [--utilities chrf bertscore ds-focus] [--actors 1 2 4] [-- OPTIONS]

Everything behind -- goes to ``discorank decode``, such as --from systems or --lang de. The nodes are simulated on this
machine, with one core each, so that each holds one actor.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from ray.cluster_utils import Cluster

from benchmarks.support.measuring import decode_command, one_thread

ENGINE = ("--engine", "ray", "--set")


def decoded(source: Path, out: Path, utility: str, options: list[str]) -> bytes:
    """The rows that ``discorank decode`` writes."""
    command = decode_command(source, out, utility, *options)
    subprocess.run(command, check=True, env=one_thread())
    return out.read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", type=Path)
    parser.add_argument("--utilities", nargs="+", default=["chrf", "bertscore", "ds-focus"])
    parser.add_argument("--actors", nargs="+", default=["1", "2", "4"])
    arguments, options = sys.argv[1:], []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1 :]
    given = parser.parse_args(arguments)
    same = True
    with tempfile.TemporaryDirectory() as name:
        for utility in given.utilities:
            local = decoded(given.lists, Path(name) / f"{utility}.local", utility, options)
            sides = {f"{n} actors": [*ENGINE, f"ray.actors={n}"] for n in given.actors}
            cluster = Cluster(
                initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
            )
            try:
                cluster.add_node(num_cpus=1)
                sides["2 nodes"] = [
                    *ENGINE,
                    f"ray.address={cluster.address}",
                    "--set",
                    "ray.actors=2",
                ]
                for i, (side, engine) in enumerate(sides.items()):
                    rows = decoded(
                        given.lists, Path(name) / f"{utility}.{i}", utility, [*options, *engine]
                    )
                    same &= rows == local
                    verdict = "same bytes" if rows == local else "OTHER BYTES"
                    print(f"{utility}: {side}: {verdict}, {local.count(10)} rows", flush=True)
            finally:
                cluster.shutdown()
    sys.exit(not same)


if __name__ == "__main__":
    main()
