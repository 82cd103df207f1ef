r"""When two answers agree: equality of their keys, so that agreement is an equivalence relation and needs no order.

* exact: the answer itself.
* casefold: the answer without regard to case, as Unicode folds it.
* number: numbers by their exact value, anything else as casefold. 1,000 = 1000.0 = 1e3 = 10^3; 50% = 0.5 = 1/2 =
  ``\frac{1}{2}``, and 50% is not 50. Digits may be of any script. A comma separates thousands, never decimals.
* value: as language models write answers. Numbers by value to six digits, without a unit, hedge or gloss around them
  (42 apples = about 42 = 42 (forty-two)); an arithmetic chain by its result (3 x 4 = 12); a formula by its values at
  fixed points, so that notation does not count; intervals, tuples (ordered), sets and lists (unordered) by their
  parts; equations up to a factor; the letter of a choice; yes or no; anything else by its words, without case, marks of
  LaTeX and Markdown, and punctuation around it. A number within a name (iPhone 11), dates and times stay text.
* math: value, and formulas that it cannot read as the package math-verify parses them (extra ``math``).

Every step is bounded: formulas have at most `MAX_FORMULA` characters, and are evaluated in fractions of bounded size or
in floating point.
"""

from __future__ import annotations

import ast
import cmath
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal
from unicodedata import decimal
from zlib import crc32

from ..errors import ModelLoadError
from ..optional_packages import imported

Agreement = Literal["exact", "casefold", "number", "value", "math"]
Number = Fraction | float | complex

