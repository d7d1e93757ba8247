// One class for several items: a list with ticks, and the classes. Search, queues, the map and near copies all lead
// here. Classes have the same keys as on the page; Enter gives the class that the model predicts.
import { labelMany } from "./actions.js";
import { classKey } from "./answers.js";
import { arrowKeys, closeDialog, showDialog } from "./dialogs.js";
import { count, make, plural, setText } from "./dom.js";
import { digitOf } from "./keys.js";
import { itemNote, thumbnail } from "./results.js";
import { className, manyClasses, state } from "./state.js";

const MOST = 500; // items that the server accepts at once

/** Items that have a label start unticked, because one key would replace it; several classes per item only add one. */
const startsTicked = (item) => item.sure ?? (state.multiLabel || item.state !== "labelled");

function row(item, changed) {
  const box = make("input", { type: "checkbox", className: "tick", checked: startsTicked(item), "data-item": item.id });
  box.addEventListener("change", changed);
  const text = make("span", { className: "result-text", dir: "auto" }, item.text ?? item.name ?? item.id);
  const note = make("span", { className: "result-note", dir: "auto" }, itemNote(item));
  return make("li", {}, make("label", { className: "result several-row" }, box, thumbnail(item.image), text, note));
}

/** The classes in the order of their keys; with too many classes for keys, the model's guesses come first. */
function ranked(items, guess) {
  if (!manyClasses()) return state.classes;
  const votes = new Map();
  for (const { guess: said } of items) for (const each of [said ?? []].flat()) votes.set(each, (votes.get(each) ?? 0) + 1);
  if (guess !== null) votes.set(guess, Infinity);
  return [...state.classes].sort((a, b) => (votes.get(b.id) ?? 0) - (votes.get(a.id) ?? 0));
}

/** Opens the list. `guess`: the predicted class, which Enter gives. Items that are not `sure` start unticked. */
export function openSeveral(title, found, { guess = null, note = "" } = {}) {
  const items = found.slice(0, MOST);
  const list = make("ul", { className: "results several-list" });
  const classes = make("div", { className: "several-classes", role: "group", "aria-label": "Give them a class" });
  const filter = make("input", { type: "search", className: "several-filter", autocomplete: "off", dir: "auto", placeholder: "Filter classes, Enter picks the first" });
  filter.setAttribute("aria-label", "Filter classes");
  const status = make("p", { className: "note", role: "status" });
  const ticks = () => [...list.querySelectorAll("input")];
  const chosen = () => ticks().filter((each) => each.checked).map((each) => each.dataset.item);
  const showStatus = () => setText(status, `${count(chosen().length)} of ${plural(items.length, "item")} ticked. ${note}`.trim());
  const give = (number) => {
    const ids = chosen();
    if (!ids.length || state.busy) return;
    closeDialog();
    labelMany(ids, number, off.checked);
  };
  const off = make("input", { type: "checkbox", id: "several-off" });
  const taking = make("label", { className: "check-row", htmlFor: "several-off", hidden: !state.multiLabel }, off, "Remove the class instead of adding it");
  const order = ranked(items, guess);
  const draw = () => {
    const text = filter.value.trim().toLowerCase();
    const some = order.filter((each) => className(each.id).toLowerCase().includes(text));
    classes.replaceChildren(...some.map((each) => {
      const key = classKey(each.id);
      const cap = key ? make("kbd", {}, key) : null;
      const kind = each.id === guess ? "primary" : "quiet";
      const button = make("button", { type: "button", className: kind, "data-class": each.id, "data-key": key }, cap, make("span", { dir: "auto" }, className(each.id)));
      button.addEventListener("click", () => give(each.id));
      return button;
    }));
  };
  list.append(...items.map((item) => row(item, showStatus)));
  arrowKeys(list, null, "input.tick");
  filter.addEventListener("input", draw);
  const all = make("button", { type: "button", className: "quiet" }, "All or none");
  all.addEventListener("click", () => {
    const on = !ticks().every((each) => each.checked);
    for (const each of ticks()) each.checked = on;
    showStatus();
  });
  const keys = "Arrows move through the list and Space ticks an item; a class's key gives that class.";
  const dialog = showDialog("several", title, [status, list, make("div", { className: "several-tools" }, all, taking, filter), classes, make("p", { className: "note no-keys" }, keys)]);
  dialog.addEventListener("keydown", (event) => press(event, classes, filter, guess));
  showStatus();
  draw();
}

/** Gives a class by its key. Enter gives the first match in the filter, or the guess outside the filter. */
function press(event, classes, filter, guess) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target === filter;
  if (event.key === "Enter" && !event.target.closest("button")) {
    event.preventDefault();
    if (typing) classes.querySelector("button")?.click();
    else if (guess !== null) classes.querySelector(`[data-class="${guess}"]`)?.click();
    return;
  }
  if (typing || !state.plainKeys || event.key.length !== 1) return;
  const digit = digitOf(event);
  const key = digit === null ? event.key.toLowerCase() : event.shiftKey ? `⇧${digit}` : digit;
  const found = [...classes.children].find((each) => each.dataset.key === key);
  if (!found) return;
  event.preventDefault(); // the page must not take the key for an answer to its item
  found.click();
}
