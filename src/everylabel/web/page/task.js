// The current item: text, picture, fields.
import { breakable, byId, count, make, setText } from "./dom.js";
import { confirmed } from "./finishing.js";
import { nothing } from "./missed.js";
import { className, on, state } from "./state.js";

const SKIPPED =
  "Skipped items come back at the end, the oldest first; " +
  "an item that another person has open may still come to you.";
const REASONS = {
  check: "Random check: the model is tested on this one before it learns from it",
  test: "Test set: the model is tested on this one, and never learns from it",
  audit: "Confirmation: the model's label is hidden",
  asked: "You asked for this one",
  again: "Undone: answer it again",
  changed: "Its content has changed since it was labelled: please answer it again",
  second: "Second opinion: someone else has answered this one",
};

// Why an item was chosen, in words for labellers, who need not know the strategies' names.
const WHY = {
  herding: "Why this one: the model is unsure here, and many items are like it",
  lookahead: "Why this one: an answer here should help most with all the others",
  margin: "Why this one: the model cannot decide between its two best guesses",
  entropy: "Why this one: the model is unsure among many classes",
  least_confident: "Why this one: the model is unsure even of its best guess",
  badge: "Why this one: the model is unsure here, and it differs from the items before",
  typiclust: "Why this one: it is typical of many items, and none like it has an answer yet",
  random: "Why this one: drawn at random",
  review: "Why this one: the label that it came with is probably wrong",
  question: "Why this one: your yes or no to this question helps the model most",
  left: "All other items are done: this one was skipped before",
};

const SURE = 0.9; // probability from which the model counts as sure
const TYPICAL = "Why this one: the model is fairly sure, and many items are like it";

export function reasonText(task) {
  if (!task) return "";
  if (task.answer !== null && task.reason === "asked") return `Your answer so far: ${className(task.answer)}. A new answer replaces it`;
  if (task.reason === "audit" && state.progress?.finishing) return `${REASONS.audit}. ${confirmed(state.progress.finishing)}`;
  if (task.reason !== "chosen") return REASONS[task.reason] ?? "";
  const by = task.by || state.settings.strategy;
  if (by === "herding" && Math.max(0, ...(task.probabilities ?? [])) >= SURE) return TYPICAL;
  return WHY[by] ?? "";
}

/** Short texts are set large, long ones in a comfortable reading size. */
function textSize(text) {
  if (text.length <= 140) return "large";
  return text.length <= 600 ? "medium" : "small";
}

function textBox(text) {
  return make("div", { className: `text ${textSize(text)}`, dir: "auto" }, text);
}

/** A handful of pixels blown up to the whole stage is hard to recognise: twelve times is plenty. */
function limitPixels(picture) {
  const longest = Math.max(picture.naturalWidth, picture.naturalHeight);
  const most = `${Math.min(560, Math.max(232, 12 * longest))}px`;
  picture.style.maxWidth = most;
  picture.style.maxHeight = most;
}

function pictureBox(item) {
  const picture = make("img", { alt: `Picture ${item.name}`, draggable: false, decoding: "async" });
  if (item.pixelated) picture.addEventListener("load", () => limitPixels(picture));
  const box = make("div", { className: item.pixelated ? "picture pixelated" : "picture" }, picture);
  picture.addEventListener("error", () => {
    const text = `The picture of ${item.name} cannot be shown: was it moved or deleted? You can skip it.`;
    box.replaceChildren(make("p", { className: "missing", dir: "auto" }, text));
  });
  picture.src = item.image;
  return box;
}

function fieldTable(fields) {
  const rows = fields.map(([name, value]) =>
    make("tr", {}, make("th", { scope: "row", dir: "auto" }, ...breakable(String(name))), make("td", { dir: "auto" }, String(value))),
  );
  return make("table", { className: "fields" }, make("caption", { className: "unseen" }, "Fields"), make("tbody", {}, ...rows));
}

