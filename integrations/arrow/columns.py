"""Which column of a table is which key of a row, as ``--columns KEY=COLUMN ...`` says.

id=prompt_id                   the column prompt_id is the key id; columns that nothing names keep their names
id=#                           the number of the row, from 0
candidates=samples             a list of texts, or of structs of which one is named text
candidates.text=response       in every struct of candidates, the field response is the text;
candidates.logprob=logprobs    or, where logprobs is a column: a list as long as the candidates
text=response                  a row is a candidate; rows of one id, or without ids of one source, that follow each
                               other are a list
=image  =*                     the column image is left out; so are all that are not named
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ...metrics.errors import InputError, unknown
from ...metrics.storage.limits import limits, more
from ...rerank.lists import with_text_names

RowKind = Literal["list", "input", "segment", "document"]
# the keys of which a row must have one, by what it is
_NEEDED: Mapping[RowKind, tuple[str, ...]] = MappingProxyType(
    {
        "list": ("candidates", "text", "responses"),
        "input": ("source",),
        "segment": ("hypothesis",),
        "document": ("systems",),
    }
)
ROW_NUMBER = "#"
ALL_OTHERS = "*"
# what is said of a list as a whole: the same in every row of its candidates
OF_LIST = (
    "id",
    "source",
    "document",
    "position",
    "references",
    "pseudo_references",
    "context_only",
)
OF_CANDIDATES = ("candidates", "pseudo_references")
_WHERE = "--columns"
NumberedRow = tuple[int, dict[str, Any]]  # the number of a row, from 1, and its values by key


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Which columns are which keys.

    Args:
        keys: the column of every key that is named.
        inner: the same for keys inside the candidates of a list, by its key.
        left_out: columns that are not read.
        others: whether columns that nothing names are read, under their own names.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    inner: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    others: bool = True

    @classmethod
    def read(cls, assignments: Iterable[str]) -> ColumnNames:
        """The names in assignments ``KEY=COLUMN``.

        Raises:
            InputError: one is none, or a key or a column is named twice.
        """
        keys: dict[str, str] = {}
        inner: dict[str, dict[str, str]] = {}
        left_out: list[str] = []
        for assignment in assignments:
            key, mark, column = assignment.partition("=")
            if not mark or not column:
                problem = f"found {assignment!r:.80}, expected KEY=COLUMN"
                raise InputError(problem, where=_WHERE, fix="Write, for example, id=prompt_id")
            outer, dot, name = key.partition(".")
            if not key:
                left_out.append(column)
                continue
            target = inner.setdefault(outer, {}) if dot else keys
            if (name or outer) in target or (dot and outer not in OF_CANDIDATES):
                problem = (
                    f"the key {assignment!r:.80} is named twice, or stands in no list of candidates"
                )
                raise InputError(problem, where=_WHERE, fix="Name every key once")
            target[name or outer] = column
        named = [column for column in (*keys.values(), *left_out) if column != ROW_NUMBER]
        if repeated := [column for i, column in enumerate(named) if column in named[:i]]:
            problem = f"the column {repeated[0]!r:.80} is named twice"
            raise InputError(problem, where=_WHERE, fix="Name every column once")
        others = ALL_OTHERS not in left_out
        return cls(keys, inner, frozenset(left_out) - {ALL_OTHERS}, others)

    def fitted(
        self, columns: Sequence[str], where: str, kind: RowKind | None = None
    ) -> FittedColumns:
        """These names for a file with these columns.

        Args:
            columns: of the file.
            where: the file, for errors.
            kind: what its rows are, where every row must have certain keys; candidates of a list are lists, too.

        Raises:
            InputError: a column that is named is not there, two are one key, or none is a key that rows must have.
        """
        key_of = {column: key for key, column in self.keys.items() if column != ROW_NUMBER}
        for column in (*key_of, *self.left_out):
            if column not in columns:
                raise unknown("column", column, columns, where=where)
        inner = {column for names in self.inner.values() for column in names.values()}
        aside = inner & set(columns)
        taken = {*key_of, *aside, *self.left_out}
        for column in columns if self.others else ():
            if column not in taken and column in self.keys:
                problem = f"the column {column!r:.80} stands beside the one named for this key"
                raise InputError(problem, where=where, fix=f"Leave it out: {_WHERE} ={column}")
            if column not in taken:
                key_of[column] = column
        numbered = tuple(key for key, column in self.keys.items() if column == ROW_NUMBER)
        keys = {*key_of.values(), *numbered}
        if kind is not None and keys.isdisjoint(_NEEDED[kind]):
            raise _lacking(kind, columns, where)
        is_flat = kind == "list" and "text" in keys and "candidates" not in keys
        if is_flat and not {"id", "source"} & keys:
            problem = f"which rows are one list is not known; there are: {', '.join(columns):.300}"
            fix = f"Say which column tells lists apart: {_WHERE} id=COLUMN, or source=COLUMN"
            raise InputError(problem, where=where, fix=fix)
        return FittedColumns(
            key_of, {} if is_flat else self.inner, frozenset(aside), numbered, is_flat
        )


def _lacking(kind: RowKind, columns: Sequence[str], where: str) -> InputError:
    """The error where no column is a key that rows of a kind must have."""
    if len(columns) == 1 and ";" in columns[0]:
        problem = f"the only column is {columns[0][:100]!r}, expected columns between commas"
        fix = "Write the table with commas, or with tabs as .tsv"
        return InputError(problem, where=where, fix=fix)
    needed = _NEEDED[kind]
    fix = f"Say which it is: {_WHERE} {needed[0]}=COLUMN"
    if kind == "list":
        fix += ", or text=COLUMN where a row is a candidate"
    problem = f"no column {' or '.join(needed[:2])}; there are: {', '.join(columns):.300}"
    return InputError(problem, where=where, fix=fix)


@dataclass(frozen=True, slots=True)
class FittedColumns:
    """The keys of the columns of one file.

    Args:
        key_of: the key of every column that is one.
        inner: columns and fields that belong into candidates, by the key of these and the name there.
        aside: the columns among them.
        numbered: keys that are the number of the row.
        is_flat: whether a row is a candidate.
    """

    key_of: Mapping[str, str]
    inner: Mapping[str, Mapping[str, str]]
    aside: frozenset[str]
    numbered: tuple[str, ...]
    is_flat: bool

    @property
    def read(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys([*self.key_of, *sorted(self.aside)]))

    def keyed(self, row: Mapping[str, Any], number: int) -> dict[str, Any]:
        """A row by its keys, without those that are null; `number` counts rows from 1.

        Whole numbers that are ids become their digits.
        """
        made: dict[str, Any] = {key: str(number - 1) for key in self.numbered}
        made |= {key: row[column] for column, key in self.key_of.items() if row[column] is not None}
        made = with_text_names(made)
        for key in OF_CANDIDATES:
            if key in made:
                made[key] = self._candidates(made[key], self.inner.get(key, {}), row)
        return made

    def _candidates(self, value: Any, names: Mapping[str, str], row: Mapping[str, Any]) -> Any:
        """Candidates as a list: of columns side by side, or of structs whose fields have other names.

        What is none becomes an object in place of the list: its reader says what it found.
        """
        beside = {name: row[column] for name, column in names.items() if column in self.aside}
        beside = {name: items for name, items in beside.items() if items is not None}
        renamed = {column: name for name, column in names.items() if column not in self.aside}
        if isinstance(value, Mapping):
            value = _side_by_side(_renamed(value, renamed))
        if isinstance(value, list) and renamed:
            value = [_renamed(item, renamed) for item in value]
        if not beside or not isinstance(value, list):
            return value
        texts = [item if isinstance(item, Mapping) else {"text": item} for item in value]
        columns = _side_by_side({"text": texts, **beside})
        if not isinstance(columns, list):
            return {"text": value, **beside}
        return [{**row.pop("text"), **row} for row in columns]


def _renamed(item: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(item, Mapping):
        return item
    return {names.get(key, key): value for key, value in item.items()}


def _side_by_side(columns: Mapping[str, Any]) -> Any:
    """Objects of lists of one length; what is none stays as it is."""
    lengths = {len(items) if isinstance(items, list) else -1 for items in columns.values()}
    if "text" not in columns or len(lengths) != 1 or -1 in lengths:
        return columns
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def as_lists(rows: Iterable[NumberedRow], name: str) -> Iterator[NumberedRow]:
    """The lists in rows of candidates, each with the number of its first row.

    Raises:
        InputError: a list has more candidates or bytes than are read; the file is to be refused.
    """
    group: list[NumberedRow] = []
    num_bytes, before = 0, None
    for number, row in rows:
        key = row.get("id", row.get("source"))  # which the rows of a list have alike
        if group and (key is None or key != before):
            yield _list(group)
            group, num_bytes = [], 0
        before = key
        group.append((number, row))
        num_bytes += len(json.dumps(row, ensure_ascii=False))
        most, most_bytes = limits().candidates, limits().line_bytes
        if len(group) > most or num_bytes > most_bytes:
            problem = f"a list of more than {most} candidates or {most_bytes} bytes"
            where = f"{name}:{group[0][0]}"
            raise InputError(problem, where=where, fix=more("candidates"))
    if group:
        yield _list(group)


def _list(group: list[NumberedRow]) -> NumberedRow:
    """A list of its rows."""
    first, head = group[0]
    made: dict[str, Any] = {}
    for key in OF_LIST:
        values = {number: row.get(key) for number, row in group}
        if any(value != head.get(key) for value in values.values()):
            # an object in place of the value: the reader of lists says what it found
            made[key] = {f"row {number}": value for number, value in values.items()}
        elif key in head:
            made[key] = head[key]
    made["candidates"] = [
        {key: value for key, value in row.items() if key not in OF_LIST} for _, row in group
    ]
    return first, made
