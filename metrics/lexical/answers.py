r"""When two answers agree: equal keys, and with math-verify equal mathematics.

* exact: the answer itself.
* casefold: the answer without regard to case, as Unicode folds it.
* value: as language models write answers. Numbers by value to six digits, without a unit, hedge or gloss around them
  (42 apples = about 42 = 42 (forty-two)), where 1,000 = 1e3 = 10^3 and 50% = 0.5 = 1/2; an arithmetic chain by its
  result (3 x 4 = 12); a formula by its values at fixed points, so that notation does not count; tuples (ordered), sets
  and lists (unordered) by their parts; equations up to a factor; the letter of a choice; yes or no; anything else by
  its words, without case, marks of LaTeX and Markdown, and punctuation around it. A number within a name (iPhone 11),
  dates and times stay text.
* math: value, and formulas that it cannot read as the package math-verify compares them (extra ``math``).

Answers are grouped by keys (`keys_of`). math-verify compares pairs, and its equality is neither symmetric nor
transitive: two answers agree where it holds in either direction, and one that no key reads joins the first answer that
it agrees with, the shortest first, whatever the order of the answers. A right answer is compared with an answer itself
(`is_right`), as the field does, where a percent sign may be left out: 28 is right for 28 %, while as votes they differ.

Every step is bounded: formulas have at most `MAX_FORMULA` characters, and are evaluated in fractions of bounded size or
in floating point; math-verify compares at most `MAX_PAIRS` pairs
of a list, of formulas of a bounded size; sums, products, integrals and limits as they are written.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal
from zlib import crc32

from ..errors import ModelLoadError
from ..optional_packages import imported

Agreement = Literal["exact", "casefold", "value", "math"]
Number = Fraction | float | complex

MAX_CHARACTERS = 1_000  # of an answer whose marks are removed
MAX_FORMULA = 400
MAX_BITS = 4_000
MAX_UNIT_WORDS = 4
POINTS = (1, 2, 3)
REMEMBERED = 4_096

_MONTH = r"(?:(?:Jan|Febr)uary|March|April|May|June|July|August|(?:Septem|Octo|Novem|Decem)ber)"
DATE = (
    rf"\d{{4}}-\d\d-\d\d|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:,?\s+\d{{4}})?|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?"
    r"|\d{1,2}:\d\d(?::\d\d)?(?:\s*[ap]\.?m\b)?"
)
_CUT_BOX = re.compile(r"^\\{1,2}boxed\s*\{")
_WRAPPED = r"\\{1,2}(?:text(?:bf|it|normal)?|math(?:rm|bf)|mbox|operatorname)\s*\{([^{}]*)\}"
_AROUND = " \t\n\r\"'`*_“”‘’«»「」『』【】"
_WIDE = str.maketrans("（）［］，：；", "()[],:;")
_EXCLAIMED = re.compile(r"(?<![\d)nkm!])!+$")  # not a factorial
# brackets around a text, but a tuple or an interval
_IN_BRACKETS = re.compile(
    r"\(([^(,]*)\)|\[([^\[,]*)\]|\$+([^$]*)\$+|\\[(\[]((?:(?!\\[(\[]).)*)\\[)\]]", re.DOTALL
)
_CHOICE = re.compile(
    r"(?:(?:option|choice|answer)\s+)?(?:\(([A-J])\)|([A-J])[).:](?=\s|$)|([A-J])(?=$|[,。:;](?!\s*[A-J]|\s))|\[([A-J])\])"
    r"(?:\s*[:.)-]?\s.*|[,。:;].*)?$|\(?([a-j])[.)]\s+\S.*$",
    re.DOTALL,
)
_NAMED_CHOICE = re.compile(r"(?:option|choice)\s+([A-J])\b.*$", re.IGNORECASE | re.DOTALL)
_YES_NO = re.compile(
    r"(yes|no|ja|nein|oui|non|sí|si|sì|sim|não|nee|да|нет|はい|いいえ|是的?|不是|否|ndiyo|hapana|네|아니요|evet|hayır)"
    r"(?=$|[,.;:!—–、。-])",
    re.IGNORECASE,
)
_HEDGE = re.compile(
    r"^(?:(?:I\s+(?:think|believe|guess)(?:\s+that)?|(?:it|the\s+answer)\s+is|it's|probably|likely|maybe"
    r"|approximately|about|around|roughly|nearly|ca\.?)\s+(?=\S)|(?:≈|~|\\approx)\s*(?=\S))+",
    re.IGNORECASE,
)
_GLOSS = re.compile(r"(?<=[\d%$}])\s+\([^()]*[^\W\d]{3}[^()]*\)$")
PERCENT = r"\s*(?i:\\?%|(?:per\s?cent(?:age)?|pct|prozent|pour\s?cent|por\s?cien?to|процент\w*)\b|パーセント|퍼센트)"
_PERCENT = re.compile(PERCENT)
SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12, "万": 4, "億": 8, "亿": 8}
_UNIT = re.compile(
    r"(.*[\d)}%])(?:\s+|(?=[^\W\d_]{2}|[^\x00-\x7f])|(?=/\s?[^\W\d_]{2}))(?![abnpqrtxyz]{2,3}(?:\s|$))"
    r"((?:(?![a-zA-Z]\b)[^\W\d_]|[mgshlLWVAJNKCF]\b|/)[^\d=(\\^]*(?:\^?\{?[23]\}?)?)"
)
# a comma before decimals, where it cannot be between thousands or parts of a list
_DECIMAL_COMMA = re.compile(
    r"([-+]?[$€£]?\s?(?:\d{1,3}(?:\.\d{3})+|0|\d+(?=,\d\d(?!\d)))),(\d+(?:\D.*)?)"
)
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "frac": operator.truediv,
    "sqrt": lambda value: _power(value, Fraction(1, 2)),
    "root": lambda degree, value: _power(value, 1 / degree),
}
_LATEX = "cdot* times* div/ le≤ leq≤ leqslant≤ lt< ge≥ geq≥ geqslant≥ gt> ne≠ neq≠ cup∪ pm± in∈"
_COMMANDS = {name[:-1]: name[-1] for name in _LATEX.split()}
_COMMAND = re.compile(rf"\\({'|'.join(_COMMANDS)})(?![a-zA-Z])")
_SIGNS = str.maketrans("×·∙⋅÷\u2212–$~€£", "****/--    ") | str.maketrans(
    {"∞": r"\infty ", "²": "^2", "³": "^3", "√": r"\sqrt ", "π": r"\pi "}
)
# spellings, and how each is read, in this order
_SPELLED: Mapping[str, str] = {
    r"\\{2}(?=[a-zA-Z])": r"\\",
    PERCENT: "%",
    r"(?<=\d)(?:[ \u00a0\u202f']|,?\\,|\s?\{,\s?\}|,?\\!)\s?(?=\d{3}(?!\d))": "",  # thousands
    _WRAPPED: r"\1",
    r"\\(?:left|right|displaystyle|limits)(?![a-zA-Z])|\s*(?:\^\s*\{?\s*\\circ\s*\}?|°)": "",
    r"(?:\\[,!;: ]|\\q?quad|\s)+": " ",
    r"\\[dtc]frac(?![a-zA-Z])": r"\\frac",
    r"(?<=\d)\s+x\s+(?=\d)": "*",
    r"<=": "≤",
    r">=": "≥",
    r"!=": "≠",
    r"\*\*": "^",
    r"(?<=[\d)}])\s*(?:\\approx|≈).*": "",
    r"\\approx|≈": "=",
    r"\\\{": "⦃",
    r"\\\}": "⦄",
    r"\s*(?:,\s*)?(?<![a-zA-Z])(?:and|or)(?![a-z])\s*": ", ",
    r"(?<![\\a-zA-Z])(sqrt|pi)(?![a-zA-Z])": r"\\\1",
    r"\\(frac|sqrt)\s*(\d|[a-z](?![a-z]))": r"\\\1{\2}",
    r"(\\frac\s*\{[^{}]*\})\s*(\w)": r"\1{\2}",
    r"(?<![\d.,}^])(\d+)(?:\s+|\s*\\frac\s*\{(?=\d+\}))(\d+)(?:/|\}\s*\{)(\d+)\}?(?!\d)": r"(\1+\2/\3)",
    r"\\sqrt\s*\[(\d)\]\s*\{": r"root{\1,",
    r"\}\s*\{": ", ",
    r"^\{(.*,.*)\}$": r"\1",
}
_SCALED = re.compile(rf"(?i)(?<=\d)\s*({'|'.join(SCALES)})s?(?![^\W\d_])")
# a name in front of what it equals, without a number or a sign of arithmetic
_NAMED = re.compile(
    rf"(?:^|(?<=,))\s*((?:[^\d,=∈+*/^<>≤≥≠()!|\\-]|\|[A-Z]+\||\\(?!{'|'.join(_FUNCTIONS)})|\([^()\d]*\))*?)(?:_\w|_\{{\w+\}})?\s*[=∈]"
)
# a word, but symbols of a formula that are written together
PROSE = re.compile(
    r"(?<!\\)(?<!\\begin\{)(?<!\\end\{)(?<![a-zA-Z])(?!(?:[abnpqrtxyz]{2,3}|sqrt|root|sin|cos|tan|log|ln|exp|pi)(?![^\W\d_]))[^\W\d_]{2}"
)
_PYTHON = "+ - * / ( ) , < > , ( ) { } ** == <= >= != | ('[', ,']') /'100'"
_IN_PYTHON = dict(zip("+-*/(),<>;{}⦃⦄^=≤≥≠∪[]%", _PYTHON.split(), strict=True))
_TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d*)?(?!\d)|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3}(?!\d))?)"
    rf"|\\?(?P<function>{'|'.join(_FUNCTIONS)})\s*[({{]|(?P<letter>[^\W\d_]|\\(?:alpha|beta|gamma|delta|epsilon|theta"
    r"|lambda|mu|nu|rho|sigma|tau|phi|psi|omega|pi|infty)(?![a-zA-Z]))|(?P<sign>\S)"
)
_CONSTANTS: Mapping[str, Number] = {"_pi": math.pi, "_e": math.e, "_i": 1j}
_MARKS = re.compile(r"[\\^_=<>≤≥∪∈+*/|:]|[(\[{⦃].*,")  # of a formula


def bare(answer: str) -> str:
    r"""An answer without the marks of LaTeX and Markdown, quotes and punctuation around it.

    >>> bare(r"**$\text{Paris}$**."), bare("(B)"), bare("\\( 5 \\)")
    ('Paris', '(B)', '5')
    """
    text = answer.translate(_WIDE).strip()
    if text.count("{") > text.count("}"):
        text = _CUT_BOX.sub("", text)
    before = text if len(text) > MAX_CHARACTERS else None  # a longer one is no answer with marks
    while text != before:
        before = text
        text = re.sub(_WRAPPED, r"\1", text).strip().strip(_AROUND)
        text = _EXCLAIMED.sub("", text.removesuffix(".").rstrip(",;:。、،"))
        wrapped = _IN_BRACKETS.fullmatch(text)
        if wrapped and wrapped.lastindex and letter_of(text) is None:
            text = wrapped[wrapped.lastindex]
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
    return match and match[1]


def unhedged(answer: str) -> str:
    """An answer without "I think it is", "about" and the like in front."""
    return _HEDGE.sub("", answer)


@lru_cache(REMEMBERED)
def value_key(answer: str) -> str:
    r"""A string that equals another answer's where they have the same value: of text behind a ``'``.

    >>> value_key("42 apples"), value_key("$42.00"), value_key("(B) Paris"), value_key("Yes, it is")
    ('#42', '#42', "'b", "'yes")
    >>> value_key(r"\dfrac{\sqrt3}{2}") == value_key(r"\frac{1}{2} \sqrt{3}")
    True
    """
    text = unhedged(_GLOSS.sub("", bare(answer)))
    text = letter_of(text) or yes_or_no(text) or text
    key = None
    if len(text) <= MAX_FORMULA and not re.fullmatch(DATE, text, re.IGNORECASE):
        if comma := _DECIMAL_COMMA.fullmatch(text):
            text = f"{comma[1].replace('.', '')}.{comma[2]}"
        text = _notation(text)
        if len(set(_NAMED.findall(text))) == 1:
            text = _NAMED.sub("", text).strip()
        key = _formula_key(text)
    return key or f"'{_folded(text)}"


def _folded(text: str) -> str:
    """A text without case, spaces around signs, and braces around single letters and digits."""
    text = re.sub(r"\{(\w)\}", r"\1", " ".join(text.split()))
    return re.sub(r"\s*([^\w\s'])\s*", r"\1", text).casefold()


def _notation(text: str) -> str:
    """A formula in one notation."""
    text = _COMMAND.sub(lambda m: _COMMANDS[m[1]], text.translate(_SIGNS))
    for pattern, as_read in _SPELLED.items():
        text = re.sub(pattern, as_read, text)
    return _SCALED.sub(lambda m: f"*10^{SCALES[m[1].casefold()]}", text).strip()


def _formula_key(text: str) -> str | None:
    """A key of a formula, or of a number with a unit behind it; None of anything else."""
    if "±" in text:
        text = f"{text.replace('±', '+')}, {text.replace('±', '-')}"
    if text.startswith(("(", "[", "⦃")):
        text = text.replace(",", ", ")  # no thousands in brackets
    unit = _UNIT.fullmatch(text)
    if unit and len(unit[2].split()) <= MAX_UNIT_WORDS:
        number = _tried(unit[1])
        return number if number and re.fullmatch("#[^~]*", number) else None
    return _tried(text)


def _tried(text: str) -> str | None:
    """The key of a formula as the set of its parts between commas; None of what is not a formula."""
    if PROSE.search(text) or not re.search(r"[\d+*/^\\(<>-]", text):
        return None
    try:
        return _key(ast.parse(f"{{{_in_python(text)}}}", mode="eval").body)
    except (ValueError, ArithmeticError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _in_python(text: str) -> str:
    """A formula in Python: numbers as strings, a _ in front of symbols, signs between factors, ? for anything else."""
    pieces = []
    for match in _TOKEN.finditer(text):
        part = match[match.lastgroup or 0]
        forms = {"number": f"'{part.replace(',', '')}'", "function": f"{part}("}
        forms["letter"] = "_" + part.removeprefix("\\")
        pieces.append(forms.get(match.lastgroup or "") or _IN_PYTHON.get(part, "?"))
    source = " ".join(pieces)
    if re.search(r"[\w')] '", source):
        raise ValueError("a number behind another factor")
    return re.sub(r"(?<=[\w')]) (?=[\w(])", " * ", source)


def _key(node: ast.expr) -> str:
    """A key of a formula: of tuples, sets, unions and relations by their parts, else by its values at `POINTS`."""
    match node:
        case ast.Constant(value="[" | "]" as bracket):
            return bracket
        case ast.Tuple(elts=parts):
            return f"({' '.join(map(_key, parts))})"
        case ast.Set(elts=parts):
            keys = sorted({*map(_key, parts)})
            return keys[0] if len(keys) == 1 else f"{{{' '.join(keys)}}}"
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return " ∪ ".join(sorted([*_key(left).split(" ∪ "), _key(right)]))
        case ast.Compare(left=left, ops=signs, comparators=others):
            return _of_relation([left, *others], list(map(type, signs)))
    values = (_rounded(_value(node, point)) for point in POINTS)
    return f"#{'~'.join(dict.fromkeys(values))}"


def _of_relation(sides: Sequence[ast.expr], signs: Sequence[type[ast.cmpop]]) -> str:
    """A key of equations and inequalities up to a factor; of arithmetic its result."""
    if {*signs} == {ast.Eq}:
        keys = list(map(_key, sides))
        if len(keys) > 2 or "~" not in "".join(keys):
            return keys[-1]
    (less, more), (sign,) = sides, signs
    if sign in (ast.Gt, ast.GtE):
        less, more, sign = more, less, {ast.Gt: ast.Lt, ast.GtE: ast.LtE}[sign]
    differences = [complex(_value(less, point) - _value(more, point)) for point in POINTS]
    scale = differences[0] if sign in (ast.Eq, ast.NotEq) else abs(differences[0])
    return f"{sign.__name__}{'~'.join(_rounded(value / scale) for value in differences)}"


def _rounded(value: Number) -> str:
    """A number to six digits, integers exactly; ValueError or OverflowError where it is not finite."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value)
    number = complex(value)
    parts = (0.0 if abs(part) < 1e-9 * abs(number) else part for part in (number.real, number.imag))
    return "i".join(f"{part:.{len(str(int(abs(part)))) + 5}g}" for part in parts).removesuffix("i0")


