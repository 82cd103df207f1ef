r"""Where the answer of a text is: in the reply of a model, or in a label, which is an answer already.

A reply is read by one of four rules, each of which includes those before it:

* boxed: the content of the last ``\boxed{...}``
* marked: else what follows the last mark: "the answer is", "final answer:", "Answer:", "####", ``<answer>``, and their
  like in some 25 other languages
* number: else the whole of a reply that is nothing but an answer with a number in it ("iPhone 11", "(1, 5)"), or the
  last number or formula, with its sign, currency or percent sign; of a date or a time all of it
* text: else a first yes or no, or the whole of a text of up to `SHORT_WORDS` words

A list is read by the first rule by which `MOST` of its texts have an answer (`rule_of`), the last where none does. What
precedes the last ``</think>`` is read only if nothing follows it, and what precedes "The final answer is X. I hope it
is correct" (the form of Minerva's prompt for MATH) is not read.

A label is read by its box, its mark, or as a whole: it is never reduced to a number. What was read from a reply is read
as itself if it is a label, and so is a formula if it is a reply.

The other places: all of a text, its last line, a match of a pattern, a JSON value. Every search is bounded: a box is
found in one pass, JSON values by reading at most `MAX_TRIED` characters in vain, and a pattern has `PATTERN_SECONDS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from math import ceil
from typing import Any, Literal

import regex

from ..errors import InputError, MetricError, excerpt
from ..storage.limits import limits
from .answers import DATE, PERCENT, PROSE, SCALES, bare, letter_of, unhedged, yes_or_no

Rule = Literal["boxed", "marked", "number", "text"]
Place = Literal["auto", "marked", "number", "text", "last-line", "boxed", "pattern", "json"]
Find = Callable[[str], str | None]
_Span = tuple[int, int, str]  # of a box or formula: where it begins and ends, and its content

MOST = 0.75
SHORT_WORDS, SHORT_CHARACTERS, FEW_WORDS = 8, 80, 4
MAX_ANSWER = 200  # characters behind a mark that are looked at
MAX_TEXT = 1 << 16  # characters at the end of a text that are searched; an answer stands at the end
_FINAL_ANSWER = "The final answer is"
MAX_JOINED = 32  # boxes or formulas that are one answer
PATTERN_SECONDS = 1.0
MAX_PATTERN = 1_000  # characters of a pattern or a path
MAX_TRIED = 1 << 22  # characters that are read in vain in search of JSON within a text

# words in front of an answer, by language: those of MGSM in lm-eval, and some more
_ENGLISH = (
    r"(?:the\s+)?(?:(?:final|correct|right|best)\s+){0,2}(?:answer|choice|option)\s+"
    r"(?:is|would\s+be|must\s+be|should\s+be|will\s+be|=)(?!\s+not\b)(?:\s+(?:therefore|thus|then|simply|option|choice)){0,2}"
    r"|(?:final\s+)?answer\s*[:=]|final\s*[:=]"
)
# an answer in German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian, Ukrainian, Greek, Swahili, Turkish,
# Vietnamese and Indonesian, perhaps a final or correct one, and what leads to it
_ANSWER = (
    r"antwort|réponse|respuesta|resposta|risposta|antwoord|odpowied(?:ź|zią)|ответ|відповідь|απάντηση|jibu|cevap|yanıt"
    r"|đáp\s+án|câu\s+trả\s+lời|jawaban(?:nya)?"
)
_FINAL = r"finale?|corr[ei]c?t[ae]|correta|corretta|la\s+mwisho|đúng|cuối\s+cùng|akhir|yang\s+benar"
_LEADS = r"ist|lautet|est|serait|es|é|è|is|to|jest|brzmi|равен|будет|είναι|ni|là|adalah"
# of scripts without blanks, or whose words take prefixes: they are found within words too
_WITHIN: Mapping[str, str] = {
    "Chinese": r"答案(?:应该|應該|应|應|就)?(?:是|为|為|选|選)(?:选项|選項)?(?!不|错|錯|什么)"
    r"|答案(?=\s*[:：*(（A-J\d\\$])"
    r"|(?<!不)(?:选择?|選擇?)(?=\s*[(（]?[A-J](?![a-zA-Z]))",
    "Japanese": r"(?:正解|答え?え?|解答|回答)は|(?:答え?|正解|解答|回答)\s*[:：]",
    "Thai": r"คำตอบ(?:สุดท้าย|ที่ถูกต้อง)?\s*(?:คือ|เป็น|:)\s*(?:ข้อ|ตัวเลือก)?",
    "Korean": r"(?:정답|답|답변)\s*(?:은|는|:)",
    "Arabic": r"(?:[إا]جابة|جواب)(?:\s+(?:ال)?(?:صحيحة?|نهائية?))?\s*(?:هي|هو|:)",
    "Persian": r"(?:پاسخ|جواب)\s*(?:(?:صحیح|نهایی)\s*)?(?:برابر\s+)?:",
    "Hebrew": r"תשובה(?:\s+ה(?:נכונה|סופית))?\s*(?:היא|:)",
    "Hindi, Marathi": r"उत्तर\s*(?:है|होगा|आहे|:)(?!\s*नहीं)|उत्तर(?=\s*[\d(A-J\\$])",
    "Bengali": r"উত্তর(?:টি|টা)?\s*(?:হলো|হল|হবে|:)|উত্তর(?:টি|টা)?(?=\s*[\d(A-J\\$])",
    "Telugu": r"సమాధానం\s*:?",
    "Tamil": r"(?:பதில்|விடை)\s*:?",
    "sign": r"####",
}
_TAGGED = re.compile(rf"<answer>(.{{0,{MAX_ANSWER}}}?)</answer>", re.IGNORECASE | re.DOTALL)
_MARKED = re.compile(
    rf"(?:(?<!\w)(?:{_ENGLISH}|(?:{_ANSWER})(?:\s+(?:{_FINAL}))?(?:\s+(?:{_LEADS})\b|\s*[:—–]|\s+-))|{'|'.join(_WITHIN.values())})"
    rf"[\s*_`]{{0,9}}[:：]?[\s*_`]{{0,9}}(?=(?P<answer>[^\n]{{1,{MAX_ANSWER}}}))",
    re.IGNORECASE,
)
# a text that begins with the letter of a choice, or ends with one in brackets behind a blank
_CHOSEN = re.compile(r"\W*\(?([A-J])[).:](?=\s)|.*(?<![^\s(（])\(([A-J])\)\W*$", re.DOTALL)
_REASON = re.compile(
    r",?\s+(?:because|since|as|which|where|so|for|weil|denn|da|parce|car|porque|perché|want|потому|так\s+как|เพราะ|لأن"
    r"|क्योंकि|कारण)\b.*$|[,，]\s*(?:not\b|而不是|不是).*$|(?:[,，、]\s*)?(?:因为|因為|因此|所以|なぜなら|เพราะ|왜냐하면|क्योंकि|لأن).*$",
    re.DOTALL,
)
# what follows an answer where the verb ends the sentence
_COPULA = re.compile(
    r"\s*(?:です|である|だ|となります|になります|입니다|이다|है|हैं|होगा|আছে|হবে|টি|ครับ|ค่ะ)\s*[.。।]?$"
)
# where a sentence ends: not between the digits of a number, nor behind the letter of a choice
_SENTENCE_END = re.compile(
    r"(?<!^[A-Ja-j])(?<!\b(?:Dr|Mr|St|No))(?<!\\)[.!?](?=[\s*\"']|$)|[。！？।]"
)
# words by which a short text with a number is a sentence around it, and not a name or term
_SENTENCE = re.compile(
    r"^[^\W\d][^\W\d_ ]*(?: [^\W\d_]+){0,3}\s*[:：]\s*(?=[\d$€£(\\-])|^[=≈]\s*(?=\S)"
    r"|^(?:on|at|in|by|from|after|before|until)\b|\b(?:is|are|was|were|be|been|am|has|have|had|do|does|did|get|gets|got|equals?|gives?|makes?|earns?|pays?|costs?"
    r"|takes?|needs?|saves?|spends?|sells?|buys?|remains?|leaves?|will|would|can|must|should|(?-i:I)|he|she|it|they|we|you"
    r"|ago|there|this|that|so|thus|hence|therefore|then|because|totals?|sum|result"
    r"|ist|sind|hat|haben|bleiben|also|est|sont|ont|donc|es|son|hay|tiene|entonces|é|são|tem|è|sono|ha|quindi|это"
    r"|будет|значит|ni|dus|heeft)\b|です|ます|である|だから|的话|所以|因此|一共|总共|是|有|は|を|が|เป็น|คือ|มี|입니다|있|है|هو|هي",
    re.IGNORECASE,
)
_OF_A_NAME = re.compile(r"[^\W\d_]*[A-ZÀ-ÞА-Я][^\W\d_]*\s+#?\d")
_DIGITS = (
    r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:(?:,|\s?\{,\s?\}|\\,|[\u00a0\u202f'])\d{3})+(?:\.\d+)?|\d+,\d\d(?![\d,])"
    r"|\d+(?:\.\d+)?|\.\d+"
)
_ROOT = r"(?:\\sqrt\s*(?:\{[^{}\n]{1,40}\}|\d)|√\s?\d+|\\pi\b|π)"
_NUMBER = re.compile(
    rf"(?:{DATE})|(?<![\w.])(?:(?<=[\s(=:*$])[-\u2212]|^[-\u2212])?[$€£]?"
    rf"(?:\\[dt]?frac\s*(?:\{{[^{{}}\n]{{1,40}}\}}|\d){{2}}|{_ROOT}|(?:{_DIGITS})(?:\s?/\s?\d+)?(?:[eE][+-]?\d{{1,3}})?)"
    rf"(?:\s?{_ROOT})?(?:\s?(?:\\times|\\cdot|[×x*])\s?10)?(?:\^\{{?-?\d+\}}?)?"
    rf"(?:{PERCENT}|\s?(?:{'|'.join(SCALES)}))?",
    re.IGNORECASE,
)
# a formula that LaTeX sets apart; the $ of currencies is none
_FORMULA = re.compile(
    r"(?<!\\)\$(?=\S)([^$\n]{1,200}?)(?<=[^\s\\])\$(?!\d)|(?<!\\)\$\s((?:[^$\n\w]|\\[a-z]+|\{[a-z]+\}|\d|\b[a-z]\b){1,200}?)\s\$|\\\((.{1,200}?)\\\)|\\\[(.{1,200}?)\\\]|\$\$(.{1,200}?)\$\$",
    re.DOTALL,
)
_EQUALS = re.compile(r"(?<![<>!\\])=|≈|\\approx(?![a-z])|\\in(?![a-z])")
_MEANS_SOMETHING = re.compile(r"\d|\\[a-zA-Z]")
# boxes whose backslash was escaped twice count
_BRACES = re.compile(r"\\{1,2}boxed\s*\{|\\.|[{}]", re.DOTALL)
# between boxes or formulas that are one answer
_JOINED = re.compile(
    r"(?:[\s,;&$]|\\[()\[\]]|\\q?quad|\\text\s*\{[^{}]*\b(?:and|or)\b[^{}]*\}|\b(?:and|or)\b|[a-z]_?\d?\s*=)*"
)
_KEY, _INDEX = r"[^.\[\]]+", r"\[(-?\d{1,9})\]"
_PATH = re.compile(rf"(?:{_KEY}|{_INDEX})(?:\.{_KEY}|{_INDEX})*")
_STEP = re.compile(rf"({_KEY})|{_INDEX}")


def whole(text: str) -> str | None:
    """All of the text."""
    return text.strip() or None


def last_line(text: str) -> str | None:
    """The last line that is not blank."""
    return whole(text.strip().rpartition("\n")[2])


def boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` that is closed, and of the boxes that it continues, as a list.

    Braces nest; ``\{`` and ``\}`` are not braces.

    >>> boxed(r"so \boxed{1} or rather \boxed{\frac{1}{2}}, not \boxed{3"), boxed(r"\boxed{1} and \boxed{2}")
    ('\\frac{1}{2}', '1, 2')
    """
    # where a box begins, or -1 of other braces, and where its content does
    open_braces: list[tuple[int, int]] = []
    boxes: list[_Span] = []
    for match in _BRACES.finditer(text):
        mark = match[0]
        if mark == "{" or "boxed" in mark:
            open_braces.append((match.start() if "boxed" in mark else -1, match.end()))
        elif mark == "}" and open_braces:
            start, content = open_braces.pop()
            is_outer = bool(boxes) and boxes[-1][0] > start
            if start >= 0 and not is_outer:
                boxes.append((start, match.end(), text[content : match.start()].strip()))
    answer = _joined(text, boxes)
    return answer and (bare(answer) or answer)


