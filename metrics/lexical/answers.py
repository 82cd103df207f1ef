r"""Where the answer stands in a text: all of it, its last line, a box of LaTeX, a match of a pattern, a JSON value.

Where models are not told how to write it, `written_answers` looks for it.

An answer has no white space around it and is not empty; a text may have none. Every search is bounded: a box and a JSON
value are found in one pass, and a pattern has `PATTERN_SECONDS` of the processor for a text.

Two answers agree where their keys are equal:

* exact: the answer itself.
* casefold: the answer without regard to case, as Unicode folds it.
* number: numbers by their exact value, anything else as casefold. 1,000 = 1000.0 = 1e3; 50% = 0.5 = 1/2 =
  ``\frac{1}{2}``, and 50% is not 50. Digits may be of any script. A sign of dollars, euros or pounds before it, the
  ``$`` of LaTeX around it and a full stop behind it do not count. A comma stands between thousands, never before
  decimals: 1,5 is no number. Nor are units (5 km), mixed numbers (1 1/2), or what has more than 400 characters or an
  exponent beyond 400.
* value: as models write answers. Numbers by value, without a unit behind them or ``x =`` before (42 apples = 42; 3
  hours 15 minutes is no number); the letter of a choice, "(B)", "B) Paris", "option B"; yes or no with what follows;
  anything else by its words, without case, marks of LaTeX and Markdown, and punctuation around it. Dates and times are
  left as they are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Literal, NoReturn
from unicodedata import decimal

import regex

from ..errors import InputError, MetricError, excerpt
from ..storage.limits import limits

PATTERN_SECONDS = 1.0
MAX_CHARACTERS = 1_000  # of a pattern or a path, and of an answer that is looked into
_BRACES = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)
_FENCED = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)
_KEY, _INDEX = r"[^.\[\]]+", r"\[(-?\d{1,9})\]"
_PATH = re.compile(rf"(?:{_KEY}|{_INDEX})(?:\.{_KEY}|{_INDEX})*")
_STEP = re.compile(rf"({_KEY})|{_INDEX}")


def whole(text: str) -> str | None:
    """All of the text."""
    return text.strip() or None


def last_line(text: str) -> str | None:
    """The last line that is not blank."""
    lines = text.strip().splitlines()
    return lines[-1].strip() or None if lines else None


def boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` that is closed; braces nest, ``\{`` and ``\}`` are no braces.

    >>> boxed(r"so \boxed{1} or rather \boxed{\frac{1}{2}}, not \boxed{3")
    '\\frac{1}{2}'
    """
    open_braces: list[
        tuple[bool, int]
    ] = []  # whether a box begins there, and where its content does
    start, end = -1, -1
    for match in _BRACES.finditer(text):
        mark = match[0]
        if mark.startswith("\\boxed"):
            open_braces.append((True, match.end()))
        elif mark == "{":
            open_braces.append((False, match.end()))
        elif mark == "}" and open_braces:
            is_box, content = open_braces.pop()
            if is_box and content > start:
                start, end = content, match.start()
    return text[start:end].strip() or None if start >= 0 else None


def compiled(pattern: str) -> Any:
    """A regular expression of the package regex.

    Raises:
        InputError: it is none, or too long.
    """
    if len(pattern) > MAX_CHARACTERS:
        problem = f"{len(pattern)} characters, at most {MAX_CHARACTERS} are read"
        raise InputError(problem, where="pattern", fix="Write a shorter one")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        problem = f"{excerpt(pattern)} is no regular expression ({error})"
        raise InputError(problem, where="pattern", fix="See the package regex") from None


def matched(pattern: Any, text: str) -> str | None:
    """The last match that is not empty: its first group that took part, or all of it where there is no group.

    Raises:
        MetricError: the search takes more than `PATTERN_SECONDS`.
    """
    last = None
    try:
        # other threads run on meanwhile
        for match in pattern.finditer(text, timeout=PATTERN_SECONDS, concurrent=True):
            last = match if match[0] else last
    except TimeoutError:
        raise MetricError(
            f"more than {PATTERN_SECONDS:g} s on a text of {len(text)} characters",
            where=f"pattern {excerpt(pattern.pattern)}",
            fix="Write one that backtracks less: no repetition within a repetition",
        ) from None
    if last is None:
        return None
    groups = [group for group in last.groups() if group is not None]
    answer = groups[0] if groups else last[0]
    return answer.strip() or None


