"""Runs commands with one of the two versions.

Most run in children of one process that has imported torch and the like, but nothing of discorank (`fork_server`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.same_outputs.commands import Command
from benchmarks.same_outputs.comparing import Outputs, files_below, shown

MAX_COMMAND_SECONDS = 300.0
FORK_SERVER = Path(__file__).parent / "fork_server.py"
PRELOADED = (
    "numpy",
    "regex",
    "yaml",
    "tqdm",
    "filelock",
    "sacrebleu",
    "sqlite3",
    "torch",
    "sentencepiece",
    "scipy.stats",
    "safetensors.torch",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.models.bart.modeling_bart",
    "transformers.models.mbart.modeling_mbart",
    "transformers.models.roberta.modeling_roberta",
    "transformers.models.xlm_roberta.modeling_xlm_roberta",
)


class Side:
    """One of the two versions, at work in a folder of inputs.

    Args:
        code: the folder with its package discorank.
        work: the folder it runs in.
        logs: the folder for what commands show.
        earlier: where BEFORE's outputs are, for what AFTER goes on with.
    """

    def __init__(self, code: Path, work: Path, logs: Path, earlier: Path) -> None:
        self.code = code
        self.work = work
        self.logs = logs
        self.earlier = earlier
        self.logs.mkdir()
        self._server: subprocess.Popen[str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command."""
        changed = {"PYTHONHASHSEED", "LINES"}
        kept = {key: value for key, value in os.environ.items() if key not in changed}
        return kept | {
            "PYTHONPATH": str(self.code),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
        }

    def check(self) -> None:
        """Raises SystemExit if discorank would be imported from elsewhere."""
        line = [sys.executable, "-c", "import discorank; print(discorank.__file__)"]
        done = subprocess.run(
            line, env=self.environment, cwd=self.work, capture_output=True, text=True, check=False
        )
        if not done.stdout.startswith(f"{self.code}{os.sep}"):
            raise SystemExit(f"{self.code}: no package discorank\n{done.stdout}{done.stderr}")

    def run(self, command: Command) -> Outputs:
        """Runs a command; returns all that came out."""
        own = self._make_folders(command)
        streams = [self.logs / f"{command.name}.{end}" for end in ("stdout", "stderr")]
        for path in streams:
            path.touch()
        code = self._alone(command, streams) if command.alone else self._forked(command, streams)
        texts = {path.suffix[1:]: shown(path) for path in streams}
        return {"exit code": str(code).encode(), **texts, **files_below(own)}

    def close(self) -> None:
        """Ends the process that runs commands."""
        if self._server is not None:
            self._server.communicate(timeout=MAX_COMMAND_SECONDS)

    def _make_folders(self, command: Command) -> Path:
        """Makes the command's own folder with all it writes to below it; returns the folder."""
        own = self.work / "out" / command.name
        if command.takes:
            shutil.copytree(self.earlier / "out" / command.takes, own)
        own.mkdir(parents=True, exist_ok=True)
        for word in command.words:
            folder = (self.work / word).parent
            if own in folder.parents:
                folder.mkdir(parents=True, exist_ok=True)
        return own

    def _stdin(self, command: Command) -> Path:
        return self.work / command.stdin if command.stdin else Path(os.devnull)

    def _alone(self, command: Command, streams: Sequence[Path]) -> int:
        """Runs a command in a process of its own; returns its exit code."""
        line = [sys.executable, "-m", "discorank", *command.words]
        environment = self.environment
        if command.killed:
            # for own.py, which slows the run down
            environment["PAUSE"] = "0.01"
        with (
            open(self._stdin(command), "rb") as stdin,
            open(streams[0], "wb") as stdout,
            open(streams[1], "wb") as stderr,
        ):
            process = subprocess.Popen(
                line, cwd=self.work, env=environment, stdin=stdin, stdout=stdout, stderr=stderr
            )
            if command.killed:
                run_file = self.work / "out" / command.name / "out.jsonl.run.json"
                return kill_after_checkpoint(process, run_file)
            try:
                return process.wait(MAX_COMMAND_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                message = f"{command.name}: more than {MAX_COMMAND_SECONDS:.0f} s"
                raise SystemExit(message) from None

    def _forked(self, command: Command, streams: Sequence[Path]) -> int:
        """Runs a command in a child of the process that has imported what takes long; returns its exit code."""
        server = self._started_server()
        if server.stdin is None or server.stdout is None:
            raise SystemExit("no pipes")
        paths = [self._stdin(command), *streams]
        request = json.dumps([command.words, *map(str, paths)])
        server.stdin.write(f"{request}\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        if not answer.strip():
            raise SystemExit(f"{command.name}: the process that runs it has died")
        return int(answer)

    def _started_server(self) -> subprocess.Popen[str]:
        """The process that runs commands, started when it is first asked for."""
        if self._server is None:
            text = FORK_SERVER.read_text(encoding="utf-8")
            line = [sys.executable, "-c", text, *PRELOADED]
            pipe = subprocess.PIPE
            self._server = subprocess.Popen(
                line, cwd=self.work, env=self.environment, stdin=pipe, stdout=pipe, text=True
            )
        return self._server


def kill_after_checkpoint(process: subprocess.Popen[bytes], run_file: Path) -> int:
    """Kills a run when its run file says that some rows are good; returns its exit code."""
    deadline = time.monotonic() + MAX_COMMAND_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if run_file.exists() and json.loads(run_file.read_bytes())["input"]["entries"]:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.01)
    if process.wait() != -signal.SIGKILL:
        raise SystemExit(f"{run_file}: the run ended before it could be killed")
    return process.returncode