def _joined(text: str, spans: Sequence[_Span]) -> str | None:
    """The content of the last span, and of those before it with nothing but "and" or a comma between them."""
    contents: list[str] = []
    start = len(text)
    for begin, end, content in reversed(spans[-MAX_JOINED:]):
        if contents and not _JOINED.fullmatch(text, end, start):
            break
        contents.insert(0, content)
        start = begin
    return ", ".join(filter(None, contents)) or None


def marked(text: str) -> str | None:
    """What follows the last mark, up to the end of its sentence or line.

    >>> marked("So 6 * 7 = 42. The answer is 42. Is that right?"), marked("#### 1,000"), marked("I get 42")
    ('42', '1,000', None)
    """
    for answer in _behind_marks(text):
        return _shown(answer)
    chosen = None if is_answer(text) else _CHOSEN.match(text)
    return chosen and (chosen[1] or chosen[2])


def _behind_marks(text: str) -> Iterator[str]:
    """The texts behind the marks, the last first, without blank ones."""
    answers = [(match.start(), match[1]) for match in _TAGGED.finditer(text)]
    answers += [
        (match.start(), _SENTENCE_END.split(match["answer"], 1)[0])
        for match in _MARKED.finditer(text)
    ]
    yield from filter(None, (bare(answer) for _, answer in sorted(answers, reverse=True)))


