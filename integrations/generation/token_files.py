"""The distributions that generated tokens came from, one ``.npz`` file per list in a folder beside the output.

    OUT.tokens/DIGEST.npz    lengths [candidates], chosen [tokens], top [tokens, k], certainty and entropy [tokens]
The tokens of a list's candidates stand one after the other; float32, natural logarithms. The row of the list names the
digest, which is that of the file: a file that a killed run has left is written again as it was. Nothing is
written of lists whose candidates have none. `read_tokens` reads within the limit `memory_bytes`.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metrics.errors import InputError
from ...metrics.storage.atomic_files import complete_file
from ...metrics.storage.bounded_files import arrays_in
from ...metrics.storage.checksums import digest_of
from ...rerank.lists import Candidate, CandidateList
from ...rerank.votes.confidence import TOKENS, TokenLogprobs

DIGITS = 32  # of a digest, in hexadecimal


def folder_of(out: Path) -> Path:
    """The folder of the tokens of an output."""
    return Path(f"{out}.tokens")


def with_tokens_written(record: CandidateList, folder: Path | None) -> CandidateList:
    """The list without the tokens of its candidates, which are written, and with the digest of their file.

    Args:
        record: the list.
        folder: where files go; None for output to stdout, beside which nothing stands.

    Raises:
        ResourceError: the file cannot be written.
    """
    tokens = [candidate.fields.get(TOKENS) for candidate in record.candidates]
    if not any(isinstance(one, TokenLogprobs) for one in tokens):
        return record
    candidates = tuple(_without_tokens(candidate) for candidate in record.candidates)
    extra = record.extra
    if folder is not None:
        extra = {**extra, TOKENS: _written(tokens, folder)}
    return replace(record, candidates=candidates, extra=extra)


def _without_tokens(candidate: Candidate) -> Candidate:
    fields = {key: value for key, value in candidate.fields.items() if key != TOKENS}
    return replace(candidate, fields=fields)


def _written(tokens: Sequence[Any], folder: Path) -> str:
    """Writes the tokens of a list; the digest of their file."""
    known = [one for one in tokens if isinstance(one, TokenLogprobs)]
    width = max(one.top.shape[1] for one in known)
    lengths = [len(one.chosen) if isinstance(one, TokenLogprobs) else 0 for one in tokens]
    arrays: dict[str, NDArray[Any]] = {
        "lengths": np.array(lengths, np.int32),
        "chosen": np.concatenate([one.chosen for one in known]),
        "top": np.concatenate([_padded(one.top, width) for one in known]),
    }
    for name in ("certainty", "entropy"):
        values = [getattr(one, name) for one in known]
        if all(value is not None for value in values):
            arrays[name] = np.concatenate(values)
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            # without the time, so that the same tokens make the same file
            entry = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    digest = sha256(content).hexdigest()[:DIGITS]
    folder.mkdir(exist_ok=True)
    path = folder / f"{digest}.npz"
    if not path.exists():
        with complete_file(path) as draft:
            draft.write_bytes(content)
    return digest


def _padded(top: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    gap = width - top.shape[1]
    return np.pad(top, ((0, 0), (0, gap)), constant_values=-np.inf)


def read_tokens(out: str | Path, digest: str) -> list[TokenLogprobs]:
    """The tokens of the candidates of a list, by the digest in its row; of one without, no token.

    Args:
        out: the output of ``generate``.
        digest: what stands in the row as ``token_logprobs``.

    Raises:
        InputError: there is no such file, or it is another or damaged.
    """
    path = folder_of(Path(out)) / f"{digest}.npz"
    fix = "Generate again, or leave the folder where it was written"
    is_name = len(digest) == DIGITS and set(digest) <= set("0123456789abcdef")
    if not is_name or not path.is_file():
        raise InputError("no tokens of this digest", where=str(path), fix=fix)
    if digest_of(path).hex()[:DIGITS] != digest:
        raise InputError("is damaged: it has another digest", where=str(path), fix=fix)
    try:
        arrays = arrays_in(path)
        ends = np.cumsum(arrays["lengths"])[:-1]
        parts = {
            name: np.split(arrays[name], ends)
            for name in ("chosen", "top", "certainty", "entropy")
            if name in arrays
        }
        return [
            TokenLogprobs(**{name: values[i] for name, values in parts.items()})
            for i in range(len(arrays["lengths"]))
        ]
    except (ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"holds no tokens ({error})", where=str(path), fix=fix) from error