function contents(item) {
  const parts = [];
  if (item.image) parts.push(pictureBox(item));
  if (item.text !== null) parts.push(textBox(item.text));
  const fields = item.fields.filter(([, value]) => String(value) !== item.name); // the heading says the name
  if (fields.length) parts.push(fieldTable(fields));
  if (!parts.length) parts.push(textBox(item.name));
  return parts;
}

function looking() {
  const text = make("p", { className: "text large" }, "You have read-only access.");
  return make("div", { className: "finished" }, text, make("p", {}, "You can open queues, map, history and export."));
}

function finished() {
  const done = count(state.progress?.labelled ?? 0);
  return make(
    "div",
    { className: "finished" },
    make("p", { className: "text large" }, "There is nothing left for you to label."),
    make("p", {}, `${done} labels are saved. ${SKIPPED}`),
    make("button", { type: "button", className: "primary", "data-do": "export" }, "Export the labels"),
  );
}

/** A box that scrolls can be focused, so that arrow keys move it; others stay out of the way of Tab. */
function adaptFocus() {
  const box = byId("item");
  const scrolls = box.scrollHeight > box.clientHeight + 1;
  box.tabIndex = scrolls ? 0 : -1;
  box.classList.toggle("scrolls", scrolls);
  if (scrolls) {
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "The whole item; arrow keys scroll");
  } else {
    box.removeAttribute("role");
    box.removeAttribute("aria-label");
  }
}

const TALLEST = 0.4; // share of the window that a card keeps for its text
let tallest = 0; // pixels that a text needed so far

/** Keeps the card as tall as the longest text so far, if that leaves all classes in sight: the buttons then stay in place
 * from text to text. */
function keepHeight() {
  const card = byId("item").closest(".stage");
  if (byId("item").dataset.kind === "image") {
    card.style.removeProperty("--kept");
    return;
  }
  tallest = Math.max(tallest, card.getBoundingClientRect().height);
  const classes = byId("classes");
  const needed = classes.closest(".answers").offsetHeight + classes.scrollHeight - classes.clientHeight;
  const room = card.parentElement.clientHeight - byId("offline").offsetHeight - needed;
  card.style.setProperty("--kept", `${Math.min(tallest, room, TALLEST * innerHeight)}px`);
}

let drawn = null;

function draw() {
  const { task } = state;
  const box = byId("item");
  const shown = JSON.stringify(task?.item ?? null);
  if (task && shown === drawn) {
    drawReason(); // the same item with a new reason
    return;
  }
  drawn = shown;
  box.dataset.kind = task?.item.image ? "image" : "text";
  box.dataset.item = task?.item.id ?? "";
  box.classList.remove("actual");
  // Create a new picture element: the last picture must not appear beside this item's classes.
  box.replaceChildren(...(task ? contents(task.item) : [state.looks ? looking() : finished()]));
  box.scrollTop = 0;
  const card = box.closest(".stage");
  if (card.getBoundingClientRect().top < 0) card.scrollIntoView(); // on a phone the page scrolls to the classes
  setText(byId("item-heading"), task ? `Item ${task.item.name}` : state.looks ? "Looking" : "All done");
  drawReason();
  adaptFocus();
}

function drawReason() {
  const reason = byId("reason");
  setText(reason, reasonText(state.task));
  reason.classList.toggle("check", ["check", "test", "audit"].includes(state.task?.reason));
}

export function startTask() {
  on("task", draw);
  on("settings", drawReason);
  on("busy", () => byId("item").classList.toggle("leaving", state.busy));
  new ResizeObserver(adaptFocus).observe(byId("item"));
  const sizes = new ResizeObserver(keepHeight);
  for (const part of [".stage", ".answers"]) sizes.observe(document.querySelector(part));
  addEventListener("resize", () => {
    tallest = 0;
    document.querySelector(".stage").style.removeProperty("--kept");
  });
}

/** Pictures fit the window; `z` shows them at full size, with scrolling. */
export function toggleZoom() {
  if (!byId("item").querySelector("img")) {
    nothing("There is no picture here.");
    return;
  }
  byId("item").classList.toggle("actual");
  adaptFocus();
}