def _shown(answer: str) -> str:
    """The letter of a choice, yes or no; of a sentence its last number; a shorter answer as it is."""
    answer = _COPULA.sub("", _REASON.sub("", answer)) or answer
    answer = unhedged(answer) or answer
    word = letter_of(answer) or yes_or_no(answer)
    if word is None and not is_answer(answer):
        return last_number(answer) or bare(answer)
    return word or bare(answer)


def is_answer(text: str) -> bool:
    """Whether a text is nothing but an answer: short, and no sentence around a number.

    >>> is_answer("iPhone 11"), is_answer("Article 5 of the NATO treaty"), is_answer("I get 42"), is_answer("(1, 5)")
    (True, True, False, True)
    """
    text = text.strip()
    words = text.split()
    inside = bare(text)
    is_formula = len(text) <= MAX_ANSWER and not PROSE.search(inside)
    is_short = len(text) <= SHORT_CHARACTERS and len(words) <= SHORT_WORDS
    if "\n" in text or not (is_short or is_formula):
        return False
    beside = _FORMULA.sub("", inside)
    is_sentence = _SENTENCE_END.search(inside.rstrip("!")) or _SENTENCE.search(inside)
    if is_sentence or (beside != inside and not _JOINED.fullmatch(beside)):
        return False
    ends_sentence = len(words) >= FEW_WORDS and text.endswith((".", "!"))
    return not ends_sentence or not _NUMBER.search(inside) or bool(_OF_A_NAME.search(inside))


