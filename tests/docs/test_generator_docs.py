"""What docs/generators.md shows is what happens, with tiny models in place of the named ones."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from discorank.cli.main import main

from ..support.tiny_generators import TEXTS, model_of, tokenizer_of
from ..support.tiny_gguf import write_gguf

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "docmetrics" / "models"
PAGE = (ROOT / "docs" / "generators.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of tiny models by the names of the page."""
    found = {"facebook/mbart-large-50-many-to-many-mmt": str(GOLDEN / "tiny-mbart50")}
    folder = tmp_path_factory.mktemp("models")
    for name, family in (
        ("facebook/bart-large-cnn", "bart"),
        ("meta-llama/Llama-3.2-1B", "llama"),
        ("my-model", "bart"),
    ):
        model_of(family).save_pretrained(folder / family)
        tokenizer_of(family).save_pretrained(folder / family)
        found[name] = str(folder / family)
    found["gemma3-270m"] = str(write_gguf(folder / "tiny.gguf"))
    return found


@pytest.mark.parametrize("number", range(3))
def test_python(number: int, models: dict[str, str]) -> None:
    code = blocks("python")[number]
    for name, folder in models.items():
        code = code.replace(name, folder)
    code = code.replace("max_input_tokens=1024", "max_input_tokens=60").replace(
        "max_new_tokens=140", "max_new_tokens=20"
    )
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        names: dict[str, object] = {}
        exec(code, names)
    if number < 2:
        assert len(shown.getvalue().splitlines()) == (2, 1)[number]
    else:
        assert [len(answer) for answer in names["answers"]] == [1, 1]  # type: ignore[attr-defined]


def test_commands(models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": str(i), "document": "d", "position": i, "source": text}
        for i, text in enumerate(TEXTS)
    ]
    Path("examples").mkdir()
    Path("examples/inputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (example,) = blocks("json")
    of_clone = ROOT / "examples" / "few-shot-german.jsonl"
    assert of_clone.read_text(encoding="utf-8") == example
    Path("examples/few-shot-german.jsonl").write_text(example, encoding="utf-8")
    ran = 0
    for line in "".join(blocks("sh")).splitlines():
        words = [models.get(word, word) for word in shlex.split(line)]
        assert words[0] == "discorank"
        assert (
            main(
                [
                    *words[1:],
                    "--quiet",
                    *(["--max-new-tokens", "8"] if words[1] == "generate" else []),
                ]
            )
            == 0
        )
        ran += 1
    assert ran == 4
    assert len(Path("chosen.jsonl").read_text().splitlines()) == len(TEXTS)
    assert '"chosen"' in Path("in-context.jsonl").read_text()
