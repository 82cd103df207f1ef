"""The texts of an mt-metrics-eval folder: a line per segment, ``.txt`` or ``.jsonl``, and the documents they stand in.

Lines lose trailing white space. ``[No translation supplied]`` stands for a text that is missing, None.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource
from ....rerank.selection.meta_evaluation.eval_set import DocumentPlace, Texts

MISSING_TEXT = "[No translation supplied]"


def read_texts_file(path: Path, key: str) -> Texts:
    """The texts of a file, or of JSON lines under a key where its name ends in ``.jsonl``.

    Raises:
        InputError: a line that has no text under the key, or more lines than the limit "segments".
    """
    texts: list[str | None] = []
    source = LineSource(path)
    for number, line in source:
        text = _text_of(line, key, source, number) if path.suffix == ".jsonl" else line.decode()
        text = text.rstrip()
        texts.append(None if text.strip() == MISSING_TEXT else text)
        limits().check("segments", len(texts), str(path))
    return tuple(texts)


def _text_of(line: bytes, key: str, source: LineSource, number: int) -> str:
    """The text of a JSON line."""
    try:
        row = parse_json(line)
    except (InputError, RecursionError) as error:
        problem = error.problem if isinstance(error, InputError) else "nested too deeply"
        raise source.refusal(number, problem, "Write one object per line") from None
    text = row.get(key) if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise source.refusal(number, f"found {excerpt(row)}, expected an object with {key}")
    return text


def written_texts(texts: Texts, where: str) -> Iterator[bytes]:
    """The lines of a text file.

    Raises:
        InputError: a text has a line break, or ends in white space, which its readers would not give back.
    """
    for number, text in enumerate(texts, 1):
        if text is not None:
            _check_line(text, f"{where}:{number}")
        yield (MISSING_TEXT if text is None else text).encode() + b"\n"


def _check_line(text: str, where: str) -> None:
    if "\n" in text or "\r" in text:
        raise InputError("a text of several lines", where=where, fix="Make it one line")
    if text != text.rstrip():
        raise InputError("a text that ends in white space", where=where, fix="Strip it")
    if text.strip() == MISSING_TEXT:
        raise InputError(f"the text {MISSING_TEXT!r}", where=where, fix="It means a missing text")


def read_documents_file(path: Path) -> tuple[DocumentPlace, ...]:
    """The documents of ``DOMAIN DOCUMENT`` lines, one per segment; further columns are not read.

    Raises:
        InputError: a line of fewer columns, or a document that comes back after another.
    """
    documents: list[DocumentPlace] = []
    names: set[str] = set()
    source = LineSource(path)
    for segment, (number, line) in enumerate(source):
        columns = line.decode().split()
        if len(columns) < 2:
            raise source.refusal(
                number, f"found {excerpt(line.decode())}, expected DOMAIN DOCUMENT"
            )
        domain, name = columns[:2]
        limits().check("segments", number, str(path))
        if documents and documents[-1].name == name:
            if documents[-1].domain != domain:
                raise source.refusal(number, f"document {name!r:.80} has two domains")
            documents[-1] = documents[-1]._replace(stop=segment + 1)
        elif name in names:
            raise source.refusal(
                number,
                f"document {name!r:.80} comes back after another",
                "The segments of a document stand together",
            )
        else:
            names.add(name)
            documents.append(DocumentPlace(name, domain, segment, segment + 1))
    if not documents:
        raise InputError("no segments", where=str(path), fix="Give a line per segment")
    return tuple(documents)


def written_documents(documents: tuple[DocumentPlace, ...], where: str) -> Iterator[bytes]:
    """The lines of a documents file.

    Raises:
        InputError: a name that is empty or has white space.
    """
    for document in documents:
        for name in (document.name, document.domain):
            check_name(name, where)
        line = f"{document.domain} {document.name}\n".encode()
        for _ in range(document.start, document.stop):
            yield line


def check_name(name: str, where: str) -> None:
    """Raises InputError for a name that no column can hold."""
    if not name or name.split() != [name]:
        raise InputError(
            f"found the name {name!r:.80}, expected one without white space",
            where=where,
            fix="Rename it",
        )