MAX_CHARACTERS = 1_000  # of an answer whose marks are removed
MAX_FORMULA = 400
MAX_EXPONENT, MAX_BITS = 400, 4_000
MAX_UNIT_WORDS = 4
POINTS = (1, 2, 3)

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
DATE = (
    rf"\d{{4}}-\d\d-\d\d|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:,?\s+\d{{4}})?|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?"
    r"|\d{1,2}:\d\d(?::\d\d)?(?:\s*[ap]\.?m\b)?"
)
_WHOLE_DATE = re.compile(DATE, re.IGNORECASE)
_WRAPPED = re.compile(
    r"\\(?:text|textbf|textit|textnormal|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}"
)
_AROUND = " \t\n\r\"'`*_“”‘’«»「」『』【】"
_WIDE = str.maketrans("（）［］，：；", "()[],:;")
_EXCLAIMED = re.compile(r"(?<![\d)nkm!])!+$")  # not a factorial
_PAIRS = {"(": ")", "[": "]", "$": "$", "\\(": "\\)", "\\[": "\\]"}
_CHOICE = re.compile(
    r"(?:(?:option|choice|answer)\s+)?(?:\(([A-J])\)|([A-J])[).:](?=\s|$)|([A-J])(?=$|[,。:;](?!\s*[A-J]|\s))|\[([A-J])\])"
    r"(?:\s*[:.)-]?\s.*|[,。:;].*)?$|\(?([a-j])[.)]\s+\S.*$",
    re.DOTALL,
)
_NAMED_CHOICE = re.compile(r"(?:option|choice)\s+([A-J])\b.*$", re.IGNORECASE | re.DOTALL)
_YES_NO = re.compile(
    r"(yes|no|ja|nein|oui|non|sí|si|sì|sim|não|nee|да|нет|はい|いいえ|是的?|不是|否|ndiyo|hapana|네|아니요|evet|hayır)"
    r"(?=$|[\s,.;:!—–-]|[、。,])",
    re.IGNORECASE,
)
_SEPARATED = ",.;:!—–-、。,"
_HEDGE = re.compile(
    r"(?:I\s+(?:think|believe|guess)(?:\s+that)?|(?:it|the\s+answer)\s+is|it's|probably|likely|maybe"
    r"|approximately|about|around|roughly|nearly|ca\.?)\s+(?=\S)|(?:≈|~|\\approx)\s*(?=\S)",
    re.IGNORECASE,
)
_GLOSS = re.compile(r"(?<=[\d%$}])\s+\([^()]*[^\W\d]{3}[^()]*\)$")
_PERCENT = re.compile(
    r"\s*(?:\\?%|\b(?:percentage|percent|per\s?cent|pct|prozent|pour\s?cent|por\s?ciento|por\s?cento|per\s?cento"
    r"|процент(?:а|ов)?)\b|パーセント|퍼센트|프로|百分之)",
    re.IGNORECASE,
)
_SCALES = {
    **{"thousand": 3, "million": 6, "millions": 6, "billion": 9, "trillion": 12},
    **{"万": 4, "萬": 4, "億": 8, "亿": 8, "만": 4, "억": 8},
}
_SCALED = re.compile(rf"(?<=\d)\s*({'|'.join(_SCALES)})(?![^\W\d_])", re.IGNORECASE)
_UNIT = re.compile(
    r"(?P<number>.*[\d)}%])(?:\s+|(?=[^\W\d_]{2}|[^\x00-\x7f])|(?=/\s?[^\W\d_]{2}))"
    r"(?P<unit>(?:(?![a-zA-Z]\b)[^\W\d_]|[mgshlLWVAJNKCF]\b|/)[^\d=(\\^]*(?:\^?\{?[23]\}?|[²³])?)$"
)
_BETWEEN_THOUSANDS = re.compile(
    r"(?<=\d)(?:[ \u00a0\u202f']|,?\\,|\s?\{,\s?\}|,?\\!)\s?(?=\d{3}(?!\d))"
)
# a comma before decimals, where it cannot be between thousands or parts of a list
_DECIMAL_COMMA = re.compile(
    r"([-+]?[$€£]?\s?(?:\d{1,3}(?:\.\d{3})+|0|\d+(?=,\d\d(?!\d)))),(\d+(?:\D.*)?)"
)
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°)")
_MIXED = re.compile(
    r"(?<![\d.,}^])(\d+)(?:\s*\\frac\s*\{?(\d+)\}?\s*\{?(\d+)\}?|\s+(\d+)/(\d+)(?!\d))"
)
# commands and signs of a formula, and what each is read as
_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("left", "right", "displaystyle", "limits"), ""),
    **dict.fromkeys(("quad", "qquad"), " "),
    **dict.fromkeys(("dfrac", "tfrac", "cfrac"), r"\frac"),
    **dict.fromkeys(("cdot", "times", "ast"), "*"),
    **dict.fromkeys(("le", "leq", "leqslant"), "≤"),
    **dict.fromkeys(("ge", "geq", "geqslant"), "≥"),
    **{"div": "/", "lt": "<", "gt": ">", "ne": "≠", "neq": "≠", "approx": "≈"},
    **{"cup": "∪", "infty": "∞", "pm": "±", "in": "∈"},
}
_COMMAND = re.compile(r"\\{1,2}(q?quad|[a-zA-Z]+)")
_SIGNS = str.maketrans(
    {"×": "*", "·": "*", "∙": "*", "⋅": "*", "÷": "/", "π": r"\pi ", "√": r"\sqrt ", "²": "^2"}
)
_SIGNS |= str.maketrans({"³": "^3", "\u2212": "-", "–": "-", "$": " ", "~": " "})
_SPELLED: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern), as_read)
    for pattern, as_read in (
        (r"\\[,!;: ]", " "),
        (r"(?<=\d)\s+x\s+(?=\d)", "*"),
        (r"\*\*", "^"),
        (r"<=", "≤"),
        (r">=", "≥"),
        (r"!=", "≠"),
        (r"(?<![\\a-zA-Z])(sqrt|pi)(?![a-zA-Z])", r"\\\1"),
        (r"\\\{", "⦃"),
        (r"\\\}", "⦄"),
        (r"\s*(?:,\s*)?\b(?:and|or)\b\s*", ", "),
    )
)
_SUBSCRIPT = re.compile(r"_(?:\w|\{\w+\})")
_NAME = re.compile(
    r"\s*(?:(?:[A-Za-z]|[A-Z]{2,4}|\|[A-Z]{2}\||\\[a-z]+)(?:_(?:\w|\{\w+\}))?(?::[A-Z](?:_(?:\w|\{\w+\}))?)?"
    r"(?:\([a-z](?:\s*,\s*[a-z])*\))?|\\frac\{[A-Z]{2}\}\{[A-Z]{2}\}|\(\s*[A-Za-z](?:\s*,\s*[A-Za-z])+\s*\))?\s*"
)
_TOKEN = re.compile(
    r"\d{1,3}(?:,\d{3})+(?:\.\d*)?(?!\d)|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3}(?!\d))?|\\[a-zA-Z]+|\S"
)
# how arguments of commands are grouped before a formula is read as an expression of Python
_GROUPED: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern), as_read)
    for pattern, as_read in (
        (r"\\(frac|sqrt)\s*(\d|[a-z](?![a-z]))", r"\\\1{\2}"),
        (r"(\\frac\s*\{[^{}]*\})\s*(\w)", r"\1{\2}"),
        (r"\\sqrt\s*\[(\d)\]\s*\{", r"root{\1,"),
        (r"\\?(sin|cos|tan|ln|log|exp)\s*(\d*(?:\\[a-z]+|[a-z](?![a-z]))|\d+)", r"\1{\2}"),
        (r"(\d+)!", r"factorial{\1}"),
        (r"\}\s*\{", ","),
    )
)
_WORD = re.compile(r"(?<!\\)(?<![a-zA-Z])[^\W\d_]{2,}")
_SYMBOLS = re.compile(r"[abnpqrtxyz]{2,3}|sin|cos|tan|log|ln|exp|pi")
_LETTER = re.compile(
    r"[^\W\d_]|\\(?:alpha|beta|gamma|delta|epsilon|theta|lambda|mu|nu|rho|sigma|tau|phi|psi|omega|pi)"
)
_CONSTANTS: Mapping[str, Number] = {"_pi": math.pi, "_e": math.e, "_i": 1j}
_IN_PYTHON = {"{": "(", "}": ")", "[": "(", "]": ")", "^": "**", "%": "/'100'"}
_CLOSING = {"(": ")", "[": "]", "{": "}", "⦃": "⦄"}
_RELATIONS = re.compile(r"[<>≤≥≠]")
_FORMULA_MARKS = re.compile(r"[\\^_=<>≤≥∪∈+*/|]|\d\s*[a-z]|[(\[{⦃].*,")


