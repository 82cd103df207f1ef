"""Files that settings name, with a digest of their content: ``path@sha256:0123456789abcdef``."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path

from ..errors import InputError
from .small_files import check_regular

MARK = "@sha256:"
DIGITS = 16


def check_file(spec: str) -> str:
    """``path@sha256:...`` of a file given as its path, or with a digest that must be its own.

    Raises:
        InputError: the file cannot be read, or is another than the digest says.
    """
    path = path_of(spec)
    fix = "Name a file that is there"
    check_regular(path, fix)
    try:
        digest = digest_of(path).hex()[:DIGITS]
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}",
            where=path,
            fix=fix,
        ) from None
    return stamped(spec, digest)


def digest_of(path: str | Path, algorithm: str = "sha256") -> bytes:
    """The digest of a file's bytes, of which few are in memory; raises OSError if it cannot be read."""
    with open(path, "rb") as file:
        return file_digest(file, algorithm).digest()


def stamped(spec: str, digest: str) -> str:
    """``path@sha256:...`` of a file whose digest is known; raises InputError if the name has another one."""
    path, _, expected = spec.partition(MARK)
    if expected and expected != digest:
        raise InputError(
            f"digest {digest}, expected {expected}",
            where=path,
            fix="It is not the file that was used",
        )
    return f"{path}{MARK}{digest}"


def path_of(spec: str) -> str:
    """The path without the digest."""
    return spec.partition(MARK)[0]
