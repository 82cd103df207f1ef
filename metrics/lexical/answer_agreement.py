r"""When two answers are one: a key for every answer, so that answers agree where their keys are equal.

* exact: the answer itself.
* casefold: the answer without regard to case, as Unicode folds it.
* number: numbers by their exact value, anything else as casefold. 1,000 = 1000.0 = 1e3; 50% = 0.5 = 1/2 =
  ``\frac{1}{2}``, and 50% is not 50. A sign of dollars, euros or pounds before it, the ``$`` of LaTeX around it and a
  full stop behind it do not count. A comma stands between thousands, never before decimals: 1,5 is no number. Nor are
  units (5 km), mixed numbers (1 1/2), or what has more than 400 characters or an exponent beyond 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Literal

Agreement = Literal["exact", "casefold", "number"]

MAX_CHARACTERS, MAX_EXPONENT = 400, 400
_DECIMAL = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[+-]?\d{{1,3}}))?", re.ASCII
)
_LATEX_FRACTION = re.compile(r"([+-]?)\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_LATEX_SPACES = re.compile(r"\\[,!; ]|\{,\}")


def _exact(answer: str) -> str:
    return answer


def number_key(answer: str) -> str:
    r"""The value of a number as a reduced fraction after ``#``, the folded text of anything else after ``'``.

    >>> number_key("1,000"), number_key(r"$\frac{2}{4}$"), number_key("50 %"), number_key("Paris")
    ('#1000', '#1/2', '#1/2', "'paris")
    """
    value = number(answer)
    return f"'{answer.casefold()}" if value is None else f"#{value}"


KEYS: Mapping[Agreement, Callable[[str], str]] = {
    "exact": _exact,
    "casefold": str.casefold,
    "number": number_key,
}


def number(answer: str) -> Fraction | None:
    """The exact value of an answer; None where it is no number."""
    if len(answer) > MAX_CHARACTERS:
        return None
    text = _bare(answer)
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


def _bare(answer: str) -> str:
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
