// The classes to choose from.
//
// Which key means which class, and why:
// - Up to 20 classes every class has a key that never moves, so that fingers learn it: 1 … 9, 0 for the first
//   ten and Shift with the same keys for the next ten. Adding a class moves none. A class that is a digit
//   itself ("0" … "9") gets its own key: having to press 4 for "3" would be a trap. A list of classes may name
//   keys, digits or letters that are no shortcut, and these stay however many classes there are.
// - Beyond 20 nobody remembers keys. Then 1 … 5 take the five most likely classes, shown in a row above; their
//   meaning changes with every item, but it is read together with the name. That row is hidden with the
//   probabilities (it tells as much), and the keys do nothing then, rather than something else; a line says so.
// - Beyond 10 there is a filter (`f`): type a part of the name, Enter takes the first and leaves the filter.
//   The list itself keeps its order always.
import { canAnswer, label } from "./actions.js";
import { breakable, byId, make, percent, setText } from "./dom.js";
import { guessShown, on, shownName, state } from "./state.js";

const WITH_KEYS = 20;
const WITHOUT_FILTER = 10;
const LIKELY = 5;
const ORDER = "1234567890";
const LEAST = { narrow: 104, medium: 176, wide: 272 }; // pixels a button needs
const LEAST_ON_PHONE = { narrow: 56, medium: 140, wide: 300 };
const GAP = 8;
const LONG = 30; // characters of a name that needs all the width of a phone's button
const NARROW = matchMedia("(max-width: 30rem)");

let buttons = new Map();
let drawn = null;
let laidOut = null; // how many classes, in how many columns, in how much room

/** "1", or "⇧1" with Shift, or the class's own key; beyond twenty only own letters. */
function keyNames(classes) {
  if (classes.length > WITH_KEYS) return classes.map(({ key }) => (/^[a-z]$/.test(key) ? key : ""));
  const given = new Set(classes.map(({ key }) => key).filter(Boolean));
  const own = ({ name, key }, i) => key || (i < ORDER.length && /^[0-9]$/.test(name) && !given.has(name) ? name : "");
  const fixed = classes.map(own);
  const left = [...ORDER].filter((digit) => !fixed.includes(digit));
  left.push(...[...ORDER].map((digit) => `⇧${digit}`));
  return fixed.map((key) => key || left.shift());
}

/** The room that most names need decides how many fit side by side; the few longer ones take more lines. */
function width(classes) {
  const lengths = classes.map((each) => each.name.length).sort((a, b) => a - b);
  const usual = lengths[Math.floor(0.8 * (lengths.length - 1))] ?? 0;
  if (usual <= 4) return "narrow";
  return usual <= 20 ? "medium" : "wide";
}

/** As many columns as fit, but rows of equal length: ten classes stand as 5 + 5, not 7 + 3. */
function layOut() {
  const box = byId("classes");
  box.dataset.width = width(state.classes);
  laidOut = { number: state.classes.length, room: box.offsetWidth };
  const least = (NARROW.matches ? LEAST_ON_PHONE : LEAST)[box.dataset.width ?? "medium"];
  const most = Math.max(1, Math.floor((box.clientWidth + GAP) / (least + GAP)));
  const rows = Math.ceil(state.classes.length / most) || 1;
  laidOut.columns = Math.min(most, Math.ceil(state.classes.length / rows) || 1);
  box.style.gridTemplateColumns = `repeat(${laidOut.columns}, minmax(0, 1fr))`;
  place();
}

/** A class that is added while people label goes above the others, which stay where they are, at the bottom of the page; with the
 * next visit, or in a window of another width, all are laid out anew. */
function place() {
  const { number, columns } = laidOut;
  const above = Math.ceil(Math.max(0, state.classes.length - number) / columns);
  [...byId("classes").children].forEach((button, i) => {
    const later = i - number;
    const row = later < 0 ? above + Math.floor(i / columns) : above - 1 - Math.floor(later / columns);
    const column = (later < 0 ? i : later) % columns;
    button.style.gridArea = above ? `${row + 1} / ${column + 1}` : "";
  });
}

function classButton(each, key) {
  // A cap that only repeats the name is noise.
  const cap = key && key !== each.name ? make("kbd", {}, key) : null;
  const share = make("span", { className: "share" });
  const bar = make("span", { className: "bar", "aria-hidden": "true" });
  const name = make("span", { className: "name", dir: "auto" }, ...breakable(shownName(each.name)));
  const marks = { "data-class": each.id, "data-key": key };
  const kind = each.name.length > LONG ? "class long" : "class";
  const button = make("button", { type: "button", className: kind, title: each.description ? `${each.name}: ${each.description}` : each.name, ...marks }, cap, name, share, bar);
  button.addEventListener("click", (event) => choose(each.id, event));
  return button;
}

function choose(number, event) {
  // After a click the focus leaves the button: Space would give the same answer to the next item.
  if (event && event.detail > 0) document.activeElement?.blur();
  if (canAnswer()) for (const button of document.querySelectorAll(`[data-class="${number}"]`)) button.classList.add("chosen");
  label(number);
}

