// The classes to choose from.
//
// Keys of the classes, and why:
// - Up to 20 classes every class has a key that never moves, so that fingers learn it: 1 … 9, 0 for the first
//   ten and Shift with the same keys for the next ten. Adding a class moves none. A class that is a digit
//   itself ("0" … "9") gets its own key: having to press 4 for "3" would be a trap. A list of classes may name
//   keys, digits or letters that are no shortcut, and these stay however many classes there are.
// - Beyond 20 nobody remembers keys. Then 1 … 5 take the five most likely classes, shown in a row above; their
//   meaning changes with every item, but it is read together with the name. That row is hidden with the
//   probabilities (it reveals as much). The keys then do nothing, and a line says so.
//   The other classes follow by likelihood, too, and any letter begins to filter them; commands then want Shift.
// - Beyond 10 there is a filter (`f`): type a part of the name, Enter takes the first and leaves the filter.
//   Up to 20 the list itself keeps its order always.
import { canAnswer, label } from "./actions.js";
import { breakable, byId, make, percent, setText } from "./dom.js";
import { nothing } from "./missed.js";
import { byLikelihood, matching } from "./ranking.js";
import { guessShown, manyClasses, on, shownName, state } from "./state.js";
import { draw as drawTicks, startTicks, toggle } from "./ticks.js";

const WITHOUT_FILTER = 10;
const LIKELY = 5;
const LIKELY_ON_PHONE = 3;
const FIRST = 2; // classes that move beside each other while the next one is added
const SHOWN_FROM = 0.015; // lowest probability shown
const ORDER = "1234567890";
const LEAST = { narrow: 104, medium: 176, wide: 272 }; // least width of a button in pixels
const LEAST_ON_PHONE = { narrow: 56, medium: 140, wide: 300 };
const BESIDE = 104; // pixels of a button beside its name: key, percentage and edges
const GAP = 8;
const LONG = 30; // characters; a longer name needs the full width of a button on a phone
const LONG_WORD = 10; // characters; likewise, or the word is broken beside its percentage
const NARROW = matchMedia("(max-width: 30rem)");
const pen = document.createElement("canvas").getContext("2d"); // measures words

let buttons = new Map();
let drawn = null;
let laidOut = null; // number of classes, number of columns and width of the last layout

/** "1", or "⇧1" with Shift, or the class's own key; beyond twenty only own letters. */
function keyNames(classes) {
  if (manyClasses()) return classes.map(({ key }) => (/^[a-z]$/.test(key) ? key : ""));
  const given = new Set(classes.map(({ key }) => key).filter(Boolean));
  const own = ({ name, key }, i) => key || (i < ORDER.length && /^[0-9]$/.test(name) && !given.has(name) ? name : "");
  const fixed = classes.map(own);
  const left = [...ORDER].filter((digit) => !fixed.includes(digit));
  left.push(...[...ORDER].map((digit) => `⇧${digit}`));
  return fixed.map((key) => key || left.shift());
}

/** The key of a class, the same everywhere on the page; "" if it has none. */
export const classKey = (number) => keyNames(state.classes)[state.classes.findIndex((each) => each.id === number)] ?? "";

/** The width that most names need sets the number of columns; the few longer names wrap. */
function width(classes) {
  const lengths = classes.map((each) => each.name.length).sort((a, b) => a - b);
  const usual = lengths[Math.floor(0.8 * (lengths.length - 1))] ?? 0;
  if (usual <= 4) return "narrow";
  return usual <= 20 ? "medium" : "wide";
}

const words = (each) => shownName(each.name).split(/[\s_\-./]+/u);

/** The least width of a button: as wide as its longest word needs, up to that of long names. */
function least(kind) {
  if (NARROW.matches || manyClasses()) return (NARROW.matches ? LEAST_ON_PHONE : LEAST)[kind];
  pen.font = `550 16px ${getComputedStyle(document.documentElement).fontFamily}`;
  const longest = Math.max(0, ...state.classes.flatMap(words).map((word) => pen.measureText(word).width));
  return Math.max(LEAST[kind], Math.min(LEAST.wide, kind === "narrow" ? 0 : longest + BESIDE));
}