def steps_of(path: str) -> tuple[str | int, ...]:
    """The keys and indexes of a path.

    >>> steps_of("steps[-1].result.value")
    ('steps', -1, 'result', 'value')

    Raises:
        InputError: it is none.
    """
    if len(path) > MAX_CHARACTERS or not _PATH.fullmatch(path):
        fix = "Write keys and indexes, such as answer or steps[-1].value"
        raise InputError(f"{excerpt(path)} is no JSON path", where="path", fix=fix)
    return tuple(key or int(index) for key, index in _STEP.findall(path))


def json_value(steps: tuple[str | int, ...], text: str) -> str | None:
    """The value at a path of the JSON that a text is, or that stands in its last fenced block.

    A string is itself, a number stands as it is written, an array or object as JSON with sorted keys. There is no
    answer where the text is no JSON or nested too deeply, nothing stands at the path, or null does.

    Raises:
        InputError: the text is longer than a JSON file may be, or has the marks of more values.
    """
    limits().check("json_bytes", len(text), "text")
    limits().check("json_values", sum(map(text.count, "[{,:")), "text")
    value = _parsed(text)
    if value is None:
        blocks = _FENCED.findall(text)
        value = _parsed(blocks[-1]) if blocks else None
    for step in steps:
        value = _inside(value, step)
    if value is None:
        return None
    if isinstance(value, str):
        return value.strip() or None
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return None


def _parsed(text: str) -> Any:
    """The JSON of a text, its numbers as they are written; None where it is none."""
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _inside(value: Any, step: str | int) -> Any:
    """The value at a key of an object, or at an index of an array; None where there is none."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        return value[step]
    return None


Agreement = Literal["exact", "casefold", "number", "value"]

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
DATE = (
    rf"\d{{4}}-\d\d-\d\d|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:,?\s+\d{{4}})?|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?"
    r"|\d{1,2}:\d\d(?::\d\d)?(?:\s*[ap]\.?m\b)?"
)
_WHOLE_DATE = re.compile(DATE, re.IGNORECASE)
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf|operatorname)\s*\{([^{}]*)\}")
_SPACES_OF_LATEX = re.compile(r"\\[ ;!]|~|\s+")
_AROUND = " \t\n\r\"'`*_“”‘’«»"
_PAIRS = {"(": ")", "[": "]", "$": "$", "\\(": "\\)", "\\[": "\\]"}
_CHOICE = re.compile(
    r"(?:(?:option|choice|answer)\s+)?(?:\(([A-J])\)|([A-J])[).:](?=\s|$)|([A-J])$|\[([A-J])\])(?:\s*[:.)-]?\s.*)?$",
    re.DOTALL,
)
_NAMED_CHOICE = re.compile(r"(?:option|choice)\s+([A-J])\b.*$", re.IGNORECASE | re.DOTALL)
_YES_NO = re.compile(
    r"(yes|no|ja|nein|oui|non|sí|si|sì|sim|não|nee|да|нет|はい|いいえ|是的?|不是|否|ndiyo|hapana|네|아니요|evet|hayır)"
    r"(?=$|[\s,.;:!—–-]|[、。,])",
    re.IGNORECASE,
)
_SEPARATED = ",.;:!—–-、。,"
_WITH_UNIT = re.compile(
    r"(?P<number>[-\u2212+]?[$€£]?\s?[\d\\.][^\s]*?)\s*(?P<unit>[^\W\d][^\d]*)$"
)
_EQUATION = re.compile(r"[A-Za-z]\w{0,2}\s*=\s*(?=\S)")
_CURRENCY = re.compile(r"(?<=\d)\s?[$€£]$")
_BETWEEN_THOUSANDS = re.compile(r"(?<=\d)[ \u00a0\u202f'](?=\d{3}(?!\d))")
_DEGREES = re.compile(r"\s*(?:\^\{?\\circ\}?|°)")
_AROUND_SIGNS = re.compile(r"\s*([^\w\s'])\s*")
MAX_UNIT_WORDS = 4

MAX_NUMBER_CHARACTERS, MAX_EXPONENT = 400, 400
_DECIMAL = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[+-]?\d{{1,3}}))?", re.ASCII
)
_LATEX_FRACTION = re.compile(r"([+-]?)\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_LATEX_SPACES = re.compile(r"\\[,!; ]|\{,\}")


def number_key(answer: str) -> str:
    r"""The value of a number as a reduced fraction after ``#``, the folded text of anything else after ``'``.

    >>> number_key("1,000"), number_key(r"$\frac{2}{4}$"), number_key("50 %"), number_key("Paris")
    ('#1000', '#1/2', '#1/2', "'paris")
    """
    value = number(answer)
    return f"'{answer.casefold()}" if value is None else f"#{value}"


def number(answer: str) -> Fraction | None:
    """The exact value of an answer; None where it is no number."""
    if len(answer) > MAX_NUMBER_CHARACTERS:
        return None
    text = _bare_number(answer)
    is_percent = text.endswith("%")
    text = text.removesuffix("%").removesuffix("\\").strip()
    latex = _LATEX_FRACTION.fullmatch(text)
    if latex:
        value = _quotient(latex[1] + latex[2].strip(), latex[3])
    elif "/" in text:
        value = _quotient(*text.split("/", 1))
    else:
        value = _decimal(text)
    return value / 100 if value is not None and is_percent else value


def _bare_number(answer: str) -> str:
    """An answer without the marks around a number."""
    text = _in_ascii_digits(answer.replace("\u2212", "-").strip())
    text = _LATEX_SPACES.sub(lambda match: "," if match[0] == "{,}" else "", text)
    text = text.removesuffix(".").strip()
    if len(text) > 1 and text[0] == text[-1] == "$":
        text = text.strip("$").strip()
    return text.removeprefix("\\$").lstrip("$€£").strip()


def _in_ascii_digits(text: str) -> str:
    """A text with the decimal digits of every script as 0 to 9."""
    return text if text.isascii() else "".join(str(decimal(c, c)) for c in text)


def _quotient(above: str, below: str) -> Fraction | None:
    numerator, denominator = _decimal(above.strip()), _decimal(below.strip())
    return numerator / denominator if numerator is not None and denominator else None


def _decimal(text: str) -> Fraction | None:
    """A number written with digits, a point and an exponent."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    exponent = int(match["exponent"] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    decimal = match["decimal"].replace(",", "")
    size = (
        Fraction(decimal if not decimal.endswith(".") else decimal[:-1]) * Fraction(10) ** exponent
    )
    return -size if match["sign"] == "-" else size


