// Queues: lists of items worth a look, each with a count; some are for a chosen class or for the current item.
import { get } from "./api.js";
import { arrowKeys, showDialog } from "./dialogs.js";
import { count, make, percent, plural, setText } from "./dom.js";
import { itemNote, labelNote, result } from "./results.js";
import { openSeveral } from "./several.js";
import { className, labelName, state } from "./state.js";

const SHOWN = 100;
const NOT_KNOWN = "Not known yet";
let remembered = ""; // the class chosen last

function parameters(of) {
  const chosen = of.value === "" ? {} : { class: of.value };
  return state.task ? { ...chosen, item: state.task.item.id } : chosen;
}

function queueRow(item, name) {
  const notes = [];
  if (name === "suspect") {
    notes.push(`${labelNote(item)}; the model says ${labelName(item.predicted_label, item.predicted_absent)}. Wrong with a probability of ${percent(item.score)}`);
    for (const other of item.otherwise) notes.push(`alike, but ${labelName(other.label, other.absent)}: ${(other.text ?? other.name).slice(0, 80)}`);
  } else {
    notes.push(itemNote(item));
    if (item.score !== null && !state.hideProbabilities) notes.push(name === "like" ? `${percent(item.score)} alike` : percent(item.score));
  }
  const lines = notes.filter(Boolean).map((text) => make("span", { className: "meta", dir: "auto" }, text));
  const row = result(item.id, item, make("span", { className: "result-note" }, ...lines));
  row.firstChild.classList.toggle("stacked", name === "suspect");
  return row;
}

function suspects(shown, labels, wrong) {
  if (shown === null) return `${NOT_KNOWN}: the model is being checked.`;
  if (!shown) return `None of ${plural(labels, "label")} is likely wrong.`;
  const few = wrong < 1.5 ? "One" : `About ${count(Math.round(wrong))}`;
  return `${few} of ${plural(labels, "label")} may be wrong. ${shown === 1 ? "The most suspect one is" : `The ${count(shown)} most suspect ones are`} shown.`;
}

async function openQueue({ name, title }, query) {
  const list = make("ul", { className: "results" });
  const status = make("p", { className: "note", role: "status" });
  const several = make("button", { type: "button", className: "quiet", hidden: true }, "Label them together …");
  const back = make("button", { type: "button", className: "quiet" }, "All queues");
  back.addEventListener("click", openQueues);
  const of = query.class === undefined || name === "like" ? "" : `: ${className(Number(query.class))}`;
  arrowKeys(list);
  showDialog("queue", `${title}${of}`, [make("div", { className: "row wrap" }, back, several), status, list]);
  try {
    const { count: number, items, labels, expected_errors: wrong } = await get(`/api/queues/${name}`, { ...query, limit: SHOWN });
    list.replaceChildren(...items.map((item) => queueRow(item, name)));
    several.hidden = items.length < 2;
    const guess = query.class === undefined || name === "suspect" ? null : Number(query.class);
    several.addEventListener("click", () => openSeveral(`${title}${of}`, items, { guess }));
    if (name === "suspect") setText(status, suspects(number, labels, wrong));
    else setText(status, number > items.length ? `${count(items.length)} of ${plural(number, "item")}` : plural(number, "item"));
    list.querySelector("button")?.focus();
  } catch (error) {
    setText(status, error.message);
  }
}

export function openQueues() {
  const of = make("select", { id: "queue-class" }, make("option", { value: "" }, "any class"));
  of.append(...state.classes.map((each) => make("option", { value: String(each.id) }, className(each.id))));
  of.value = state.classes.some((each) => String(each.id) === remembered) ? remembered : "";
  const list = make("ul", { className: "results" });
  const status = make("p", { className: "note", role: "status" });
  let turn = 0;
  const draw = async () => {
    const mine = (turn += 1);
    remembered = of.value;
    try {
      const query = parameters(of);
      const { queues } = await get("/api/queues", query);
      if (mine !== turn) return;
      list.replaceChildren(...queues.map((each) => choice(each, query)));
      setText(status, "");
    } catch (error) {
      setText(status, error.message);
    }
  };
  of.addEventListener("change", draw);
  arrowKeys(list, of);
  const label = make("label", { className: "check-row", htmlFor: "queue-class" }, "Class", of);
  showDialog("queues", "Queues", [label, status, list]);
  draw().then(() => list.querySelector("button:not([disabled])")?.focus());
}

function choice(queue, query) {
  const missing = { item: "choose an item", class: "choose a class" }[queue.needs] ?? NOT_KNOWN.toLowerCase();
  const about = make("span", { className: "result-text" }, make("strong", {}, queue.title), make("br"), make("span", { className: "meta" }, queue.sentence));
  const note = make("span", { className: "result-note" }, queue.count === null ? missing : count(queue.count));
  const button = make("button", { type: "button", className: "result", "data-queue": queue.name, disabled: !queue.count }, about, note);
  button.addEventListener("click", () => openQueue(queue, query));
  return make("li", {}, button);
}
