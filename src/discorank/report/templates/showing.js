// Small things that both browsers use. Texts are only ever set as text, never as markup.

// An element with attributes and children; strings become text.
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function dataOf(id) {
  const island = document.getElementById(id);
  const bare = (key, value) => value && typeof value === "object" && !Array.isArray(value) ? Object.setPrototypeOf(value, null) : value;
  return island ? JSON.parse(island.textContent, bare) : null;  // a reference may be called "constructor"
}

function number(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "–" : String(value);
  return Number(value.toPrecision(4)).toString().replace("-", "−");
}

// Fills a select with [value, label] pairs.
function fill(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, label]) => element("option", {value}, label)));
  if (chosen !== undefined) select.value = chosen;
}

// A table with a caption, column heads and rows of numbers, strings or elements; the first cell of a row is its head.
function tableOf(caption, head, rows, kind) {
  const cell = (value, first) => {
    const made = first ? element("th", {scope: "row"}) : element("td");
    if (typeof value === "number") made.classList.add("number");
    if (typeof value === "string") made.dir = "auto";
    if (typeof value === "string" && value.length > 40) made.classList.add("text");
    made.append(value instanceof Node ? value : number(value));
    return made;
  };
  const lines = rows.map((row) => element("tr", null, ...row.map((value, i) => cell(value, i === 0))));
  const heads = head.map((text) => text ? element("th", {scope: "col"}, text) : element("td"));
  const made = element("table", kind ? {class: kind} : null,
    element("caption", null, element("span", null, caption)), element("thead", null, element("tr", null, ...heads)), element("tbody", null, ...lines));
  return element("div", {class: "wide", tabindex: "0", role: "region", "aria-label": caption}, made);
}

// Previous and next by buttons and by arrow keys with the focus inside `part`; `step` gets -1 or +1.
function steps(part, before, after, step) {
  before.addEventListener("click", () => step(-1));
  after.addEventListener("click", () => step(1));
  part.addEventListener("keydown", (event) => {
    const typing = event.target.closest("select, input, textarea, .wide, .checks");
    const direction = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!direction || typing || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    step(direction);
  });
}

window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