def bare(answer: str) -> str:
    r"""An answer without the marks of LaTeX and Markdown, quotes and punctuation around it.

    >>> bare(r"**$\text{Paris}$**."), bare("(B)"), bare("\\( 5 \\)")
    ('Paris', '(B)', '5')
    """
    text = answer.strip()
    before = text if len(text) > MAX_CHARACTERS else None  # a longer one is no answer with marks
    while text != before:
        before = text
        text = _WRAPPED.sub(r"\1", text).strip().strip(_AROUND).removesuffix(".").rstrip(",;:!")
        for left, right in _PAIRS.items():
            is_wrapped = len(text) > len(left) and text.startswith(left) and text.endswith(right)
            if is_wrapped and letter_of(text) is None and left not in text[len(left) : -len(right)]:
                text = text[len(left) : -len(right)]
    return text


def letter_of(answer: str) -> str | None:
    """The letter of a choice, from A to J, where an answer begins with one.

    >>> letter_of("B) Paris"), letter_of("option c"), letter_of("A cat"), letter_of("Bern")
    ('B', 'C', None, None)
    """
    match = _CHOICE.match(answer) or _NAMED_CHOICE.match(answer)
    return None if match is None else next(filter(None, match.groups())).upper()


def yes_or_no(answer: str) -> str | None:
    """The yes or no that an answer is, or begins with before a comma or a full stop."""
    match = _YES_NO.match(answer)
    if match is None or answer[match.end() : match.end() + 1] not in _SEPARATED:
        return None
    return match[1]


def value_key(answer: str) -> str:
    """What equals another answer's where they agree.

    >>> value_key("42 apples"), value_key("$42.00"), value_key("(B) Paris"), value_key("Yes, it is")
    ('#42', '#42', "'b", "'yes")
    """
    text = _DEGREES.sub("", bare(answer))
    if _WHOLE_DATE.fullmatch(text):
        return f"'{_folded(text)}"
    text = _EQUATION.sub("", text, count=1) if text.count("=") == 1 else text
    word = letter_of(text) or yes_or_no(text)
    if word is not None:
        return f"'{word.casefold()}"
    value = _value(text)
    if value is not None:
        return f"#{value}"
    return f"'{_folded(text)}"


def _value(text: str) -> object | None:
    """The value of a number, with or without a unit behind it."""
    plain = _BETWEEN_THOUSANDS.sub(",", _CURRENCY.sub("", text))
    value = number(plain)
    if value is not None:
        return value
    match = _WITH_UNIT.fullmatch(plain)
    if match is None or len(match["unit"].split()) > MAX_UNIT_WORDS:
        return None
    return number(match["number"])


def _folded(text: str) -> str:
    spaced = _SPACES_OF_LATEX.sub(" ", text).strip().casefold()
    return _AROUND_SIGNS.sub(r"\1", spaced)


def _exact(answer: str) -> str:
    return answer


KEYS: Mapping[Agreement, Callable[[str], str]] = {
    "exact": _exact,
    "casefold": str.casefold,
    "number": number_key,
    "value": value_key,
}
