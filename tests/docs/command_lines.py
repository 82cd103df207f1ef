"""What README and docs show: which lines and blocks run, and which cannot.

Everything runs from a clone's root, what stands on one page in one clone, in its order.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
IN_A_LINE = re.compile(r"(?<!`)`(discorank [a-z]+ [^`]*examples/[^`]*)`(?!`)")
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
    *sorted(f"docs/results/{page.name}" for page in (ROOT / "docs" / "results").glob("*.md")),
)

INSTALLS = "installs packages"
WHOLE_CLONE = "sets up, checks or changes a whole clone; .ci/run and CI do it"
MEASURES = "a measurement of minutes to hours, over data that are no part of the project"
FAIRSEQ = "needs fairseq and a model of it; tests/docs/test_docs.py has a hub in its place"
SERVES = "serves until it is stopped, or asks such a server; tests/docs/test_serve_docs.py runs it"
CLUSTER = "starts workers of Ray; tests/rerank/engines run decode and RayEngine on them"
PEOPLE = "people judge what is proposed; tests/rerank/training runs it"
OTHERS = "another tool's command"
SCORES = "needs a server that runs on; tests/docs/test_rewards_docs.py runs it"
TRAINERS = "needs a trainer; tests/docs/test_rewards_docs.py calls what it calls"
OWN_CODE = "needs a module of the user's own"
METRIC = "a module for -u; tests/docs/test_docs.py runs it"
DATASETS = "starts workers of Ray"
# (how a line or block of Python begins, on which pages, why it is not run with the others)
EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    ("pip install", "", INSTALLS),
    ("make ", "", WHOLE_CLONE),
    (". .venv/bin/activate", "CONTRIBUTING.md", WHOLE_CLONE),
    ("python -m pytest", "CONTRIBUTING.md", WHOLE_CLONE),
    ("git worktree", "CONTRIBUTING.md", WHOLE_CLONE),
    ("python -m benchmarks.", "", MEASURES),
    ("198f627: ", "", MEASURES),
    ("b373be7: ", "", MEASURES),
    ("733d3753: ", "", MEASURES),
    ("fairseq-generate", "docs/n-best-lists.md", FAIRSEQ),
    (
        "from discorank import MBRDecoder\nfrom discorank.integrations.fairseq",
        "docs/n-best-lists.md",
        FAIRSEQ,
    ),
    ("", "docs/serve.md", SERVES),
    ("discorank serve", "docs/training.md", SCORES),
    ("from discorank import Scores", "docs/training.md", SCORES),
    ("# reward.py", "docs/training.md", SCORES),
    ("from datasets", "docs/training.md", TRAINERS),
    ("# environment.py", "docs/training.md", TRAINERS),
    ("discorank serve", "docs/voting.md", SERVES),
    ("discorank compare examples/systems.jsonl -m chrf --human esa --judged", "", PEOPLE),
    ("mbrs-decode", "docs/coming-from-other-tools.md", OTHERS),
    ("comet-mbr", "docs/coming-from-other-tools.md", OTHERS),
    ("sacrebleu", "docs/coming-from-other-tools.md", OTHERS),
    ("discorank decode examples/demo.jsonl -u comet", "docs/runs.md", CLUSTER),
    ("from discorank import MBRDecoder", "docs/runs.md", CLUSTER),
    ("import ray", "docs/file-formats.md", DATASETS),
    ("discorank decode examples/demo.jsonl -u 'combination", "docs/security.md", OWN_CODE),
    ("# length.py", "docs/writing-a-metric.md", METRIC),
)


@dataclass(frozen=True)
class Shown:
    """A command line, a block of Python, or the output right behind them."""

    page: str
    kind: str  # sh, python, text
    code: str

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        for beginning, page, why in EXCEPTIONS:
            if self.code.startswith(beginning) and page in ("", self.page):
                return why
        return None

    def with_stand_ins(self, stand_ins: Mapping[str, str]) -> str:
        """The code with other models and servers than the page names."""
        code = self.code
        for name, other in stand_ins.items():
            plain = other.replace("\\", r"\\")
            code = re.sub(rf"(?<![\w/-]){re.escape(name)}(?![\w-])", plain, code)
        return code


def words_of(line: str) -> list[str]:
    """The words of a command line as a shell makes them."""
    line = re.sub(r"\s+# .*", "", line)
    line = re.sub(r"\$'([^']*)'", lambda found: f"'{found[1]}'".replace("\\n", "\n"), line)
    return shlex.split(line)


def shown_on(page: str) -> list[Shown]:
    """What a page shows, in its order; lines in sentences are last."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = list(_in_blocks(page, text))
    in_sentences = IN_A_LINE.findall(BLOCK.sub("", text))
    return found + [Shown(page, "sh", " ".join(line.split())) for line in in_sentences]


def _in_blocks(page: str, text: str) -> Iterator[Shown]:
    end = -1
    for block in BLOCK.finditer(text):
        kind, code = block[1], block[2]
        is_behind = not text[max(0, end) : block.start()].strip() and end >= 0
        end = block.end()
        if kind == "sh":
            lines = code.replace("\\\n", " ").splitlines()
            yield from (Shown(page, kind, line) for line in lines if line and line[0] != "#")
        elif kind == "python" or is_behind:
            yield Shown(page, kind, code)
