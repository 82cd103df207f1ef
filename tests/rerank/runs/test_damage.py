"""Damage to what a run wrote: every flipped bit is refused, with the place and what to do, or changes nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import warnings
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.metrics.errors import InputError
from discorank.metrics.storage.checksums import UncheckedWarning, warn_once
from discorank.rerank.runs import resumable
from discorank.rerank.runs.resumable import Checkpoint
from discorank.rerank.runs.run_file import WrittenBytes, check_beside

from ...support.lists import made_lists, write_lists
from ...support.run_files import run_file

NAMES = ("out", "out.errors.jsonl", "u", "out.run.json")


class Kept:
    """A run in a folder of its own that stands whole in another."""

    def __init__(self, folder: Path, num_lists: int = 20, done: int = 20) -> None:
        self.folder, self.whole = folder / "work", folder / "whole"
        self.folder.mkdir()
        lists = list(made_lists(num_lists))
        lists[3]["candidates"] = []
        lists[8]["context_only"] = True
        self.source = write_lists(self.folder / "in.jsonl", lists[:done])
        self.out, self.utilities = self.folder / "out", self.folder / "u"
        assert self.decode() == 3
        write_lists(self.source, lists)
        shutil.copytree(self.folder, self.whole)
        assert self.decode() == 3
        self.expected = self.outputs()
        self.restore()

    def decode(self) -> int:
        options = ["-u", "chrf", "--max-errors", "5", "--save-utilities", str(self.utilities)]
        return self._run(*options, "-o", str(self.out))

    def decode_saved(self) -> int:
        """Decides again from the saved utilities."""
        chosen = self.folder / "chosen"
        for path in self.folder.glob("chosen*"):
            path.unlink()
        options = ["--utilities", str(self.utilities), "-o", str(chosen), "--max-errors", "50"]
        return self._run(*options)

    def _run(self, *options: str) -> int:
        """The exit code of a command that warns as a process of its own would."""
        warn_once.cache_clear()
        return main(["decode", str(self.source), *options, "--quiet"])

    def error_records(self) -> str:
        """What could not be decided from the saved utilities."""
        path = self.folder / "chosen.errors.jsonl"
        if not path.exists():
            return ""
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return "\n".join("{where}: {reason}. {fix}".format(**record) for record in records)

    def outputs(self) -> dict[str, bytes]:
        """What the run decided: all but the run file, which holds times."""
        return {name: (self.folder / name).read_bytes() for name in NAMES[:3]}

    def restore(self) -> None:
        for name in NAMES:
            shutil.copy(self.whole / name, self.folder / name)

    def flip(self, name: str, place: int) -> None:
        """Turns bit `place` of a file over."""
        data = bytearray((self.whole / name).read_bytes())
        data[place // 8] ^= 1 << place % 8
        (self.folder / name).write_bytes(data)

    def num_bits(self, name: str) -> int:
        return 8 * (self.whole / name).stat().st_size


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("complete"))


@pytest.fixture
def run(kept: Kept) -> Iterator[Kept]:
    kept.restore()
    yield kept
    kept.restore()


def seen(kept: Kept, capsys: pytest.CaptureFixture[str], name: str, place: int) -> str:
    """What becomes of a flipped bit where the run goes on: "refused", or "harmless" if all is as without it."""
    kept.restore()
    kept.flip(name, place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedWarning)
        code = kept.decode()
    said = capsys.readouterr().err
    if code == 4:
        assert str(kept.folder / name) in said, (name, place, said)
        assert "Restore it" in said or "Choose another output" in said, (name, place, said)
        return "refused"
    assert (code, kept.outputs()) == (3, kept.expected), (name, place, said)
    return "harmless"


def seen_when_read(kept: Kept, capsys: pytest.CaptureFixture[str], place: int) -> str:
    """What becomes of a flipped bit of saved utilities that are decided from again."""
    kept.restore()
    kept.flip("u", place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedWarning)
        code = kept.decode_saved()
    said = capsys.readouterr().err + kept.error_records()
    if code == 2 or "/u:" in said:
        advice = ("Restore it, or save the utilities again", "Make one with decode")
        assert any(words in said for words in advice), (place, said)
        return "refused"
    assert code == 3, (place, said)
    assert (kept.folder / "chosen").read_bytes() == kept.expected["out"], place
    return "harmless"


def places(kept: Kept, name: str, number: int, seed: int = 0) -> list[int]:
    return random.Random(f"{name} {seed}").sample(range(kept.num_bits(name)), number)


@pytest.mark.parametrize("name", NAMES)
def test_no_flipped_bit_goes_unseen(
    kept: Kept, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = [seen(kept, capsys, name, place) for place in places(kept, name, 8)]
    assert ends.count("refused") >= (4 if name == "out.run.json" else 8)


def test_no_flipped_bit_of_saved_utilities_changes_a_choice(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = [seen_when_read(kept, capsys, place) for place in places(kept, "u", 10)]
    assert ends.count("refused") == 10


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("done", [20, 11])
def test_no_flipped_bit_of_hundreds_goes_unseen(
    tmp_path: Path, done: int, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Kept(tmp_path, done=done)
    for name in NAMES:
        ends = [seen(kept, capsys, name, place) for place in places(kept, name, 150, done)]
        assert ends.count("refused") >= (75 if name == "out.run.json" else 150)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_flipped_bit_of_hundreds_changes_a_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Kept(tmp_path)
    header_bits = 8 * kept.expected["u"].index(b"\n")
    several = [*places(kept, "u", 300, 1), *random.Random(2).sample(range(header_bits), 100)]
    ends = [seen_when_read(kept, capsys, place) for place in several]
    assert ends.count("refused") >= 300


@pytest.mark.parametrize("done", [20, 11])
def test_zeros_of_the_same_size_are_refused(
    tmp_path: Path, done: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Kept(tmp_path, done=done)
    size = run.out.stat().st_size
    run.out.write_bytes(bytes(size))
    assert run.decode() == 4
    message = capsys.readouterr().err
    assert f"out: damaged or edited: its first {size} bytes are not what the run wrote" in message
    assert "Restore it, or remove" in message
    assert run.out.read_bytes() == bytes(size)  # nothing was cut or made anew


@pytest.mark.parametrize("name", ["out", "out.errors.jsonl", "u"])
def test_a_complete_output_of_another_length_is_refused(
    run: Kept, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run.folder / name
    data = path.read_bytes()
    for other in (data[:-1], data + b'{"id": "mine"}\n', b""):
        path.write_bytes(other)
        assert run.decode() == 4
        problem = f"{name}: {len(other)} bytes, the run file says {len(data)}. Restore it"
        assert problem in capsys.readouterr().err
        assert path.read_bytes() == other


def test_damage_is_seen_in_an_output_of_many_chunks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discorank.rerank.runs.run_file.CHUNK_BYTES", 1000)
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(50)), tmp_path / "out"
    command = ["decode", str(source), "-u", "chrf", "-o", str(out), "--quiet"]
    assert main(command) == 0
    whole = out.read_bytes()
    assert len(whole) > 5000
    for place in (0, 999, 1000, 3500, len(whole) - 1):
        data = bytearray(whole)
        data[place] ^= 1
        out.write_bytes(data)
        assert main(command) == 4
        assert f"its first {len(data)} bytes are not what" in capsys.readouterr().err
    out.write_bytes(whole)
    assert main(command) == 0


def test_a_run_file_that_has_lost_its_checksum_is_refused(
    run: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    values = run_file(run.out)
    del values["checksum"]
    Path(f"{run.out}.run.json").write_text(json.dumps(values))
    assert run.decode() == 4
    assert 'it has no "checksum"' in capsys.readouterr().err


def test_what_is_told_to_be_removed_is_enough(
    run: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    run.flip("u", 5000)
    assert run.decode() == 4
    advice = capsys.readouterr().err.partition("or remove ")[2].partition(" to start anew")[0]
    for path in advice.split(" and "):
        Path(path).unlink()
    assert run.decode() == 3
    assert run.outputs() == run.expected


def test_good_rows_are_not_hashed_again(run: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saving often reads nothing of what was written."""
    reads: list[Any] = []
    monkeypatch.setattr(resumable, "checked_output", lambda *values: reads.append(values))
    checkpoint = Checkpoint(run.folder / "new", {"rows": run.folder / "new"}, {}, {})
    checkpoint.begin()
    for _ in range(3):
        checkpoint.commit(b"entry", {"rows": b"row\n"}, {"rows": 1})
        checkpoint.save()
    checkpoint.close()
    assert reads == []
    assert run_file(run.folder / "new")["counts"] == {"rows": 3}
    for path in run.folder.glob("new*"):
        path.unlink()


