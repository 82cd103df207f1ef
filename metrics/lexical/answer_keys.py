r"""When two answers agree: where their keys are equal.

* exact: the answer itself.
* casefold: the answer without regard to case, as Unicode folds it.
* number: numbers by their exact value, anything else as casefold. 1,000 = 1000.0 = 1e3; 50% = 0.5 = 1/2 =
  ``\frac{1}{2}``, and 50% is not 50. A sign of dollars, euros or pounds before it, the ``$`` of LaTeX around it and a
  full stop behind it do not count. A comma stands between thousands, never before decimals: 1,5 is no number. Nor are
  units (5 km), mixed numbers (1 1/2), or what has more than 400 characters or an exponent beyond 400.
* value: as models write answers. Numbers by value, without a unit behind them or ``x =`` before (42 apples = 42; 3
  hours 15 minutes is no number); the letter of a choice, "(B)", "B) Paris", "option B"; yes or no with what follows;
  anything else by its words, without case, marks of LaTeX and Markdown, and punctuation around it. Dates and times are
  left as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Literal

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

MAX_CHARACTERS, MAX_EXPONENT = 400, 400
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
    if len(answer) > MAX_CHARACTERS:
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
    text = answer.replace("\u2212", "-").strip()
    text = _LATEX_SPACES.sub(lambda match: "," if match[0] == "{,}" else "", text)
    text = text.removesuffix(".").strip()
    if len(text) > 1 and text[0] == text[-1] == "$":
        text = text.strip("$").strip()
    return text.removeprefix("\\$").lstrip("$€£").strip()


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
    text = _WRAPPED.sub(r"\1", answer)
    before = None
    while text != before:
        before = text
        text = text.strip(_AROUND).removesuffix(".").rstrip(",;:!")
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
