// The browser of lists: what the decoder chose, and why.

function showLists(data) {
  const at = (id) => document.getElementById("list-" + id);
  let order = [];
  let place = 0;

  function reorder() {
    const keys = {
      file: () => 0,
      close: (list) => list.gap === null ? Infinity : list.gap,
      flags: (list) => -list.flags.length,
    };
    const key = keys[at("order").value];
    order = data.lists.map((_, i) => i).sort((x, y) => key(data.lists[x]) - key(data.lists[y]) || x - y);
    place = 0;
    fill(at("choice"), order.map((i, n) => [String(n), data.lists[i].id]));
    show();
  }

  // JSON data of a metric as tables and lines; numbers by name become two columns.
  function told(name, value) {
    if (Array.isArray(value) && value.length && value.every((one) => one && typeof one === "object" && !Array.isArray(one))) {
      const head = [...new Set(value.flatMap((one) => Object.keys(one)))];
      return tableOf(name, head, value.map((one) => head.map((key) => plain(one[key]))), "texts");
    }
    if (value && typeof value === "object" && !Array.isArray(value)) {
      const entries = Object.entries(value);
      if (entries.length && entries.every(([, inner]) => typeof inner === "number")) {
        return tableOf(name, ["", "value"], entries, "texts");
      }
      const inner = entries.map(([key, part]) => told(key, part));
      return element("div", null, element("h5", null, name),
        inner.length ? element("div", {class: "told"}, ...inner) : element("p", null, "none"));
    }
    return element("p", null, element("strong", null, name + ": "), plain(value));
  }

  function plain(value) {
    if (Array.isArray(value)) return value.map(plain).join(", ") || "none";
    if (value && typeof value === "object") return Object.entries(value).map(([key, inner]) => key + " " + plain(inner)).join(", ") || "none";
    return typeof value === "number" ? number(value) : value === null || value === undefined ? "–" : String(value);
  }

  function bar(value, low, high) {
    const made = element("span", {class: "bar"});
    made.style.width = (high > low ? 4 * (value - low) / (high - low) : 4) + "rem";
    return made;
  }

  function ranking(list) {
    const utilities = list.ranking.map((one) => one.utility).filter((x) => x !== null);
    const low = Math.min(...utilities), high = Math.max(...utilities);
    const beside = [...new Set(list.ranking.flatMap((one) => Object.keys(one.beside)))];
    const head = ["rank", data.isRerank ? "score" : "expected utility", "text", "candidate", "copies", ...beside];
    const rows = list.ranking.map((one, rank) => {
      const value = element("span", null, number(one.utility));
      if (one.utility !== null) value.append(bar(one.utility, low, high));
      return [rank + 1, value, list.texts[one.text], one.index, one.count, ...beside.map((key) => plain(one.beside[key]))];
    });
    const table = tableOf("All candidates, best first", head, rows, "texts");
    const first = table.querySelector("tbody tr");
    if (first) first.classList.add("chosen");
    return table;
  }

  // A text with the errors that a metric marks in it: pieces of text, each with a severity or none.
  function marked(pieces) {
    const parts = pieces.map(([text, severity]) =>
      severity === null ? text : element("u", {class: severity, title: severity}, text || "‸"));
    return element("p", {dir: "auto"}, element("strong", null, "Errors marked: "), ...(parts.some((part) => part instanceof Node) ? parts : ["none"]));
  }

  function reasons(list) {
    const parts = [];
    list.ranking.forEach((one, rank) => {
      const why = Object.entries(one.why).flatMap(([metric, about]) =>
        metric in one.marked ? [marked(one.marked[metric]), told(metric, about)] : [told(metric, about)]);
      if (!one.agreeing.length && !why.length) return;
      const nearest = one.agreeing.map(([text, utility]) => [number(utility), list.texts[text]]);
      const title = (rank === 0 ? "Why it won" : "Rank " + (rank + 1)) + ": candidate " + one.index;
      const made = element("details", null, element("summary", null, title),
        element("p", {dir: "auto"}, list.texts[one.text]),
        nearest.length ? tableOf("Nearest pseudo-references", ["utility", "text"], nearest, "texts") : null,
        why.length ? element("h4", null, "Against the nearest of them") : null, ...why);
      made.open = rank === 0;
      parts.push(made);
    });
    return parts;
  }

  function show() {
    const list = data.lists[order[place]];
    let gap = "There is one distinct text.";
    if (list.gap !== null && list.gap < 0) gap = "The winner is " + number(-list.gap) + " behind the best, for the sake of lists after it.";
    else if (list.gap !== null) gap = "The winner is " + number(list.gap) + " ahead of the " + (list.votes ? "next answer." : "runner-up.");
    const other = list.chosen !== null && list.chosen !== list.ranking[0].index;
    at("view").replaceChildren(
      element("h3", null, list.id),
      ...list.context.map((sentence) => element("p", {dir: "auto"}, element("strong", null, "Before: "), sentence)),
      ...(list.source === null ? [] : [element("p", {dir: "auto"}, element("strong", null, "Source: "), list.source)]),
      element("p", {dir: "auto"}, element("strong", null, "Chosen: "), list.texts[list.ranking[0].text]),
      ...(list.votes ? [element("p", {dir: "auto"}, element("strong", null, "Answer: "), plain(list.answer)),
        tableOf("Votes", ["answer", "share", "texts"], list.votes.map((one) => [one.answer, number(one.share), one.count]), "texts")] : []),
      element("p", null, gap + " " + list.candidates + " candidates, " + list.distinct + " distinct."),
      ...(list.flags.length ? [element("p", null, ...list.flags.map((flag) => element("span", {class: "flag"}, flag)))] : []),
      ...(other ? [element("p", null, element("span", {class: "flag"}, "the run chose candidate " + list.chosen))] : []),
      ranking(list), ...reasons(list));
    at("choice").value = String(place);
    at("before").disabled = place === 0;
    at("after").disabled = place === order.length - 1;
    at("status").textContent = "List " + (place + 1) + " of " + order.length + ": " + list.id;
  }

  function step(direction) {
    const next = place + direction;
    if (next < 0 || next >= order.length) return;
    place = next;
    show();
  }

  if (!data.lists.length) return;
  at("choice").addEventListener("change", () => { place = Number(at("choice").value); show(); });
  at("order").addEventListener("change", reorder);
  steps(document.getElementById("choices"), at("before"), at("after"), step);
  at("browser").hidden = false;
  reorder();
}

const chosenData = dataOf("lists-data");
if (chosenData) showLists(chosenData);