def last_number(text: str) -> str | None:
    r"""A text that is nothing but an answer with a number, else the last number, formula, date or time of a text.

    >>> last_number("It is 42 apples"), last_number("from 3-5 to 1,234.50 euros."), last_number("no")
    ('42', '1,234.50', None)
    >>> last_number("on 5 May 2024"), last_number(r"so $x = -\frac{1}{2}$"), last_number("in H2O")
    ('5 May 2024', '-\\frac{1}{2}', None)
    """
    if is_answer(text):
        shown = bare(text)
        is_term = _NUMBER.search(shown) or re.search(r"\\[a-zA-Z]|\w\s*[\^+*/=]\s*\w", shown)
        return shown if is_term and letter_of(shown) is None else None
    last, end = None, -1
    for match in _NUMBER.finditer(text):
        last, end = match[0], match.end()
    formulas: list[_Span] = []
    for match in _FORMULA.finditer(text):
        result = _EQUALS.split(match[match.lastindex or 0])[-1].strip().rstrip(".,")
        if _MEANS_SOMETHING.search(result):
            formulas.append((match.start(), match.end(), result))
    if formulas and formulas[-1][1] >= end:
        percent = re.match(PERCENT, text[formulas[-1][1] :][:20])
        last = f"{_joined(text, formulas)}{'%' if percent else ''}"
    return last and (bare(last) or None)


