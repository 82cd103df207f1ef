"use strict";
// The words of a text and what two texts do not share, as Python's difflib.SequenceMatcher(autojunk=False) sees it.

const WORD = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]|[\p{L}\p{M}\p{N}]+|[^\s]/gu;

// Words with the blanks before each: {word, before}; the blanks at the end stand with an empty word.
function wordsOf(text) {
  const found = [];
  let end = 0;
  for (const match of text.matchAll(WORD)) {
    found.push({word: match[0], before: text.slice(end, match.index)});
    end = match.index + match[0].length;
  }
  if (end < text.length) found.push({word: "", before: text.slice(end)});
  return found;
}

// The longest run of equal numbers in a[aFrom, aTo) and b[bFrom, bTo): the first in a, then the first in b.
function longestRun(a, aFrom, aTo, b, bFrom, bTo) {
  const runs = new Int32Array(bTo - bFrom + 1);  // runs[j + 1] ends at b[bFrom + j]
  let best = {a: aFrom, b: bFrom, length: 0};
  for (let i = aFrom; i < aTo; i++) {
    let diagonal = 0;
    for (let j = 0; j < bTo - bFrom; j++) {
      const above = runs[j + 1];
      const length = a[i] === b[bFrom + j] ? diagonal + 1 : 0;
      runs[j + 1] = length;
      diagonal = above;
      if (length > best.length) best = {a: i - length + 1, b: bFrom + j - length + 1, length};
    }
  }
  return best;
}

// Maximal equal runs of two lists of words, in order: [{a, b, length}].
function equalRuns(first, second) {
  const numbers = new Map();
  const numbered = (words) => words.map((word) => {
    if (!numbers.has(word)) numbers.set(word, numbers.size);
    return numbers.get(word);
  });
  const a = numbered(first), b = numbered(second);
  const found = [], open = [[0, a.length, 0, b.length]];
  while (open.length) {
    const [aFrom, aTo, bFrom, bTo] = open.pop();
    const run = longestRun(a, aFrom, aTo, b, bFrom, bTo);
    if (!run.length) continue;
    found.push(run);
    open.push([aFrom, run.a, bFrom, run.b], [run.a + run.length, aTo, run.b + run.length, bTo]);
  }
  return found.sort((x, y) => x.a - y.a);
}

// Pieces of two texts in reading order: [{kind: "both" | "first" | "second", text}].
function differences(first, second) {
  const a = wordsOf(first), b = wordsOf(second);
  const pieces = [];
  const add = (kind, words) => {
    const blank = kind === "both" || !words.length ? "" : words[0].before;  // no mark on the blank before a word
    const text = words.map((one) => one.before + one.word).join("").slice(blank.length);
    if (blank) pieces.push({kind: "both", text: blank});
    if (text) pieces.push({kind, text});
  };
  let i = 0, j = 0;
  const runs = equalRuns(a.map((one) => one.word), b.map((one) => one.word));
  for (const run of [...runs, {a: a.length, b: b.length, length: 0}]) {
    add("first", a.slice(i, run.a));
    add("second", b.slice(j, run.b));
    add("both", b.slice(run.b, run.b + run.length));
    i = run.a + run.length;
    j = run.b + run.length;
  }
  return pieces;
}
