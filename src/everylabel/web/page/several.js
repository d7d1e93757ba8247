// Several items, one class: a list with ticks, and the classes to give. Search, queues, the map and near copies
// all end here. Each item has a letter that takes it out or in, the first classes have digits, Enter gives the
// class that the model says.
import { labelMany } from "./actions.js";
import { arrowKeys, closeDialog, showDialog } from "./dialogs.js";
import { count, make, plural, setText } from "./dom.js";
import { itemNote, thumbnail } from "./results.js";
import { className, state } from "./state.js";

const LETTERS = "abcdefghijklmnopqrstuvwxyz";
const DIGITS = 9;
const MOST = 500; // that the server takes at once

function row(item, i, changed) {
  const letter = LETTERS[i] ?? "";
  const box = make("input", { type: "checkbox", className: "tick", checked: true, "data-item": item.id, "data-letter": letter });
  box.addEventListener("change", changed);
  const cap = letter ? make("kbd", { "aria-hidden": "true" }, letter) : null;
  const text = make("span", { className: "result-text", dir: "auto" }, item.text ?? item.name ?? item.id);
  const note = make("span", { className: "result-note", dir: "auto" }, itemNote(item));
  return make("li", {}, make("label", { className: "result several-row" }, box, cap, thumbnail(item.image), text, note));
}

/** The class that most are taken for comes first, the others as they are. */
function ranked(items, guess) {
  const votes = new Map();
  for (const { guess: each } of items) if (each !== null && each !== undefined) votes.set(each, (votes.get(each) ?? 0) + 1);
  if (guess !== null) votes.set(guess, Infinity);
  return [...state.classes].sort((a, b) => (votes.get(b.id) ?? 0) - (votes.get(a.id) ?? 0));
}

/** Opens the list. `guess`: the class that the model says, which Enter gives. */
export function openSeveral(title, found, { guess = null, note = "" } = {}) {
  const items = found.slice(0, MOST);
  const list = make("ul", { className: "results several-list" });
  const classes = make("div", { className: "several-classes", role: "group", "aria-label": "Give them a class" });
  const filter = make("input", { type: "search", className: "several-filter", autocomplete: "off", dir: "auto", placeholder: "Filter classes, Enter picks the first" });
  filter.setAttribute("aria-label", "Filter classes");
  const status = make("p", { className: "note", role: "status" });
  const ticks = () => [...list.querySelectorAll("input")];
  const chosen = () => ticks().filter((each) => each.checked).map((each) => each.dataset.item);
  const tell = () => setText(status, `${count(chosen().length)} of ${plural(items.length, "item")} ticked. ${note}`.trim());
  const give = (number) => {
    const ids = chosen();
    if (!ids.length || state.busy) return;
    closeDialog();
    labelMany(ids, number);
  };
  const order = ranked(items, guess);
  const draw = () => {
    const text = filter.value.trim().toLowerCase();
    const some = order.filter((each) => className(each.id).toLowerCase().includes(text));
    classes.replaceChildren(...some.map((each, i) => {
      const cap = i < DIGITS ? make("kbd", {}, String(i + 1)) : null;
      const button = make("button", { type: "button", className: "quiet", "data-class": each.id }, cap, make("span", { dir: "auto" }, className(each.id)));
      button.addEventListener("click", () => give(each.id));
      return button;
    }));
  };
  list.append(...items.map((item, i) => row(item, i, tell)));
  arrowKeys(list, null, "input.tick");
  filter.addEventListener("input", draw);
  const all = make("button", { type: "button", className: "quiet" }, "All or none");
  all.addEventListener("click", () => {
    const on = !ticks().every((each) => each.checked);
    for (const each of ticks()) each.checked = on;
    tell();
  });
  const keys = "Letters take an item out or in; digits give a class, Enter the first one.";
  const dialog = showDialog("several", title, [status, list, all, filter, classes, make("p", { className: "note" }, keys)]);
  dialog.addEventListener("keydown", (event) => press(event, { ticks, tell, classes, filter }));
  tell();
  draw();
}

function press(event, { ticks, tell, classes, filter }) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target === filter;
  if (event.key === "Enter" && !event.target.closest("button")) {
    event.preventDefault();
    classes.querySelector("button")?.click();
  } else if (!typing && state.plainKeys && /^[1-9]$/.test(event.key)) {
    classes.children[Number(event.key) - 1]?.click();
  } else if (!typing && state.plainKeys && /^[a-z]$/.test(event.key)) {
    const tick = ticks().find((each) => each.dataset.letter === event.key);
    if (!tick) return;
    event.preventDefault();
    tick.checked = !tick.checked;
    tell();
  }
}
