// Near copies of the current item for which the model is confident of the same class: a link to label all of them.
// Not offered for random checks, whose guess stays hidden.
import { get } from "./api.js";
import { byId, count, setText, settle } from "./dom.js";
import { nothing } from "./missed.js";
import { openSeveral } from "./several.js";
import { className, guessShown, on, state } from "./state.js";

let found = null; // { guess, items } of the current item

async function look() {
  const task = state.task;
  if (!task || !guessShown() || state.busy || state.multiLabel) return;
  try {
    const copies = await get("/api/queues/copies", { item: task.item.id });
    if (state.task !== task || !copies.items.length) return;
    found = copies;
    const number = copies.items.length;
    setText(byId("copies-number"), number === 1 ? "1 near copy" : `${count(number)} near copies`);
    byId("copies").hidden = false;
  } catch {
    // Only an offer: nothing to report.
  }
}

export function startCopies() {
  const soon = settle(look, 250);
  on("task", () => {
    found = null;
    byId("copies").hidden = true;
    soon();
  });
}

/** Opens this item with its near copies; Enter labels all of them with the model's guess. */
export function openCopies() {
  if (!state.task) return;
  if (!found) {
    if (state.multiLabel) nothing("Near copies are listed only in projects with one class per item.");
    else nothing(guessShown() ? "This item has no near copies." : "Near copies are listed only where the model's guess is shown.");
    return;
  }
  const { item } = state.task;
  const own = { id: item.id, name: item.name, text: item.text, image: item.image, state: "free", guess: found.guess };
  const note = `The model says ${className(found.guess)} for all of them: press Enter to accept.`;
  openSeveral("Near copies", [own, ...found.items], { guess: found.guess, note });
}
