// Several classes per item: a class's button ticks it, Enter saves the ticked ones; no tick at all is an answer, too.
import { canAnswer, labelSet } from "./actions.js";
import { announce, byId, memory, setText } from "./dom.js";
import { missed } from "./missed.js";
import { className, guessShown, on, state } from "./state.js";
import { unfold } from "./yes_no.js";

let ticked = new Set();
let of = null; // the item that the ticks belong to
const saved = new Map(); // ticks of answered items, for an undo

/** Whether predicted classes are ticked from the start, which biases people: they tend to leave ticks. */
export const startsTicked = () => memory.get("start-ticked") === "yes";

export function setStartsTicked(on) {
  memory.set("start-ticked", on ? "yes" : null);
  of = null;
  begin();
}

/** Starts an item with the person's own answer, the ticks that an undo brings back, the predicted classes if these are
 * switched on, or no ticks. */
function begin() {
  const { task } = state;
  if (!state.multiLabel || (task && task.item.id === of)) return draw();
  of = task?.item.id ?? null;
  const predicted = startsTicked() && guessShown() ? (task.predicted ?? []) : [];
  ticked = new Set(task?.answer ?? saved.get(of) ?? predicted);
  draw();
}

export function toggle(number) {
  if (!canAnswer()) {
    if (state.task) missed();
    return;
  }
  unfold(); // ticks are to be seen
  if (!ticked.delete(number)) ticked.add(number);
  announce(`${className(number)} ${ticked.has(number) ? "ticked" : "not ticked"}`);
  draw();
}

export function save() {
  if (!state.multiLabel || !byId("save").getClientRects().length) return;
  saved.set(of, [...ticked]);
  labelSet([...ticked]);
}

/** Draws ticks and predictions on the buttons, and the answer that Enter would save. */
export function draw() {
  const shown = state.multiLabel && guessShown();
  for (const button of document.querySelectorAll(".answers .class")) {
    const number = Number(button.dataset.class);
    const there = state.multiLabel && ticked.has(number);
    const predicted = shown && (state.task.predicted?.includes(number) ?? false);
    button.classList.toggle("ticked", there);
    button.classList.toggle("predicted", predicted);
    if (!state.multiLabel) continue;
    button.setAttribute("aria-pressed", String(there));
    if (predicted) button.setAttribute("aria-description", "predicted by the model");
    else button.removeAttribute("aria-description");
  }
  byId("save").hidden = !state.multiLabel;
  const there = state.classes.filter(({ id }) => ticked.has(id)).map(({ id }) => id);
  setText(byId("save-word"), `Save: ${className(there)}`);
}

export function startTicks() {
  for (const topic of ["task", "session"]) on(topic, begin);
  for (const topic of ["classes", "guess"]) on(topic, draw);
}
