r"""Answers as language models write them, who are not told how: boxed, marked in words, the last number, a short text.

A text is read by one of four rules, each of which takes in those before it:

* boxed: what stands in the last ``\boxed{...}``
* marked: else what follows the last mark: "the answer is", "final answer:", "Answer:", "####", ``<answer>``, and what
  stands for these in other languages (`MARKS`)
* number: else the last number, with its sign, fraction, currency or percent sign; of a date or a time all of it
* text: else a first yes or no, and of a text of up to `SHORT_WORDS` words all of it

A list is read by the first rule by which `MOST` of its texts have an answer (`rule_of`), the last where none does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Literal

from .answers import DATE, bare, boxed, letter_of, yes_or_no

Rule = Literal["boxed", "marked", "number", "text"]

MOST = 0.75
SHORT_WORDS, SHORT_CHARACTERS, FEW_WORDS = 8, 80, 5
MAX_ANSWER = 200  # characters behind a mark that are looked at
MAX_TEXT = 1 << 16  # characters at the end of a text that are searched; an answer stands at the end

# words in front of an answer, by language; the languages are those of MGSM in lm-eval, and some more
MARKS: Mapping[str, str] = {
    "English": r"(?:the\s+)?(?:(?:final|correct|right|best)\s+){0,2}(?:answer|choice|option)\s+"
    r"(?:is|would\s+be|must\s+be|should\s+be|will\s+be|=)(?!\s+not\b)(?:\s+(?:therefore|thus|then|simply|option|choice)){0,2}"
    r"|(?:final\s+)?answer\s*[:=]|final\s*[:=]|####",
    "German": r"(?:die\s+)?(?:endgültige\s+|richtige\s+)?antwort\s+(?:ist|lautet)|(?:endgültige\s+)?antwort\s*:",
    "French": r"(?:la\s+)?réponse\s+(?:finale\s+)?(?:est|serait)|réponse\s*(?:finale\s*)?:",
    "Spanish": r"(?:la\s+)?respuesta\s+(?:final\s+|correcta\s+)?es|respuesta\s*(?:final\s*)?:",
    "Portuguese": r"(?:a\s+)?resposta\s+(?:final\s+|correta\s+)?é|resposta\s*(?:final\s*)?:",
    "Italian": r"(?:la\s+)?risposta\s+(?:finale\s+|corretta\s+)?è|risposta\s*(?:finale\s*)?:",
    "Dutch": r"(?:het\s+)?antwoord\s+is|antwoord\s*:",
    "Russian": r"(?:окончательный\s+)?ответ\s*(?:[:—–-]|равен|будет)",
    "Chinese": r"(?:最终)?答案(?:是|为|為)?",
    "Japanese": r"(?:最終的?な?)?答え?え?は|答え?\s*[:：]",
    "Thai": r"คำตอบ(?:คือ|\s*:)",
    "Swahili": r"jibu\s+(?:ni|la\s+mwisho\s+ni)|jibu\s*:",
    "Bengali": r"উত্তর(?:টি)?\s*(?:হল|হলো|:)",
    "Telugu": r"సమాధానం\s*:?",
    "Korean": r"(?:정답|답)(?:은|:)",
    "Turkish": r"(?:doğru\s+)?cevap\s*:",
}
_TAGGED = re.compile(rf"<answer>(.{{0,{MAX_ANSWER}}}?)</answer>", re.IGNORECASE | re.DOTALL)
_MARKED = re.compile(
    rf"(?<!\w)(?:{'|'.join(MARKS.values())})[\s*_`]{{0,9}}[:：]?[\s*_`]{{0,9}}"
    rf"(?=(?P<answer>[^\n]{{1,{MAX_ANSWER}}}))",
    re.IGNORECASE,
)
# a text that begins with the letter of a choice, or ends with one in brackets
_CHOSEN = re.compile(r"\W*\(?([A-J])[).:](?=\s)|.*\(([A-J])\)\W*$", re.DOTALL)
_REASON = re.compile(r",?\s+(?:because|since|as|which|where|so|for)\b.*$", re.DOTALL)
# where a sentence ends: not between the digits of a number, nor behind the letter of a choice
_SENTENCE_END = re.compile(r"(?<!^\w)(?<!\b(?:Dr|Mr|St|No))[.!?](?=[\s*\"']|$)|[。！？]")
_DIGITS = r"\d{1,3}(?:(?:,|\{,\}|\\,|[\u00a0\u202f'])\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
_FRACTION = r"\\[dt]?frac\s*\{[^{}\n]{1,40}\}\s*\{[^{}\n]{1,40}\}"
_NUMBER = re.compile(
    rf"(?:{DATE})|(?<![\w.])(?:(?<=[\s(=:*$])[-\u2212]|^[-\u2212])?[$€£]?"
    rf"(?:{_FRACTION}|(?:{_DIGITS})(?:\s?/\s?\d+)?(?:[eE][+-]?\d{{1,3}})?)(?:\s?\\?%)?",
    re.IGNORECASE,
)


def marked(text: str) -> str | None:
    """What follows the last mark, up to the end of its sentence or line.

    >>> marked("So 6 * 7 = 42. The answer is 42. Is that right?"), marked("#### 1,000"), marked("I get 42")
    ('42', '1,000', None)
    """
    text = text[-MAX_TEXT:]
    answers = [(match.start(), match[1]) for match in _TAGGED.finditer(text)]
    answers += [(match.start(), _sentence(match["answer"])) for match in _MARKED.finditer(text)]
    # the last that says something
    for _, answer in sorted(answers, reverse=True):
        if shown := bare(answer):
            return _shown(shown)
    chosen = _CHOSEN.match(text)
    return chosen and (chosen[1] or chosen[2])


def _sentence(text: str) -> str:
    """A text up to the end of its first sentence."""
    end = _SENTENCE_END.search(text)
    return text[: end.start()] if end else text


def _shown(answer: str) -> str:
    """The letter of a choice, yes or no; of a sentence its last number; a shorter answer as it is."""
    answer = _REASON.sub("", answer) or answer
    word = letter_of(answer) or yes_or_no(answer)
    if word is None and _is_sentence(answer):
        return last_number(answer) or answer
    return word or answer


def _is_sentence(answer: str) -> bool:
    """Whether an answer is many words, or some around a number."""
    num_words = len(answer.split())
    numbers = _NUMBER.findall(answer) if num_words >= FEW_WORDS else []
    return num_words > SHORT_WORDS or (len(numbers) == 1 and not answer.startswith(numbers[0]))


def last_number(text: str) -> str | None:
    r"""The last number, date or time of a text.

    >>> last_number("It is 42 apples"), last_number("from 3-5 to 1,234.50 euros."), last_number("no")
    ('42', '1,234.50', None)
    >>> last_number("on 5 May 2024"), last_number(r"so $x = -\frac{1}{2}$"), last_number("in H2O")
    ('5 May 2024', '-\\frac{1}{2}', None)
    """
    last = None
    for match in _NUMBER.finditer(text[-MAX_TEXT:]):
        last = match[0]
    return None if last is None else last.strip()


def short_text(text: str) -> str | None:
    """A first yes or no, or a short text itself.

    >>> short_text("Paris."), short_text("Yes, because it rains there a lot, as everybody knows."), short_text("a " * 9)
    ('Paris', 'Yes', None)
    """
    shown = bare(text)
    word = yes_or_no(shown)
    if word is not None:
        return word
    is_short = len(shown) <= SHORT_CHARACTERS and len(shown.split()) <= SHORT_WORDS
    return _shown(shown) or None if is_short else None


def _boxed(text: str) -> str | None:
    return boxed(text[-MAX_TEXT:])


_STEPS: Mapping[Rule, Callable[[str], str | None]] = {
    "boxed": _boxed,
    "marked": marked,
    "number": last_number,
    "text": short_text,
}
RULES: tuple[Rule, ...] = tuple(_STEPS)


def written(rule: Rule, text: str) -> str | None:
    """The answer of a text by a rule and those before it; None where it has none."""
    for step in RULES[: RULES.index(rule) + 1]:
        answer = _STEPS[step](text)
        if answer is not None:
            return answer
    return None


def rule_of(texts: Sequence[str]) -> Rule:
    """The first rule by which most of the texts have an answer; of too few, the last.

    >>> rule_of(["So the answer is 42.", "I get 42", "It is 42 apples", "Final: 41"])
    'number'
    """
    needed = ceil(MOST * len(texts))
    missing = list(texts)
    for rule in RULES:
        missing = [text for text in missing if _STEPS[rule](text) is None]
        if len(texts) - len(missing) >= needed:
            return rule
    return RULES[-1]
