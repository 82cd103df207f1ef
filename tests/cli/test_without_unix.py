"""Commands where the system has none of what is Unix alone, as on Windows: no fcntl, no SIGHUP, no sysconf.

It stands in for the interpreter's part of Windows, not for its file system.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
WITHOUT_UNIX = """
import enum, os, signal, sys
import filelock, subprocess  # which ask for the system, not for the module
for module in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[module] = None
for name in ("sysconf", "pread", "fork", "getuid", "geteuid", "killpg"):
    delattr(os, name)
kept = [one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGABRT", "SIGFPE")]
signal.Signals = enum.IntEnum("Signals", {one.name: int(one) for one in kept})
for name in ("SIGHUP", "SIGPIPE", "SIGUSR1", "SIGALRM", "alarm", "setitimer"):
    delattr(signal, name)
import json
from discorank.cli.main import main
sys.exit(max(main(words) for words in json.loads(sys.argv[1])))
"""


def ran(commands: list[list[str]]) -> None:
    """Run commands one after the other in a process of their own."""
    command = [sys.executable, "-c", WITHOUT_UNIX, json.dumps(commands)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_run_is_written_and_taken_up_again(tmp_path: Path) -> None:
    out = tmp_path / "chosen.jsonl"
    command = ["decode", str(EXAMPLES / "demo.jsonl"), "-u", "chrf", "-o", str(out), "--quiet"]
    matrices = ["--save-utilities", str(tmp_path / "utilities.npz")]
    ran([[*command, *matrices]])
    whole = out.read_bytes()
    ran([[*command, *matrices]])  # continues from the end
    assert out.read_bytes() == whole
    assert json.loads(whole.splitlines()[0])["id"] == "ferry:0"


def test_commands_work(tmp_path: Path) -> None:
    lines = (
        "compare systems.jsonl -m chrf --human mqm:lower --draws 50 --save FOLDER/c",
        "convert nbest.moses --from moses -o FOLDER/lists.jsonl",
        "rerank demo.jsonl -m logprob/length -o FOLDER/chosen.jsonl",
        "score -m bleu --hypotheses mbr.txt --references ref.txt",
        "explain demo.jsonl -u chrf --id ferry:1",
    )
    examples = {path.name: str(path) for path in EXAMPLES.iterdir()}
    words = [line.replace("FOLDER", str(tmp_path)).split() for line in lines]
    ran([[examples.get(word, word) for word in line] for line in words])