/** As many columns as fit, with rows of equal length: ten classes as 5 + 5, not 7 + 3. */
function layOut() {
  const box = byId("classes");
  box.dataset.width = width(state.classes);
  laidOut = { number: state.classes.length, room: box.offsetWidth };
  const most = Math.max(1, Math.floor((box.clientWidth + GAP) / (least(box.dataset.width) + GAP)));
  const rows = Math.ceil(state.classes.length / most) || 1;
  laidOut.columns = Math.min(most, Math.ceil(state.classes.length / rows) || 1);
  box.style.gridTemplateColumns = `repeat(${laidOut.columns}, minmax(0, 1fr))`;
}

function classButton(each, key) {
  // A key cap that only repeats the name is noise.
  const cap = key && key !== each.name ? make("kbd", {}, key) : null;
  const share = make("span", { className: "share" });
  const bar = make("span", { className: "bar", "aria-hidden": "true" });
  const name = make("span", { className: "name", dir: "auto" }, ...breakable(shownName(each.name)));
  const marks = { "data-class": each.id, "data-key": key };
  const longest = Math.max(...words(each).map((word) => word.length));
  const kind = each.name.length > LONG || longest > LONG_WORD ? "class long" : "class";
  const button = make("button", { type: "button", className: kind, title: each.description ? `${each.name}: ${each.description}` : null, ...marks }, cap, name, share, bar);
  button.addEventListener("click", (event) => choose(each.id, event));
  return button;
}

function choose(number, event) {
  // After a click the focus leaves the button: Space would give the same answer to the next item.
  if (event && event.detail > 0) document.activeElement?.blur();
  if (state.multiLabel) {
    toggle(number);
    return;
  }
  if (canAnswer()) for (const button of document.querySelectorAll(`[data-class="${number}"]`)) button.classList.add("chosen");
  label(number);
}

function drawClasses() {
  const { classes } = state;
  const keys = keyNames(classes);
  const box = byId("classes");
  const names = JSON.stringify(classes.map((each) => [each.id, each.name, each.key, each.description]));
  if (names === drawn) return; // only counts changed
  drawn = names;
  buttons = new Map(classes.map((each, i) => [each.id, classButton(each, keys[i])]));
  const stays = !manyClasses() && state.progress?.labelled && laidOut?.number > FIRST && classes.length >= laidOut.number;
  box.replaceChildren(...buttons.values());
  if (!stays) layOut(); // a class added while people label comes last, and no other moves, except the first
  document.documentElement.classList.toggle("many-classes", manyClasses());
  byId("no-classes").hidden = classes.length > 0;
  byId("filter-box").hidden = classes.length <= WITHOUT_FILTER;
  if (classes.length <= WITHOUT_FILTER) byId("filter").value = "";
  drawGuess();
}

/** Most classes are near 0 %, which says nothing. */
function fill(button, probability) {
  const shown = probability !== undefined;
  const visible = shown && probability >= SHOWN_FROM;
  setText(button.querySelector(".share"), visible ? percent(probability) : "");
  button.querySelector(".bar").style.transform = `scaleX(${shown ? probability : 0})`;
}

/** Why the number keys do nothing, when there are too many classes for keys of their own. */
function whyNoKeys(shown) {
  if (shown || !state.task || !state.plainKeys || !manyClasses()) return "";
  if (!state.progress?.labelled) return "Keys 1–5 take the most likely classes as soon as a label is learned; until then type a name.";
  if (state.hideProbabilities) return "No number keys while the model's guess is hidden: ⇧P shows it. Type a name.";
  return "No number keys on a random check, as they follow the model's guess. Type a name.";
}

function drawLikely(shown) {
  const box = byId("likely-box");
  setText(byId("no-keys"), whyNoKeys(shown));
  box.hidden = !manyClasses() || !shown;
  const likely = box.hidden ? [] : ranked().slice(0, NARROW.matches ? LIKELY_ON_PHONE : LIKELY);
  byId("likely").replaceChildren(...likely.map((each, i) => {
    const button = classButton(each, String(i + 1));
    fill(button, state.task.probabilities[each.id]);
    return button;
  }));
}

const ranked = () => (manyClasses() && guessShown() ? byLikelihood(state.classes, state.task.probabilities) : state.classes);