def _value(node: ast.expr, point: int) -> Number:
    """The value of an expression, its symbols at one point; ValueError for anything but arithmetic."""
    match node:
        case ast.Constant(value=str(digits)):
            return Fraction(digits)
        case ast.Name(id=name):
            return _CONSTANTS.get(name, 0.5 + 7 * crc32(f"{name}{point}".encode()) / 2**32)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            value = _value(operand, point)
            return -value if isinstance(node.op, ast.USub) else value
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(left, point), _value(right, point))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(argument, point) for argument in arguments))
    raise ValueError(ast.unparse(node))


def _power(base: Number, exponent: Number) -> Number:
    """A power; exact where it is a fraction of bounded size."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * bits <= MAX_BITS:
            return base ** int(exponent)
    value: complex = complex(base) ** complex(exponent)
    return value


_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: _power,
}


def math_version() -> str | None:
    """The version of math-verify; None where it is not installed."""
    try:
        return version("math-verify")
    except PackageNotFoundError:
        return None


# what makes math-verify slow: nested or large powers, many bars, factorials, deep brackets
_COSTLY = re.compile(r"\^[^\s^]{0,9}\^|\^\s*\{?-?\d{4}|!|\\d?binom|\d{40}|(?:[({\[|][^)}\]]*){5}")
_BRANCHING = re.compile(r"[\^_|]")
MAX_PARSED, MAX_BRANCHES, MAX_OPERATIONS = 160, 6, 30
# what it would evaluate at any cost, and is compared as it is written
_WITH_LIMITS = re.compile(r"\\(?:i*int|sum|prod|lim)(?![a-z])")
MAX_PAIRS = 200


@lru_cache(1)
def math_verify() -> Any:
    """The package math-verify, without timeouts, which need signals; None if it is not installed.

    Warns:
        UserWarning: it is not installed; once in a process.
    """
    try:
        package = imported("math_verify", "")
    except ModelLoadError as error:
        problem = f"vote compares formulas by plain rules: {error}"
        warnings.warn(problem, UserWarning, stacklevel=2)
        return None
    package.parser.TIMEOUT_WARNING_SHOWN = package.grader.TIMEOUT_WARNING_SHOWN = True
    return package


@lru_cache(REMEMBERED)
def _parsed(text: str) -> list[Any]:
    """What math-verify reads in a formula; nothing where it cannot, or where reading may take long."""
    package = math_verify()
    is_costly = len(_BRANCHING.findall(text)) > MAX_BRANCHES or _COSTLY.search(text)
    if package is None or is_costly or len(text) > MAX_PARSED:
        return []
    formula = text if "$" in text or r"\boxed" in text else f"${text}$"
    latex = package.LatexExtractionConfig(boxed_match_priority=0)
    expressions: list[Any] = package.parse(formula, [latex], "no_fallback", parsing_timeout=None)
    num_operations = sum(getattr(part, "count_ops", int)() for part in expressions)
    return expressions if num_operations <= MAX_OPERATIONS else []


@lru_cache(REMEMBERED)
def _is_verified(right: str, answer: str) -> bool:
    """Whether math-verify finds an answer equal to a right one; one of them looks like a formula."""
    has_formula = _MARKS.search(bare(right)) or _MARKS.search(bare(answer))
    expressions = [_parsed(right), _parsed(answer)] if has_formula else []
    if not expressions or not all(expressions) or _WITH_LIMITS.search(right + answer):
        return bool(expressions) and str(expressions[0]) == str(expressions[1]) != "[]"
    return bool(math_verify().verify(*expressions, timeout_seconds=None))


def key_of(answer: str, agree: Agreement) -> str:
    """A key that equals another answer's where they agree, as far as plain rules tell."""
    if agree == "exact":
        return answer
    return answer.casefold() if agree == "casefold" else value_key(answer)