def bare(answer: str) -> str:
    r"""An answer without the marks of LaTeX and Markdown, quotes and punctuation around it.

    >>> bare(r"**$\text{Paris}$**."), bare("(B)"), bare("\\( 5 \\)")
    ('Paris', '(B)', '5')
    """
    text = answer.translate(_WIDE).strip()
    before = text if len(text) > MAX_CHARACTERS else None  # a longer one is no answer with marks
    while text != before:
        before = text
        text = _WRAPPED.sub(r"\1", text).strip().strip(_AROUND).removesuffix(".").rstrip(",;:。、،")
        text = _EXCLAIMED.sub("", text)
        for left, right in _PAIRS.items():
            is_wrapped = len(text) > len(left) and text.startswith(left) and text.endswith(right)
            inside = text[len(left) : -len(right)].strip("$" if left == "$" else "")
            is_plain = left in ("(", "[") and "," in inside  # a tuple or an interval
            if is_wrapped and not is_plain and letter_of(text) is None and left not in inside:
                text = inside
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


def unhedged(answer: str) -> str:
    """An answer without "I think it is", "about" and the like in front."""
    while match := _HEDGE.match(answer):
        answer = answer[match.end() :]
    return answer


def number_key(answer: str) -> str:
    r"""The exact value of a number as a reduced fraction after ``#``, the folded text of anything else after ``'``.

    >>> number_key("1,000"), number_key(r"$\frac{2}{4}$"), number_key("50 %"), number_key("Paris")
    ('#1000', '#1/2', '#1/2', "'paris")
    """
    text = _notation(answer.strip().removesuffix("."))
    values = None if _WORD.search(text) else _values(text.strip("€£ "))
    if values is None or not isinstance(values[0], Fraction) or len(set(values)) > 1:
        return f"'{answer.casefold()}"
    return f"#{values[0]}"


def value_key(answer: str, formula: Callable[[str], str | None] | None = None) -> str:
    r"""A string that equals another answer's where they agree.

    Args:
        answer: an answer.
        formula: a key of what looks like a formula and cannot be read here; None where it has none either.

    >>> value_key("42 apples"), value_key("$42.00"), value_key("(B) Paris"), value_key("Yes, it is")
    ('#42', '#42', "'b", "'yes")
    >>> value_key(r"\dfrac{\sqrt3}{2}") == value_key(r"\frac{1}{2} \sqrt{3}")
    True
    """
    text = _GLOSS.sub("", _DEGREES.sub("", bare(answer)))
    if _WHOLE_DATE.fullmatch(text):
        return f"'{_folded(text)}"
    text = unhedged(text)
    word = letter_of(text) or yes_or_no(text)
    if word is not None:
        return f"'{word.casefold()}"
    if len(text) > MAX_FORMULA:
        return f"'{_folded(text)}"
    if comma := _DECIMAL_COMMA.fullmatch(text):
        text = f"{comma[1].replace('.', '')}.{comma[2]}"
    key = _formula_key(_notation(text))
    if key is None and formula is not None and _FORMULA_MARKS.search(text):
        key = formula(text)
    return key or f"'{_folded(text)}"


