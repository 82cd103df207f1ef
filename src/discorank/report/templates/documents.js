// The browser of documents: several systems side by side, one document at a time.

const LONG = 1000;  // characters of a given text from which on it is closed at first

function showDocuments(data) {
  const at = (id) => document.getElementById("document-" + id);
  const measures = [
    ...data.human.map((one, i) => ({...one, of: (doc) => doc.human[i], segments: (doc) => doc.human[i], people: true})),
    ...data.metrics.map((one, i) => ({...one, of: (doc) => doc.scores[i], segments: (doc) => doc.segments[i]})),
  ];
  const givens = [
    ...(data.documents.some((doc) => doc.source) ? [{label: "source", texts: (doc) => doc.source}] : []),
    ...data.references.map((name) => ({label: name + " (reference)", texts: (doc) => doc.references[name]})),
  ];
  let order = data.documents.map((_, i) => i);
  let place = 0;

  const checked = (part) => [...at(part).querySelectorAll("input")].flatMap((box, i) => box.checked ? [i] : []);
  const shown = () => checked("systems");
  const measure = () => measures[Number(at("score").value)];

  // One number of a document: a list of segments counts as its mean.
  function whole(value) {
    if (!Array.isArray(value)) return value === undefined ? null : value;
    const known = value.filter((x) => x !== null);
    return known.length ? known.reduce((sum, x) => sum + x, 0) / known.length : null;
  }

  function sortKey(doc) {
    const one = measure();
    const values = shown().map((s) => whole(one.of(doc)[s])).filter((x) => x !== null);
    if (!values.length) return -Infinity;
    if (at("order").value === "apart") return Math.max(...values) - Math.min(...values);
    const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
    return one.higher ? -mean : mean;
  }

  function reorder() {
    const current = order[place];
    order = data.documents.map((_, i) => i);
    if (at("order").value !== "file") {
      const keys = data.documents.map(sortKey);
      order.sort((x, y) => keys[y] - keys[x] || x - y);
      place = 0;
    } else {
      place = Math.max(0, order.indexOf(current));
    }
    fill(at("choice"), order.map((i, n) => [String(n), data.documents[i].id]));
    show();
  }

  function scoreTable(doc) {
    const head = ["system", ...measures.map((one) => one.name + (one.people ? " (human)" : ""))];
    const rows = shown().map((s) => [data.systems[s], ...measures.map((one) => whole(one.of(doc)[s]))]);
    return tableOf("Scores of this document", head, rows);
  }

  // What differences are marked against, as texts by segment; null for nothing.
  function baseTexts(doc) {
    const [kind, name] = JSON.parse(at("base").value);
    if (kind === "reference") return doc.references[name] || null;
    return kind === "system" ? doc.systems[data.systems.indexOf(name)] : null;
  }

  function marked(text, base) {
    const made = element("p", {dir: "auto"});
    if (base === null || base === text) {
      made.append(text);
      return made;
    }
    for (const piece of differences(base, text)) {
      made.append(piece.kind === "both" ? piece.text : element(piece.kind === "first" ? "del" : "ins", null, piece.text));
    }
    return made;
  }

  // A text with the errors that annotators marked in it, pieces with the worst severity and all who marked them.
  function rated(text, marks, rater) {
    const letters = Array.from(text);  // places count characters, not the units of JavaScript
    const own = (marks || []).filter(([name]) => rater === "" || name === rater);
    const made = element("p", {dir: "auto"});
    if (!own.length) {
      made.append(text, element("span", {class: "scores"}, " (not annotated)"));
      return made;
    }
    const spans = own.flatMap(([name, some]) => some.map(([start, end, severity, category]) => ({name, start, end, severity, category})));
    const said = (span) => [span.name, span.severity, span.category].filter(Boolean).join(": ");
    const rank = (severity) => ["minor", "major", "critical"].indexOf(severity);
    const mark = (some, content) => {
      const worst = some.map((span) => span.severity).sort((x, y) => rank(y) - rank(x))[0] || "minor";
      const several = new Set(some.map((span) => span.name)).size > 1;
      return element("mark", {class: worst + (several ? " several" : ""), title: some.map(said).join("\n")}, content);
    };
    const placed = spans.filter((span) => span.start !== null);
    const ends = [...new Set([0, letters.length, ...placed.flatMap((span) => [span.start, span.end])])].sort((x, y) => x - y);
    for (let n = 0; n + 1 < ends.length; n++) {
      const inside = placed.filter((span) => span.start <= ends[n] && span.end >= ends[n + 1]);
      const piece = letters.slice(ends[n], ends[n + 1]).join("");
      made.append(inside.length ? mark(inside, piece) : piece);
    }
    for (const span of spans.filter((one) => one.start === null)) made.append(" ", mark([span], "[missing]"));
    return made;
  }

  // A given text; a long one is closed at first.
  function folded(text) {
    const made = marked(text, null);
    if (text.length <= LONG) return made;
    return element("details", null, element("summary", null, text.length + " characters: " + text.slice(0, 60) + "…"), made);
  }

  function scoresOf(doc, s, i) {
    const parts = [];
    for (const one of measures) {
      if (one !== measure() && !one.people) continue;
      const values = one.segments(doc);
      const value = values === null ? null : values[s];
      if (Array.isArray(value)) parts.push(one.name + " " + number(value[i]));
    }
    return parts.length ? element("p", {class: "scores"}, parts.join(" · ")) : null;
  }

  function segment(doc, i, base) {
    const cells = checked("given").map((n) => givens[n]).flatMap(({label, texts}) => {
      const own = texts(doc);
      return own ? [element("div", {class: "cell given"}, element("h5", null, label), folded(own[i]))] : [];
    });
    for (const s of shown()) {
      const [kind, rater] = JSON.parse(at("base").value);
      const marks = doc.marks && doc.marks[s];
      const text = kind === "rater" ? rated(doc.systems[s][i], marks && marks[i], rater) : marked(doc.systems[s][i], base ? base[i] : null);
      cells.push(element("div", {class: "cell", "data-system": data.systems[s]}, element("h5", null, data.systems[s]), text, scoresOf(doc, s, i)));
    }
    return element("li", null, element("h4", null, "Segment " + (i + 1)), element("div", {class: "cells"}, ...cells));
  }

  function show() {
    const doc = data.documents[order[place]];
    const base = baseTexts(doc);
    const segments = doc.systems[0].map((_, i) => segment(doc, i, base));
    at("view").replaceChildren(element("h3", null, doc.id), scoreTable(doc), element("ol", {class: "segments"}, ...segments));
    at("choice").value = String(place);
    at("before").disabled = place === 0;
    at("after").disabled = place === order.length - 1;
    at("status").textContent = "Document " + (place + 1) + " of " + order.length + ": " + doc.id;
  }

  function addBox(part, label, isChecked) {
    const box = element("input", {type: "checkbox"});
    box.checked = isChecked;
    box.addEventListener("change", show);
    at(part).append(element("label", null, box, label));
  }

  function step(direction) {
    const next = place + direction;
    if (next < 0 || next >= order.length) return;
    place = next;
    show();
  }

  fill(at("score"), measures.map((one, i) => [String(i), one.name + (one.people ? " (human)" : "")]),
    String(measures.findIndex((one) => !one.people && one.name === data.score)));
  const raters = data.raters.length ? [["rater", ""], ...data.raters.map((name) => ["rater", name])] : [];
  const label = ([kind, name]) => kind === "none" ? "nothing" : kind === "reference" ? name + " (reference)" : kind === "rater" ? "errors marked by " + (name || "all annotators") : name;
  const bases = [["none", ""], ...raters, ...data.references.map((name) => ["reference", name]), ...data.systems.map((name) => ["system", name])];
  fill(at("base"), bases.map((one) => [JSON.stringify(one), label(one)]),
    JSON.stringify(bases[raters.length || data.references.length ? 1 : 0]));
  for (const name of data.systems) addBox("systems", name, data.shown.includes(name));
  givens.forEach(({label}, n) => addBox("given", label, n < 2));
  at("choice").addEventListener("change", () => { place = Number(at("choice").value); show(); });
  at("order").addEventListener("change", reorder);
  at("score").addEventListener("change", () => at("order").value === "file" ? show() : reorder());
  at("base").addEventListener("change", show);
  steps(document.getElementById("documents"), at("before"), at("after"), step);
  at("browser").hidden = false;
  reorder();
}

const comparedData = dataOf("documents-data");
if (comparedData) showDocuments(comparedData);
