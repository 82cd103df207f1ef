r"""Answers as models write them, and what ``vote`` takes for each: how many are right of how many, and which are not.

    python -m benchmarks.choice_quality.answer_cases

The texts are written here in the manner of replies to word problems (GSM8K), mathematics with LaTeX (MATH), multiple
choice (MMLU), and free questions, in several languages. One is right where its answer agrees with the one beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from discorank.metrics.lexical.answers import value_key
from discorank.metrics.lexical.written_answers import written

WORD_PROBLEMS = [
    ("12 hens lay 60 eggs a week, so 240 in 4 weeks. The answer is 240.", "240"),
    ("So the answer is 42.", "42"),
    ("I get 42", "42"),
    ("It is 42 apples", "42"),
    ("Final: 41", "41"),
    ("3 * 4 = 12\n#### 12", "12"),
    ("She pays 3 x $4 = $12.\n#### $12", "12"),
    ("The total is $1,234.50.", "1234.50"),
    ("**Final Answer:** 18", "18"),
    ("**Answer:** The farm makes $18 every day.", "18"),
    ("Answer: 5 km", "5"),
    ("The answer is 7 hours.", "7"),
    ("Therefore, he has 10 - 4 = 6 marbles left.", "6"),
    ("Let me check: 5 + 5 = 10. Yes, so there are ten of them, 10.", "10"),
    ("The answer is 1 000.", "1000"),
    ("The answer is 12,000 people.", "12000"),
    ("final answer = 3.5", "3.5"),
    ("Thus the answer must be -3", "-3"),
    ("The train takes 2 hours and 35 minutes, that is 155 minutes.", "155"),
    ("He saves 25%.", "25%"),
    ("The answer is one half, or 1/2.", "1/2"),
    ("The final answer is: 1.000,50 euros", "1.000,50"),
    ("<think>6 or 7?</think> <answer>7</answer>", "7"),
    ("<answer>\n 12 \n</answer>", "12"),
    ("The answer is 5. The answer is 6.", "6"),
    ("The answer is not 5 but 6.", "6"),
    ("The correct answer is therefore 9!", "9"),
    ("So there are 3 of 10 left, and that is what was asked.", "3"),
    ("The answer is 42, which is 6 times 7.", "42"),
    ("The answer is 42 because 6 * 7 = 42.", "42"),
    ("The answer is twelve.", "12"),
    ("x = 12", "12"),
    ("= 12", "12"),
    ("12", "12"),
    ("12.0", "12"),
    ("€ 12", "12"),
    ("12 €", "12"),
    ("It leaves at 14:10.", "14:10"),
    ("It was on 5 May 2024", "5 May 2024"),
    ("The answer is May 5, 2024.", "May 5, 2024"),
    ("2024-05-05", "2024-05-05"),
]
MATHEMATICS = [
    (r"so \boxed{12}", "12"),
    (r"$x = \boxed{\frac{1}{2}}$", "1/2"),
    (r"Thus $\boxed{\dfrac{3}{4}}$.", "0.75"),
    (r"\boxed{x^2 + 1}", "x^2 + 1"),
    (r"\boxed{x^2+1}", "x^2 + 1"),
    (r"The answer is $\frac{7}{3}$.", "7/3"),
    (r"The final answer is $\boxed{\text{(B)}}$", "B"),
    (r"\boxed{1{,}000}", "1000"),
    (r"\boxed{50\%}", "50%"),
    (r"\boxed{\sqrt{2}}", r"\sqrt{2}"),
    (r"\boxed{12 \text{ cm}}", "12"),
    (r"\boxed{x = 5}", "5"),
    (r"\[ x = 7 \]", "7"),
    (r"\boxed{(3, 4)}", "(3, 4)"),
    (r"\boxed{[0, 1)}", "[0, 1)"),
    (r"\boxed{-1}", "-1"),
    (r"\boxed{\pi}", r"\pi"),
    (r"Therefore the minimum is $-\frac{1}{4}$", "-1/4"),
    (r"\boxed{3\frac{1}{2}}", "3.5"),
    (r"\boxed{2^{10}}", "1024"),
    (r"\boxed{90^\circ}", "90"),
    (r"The solutions are $2$ and $3$, so \boxed{2, 3}", "2,3"),
]
CHOICES = [
    ("The answer is (B).", "B"),
    ("The answer is B) Paris.", "B"),
    ("The correct answer is **C**.", "C"),
    ("Answer: D", "D"),
    ("answer: (d)", "D"),
    ("B", "B"),
    ("(C) Because the others are wrong, and it is the only one that fits all of the text.", "C"),
    ("A. 12", "A"),
    ("The correct option is A: 12 apples", "A"),
    ("Option B is correct.", "B"),
    ("The best choice is option D, as it is the cheapest of all that are left to us here.", "D"),
    (r"\boxed{B}", "B"),
    ("Answer: B. The others do not follow.", "B"),
    ("Therefore, the answer would be E", "E"),
    ("I would choose (B).", "B"),
    ("The answer is A cat.", "A cat"),
    ("[C]", "C"),
]
FREE: list[tuple[str, str | None]] = [
    ("Paris", "Paris"),
    ("Paris.", "paris"),
    ("**Paris**", "Paris"),
    ('"Paris"', "Paris"),
    ("The answer is Paris.", "Paris"),
    ("The capital of France is Paris.", "Paris"),
    ("Yes", "yes"),
    ("Yes, it rains there for most of the year, as every traveller will tell you.", "yes"),
    ("No. They are not the same at all, whatever you may have heard about them.", "no"),
    ("The answer is no, because it is not.", "no"),
    ("No one", "No one"),
    ("The answer is New York City", "new york city"),
    ("Answer:\nLondon", "London"),
    ("I do not know what to say about this question, which has no answer that I can see.", None),
    ("", None),
    ("   \n", None),
    ("It was founded in 1842 by Henry Smith.", "1842"),
    ("The answer is Henry VIII.", "Henry VIII"),
    ("The answer is Dr. Smith.", "Dr. Smith"),
    ("In H2O there are two elements, as its formula says to all who read it well.", None),
]
LANGUAGES = [
    ("Die Antwort ist 12.", "12"),
    ("Die Antwort lautet 12 Euro.", "12"),
    ("La réponse est 12.", "12"),
    ("La respuesta es 12.", "12"),
    ("Respuesta final: 12", "12"),
    ("A resposta é 12.", "12"),
    ("La risposta è 12.", "12"),
    ("Het antwoord is 12.", "12"),
    ("Ответ — 12.", "12"),
    ("Ответ: 12 яблок", "12"),
    ("答案是 12。", "12"),
    ("答案：12", "12"),
    ("答えは12です。", "12"),
    ("答え: 12", "12"),
    ("คำตอบคือ 12", "12"),
    ("Jibu ni 12.", "12"),
    ("উত্তর হল 12", "12"),
    ("సమాధానం 12", "12"),
    ("정답은 12입니다.", "12"),
    ("Doğru cevap: B", "B"),
    ("Ja, das stimmt, denn es steht so in dem Buch, das wir alle gelesen haben.", "ja"),
    ("Nein.", "nein"),
    ("はい、そうです。", "はい"),
    ("La réponse est 3,5.", "3,5"),
]
Cases = Sequence[tuple[str, str | None]]
CASES: Mapping[str, Cases] = {
    "word problems": WORD_PROBLEMS,
    "mathematics": MATHEMATICS,
    "multiple choice": CHOICES,
    "free questions": FREE,
    "languages": LANGUAGES,
}


def key_of(answer: str | None) -> str | None:
    """What equals the key of an answer that agrees."""
    return None if answer is None else value_key(answer)


def wrong(kind: str) -> Iterator[tuple[str, str | None, str | None]]:
    """The cases of a kind that are not right: text, what is right, and what was taken for it."""
    for text, right in CASES[kind]:
        found = written("text", text)
        if key_of(found) != key_of(right):
            yield text, right, found


if __name__ == "__main__":
    for kind, cases in CASES.items():
        missed = list(wrong(kind))
        print(f"{kind}: {len(cases) - len(missed)} of {len(cases)}")
        for text, right, found in missed:
            print(f"    {text!r}: {found!r}, not {right!r}")