def _notation(text: str) -> str:
    """A formula in one notation."""
    if not text.isascii():
        text = "".join(str(decimal(character, character)) for character in text)
    text = _PERCENT.sub("%", _BETWEEN_THOUSANDS.sub("", text))
    text = text.replace("\\$", "").replace("\\%", "%")
    text = _COMMAND.sub(lambda m: _COMMANDS.get(m[1], f"\\{m[1]}"), text.translate(_SIGNS))
    for pattern, as_read in _SPELLED:
        text = pattern.sub(as_read, text)
    text = _MIXED.sub(
        lambda m: f"({m[1]}+{m[2] or m[4]}/{m[3] or m[5]})", _WRAPPED.sub(r"\1", text)
    )
    return _SCALED.sub(lambda m: f"*10^{_SCALES[m[1].casefold()]}", text).strip()


def _formula_key(text: str, level: int = 0) -> str | None:  # noqa: C901  a case per kind of formula
    """A key of a formula; None of what is none."""
    if level > 3 or not text or (len(text) == 1 and text.isalpha()):
        return None
    if text.lstrip("+-") == "∞":
        return f"#{text}"
    nested = partial(_formula_key, level=level + 1)
    if len(parts := _split(text, "∪")) > 1:
        return _of_parts("∪", parts, nested, ordered=False)
    if len(parts := _split(text, "∈")) > 1:
        return nested(parts[-1]) if _NAME.fullmatch(parts[0]) else None
    if len(parts := _split(text, ",;")) > 1 and not _TOKEN.fullmatch(text):
        return _of_parts("{}", parts, nested, ordered=False)
    if "±" in text:
        both = [text.replace("±", sign) for sign in "+-"]
        return _of_parts("{}", both, nested, ordered=False)
    if len(parts := _split(text, "=≈")) > 1:
        return _of_chain(text, parts, nested)
    inside = _split(text[1:-1].replace(",", ", "), ",;")  # no thousands in brackets
    if text[0] in "([{⦃" and text[-1] in ")]}⦄" and len(inside) > 1:
        is_set = text[0] in "{⦃"
        return _of_parts("{}" if is_set else text[0] + text[-1], inside, nested, not is_set)
    if len(parts := _RELATIONS.split(text)) > 1:
        return _of_relation(parts, _RELATIONS.findall(text))
    return (None if level else _of_unit(text)) or _of_values(_values(text))


def _split(text: str, marks: str) -> list[str]:
    """The parts of a formula between marks that are outside of brackets; commas between thousands are not marks."""
    parts, start, depth = [], 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        depth += (token in _CLOSING) - (token in _CLOSING.values())
        if not depth and token in marks:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


def _of_parts(
    kind: str, parts: Sequence[Any], key_of: Callable[[Any], str | None], ordered: bool
) -> str | None:
    """A key of several formulas; the order of a set is not kept."""
    keys = [key_of(part) for part in parts]
    names = {
        _SUBSCRIPT.sub("", part.partition("=")[0]).strip()
        for part in map(str, parts)
        if "=" in part
    }
    if len(names) > 1:  # x = 1, y = 2 is not x = 2, y = 1
        keys = [
            key and f"{part.partition('=')[0].strip()}={key}"
            for part, key in zip(parts, keys, strict=True)
        ]
    known = [key for key in keys if key is not None]
    if len(known) < len(keys):
        return None
    return f"{kind}{' '.join(known if ordered else sorted(set(known)))}"


def _of_chain(text: str, parts: list[str], key_of: Callable[[str], str | None]) -> str | None:
    """A key of equations: the last part where a name or arithmetic equals it, else the equation up to a factor."""
    exact = parts[: len(_split(text.partition("≈")[0], "="))]  # before it is rounded
    if _NAME.fullmatch(exact[0]):
        last = (exact[1:] or parts[1:])[-1]
        return key_of(last) or f"'{_folded(last)}"
    numbers = [_of_unit(part) or _of_values(_values(part)) for part in exact]
    if all(key is not None and key[0] == "#" for key in numbers):
        return numbers[-1]
    if len(exact) > 2:
        return numbers[-1]
    if len(exact) < 2:
        return None
    return _of_values(_values(f"({exact[0]})-({exact[1]})"), "=")