function drawGuess() {
  const shown = guessShown();
  for (const [number, button] of buttons) {
    // A class added since this item was chosen has no probability yet.
    fill(button, shown ? state.task.probabilities[number] : undefined);
    const mine = Array.isArray(state.task?.answer) ? state.task.answer.includes(number) : state.task?.answer === number;
    const not = state.task?.ruled_out?.includes(number) ?? false;
    button.classList.toggle("mine", mine);
    button.classList.toggle("not", not);
    if (mine || not) button.setAttribute("aria-description", mine ? "your answer so far" : "you refused this class");
    else button.removeAttribute("aria-description");
  }
  drawLikely(shown);
  applyFilter();
  drawTicks();
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

/** The filter text and the classes whose names contain it; Enter takes the first. */
function matches() {
  const typed = byId("filter").value.trim();
  return { typed, found: matching(ranked(), typed) };
}

/** Few classes keep their order; many are sorted by rank, without the classes in the row above. */
function applyFilter() {
  const { typed, found } = matches();
  const visible = new Set(found.map((each) => each.id));
  const above = new Set(typed ? [] : [...byId("likely").children].map((button) => Number(button.dataset.class)));
  setText(byId("no-match"), found.length || !typed ? "" : `No class has this in its name; ${manyClasses() ? "⇧N" : "n"} adds one.`);
  for (const [number, button] of buttons) {
    button.hidden = !visible.has(number) || above.has(number);
    button.classList.toggle("first", Boolean(typed) && found[0]?.id === number);
  }
  if (manyClasses()) arrange(found);
}

/** Sorts the buttons only if needed: a moved button would lose the focus. */
function arrange(order) {
  const box = byId("classes");
  const wanted = order.map((each) => buttons.get(each.id)).filter(Boolean);
  if (wanted.every((button, i) => box.children[i] === button)) return;
  const focused = document.activeElement;
  box.prepend(...wanted);
  if (box.contains(focused)) focused.focus();
}

function filterKey(event) {
  if (event.key === "Enter") {
    event.preventDefault();
    const { typed, found } = matches();
    if (!typed || !found.length || state.busy) return;
    byId("filter").value = "";
    applyFilter();
    byId("filter").blur(); // so that the next key is an answer or starts a new filter
    choose(found[0].id);
  } else if (event.key === "Escape") {
    byId("filter").value = "";
    applyFilter();
    byId("filter").blur();
  } else if (event.key === "ArrowDown") {
    event.preventDefault();
    byId("classes").querySelector("button:not([hidden])")?.focus();
  }
}

/** Why a digit key takes no class. */
function whyNoClass(key) {
  if (!state.classes.length) return "There are no classes yet: n adds one.";
  if (!manyClasses()) return `No class has the key ${key}.`;
  return byId("no-keys").textContent || `No class has the key ${key}: type a name.`;
}

/** Answers with the class of a digit key; true if there was one. */
export function chooseByDigit(digit, shift) {
  const scope = manyClasses() ? byId("likely") : byId("classes");
  const wanted = shift && state.classes.length > ORDER.length && !manyClasses() ? `⇧${digit}` : digit;
  for (const button of scope.children) {
    if (button.dataset.key !== wanted) continue;
    choose(Number(button.dataset.class));
    return true;
  }
  if (state.task) nothing(whyNoClass(wanted));
  return false;
}

/** Answers with the class whose own key is this letter; true if there was one. */
export function chooseByLetter(letter) {
  const own = state.classes.find((each) => each.key === letter);
  if (own) choose(own.id);
  return own !== undefined;
}

export function focusFilter() {
  if (!byId("filter-box").hidden) byId("filter").focus();
  else nothing(`The filter needs more than ${WITHOUT_FILTER} classes.`);
}

export function startAnswers() {
  on("classes", drawClasses);
  on("task", drawGuess);
  on("guess", drawGuess);
  on("busy", drawBusy);
  on("task", drawBusy);
  NARROW.addEventListener("change", drawGuess);
  startTicks();
  byId("filter").addEventListener("input", applyFilter);
  byId("filter").addEventListener("keydown", filterKey);
  new ResizeObserver(() => {
    if (laidOut && byId("classes").offsetWidth !== laidOut.room) layOut();
  }).observe(byId("classes"));
}
