"""Folders of models that discorank wrote: their JSON file tells of damage to itself, and to all other files.

``"files"`` in it gives the digest of every other file of the folder. Of a checkpoint that somebody released nothing of
the kind is known: there the digest in a signature says whether it is still the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....errors import InputError, ModelLoadError
from ....storage.checksums import KEY, check, with_checksum
from . import model_files

FILES = "files"


def with_files(about: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The content for the JSON file of a folder, with the digests of its other files, and a checksum."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    digests = {path.name: model_files.digest(path) for path in files}
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
        check(about, str(path), edited)
    except InputError as error:
        raise ModelLoadError(error.problem, where=error.where, fix=error.fix) from None
    digests = about.get(FILES, {})
    for name, expected in digests.items() if isinstance(digests, Mapping) else ():
        file = path.parent / Path(str(name)).name
        try:
            actual = model_files.digest(file) if file.is_file() else "of no file"
        except OSError as error:
            raise ModelLoadError(f"cannot be read: {error}", where=str(file), fix=fix) from error
        if actual != expected:
            problem = f"is damaged or was changed: digest {actual}, expected {expected}"
            raise ModelLoadError(problem, where=str(file), fix=edited)
