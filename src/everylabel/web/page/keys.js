// The table of shortcuts: it runs them and the help lists it, so the two cannot disagree.
import { chooseByDigit, chooseByLetter, focusFilter } from "./answers.js";
import { dialogOpen, gaveBack, showDialog } from "./dialogs.js";
import { byId, make, setText } from "./dom.js";
import { nothing } from "./missed.js";
import { manyClasses, on, state } from "./state.js";
import { unfold, yesNoKey, yesNoKeys } from "./yes_no.js";

const several = () => state.multiLabel;
const single = () => !state.multiLabel;

// `where`: the projects in which the help lists the key
const SHORTCUTS = [
  { keys: ["u", "Backspace"], also: "Ctrl Z", does: "undo", text: "Undo the last answer (any number of times)" },
  { keys: ["Enter"], does: "save", where: several, text: "Save the ticked classes (none ticked: no class)" },
  { keys: ["s", " "], does: "skip", text: "Skip this item for now" },
  { keys: ["-"], does: "none", where: single, text: "None of these classes: the model learns that, too" },
  { keys: ["x"], does: "cannot", text: "Cannot tell: the model learns nothing from it" },
  { keys: [";"], does: "accept", where: () => state.sources > 0, text: "Accept the suggestion" },
  { keys: ["p"], does: "probabilities", text: "Hide or show the model's probabilities" },
  { keys: ["."], does: "yesno", text: "Yes / no: one proposal at a time, or all classes" },
  { keys: ["f"], does: "filter", where: () => !byId("filter-box").hidden, text: "Filter the classes" },
  { keys: ["z"], does: "zoom", where: () => state.kind === "image", text: "Picture: fit, or pixel by pixel" },
  { keys: ["n", "+"], does: "add", text: "Add a class" },
  { keys: ["c"], does: "classes", text: "Classes: rename, order, remove, merge, keys, colours" },
  { keys: ["/"], does: "search", text: "Search, and jump to an item" },
  { keys: ["h"], does: "history", text: "History, and answer again" },
  { keys: ["q"], does: "queues", text: "Queues: lists of items worth a look" },
  { keys: ["g"], does: "copies", where: single, text: "Label near copies of this item together" },
  { keys: ["m"], does: "map", text: "Map of all items" },
  { keys: [","], does: "settings", text: "Settings: strategy, random checks" },
  { keys: ["e"], does: "export", text: "Export labels, predictions, the model" },
  { keys: ["d"], does: "theme", text: "Light or dark" },
  { keys: ["?"], does: "help", text: "This list" },
];

/** Keys that a class may choose: digits, and letters that no command uses. */
export const CLASS_KEYS = [..."1234567890abcdefghijklmnopqrstuvwxyz"].filter((key) => !SHORTCUTS.some(({ keys }) => keys.includes(key)));

const NAMES = { " ": "Space", Backspace: "⌫" };

function typing(target) {
  return target.closest?.("input, textarea, select, [contenteditable]") !== null;
}

/** Enter and Space belong to the button in focus, Space and arrows to a text that scrolls. */
function taken(event) {
  if (event.key !== " " && event.key !== "Enter") return false;
  if (event.key === " " && gaveBack(event.target)) {
    event.target.blur(); // otherwise releasing the key would press it
    return false;
  }
  return event.target.closest("button, a, summary, .scrolls") !== null;
}

/** Whether "n" says no, and does not add a class. */
const noIsKey = () => (state.yesNo || Number.isInteger(state.task?.asks)) && !manyClasses();

/** The digit printed on the key: with Shift, or on a French keyboard, the typed character differs. */
export function digitOf(event) {
  const match = /^(?:Digit|Numpad)([0-9])$/.exec(event.code ?? "");
  if (match) return match[1];
  return /^[0-9]$/.test(event.key) ? event.key : null;
}

function handle(event, run) {
  if (event.defaultPrevented || event.isComposing || dialogOpen() || typing(event.target)) return;
  const command = event.ctrlKey || event.metaKey;
  if (command && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "z") {
    event.preventDefault();
    run("undo");
    return;
  }
  if (command || event.altKey || event.repeat || !state.plainKeys || taken(event)) return;
  if (yesNoKey(event)) {
    event.preventDefault();
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (manyClasses() && !event.shiftKey && /^\p{L}$/u.test(event.key)) {
    if (state.yesNo && (key === "y" || key === "n")) {
      event.preventDefault(); // meant for a proposal: it must not begin to filter
      nothing("Nothing is proposed here. ⇧F filters the classes.");
    } else if (chooseByLetter(key)) event.preventDefault();
    else {
      unfold();
      focusFilter(); // the letter is typed there
    }
    return;
  }
  if (key === "n" && noIsKey()) return; // nothing is proposed that it could answer
  const shortcut = SHORTCUTS.find((each) => each.keys.includes(key) && (each.does !== "save" || state.multiLabel));
  if (shortcut) {
    event.preventDefault();
    run(shortcut.does);
    return;
  }
  const digit = digitOf(event);
  const found = digit === null ? /^[a-z]$/.test(key) && chooseByLetter(key) : chooseByDigit(digit, event.shiftKey);
  if (found) event.preventDefault();
}

/** The text of a key cap: with Shift while letters filter the classes. */
const cap = (key) => (manyClasses() && /^[a-z]$/.test(key) ? `⇧${key.toUpperCase()}` : (NAMES[key] ?? key));

/** Updates the key caps on the buttons. */
function drawCaps() {
  for (const button of document.querySelectorAll("[data-do]")) {
    const shortcut = SHORTCUTS.find((each) => each.does === button.dataset.do);
    const shown = button.querySelector("kbd");
    if (!shortcut) continue;
    const key = shortcut.keys.find((each) => each !== "n" || !noIsKey());
    if (shown) setText(shown, cap(key));
    const letter = /^[a-z]$/.test(key);
    button.setAttribute("aria-keyshortcuts", manyClasses() && letter ? `Shift+${key.toUpperCase()}` : key);
  }
}

export function startKeys(run) {
  document.addEventListener("keydown", (event) => handle(event, run));
  on("classes", drawCaps);
  on("guess", drawCaps);
}

function keyCaps(keys, also) {
  const caps = [...keys.map(cap), ...(also ? [also] : [])];
  return caps.flatMap((text, i) => (i ? [" ", make("kbd", {}, text)] : [make("kbd", {}, text)]));
}

export function openHelp() {
  const row = (caps, text) => make("div", {}, make("dt", {}, ...caps), make("dd", {}, text));
  const first = manyClasses()
    ? [row([make("kbd", {}, "1"), " … ", make("kbd", {}, "5")], "The most likely classes, in the row above the others"), row(["Letters"], "Filter the classes by name; Enter takes the first")]
    : [row([make("kbd", {}, "1"), " … ", make("kbd", {}, "0")], `${state.multiLabel ? "Tick" : "Give"} the class with this key; ⇧ means with Shift`)];
  if (state.multiLabel) first.push(row(["Dashed edge"], "The model predicts this class"));
  const rows = SHORTCUTS.filter(({ where }) => where?.() ?? true).map(({ keys, also, text }) => row(keyCaps(keys, also), text));
  const plain = yesNoKeys().map(([keys, text]) => row(keys.flatMap((key) => [make("kbd", {}, key), " "]), text));
  showDialog("help", "Keys", [make("dl", { className: "key-list" }, ...first, ...rows, ...plain)]);
}