def short_text(text: str) -> str | None:
    """A first yes or no, or a short text itself.

    >>> short_text("Paris."), short_text("Yes, because it rains there a lot, as everybody knows."), short_text("a " * 9)
    ('Paris', 'Yes', None)
    """
    shown = bare(text)
    is_short = len(shown) <= SHORT_CHARACTERS and len(shown.split()) <= SHORT_WORDS
    return yes_or_no(shown) or (_shown(shown) if is_short else None) or None


_STEPS: Mapping[Rule, Find] = {
    "boxed": boxed,
    "marked": marked,
    "number": last_number,
    "text": short_text,
}
RULES: tuple[Rule, ...] = tuple(_STEPS)


def _end(text: str) -> str:
    """The part of a text that is searched: its end, behind the thought that it may begin with."""
    text = text[-MAX_TEXT:]
    reply = text.rpartition("</think>")[2]
    text = reply if reply.strip() else text
    final = text.rfind(_FINAL_ANSWER)
    is_last = "I hope it is correct" in text[final:][:MAX_ANSWER]
    return text[final:] if final >= 0 and is_last else text


def written(rule: Rule, text: str) -> str | None:
    """The answer of a reply by a rule and those before it; None where it has none."""
    text = _end(text)
    for step in RULES[: RULES.index(rule) + 1]:
        answer = _STEPS[step](text)
        if answer is not None:
            return of_label(answer)
    return None


def rule_of(texts: Sequence[str]) -> Rule:
    """The first rule by which most of the texts have an answer; of too few, the last.

    >>> rule_of(["So the answer is 42.", "I get 42", "It is 42 apples", "Final: 41"])
    'number'
    """
    needed = ceil(MOST * len(texts))
    missing = list(map(_end, texts))
    for rule in RULES:
        missing = [text for text in missing if _STEPS[rule](text) is None]
        if len(texts) - len(missing) >= needed:
            return rule
    return RULES[-1]


def of_label(text: str) -> str | None:
    r"""The answer of a label: its box, what follows its last mark, or all of it, which is never reduced.

    >>> of_label(r"2\sqrt{5}"), of_label("3 + 4 = 7\n#### 7"), of_label(r"so \boxed{x^2}"), of_label("Henry 8")
    ('2\\sqrt{5}', '7', 'x^2', 'Henry 8')
    """
    answer = whole(text)
    while answer:
        searched = answer[-MAX_TEXT:]
        inside = boxed(searched) or next(_behind_marks(searched), answer)
        if len(inside) >= len(answer):
            break
        answer = inside
    return answer


def compiled(pattern: str) -> Any:
    """A regular expression of the package regex.

    Raises:
        InputError: it is none, or too long.
    """
    if len(pattern) > MAX_PATTERN:
        problem = f"{len(pattern)} characters, at most {MAX_PATTERN} are read"
        raise InputError(problem, where="pattern", fix="Write a shorter one")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        problem = f"{excerpt(pattern)} is not a regular expression ({error})"
        raise InputError(problem, where="pattern", fix="See the package regex") from None