function drawClasses() {
  const { classes } = state;
  const keys = keyNames(classes);
  const box = byId("classes");
  const names = JSON.stringify(classes.map((each) => [each.id, each.name, each.key, each.description]));
  if (names === drawn) return; // counts alone changed
  drawn = names;
  buttons = new Map(classes.map((each, i) => [each.id, classButton(each, keys[i])]));
  const below = box.scrollHeight - box.scrollTop - box.clientHeight;
  const stays = Boolean(state.progress?.labelled && laidOut?.number && classes.length >= laidOut.number);
  box.replaceChildren(...buttons.values());
  if (stays) place();
  else layOut();
  document.documentElement.classList.toggle("many-classes", classes.length > WITH_KEYS);
  byId("no-classes").hidden = classes.length > 0;
  byId("filter-box").hidden = classes.length <= WITHOUT_FILTER;
  if (classes.length <= WITHOUT_FILTER) byId("filter").value = "";
  applyFilter();
  drawGuess();
  if (stays) box.scrollTop = box.scrollHeight - box.clientHeight - below; // it grows at its top
}

function fill(button, probability) {
  const shown = probability !== undefined;
  setText(button.querySelector(".share"), shown ? percent(probability) : "");
  button.querySelector(".bar").style.transform = `scaleX(${shown ? probability : 0})`;
}

/** Why the number keys do nothing, when there are too many classes for keys of their own. */
function whyNoKeys(shown) {
  if (shown || !state.task || !state.plainKeys || state.classes.length <= WITH_KEYS) return "";
  if (!state.progress?.labelled) return "Keys 1–5 take the most likely classes as soon as a label is learned; until then f filters.";
  if (state.hideProbabilities) return "No number keys while the model's guess is hidden: p shows it, f filters.";
  return "No number keys on a random check, as they follow the model's guess; f filters.";
}

function drawLikely(shown) {
  const box = byId("likely-box");
  setText(byId("no-keys"), whyNoKeys(shown));
  box.hidden = state.classes.length <= WITH_KEYS || !shown;
  if (box.hidden) {
    byId("likely").replaceChildren();
    return;
  }
  const ranked = state.classes
    .map((each) => ({ each, probability: state.task.probabilities[each.id] ?? 0 }))
    .sort((a, b) => b.probability - a.probability)
    .slice(0, LIKELY);
  const likely = ranked.map(({ each, probability }, i) => {
    const button = classButton(each, String(i + 1));
    fill(button, probability);
    return button;
  });
  byId("likely").replaceChildren(...likely);
}

function drawGuess() {
  const shown = guessShown();
  for (const [number, button] of buttons) {
    // A class added since this item was chosen has no probability yet.
    fill(button, shown ? state.task.probabilities[number] : undefined);
    const mine = state.task?.answer === number;
    button.classList.toggle("mine", mine);
    if (mine) button.setAttribute("aria-description", "your answer so far");
    else button.removeAttribute("aria-description");
  }
  drawLikely(shown);
}

function drawBusy() {
  const idle = state.busy || !state.task;
  // aria-disabled, not disabled: a disabled button would lose the focus.
  for (const button of document.querySelectorAll(".answers .class")) {
    if (!state.busy) button.classList.remove("chosen");
    if (idle) button.setAttribute("aria-disabled", "true");
    else button.removeAttribute("aria-disabled");
  }
}

const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Names that begin with the text come before the order of the list only for Enter; the list stays put. */
function matches() {
  const text = folded(byId("filter").value.trim());
  const found = state.classes.filter((each) => folded(each.name).includes(text));
  const best = found.find((each) => folded(each.name).startsWith(text)) ?? found[0];
  return { text, found, best };
}

function applyFilter() {
  const { text, found, best } = matches();
  const visible = new Set(found.map((each) => each.id));
  byId("classes").classList.toggle("filtered", Boolean(text));
  setText(byId("no-match"), found.length || !text ? "" : "No class has this in its name; n adds one.");
  for (const [number, button] of buttons) {
    button.hidden = !visible.has(number);
    button.classList.toggle("first", Boolean(text) && best?.id === number);
  }
}

function filterKey(event) {
  if (event.key === "Enter") {
    event.preventDefault();
    const { text, best } = matches();
    if (!text || !best || state.busy) return;
    byId("filter").value = "";
    applyFilter();
    byId("filter").blur(); // the next key is an answer again; f comes back here
    choose(best.id);
  } else if (event.key === "Escape") {
    byId("filter").value = "";
    applyFilter();
    byId("filter").blur();
  } else if (event.key === "ArrowDown") {
    event.preventDefault();
    byId("classes").querySelector("button:not([hidden])")?.focus();
  }
}

/** Takes the class of a digit key; true when there was one. */
export function chooseByDigit(digit, shift) {
  const scope = state.classes.length > WITH_KEYS ? byId("likely") : byId("classes");
  const wanted = shift && state.classes.length > ORDER.length && state.classes.length <= WITH_KEYS ? `⇧${digit}` : digit;
  for (const button of scope.children) {
    if (button.dataset.key !== wanted) continue;
    choose(Number(button.dataset.class));
    return true;
  }
  return false;
}

/** Takes the class that has this letter as a key of its own; true when there was one. */
export function chooseByLetter(letter) {
  const own = state.classes.find((each) => each.key === letter);
  if (own) choose(own.id);
  return own !== undefined;
}

export function focusFilter() {
  if (!byId("filter-box").hidden) byId("filter").focus();
}

export function startAnswers() {
  on("classes", drawClasses);
  on("task", drawGuess);
  on("guess", drawGuess);
  on("busy", drawBusy);
  on("task", drawBusy);
  byId("filter").addEventListener("input", applyFilter);
  byId("filter").addEventListener("keydown", filterKey);
  new ResizeObserver(() => {
    if (laidOut && byId("classes").offsetWidth !== laidOut.room) layOut();
  }).observe(byId("classes"));
}
