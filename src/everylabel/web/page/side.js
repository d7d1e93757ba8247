// The panel beside the item: progress, speed and accuracy.
import { accuracyFigures, drawAccuracy } from "./accuracy.js";
import { more, refresh } from "./actions.js";
import { drawCurve } from "./curve.js";
import { breakable, byId, count, make, memory, milliseconds, percent, plural, setText, settle } from "./dom.js";
import { classColour, on, shownName, state } from "./state.js";

const WIDE = matchMedia("(min-width: 60rem)");
const POLL = 5000; // milliseconds; while others label, items are arriving, or no item is left
const POLL_ALONE = 20_000; // otherwise only background training has news
const MANY = 50; // with more classes, the table is not redrawn at every answer
const FOLDED = 12; // classes in the table unless all are requested
const SHORT = 8; // characters; if all names are this short, the bars stand beside them

function drawCounts(progress) {
  const { labelled } = progress; // in a multi-label project, all items with an answer about some class
  const word = state.multiLabel ? "answered" : labelled === 1 ? "label" : "labels";
  setText(byId("labelled"), count(labelled));
  setText(byId("left"), `${word}, ${count(progress.left)} left`);
  const done = progress.items ? 1 - progress.left / progress.items : 0;
  byId("meter").style.transform = `scaleX(${done})`;
  const parts = [];
  if (progress.per_minute !== null) parts.push(`${progress.per_minute.toFixed(progress.per_minute < 10 ? 1 : 0)} a minute`);
  if (progress.update_ms !== null) parts.push(`learned in ${milliseconds(progress.update_ms)}`);
  if (progress.partial) parts.push(`${count(progress.partial)} answered partly`);
  if (progress.per_item !== null && labelled) parts.push(`${progress.per_item.toFixed(1)} classes an item`);
  if (progress.finished?.items) parts.push(`${count(progress.finished.items)} labelled by the model`);
  if (progress.cannot_tell) parts.push(`${count(progress.cannot_tell)} “cannot tell”`);
  setText(byId("speed"), parts.join(" · "));
  const [figure, beside] = accuracyFigures(progress.accuracy);
  const accuracy = progress.accuracy.estimate === null ? "" : ` · ${state.multiLabel ? "F1" : "accuracy"} ${figure}${beside && ` (${beside})`}`;
  setText(byId("side-summary"), `${count(labelled)} ${word}, ${count(progress.left)} left${accuracy}`);
}

const NEWS = 10_000; // milliseconds for which "all items loaded" stays
let coming = false; // whether items were still loading when last drawn
let loadedAt = -NEWS;

/** Shows the items that are still loading, briefly that all are loaded, and problems with the source. */
function drawArriving({ arriving, items }) {
  if (coming && !arriving.coming) {
    loadedAt = performance.now();
    setTimeout(() => drawArriving(state.progress), NEWS);
  }
  coming = arriving.coming > 0;
  const parts = [];
  if (coming) parts.push(`${count(items)} items loaded, ${count(arriving.coming)} more on the way`);
  else if (performance.now() - loadedAt < NEWS) parts.push(`All ${count(items)} items loaded`);
  const notice = arriving.problem.charAt(0).toUpperCase() + arriving.problem.slice(1);
  setText(byId("arriving"), [...parts, notice].filter(Boolean).join(". "));
}

let itemsAtTheEnd = 0; // number of items when none was left to label

/** Requests an item after all were done, if new ones have joined. */
async function goOn() {
  if (state.finished && !state.busy && state.progress.items > itemsAtTheEnd) await more();
}

/** Shows whether the model learns from class names; nothing if no encoder can embed them. */
function drawNames({ names }) {
  setText(byId("names-note"), names?.sentence ?? "");
}

/** Shows the state of fine-tuning; nothing if the encoder cannot be fine-tuned. */
function drawNetwork({ network }) {
  const shown = network?.can && (network.share !== null || network.generations.length);
  setText(byId("network-note"), shown ? network.sentence : "");
}

function balanceRow(each, most, total, short) {
  const labelled = make("span", { className: "labelled-bar" });
  const predicted = make("span", { className: "predicted-bar" });
  labelled.style.transform = `scaleX(${most ? each.labels / most : 0})`;
  labelled.style.background = classColour(each.id);
  predicted.style.transform = `scaleX(${total && each.predicted ? each.predicted / total : 0})`;
  predicted.style.background = classColour(each.id);
  const figures = each.predicted === null ? count(each.labels) : `${count(each.labels)} / ${count(each.predicted)}`;
  const name = make("span", { className: "name", dir: "auto" }, ...breakable(shownName(each.name)));
  const bars = make(short ? "td" : "div", { className: "bars", "aria-hidden": "true" }, labelled, predicted);
  const head = make("th", { scope: "row", title: each.name }, name, short ? null : bars);
  return make("tr", {}, head, ...(short ? [bars] : []), make("td", { className: "figures" }, figures));
}

/** Draws two bars a class: labels given and, paler, items predicted. They stand beside short names and below longer
 * ones. */