def _of_relation(parts: Sequence[str], signs: Sequence[str]) -> str | None:
    """A key of an inequality up to a positive factor; a name between two bounds is the interval."""
    if len(parts) == 3 and _NAME.fullmatch(parts[1]) and not {*signs} - {*"<≤"}:
        ends = [_of_values(_values(part)) for part in (parts[0], parts[2])]
        kind = ("(" if signs[0] == "<" else "[") + (")" if signs[1] == "<" else "]")
        return None if None in ends else f"{kind}{ends[0]} {ends[1]}"
    if len(parts) != 2:
        return None
    less, more = reversed(parts) if signs[0] in ">≥" else parts
    kind = {">": "<", "≥": "≤"}.get(signs[0], signs[0])
    return _of_values(_values(f"({less})-({more})"), kind)


def _of_unit(text: str) -> str | None:
    """A key of a number with a unit behind it, or with a currency around it."""
    text = text.strip("€£ ")
    match = _UNIT.fullmatch(text)
    if match is None:
        return _of_values(_values(text))
    words = match["unit"].split()
    if len(words) > MAX_UNIT_WORDS or _SYMBOLS.fullmatch(words[0]):
        return None
    number = _of_values(_values(match["number"].strip("€£ ")))
    return number if number and number[0] == "#" else None


def _of_values(values: Sequence[Number] | None, kind: str = "") -> str | None:
    """A key of a formula by its values; of an equation or inequality by those of the difference of its sides."""
    if values is None:
        return None
    if not kind:
        keys = [_rounded(value) for value in values]
        if None in keys:
            return None
        return f"#{keys[0]}" if len(set(keys)) == 1 else f"~{' '.join(map(str, keys))}"
    scale = complex(values[0]) if kind in "=≠" else abs(complex(values[0]))
    if not scale:
        return None
    ratios = [complex(value) / scale for value in values]
    return f"{kind}{' '.join(str(_rounded(ratio)) for ratio in ratios)}"


def _rounded(value: Number) -> str | None:
    """A number to six digits, integers exactly; None where it is not finite."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value)
    try:
        number = complex(value)
    except OverflowError:
        return None
    if not cmath.isfinite(number):
        return None
    parts = []
    for part in (number.real, number.imag):
        part = 0.0 if abs(part) < 1e-9 * abs(number) else part
        shown = f"{part:.6f}" if abs(part) >= 0.1 else f"{part:.6g}"
        parts.append(shown.rstrip("0").rstrip(".") if "." in shown and "e" not in shown else shown)
    return parts[0] if parts[1] == "0" else f"{parts[0]} {parts[1]}i"


def _values(text: str) -> list[Number] | None:
    """The values of a formula at fixed points of its symbols; None of what is none."""
    words = _WORD.findall(text)
    if not all(map(_SYMBOLS.fullmatch, words)) or (words and not re.search(r"[\d+*/^\\(-]", text)):
        return None
    try:
        tree = ast.parse(_in_python(text), mode="eval").body
        return [_evaluated(tree, point) for point in POINTS]
    except (ValueError, ArithmeticError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _in_python(text: str) -> str:
    """A formula as an expression of Python: numbers as strings, symbols with a _ in front, products with a sign.

    Raises:
        ValueError: it is not a formula.
    """
    for pattern, as_read in _GROUPED:
        text = pattern.sub(as_read, text)
    source = ""
    for token in re.findall(rf"{'|'.join(_FUNCTIONS)}|{_TOKEN.pattern}", text):
        piece = _piece(token)
        if re.search(r"(?:[)']|_\w+)$", source) and re.match(r"['(\w]", piece):
            if piece[0] == "'":
                raise ValueError("a number behind another factor")
            piece = f"*{piece}"
        source += piece
    return source


def _piece(part: str) -> str:
    """A token of a formula in Python."""
    name = part.removeprefix("\\")
    if re.match(r"\.?\d", part):
        return f"'{part}'"
    if _LETTER.fullmatch(part):
        return f"_{name}"
    if name not in _FUNCTIONS and part not in "+-*/(),{}[]^%":
        raise ValueError(f"no formula has {part}")
    return _IN_PYTHON.get(part, name)


def _evaluated(node: ast.expr, point: int) -> Number:
    """The value of an expression, its symbols at one point; ValueError for anything but arithmetic."""
    match node:
        case ast.Constant(value=str(digits)):
            return _fraction(digits)
        case ast.Name(id=name):
            return _CONSTANTS.get(name, 0.5 + 7 * crc32(f"{name}{point}".encode()) / 2**32)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            value = _evaluated(operand, point)
            return -value if isinstance(node.op, ast.USub) else value
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_evaluated(left, point), _evaluated(right, point))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluated(argument, point) for argument in arguments))
    raise ValueError(ast.unparse(node))


def _fraction(token: str) -> Fraction:
    """A decimal number."""
    digits, _, exponent = token.replace(",", "").lower().partition("e")
    if abs(int(exponent or 0)) > MAX_EXPONENT:
        raise ValueError(f"the exponent of {token}")
    return Fraction(digits.removesuffix(".")) * Fraction(10) ** int(exponent or 0)


def _power(base: Number, exponent: Number) -> Number:
    """A power; exact where it is a fraction of bounded size."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * bits <= MAX_BITS:
            return base ** int(exponent)
    value: complex = complex(base) ** complex(exponent)
    return value


