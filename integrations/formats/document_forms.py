"""Opens documents with the outputs of systems in any form by its name, as the lines of a systems file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...metrics.errors import InputError, unknown
from ...metrics.storage.line_source import NumberedLines
from ..arrow.open_rows import open_rows
from .form_names import DOCUMENT_FORMS
from .mtme.eval_set_folder import (
    EvalSetOptions,
    is_eval_set_folder,
    language_pairs,
    read_eval_set,
)
from .mtme.eval_set_rows import eval_set_rows
from .test_sets.document_rows import DocumentRows, Row
from .test_sets.sacrebleu_files import read_sacrebleu
from .test_sets.summeval import read_summeval
from .test_sets.wmt_jsonl import read_wmt_jsonl


def _read_wmt_xml(path: str) -> Iterator[Row]:
    """As `read_wmt_xml`, which takes longer to import than all other formats."""
    from .test_sets.wmt_xml import read_wmt_xml

    return read_wmt_xml(path)


_READERS: dict[str, Callable[[str], Iterator[Row]]] = {
    "wmt-xml": _read_wmt_xml,
    "wmt-jsonl": read_wmt_jsonl,
    "sacrebleu": read_sacrebleu,
    "summeval": read_summeval,
}


def open_documents(
    path: str | Path,
    form: str = "systems",
    language_pair: str | None = None,
    columns: Sequence[str] = (),
) -> NumberedLines:
    """The documents in a file or folder as lines of a systems file.

    Args:
        path: the file, or the folder of mt-metrics-eval, whatever `form` says of the default.
        form: "systems", or one of `DOCUMENT_FORMS`.
        language_pair: of a folder that has several.
        columns: of a systems file in Parquet or Arrow: ``KEY=COLUMN``.

    Raises:
        InputError: an unknown form, a language pair that is not there, or a file that cannot be opened; iterating, as
            the reader of the form.
    """
    is_folder = os.path.isdir(path)
    if form == "mtme" or (form == "systems" and is_folder and is_eval_set_folder(path)):
        pair = the_language_pair(path, language_pair)
        rows = eval_set_rows(read_eval_set(path, pair, _TEXTS_ONLY))
        return DocumentRows(f"{path} {pair}", rows)
    if language_pair is not None:
        raise InputError(
            "is of folders of mt-metrics-eval", where="language_pair", fix="Leave it out"
        )
    if form == "systems":
        return open_rows(path, columns, "document")
    if form not in _READERS:
        raise unknown("form of documents", form, ["systems", *DOCUMENT_FORMS])
    return DocumentRows(str(path), _READERS[form](str(path)))


# Scores of metrics are not needed to read texts, so those that lack an output are no error.
_TEXTS_ONLY = EvalSetOptions(missing="leave-out")


def the_language_pair(folder: str | Path, given: str | None) -> str:
    """The language pair given, or the only one of a folder; raises InputError if there are several."""
    pairs = language_pairs(folder)
    if given is not None:
        return given
    if len(pairs) != 1:
        raise InputError(
            f"{len(pairs)} language pairs: {', '.join(pairs)[:200]}",
            where=str(folder),
            fix="Name one with --language-pair",
        )
    return pairs[0]


def pairs_of(path: str | Path, given: Sequence[str] = ()) -> tuple[str, ...]:
    """The language pairs of a folder that are wanted: those given, or all; errors as `language_pairs`."""
    pairs = language_pairs(path)
    for pair in given:
        if pair not in pairs:
            raise unknown("language pair", pair, pairs, where=str(path))
    return tuple(given) or pairs
