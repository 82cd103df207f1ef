"""The input of a command: which file of candidate lists, and in which format."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Annotated, Any, ClassVar

from ...integrations.formats.format_table import ListOptions
from ...integrations.formats.open_lists import Lists, open_lists
from ...metrics.spec.checked_settings import Rare, settings
from ...metrics.storage.bounded_files import check_regular
from ...metrics.storage.checksums import digest_of
from ..terminal.console import say
from .command_options import needed

READ_BESIDE = ("sources", "documents", "requests")  # options that name further files of the input


@settings
class InputOptions:
    """Where candidate lists come from.

    Args:
        input: the file (.gz too; .csv, .tsv, .parquet, .arrow, .arrows, .feather), or - for stdin.
        input_format: its format: {formats}.
        num_candidates: {formats:num_candidates}: lines per source, read from the counts if not given.
        sources: {formats:sources}: the file of sources, one per line.
        documents: {formats:sources}: the file of document ids, one per line.
        requests: {formats:requests}: the file of requests that the output answers.
        human: {formats:human}: keys that hold human scores, such as mqm:lower.
        as_systems: {formats:as_systems}: references to treat as systems.
        include: {formats:include}: further keys that hold systems.
        columns: {formats:columns}: which column of a table, or key of JSON lines, is which key, such as id=prompt_id
            candidates=samples, or of a candidate a row text=output; =COLUMN leaves one out, id=# numbers the rows.
        language_pair: {formats:language_pair}: the language pair, where there are several.
        mqm_weights: {formats:mqm_weights}: what errors count, such as major=10 minor/style=0, where not as at WMT.
    """

    heading: ClassVar = "input"

    input: str | None = None
    input_format: str = "jsonl"
    num_candidates: int | None = None
    sources: str | None = None
    documents: str | None = None
    requests: Annotated[str | None, Rare()] = None
    human: tuple[str, ...] = ()
    as_systems: tuple[str, ...] = ()
    include: Annotated[tuple[str, ...], Rare()] = ()
    columns: Annotated[tuple[str, ...], Rare()] = ()
    language_pair: Annotated[str | None, Rare()] = None
    mqm_weights: Annotated[tuple[str, ...], Rare()] = ()

    @property
    def paths(self) -> list[str | None]:
        """The files that are read."""
        return [self.input, self.sources, self.documents, self.requests]

    @property
    def named_beside(self) -> dict[str, str]:
        """The further files of the input, by their options."""
        named = {name: getattr(self, name) for name in READ_BESIDE}
        return {name: path for name, path in named.items() if path}

    def opened(self) -> Lists:
        """The lists of the input; errors as `open_lists`."""
        own = {field.name for field in fields(self)}
        names = [field.name for field in fields(ListOptions) if field.name in own]
        options = {name: getattr(self, name) for name in names}
        lists = open_lists(needed(self.input, "input", "INPUT"), self.input_format, **options)
        lists.tell(say)
        return lists

    def identity(self) -> dict[str, Any]:
        """The options that make other lists of the same bytes, files by their digests."""
        identity: dict[str, Any] = {}
        files = {name: path for name, path in self.named_beside.items() if os.path.isfile(path)}
        if files:
            fix = "Give the file that belongs to the input"
            identity["files"] = {name: file_key(path, fix) for name, path in files.items()}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("input", *READ_BESIDE) and value not in (None, ()):
                identity[field.name] = list(value) if isinstance(value, tuple) else value
        return identity


def file_key(path: str, fix: str) -> str:
    """A digest of a file's bytes; raises InputError if it is none."""
    check_regular(path, fix)
    return digest_of(path, "blake2b").hex()[:32]