def _factorial(value: Number) -> Fraction:
    if not isinstance(value, Fraction) or value > MAX_EXPONENT:
        raise ValueError("!")
    return Fraction(math.factorial(int(value)))


_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: _power,
}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    **{name: getattr(cmath, name) for name in ("sin", "cos", "tan", "exp", "log")},
    "ln": cmath.log,
    "frac": operator.truediv,
    "sqrt": partial(_power, exponent=Fraction(1, 2)),
    "root": lambda degree, value: _power(value, 1 / degree),
    "factorial": _factorial,
}


_FOLDS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"\\(?:left|right)(?![a-zA-Z])|\\[,!;: ]|~|\s+"), " "),
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\{(\w)\}"), r"\1"),
    (re.compile(r"\s*([^\w\s'])\s*"), r"\1"),
)


def _folded(text: str) -> str:
    """A text without case, spaces around signs, and differences of LaTeX that do not show."""
    text = text.strip().casefold()
    for pattern, as_read in _FOLDS:
        text = pattern.sub(as_read, text)
    return text


def math_version() -> str | None:
    """The version of math-verify; None where it is not installed."""
    try:
        return version("math-verify")
    except PackageNotFoundError:
        return None


# what makes math-verify's parser slow: nested or large powers, many bars, factorials, deep brackets
_COSTLY = re.compile(r"\^[^\s^]{0,9}\^|\^\s*\{?-?\d{4}|!|\\d?binom|\d{40}|(?:[({\[|][^)}\]]*){5}")
_BRANCHING = re.compile(r"[\^_|]|\\i*int")
MAX_PARSED, MAX_BRANCHES = 160, 6


@lru_cache(1024)
def math_key(text: str) -> str | None:
    """A key of a formula as math-verify parses it; None where it does not, or where parsing may take long.

    It is what sympy prints, with sums, products and sets in order; where that is a formula that is read here, its key.
    """
    if (
        len(text) > MAX_PARSED
        or len(_BRANCHING.findall(text)) > MAX_BRANCHES
        or _COSTLY.search(text)
    ):
        return None
    parser = math_parser()
    parsed = parser(f"${text.strip('$')}$") if parser else []
    if not parsed:
        return None
    try:
        expression = parsed[0].doit() if getattr(parsed[0], "is_Matrix", False) else parsed[0]
    except (ValueError, ArithmeticError, TypeError):  # matrices that do not fit
        return None
    return _formula_key(_notation(f"{expression}")) or f"%{expression}"


@lru_cache(1)
def math_parser() -> Callable[[str], list[Any]] | None:
    """The parser of math-verify, without its timeouts, which need signals; None if it is not installed.

    Warns:
        UserWarning: it is not installed; once in a process.
    """
    try:
        parser = imported("math_verify.parser", "")
    except ModelLoadError as error:
        problem = f"vote compares formulas by plain rules: {error}"
        warnings.warn(problem, UserWarning, stacklevel=2)
        return None
    parser.TIMEOUT_WARNING_SHOWN = True  # said where its timeouts are off
    return partial(
        parser.parse,
        extraction_config=[parser.LatexExtractionConfig()],
        fallback_mode="no_fallback",
        parsing_timeout=None,
    )


def _exact(answer: str) -> str:
    return answer


KEYS: Mapping[Agreement, Callable[[str], str]] = {
    "exact": _exact,
    "casefold": str.casefold,
    "number": number_key,
    "value": value_key,
    "math": partial(value_key, formula=math_key),
}