def test_a_line_without_a_checksum_among_others_is_refused(run: Kept) -> None:
    lines = run.utilities.read_bytes().splitlines(keepends=True)
    row = json.loads(lines[2])
    del row["checksum"]
    run.utilities.write_bytes(b"".join([*lines[:2], json.dumps(row).encode() + b"\n", *lines[3:]]))
    assert run.decode_saved() == 3
    assert "u:3: is damaged, was edited or" in run.error_records()


@pytest.mark.parametrize("path", ["/dev/zero", "pipe", "folder"])
def test_special_files_are_no_utilities(
    run: Kept, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.folder / "folder").mkdir(exist_ok=True)
    if not (run.folder / "pipe").exists():
        os.mkfifo(run.folder / "pipe")
    arguments = ["decode", str(run.source), "--utilities", str(run.folder / path), "--quiet"]
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "expected a file" in said or "Is a directory" in said


def test_a_matrix_too_large_for_a_line_is_not_saved(
    run: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = run.folder / "other.jsonl"
    write_lists(lists, made_lists(1))
    command = ["decode", str(lists), "-u", "chrf", "-o", str(run.folder / "other"), "--quiet"]
    saving = ["--save-utilities", str(run.folder / "other.u"), "--max", "saved_bytes=65536"]
    assert main([*command, *saving]) == 3
    message = capsys.readouterr().err
    assert "more than 65536 bytes in a line (" in message
    assert "Decode without saving utilities" in message


@pytest.mark.parametrize(
    ("command", "form"),
    [
        (["convert", "OUT", "--from", "flat", "-n", "1", "-o", "CONVERTED"], "text"),
        (["check", "OUT"], "jsonl"),
        (["score", "-m", "chrf", "--hypotheses", "OUT", "--references", "OUT2"], "text"),
        (["report", "OUT", "-o", "CONVERTED"], "jsonl"),
        (["cite", "OUT.run.json"], "jsonl"),
    ],
)
def test_readers_of_a_damaged_output_say_so(
    tmp_path: Path, command: list[str], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(5)), tmp_path / "OUT"
    assert main(["decode", str(source), "-u", "chrf", "--format", form, "-o", str(out)]) == 0
    damaged = tmp_path / next(word for word in command if word.startswith("OUT"))
    shutil.copy(out, tmp_path / "OUT2")
    data = bytearray(damaged.read_bytes())
    data[data.index(b"u")] ^= 1
    damaged.write_bytes(data)
    line = [str(tmp_path / word) if word[:3] in ("OUT", "CON") else word for word in command]
    capsys.readouterr()
    assert main(line) == 2
    assert str(damaged) in (said := capsys.readouterr().err)
    assert "damaged or" in said or "not JSON" in said
    Path(f"{out}.run.json").unlink()
    if "run.json" not in damaged.name:
        check_beside(damaged)  # nothing is known of it


def test_an_output_that_still_grows_is_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    checkpoint = Checkpoint(out, {"rows": out}, {}, {})
    checkpoint.begin()
    checkpoint.commit(b"entry", {"rows": b"row\n"}, {"rows": 1})
    checkpoint.save()
    with open(out, "ab") as file:
        file.write(b"more")
    check_beside(out)
    checkpoint.save(complete=True)
    with pytest.raises(InputError, match="8 bytes, the run file says 4"):
        check_beside(out)
    checkpoint.close()


def test_the_running_digest_is_that_of_the_file(tmp_path: Path) -> None:
    """However often it is saved."""
    out = tmp_path / "rows"
    checkpoint = Checkpoint(out, {"rows": out}, {}, {})
    checkpoint.begin()
    for number in range(50):
        checkpoint.commit(b"", {"rows": b"x" * number + b"\n"}, {"rows": 1})
        if number % 7 == 0:
            checkpoint.save()
    checkpoint.save(complete=True)
    checkpoint.close()
    assert run_file(out)["sha256"] == {"rows": sha256(out.read_bytes()).hexdigest()}


def test_written_bytes_are_never_changed() -> None:
    before = WrittenBytes().plus(b"abc")
    digest = before.digest
    assert before.plus(b"defgh").digest == sha256(b"abcdefgh").hexdigest()
    assert (before.num_bytes, before.digest) == (3, digest) == (3, sha256(b"abc").hexdigest())