function drawBalance(progress) {
  const { classes } = progress;
  if (!classes.length) {
    byId("balance").replaceChildren(make("p", { className: "note" }, "No classes yet."));
    return;
  }
  const most = Math.max(...classes.map((each) => each.labels));
  const total = Math.max(...classes.map((each) => each.predicted ?? 0));
  const short = classes.every((each) => each.name.length <= SHORT);
  const heads = [make("th", { scope: "col" }, "class"), make("th", { scope: "col" }, "labelled / predicted")];
  if (short) heads.splice(1, 0, make("td", {}));
  const rows = balanceOf(classes).map((each) => balanceRow(each, most, total, short));
  const parts = [make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)];
  const table = make("table", { className: short ? "balance short" : "balance" }, ...parts);
  const focused = document.activeElement?.id;
  byId("balance").replaceChildren(make("div", { className: "balance-box" }, table), ...foldButton(classes));
  if (focused === "balance-fold") byId("balance-fold")?.focus();
}

let unfolded = false;

/** All classes or, of many, those with most labels; the panel scrolls, not the table. */
function balanceOf(classes) {
  if (unfolded || classes.length <= FOLDED) return classes;
  const most = [...classes].sort((a, b) => b.labels - a.labels || (b.predicted ?? 0) - (a.predicted ?? 0));
  return most.slice(0, FOLDED);
}

function foldButton(classes) {
  if (classes.length <= FOLDED) return [];
  const text = unfolded ? "Only classes with the most labels" : `All ${count(classes.length)} classes`;
  const button = make("button", { type: "button", className: "quiet", id: "balance-fold", "aria-expanded": String(unfolded) }, text);
  button.addEventListener("click", () => {
    unfolded = !unfolded;
    drawBalance(state.progress);
  });
  return [button];
}

function agreementText(agreement) {
  if (!agreement?.items) return "";
  const alpha = agreement.alpha === null ? "" : ` (Krippendorff's alpha ${agreement.alpha.toFixed(2)})`;
  return `Agreement: ${percent(agreement.share)} on ${plural(agreement.items, "shared item")}${alpha}`;
}

function drawPeople(progress) {
  const { people, agreement } = progress;
  byId("people-section").hidden = people.length < 2 && !agreement;
  const rows = people.map((each) => {
    const name = each.name === state.person ? `${each.name} (you)` : each.name;
    const doing = each.name !== state.person && each.here ? "labelling now" : "";
    return make(
      "li",
      {},
      make("span", { className: "who", dir: "auto" }, name),
      make("span", { className: "doing" }, doing),
      make("span", { className: "figures" }, count(each.answers)),
    );
  });
  byId("people").replaceChildren(...rows);
  setText(byId("agreement"), agreementText(agreement));
  byId("disputed").hidden = !progress.disputed;
  setText(byId("disputed"), `${plural(progress.disputed, "disputed item")} …`);
}

let dismissedAt = null;

/** Suggests to stop labelling. Once dismissed, the suggestion returns after a tenth more labels. */
function drawStop(progress) {
  const { stop } = progress;
  const again = dismissedAt === null || progress.labelled > 1.1 * dismissedAt + 10;
  byId("stop").hidden = !stop?.suggest || !again;
  setText(byId("stop-sentence"), stop?.sentence ?? "");
  setText(byId("steady"), stop?.suggest ? "" : (stop?.sentence ?? ""));
}

const drawBalanceLater = settle(() => drawBalance(state.progress), 300);

function draw() {
  const { progress } = state;
  drawCounts(progress);
  drawArriving(progress);
  drawAccuracy(progress);
  drawNames(progress);
  drawNetwork(progress);
  if (progress.classes.length > MANY) drawBalanceLater();
  else drawBalance(progress);
  drawPeople(progress);
  drawStop(progress);
  drawCurve(byId("curve"), progress.curve, progress.network);
}

/** Folds the panel below the classes on a phone; beside them it is always open. */
function fold() {
  byId("side-fold").open = WIDE.matches || memory.get("side") === "open";
}

function poll() {
  const calm = !state.finished && !state.progress?.arriving.coming;
  const alone = (state.progress?.people.length ?? 0) < 2 && calm;
  setTimeout(async () => {
    if (document.visibilityState === "visible" && !state.busy) await refresh();
    await goOn();
    poll();
  }, alone ? POLL_ALONE : POLL);
}

export function startSide() {
  on("progress", draw);
  on("task", () => {
    if (state.finished) itemsAtTheEnd = state.progress.items;
  });
  on("answered", settle(refresh, 400, 2000));
  fold();
  WIDE.addEventListener("change", fold);
  byId("side-fold").addEventListener("toggle", (event) => {
    if (!WIDE.matches) memory.set("side", event.target.open ? "open" : null);
  });
  byId("stop-dismiss").addEventListener("click", () => {
    dismissedAt = state.progress.labelled;
    byId("stop").hidden = true;
  });
  poll();
}