def keys_of(answers: Sequence[str | None], agree: Agreement) -> list[str | None]:
    """A key for each answer, equal where two of them agree; None without an answer."""
    keys = [answer and key_of(answer, agree) for answer in answers]
    if agree != "math":
        return keys
    forms: dict[str, str] = {}
    for answer in sorted(set(filter(None, answers)), key=lambda answer: (len(answer), answer)):
        key = value_key(answer)
        is_formula = key.startswith("#") or _MARKS.search(bare(answer))
        if is_formula and not PROSE.search(_notation(answer)):
            forms.setdefault(key, answer)
    pairs = iter(range(MAX_PAIRS))
    joined: dict[str | None, str] = {}
    firsts: list[str] = []
    unread_firsts: list[str] = []
    for key, form in forms.items():
        is_unread = key.startswith("'")
        for first in firsts if is_unread else unread_firsts:
            if next(pairs, None) is not None and _agree(forms[first], form):
                joined[key] = first
                break
        else:
            firsts.append(key)
            unread_firsts += [key] * is_unread
    return [joined.get(key, key) for key in keys]


def _agree(first: str, second: str) -> bool:
    """Whether math-verify finds two answers equal in either order."""
    return _is_verified(first, second) or _is_verified(second, first)


def is_right(right: Sequence[str], answer: str | None, agree: Agreement) -> bool:
    """Whether an answer agrees with one of the right ones, by value with or without percent signs."""
    if answer is None:
        return False
    if any(key_of(one, agree) == key_of(answer, agree) for one in right):
        return True
    if agree in ("value", "math"):
        plain = [_PERCENT.sub("", text) for text in (answer, *right)]
        if value_key(plain[0]) in map(value_key, plain[1:]):
            return True
    return agree == "math" and any(_is_verified(one, answer) for one in right)