def matched(pattern: Any, text: str) -> str | None:
    """The last match that is not empty: its first group that took part, or all of it where there is no group.

    Raises:
        MetricError: the search takes more than `PATTERN_SECONDS`.
    """
    try:  # other threads run on meanwhile
        matches = pattern.finditer(text, timeout=PATTERN_SECONDS, concurrent=True)
        last = [match for match in matches if match[0]][-1:]
    except TimeoutError:
        raise MetricError(
            f"more than {PATTERN_SECONDS:g} s on a text of {len(text)} characters",
            where=f"pattern {excerpt(pattern.pattern)}",
            fix="Write one that backtracks less: no repetition within a repetition",
        ) from None
    groups = (group for match in last for group in [*match.groups(), match[0]] if group is not None)
    return whole(next(groups, ""))


def steps_of(path: str) -> tuple[str | int, ...]:
    """The keys and indexes of a path.

    >>> steps_of("steps[-1].result.value")
    ('steps', -1, 'result', 'value')

    Raises:
        InputError: it is none.
    """
    if len(path) > MAX_PATTERN or not _PATH.fullmatch(path):
        fix = "Write keys and indexes, such as answer or steps[-1].value"
        raise InputError(f"{excerpt(path)} is not a JSON path", where="path", fix=fix)
    return tuple(key or int(index) for key, index in _STEP.findall(path))


def json_value(steps: tuple[str | int, ...], text: str) -> str | None:
    r"""The value at a path of the JSON that a text is, or of the last JSON array or object in it that has one there.

    A string is itself, a number stays as it is written, an array or object is JSON with sorted keys. There is no answer
    where no JSON is found, it is nested too deeply, or null is at the path.

    >>> json_value(("answer",), '<think>let {x} be</think>Here it is: {"answer": 5}. Done.')
    '5'

    Raises:
        InputError: the text is longer than a JSON file may be, or has the marks of more values.
    """
    limits().check("file_bytes", len(text), "text")
    limits().check("rows", sum(map(text.count, "[{,:")), "text", what="values")
    values = (reduce(_inside, steps, value) for value in _json_in(text))
    value = next((value for value in values if value is not None), None)
    if value is None or isinstance(value, str):
        return value and whole(value)
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return None


# numbers stay as they are written; int refuses NaN and Infinity, which are not JSON
_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=int)


def _json_in(text: str) -> Iterator[Any]:
    """The arrays and objects in a text that end behind its thought, the last first."""
    values, at, tried, thought = [], 0, 0, text.rfind("</think>")
    for match in re.finditer(r"[\[{]", text):
        start = match.start()
        if start >= at and tried <= MAX_TRIED:
            try:
                value, at = _JSON.raw_decode(text, start)
                values += [value] * (at > thought)
            except (ValueError, RecursionError) as error:
                tried += getattr(error, "pos", len(text)) - start
    yield from reversed(values)


def _inside(value: Any, step: str | int) -> Any:
    """The value at a key of an object, or at an index of an array; None if it is missing."""
    try:
        return None if isinstance(value, str) else value[step]
    except (LookupError, TypeError):
        return None


def finder(place: Place, pattern: str | None, path: str | None) -> Find:
    """A finder of the answer of a text, None where it has none.

    Args:
        place: where the answer is; "auto" is the last of the rules.
        pattern: the regular expression, for "pattern".
        path: the JSON path, for "json".

    Raises:
        InputError: a pattern or a path that cannot be read.
    """
    if place == "pattern":
        return partial(matched, compiled(pattern or ""))
    if place == "json":
        return partial(json_value, steps_of(path or ""))
    if place == "marked" or place == "number":
        return partial(written, place)
    plain: dict[Place, Find] = {"text": whole, "last-line": last_line, "boxed": boxed}
    return plain.get(place, partial(written, "text"))
