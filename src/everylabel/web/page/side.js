// What stands beside the item: how far, how fast, how good.
import { refresh } from "./actions.js";
import { drawCurve } from "./curve.js";
import { breakable, byId, colour, count, make, memory, milliseconds, percent, plural, range, setText, settle } from "./dom.js";
import { on, state } from "./state.js";

const WIDE = matchMedia("(min-width: 60rem)");
const POLL = 5000; // with others at work
const POLL_ALONE = 20_000; // then only the background has news
const MANY = 50; // classes whose table is not drawn at every answer
const ENOUGH_CHECKS = 20; // for the estimate to stand before its range
const SHORT = 8; // characters of a name that fit before its bars

function drawCounts(progress) {
  setText(byId("labelled"), count(progress.labelled));
  setText(byId("left"), `${progress.labelled === 1 ? "label" : "labels"}, ${count(progress.left)} left`);
  const done = progress.items ? 1 - progress.left / progress.items : 0;
  byId("meter").style.transform = `scaleX(${done})`;
  const parts = [];
  if (progress.per_minute !== null) parts.push(`${progress.per_minute.toFixed(progress.per_minute < 10 ? 1 : 0)} a minute`);
  if (progress.update_ms !== null) parts.push(`learned in ${milliseconds(progress.update_ms)}`);
  if (progress.cannot_tell) parts.push(`${count(progress.cannot_tell)} cannot be told`);
  setText(byId("speed"), parts.join(" · "));
  const [figure, beside] = accuracyFigures(progress.accuracy);
  const accuracy = progress.accuracy ? ` · accuracy ${figure}${beside && ` (${beside})`}` : "";
  setText(byId("side-summary"), `${plural(progress.labelled, "label")}, ${count(progress.left)} left${accuracy}`);
}

/** The large figure and what stands beside it: "100 %" from two checks would be believed, so it is the range then. */
function accuracyFigures(accuracy) {
  if (!accuracy) return ["–", ""];
  const { checks, estimate, low, high } = accuracy;
  return checks < ENOUGH_CHECKS ? [range(low, high), ""] : [percent(estimate), range(low, high)];
}

function accuracyNote(accuracy, every) {
  if (accuracy) return `from ${plural(accuracy.checks, "random check")}`;
  return every ? `Known after the first random check. ${drawn(every)} one.` : "Random checks are switched off in the settings.";
}

const drawn = (every) => (every === 1 ? "Every item is" : `One item in ${count(every)} is`);

/** How the figure came about, and what it does not say: it is about the model as it was at the checks. */
export function whyBelieve(accuracy, every) {
  const how = every ? `${drawn(every)} drawn at random instead` : "When random checks are on, some items are drawn at random instead";
  const why =
    "The items you label are chosen because they are hard or telling, so being right on them says little. " +
    `${how}, its guess is hidden from you, and the model is scored on it before it learns from it.`;
  if (!accuracy) return why;
  const { checks, right, expected, surplus, unanswered } = accuracy;
  const over = checks === 1 ? "the last random check" : `the last ${count(checks)} random checks`;
  const points = Math.abs(Math.round(100 * surplus));
  const more = points === 0 ? "as often as" : `${plural(points, "point")} ${surplus > 0 ? "more" : "less"} often than`;
  const missing =
    unanswered > 0 ? ` ${plural(unanswered, "check")} ${unanswered === 1 ? "was" : "were"} skipped or left, so the figure may be too high.` : "";
  return (
    `${why} Over ${over} it was right ${count(right)} of ${count(checks)} times, ${more} it expected. ` +
    `It expects to be right on ${percent(expected)} of what is left now; the figure is that, set right by the checks. ` +
    `The range allows for the luck of the draw among them.${missing}`
  );
}

/** Whether the names of the classes teach; nothing where no encoder knows what they mean. */
function drawNames({ names }) {
  setText(byId("names-note"), names?.sentence ?? "");
}

function drawAccuracy({ accuracy, settings }) {
  const [figure, beside] = accuracyFigures(accuracy);
  setText(byId("accuracy"), figure);
  setText(byId("accuracy-range"), beside);
  byId("accuracy").classList.toggle("empty", !accuracy);
  setText(byId("accuracy-note"), accuracyNote(accuracy, settings.check_every));
  setText(byId("accuracy-why"), whyBelieve(accuracy, settings.check_every));
}

function balanceRow(each, most, total, short) {
  const labelled = make("span", { className: "labelled-bar" });
  const predicted = make("span", { className: "predicted-bar" });
  labelled.style.transform = `scaleX(${most ? each.labels / most : 0})`;
  labelled.style.background = colour(each.id);
  predicted.style.transform = `scaleX(${total && each.predicted ? each.predicted / total : 0})`;
  predicted.style.background = colour(each.id);
  const figures = each.predicted === null ? count(each.labels) : `${count(each.labels)} / ${count(each.predicted)}`;
  const name = make("span", { className: "name", dir: "auto" }, ...breakable(each.name));
  const bars = make(short ? "td" : "div", { className: "bars", "aria-hidden": "true" }, labelled, predicted);
  const head = make("th", { scope: "row", title: each.name }, name, short ? null : bars);
  return make("tr", {}, head, ...(short ? [bars] : []), make("td", { className: "figures" }, figures));
}

/** Two bars a class: labels given, and below, paler, how many items the model thinks belong here. Beside short
 * names, below longer ones. */
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
  const rows = classes.map((each) => balanceRow(each, most, total, short));
  const parts = [make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)];
  const table = make("table", { className: short ? "balance short" : "balance" }, ...parts);
  const old = byId("balance").firstElementChild;
  const top = old?.scrollTop ?? 0;
  const box = make("div", { className: "balance-box" }, table);
  if (classes.length > (short ? 12 : 5)) {
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "All classes");
  }
  if (document.activeElement === old) return; // being read
  byId("balance").replaceChildren(box);
  box.scrollTop = top;
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
    const doing = each.name !== state.person && each.item !== null ? "labelling now" : "";
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

/** A gentle suggestion. Put aside, it comes back after a tenth more labels. */
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
  drawAccuracy(progress);
  drawNames(progress);
  if (progress.classes.length > MANY) drawBalanceLater();
  else drawBalance(progress);
  drawPeople(progress);
  drawStop(progress);
  drawCurve(byId("curve"), progress.curve);
}

/** On a phone the side folds below the classes; beside them it is always open. */
function fold() {
  byId("side-fold").open = WIDE.matches || memory.get("side") === "open";
}

function poll() {
  const alone = (state.progress?.people.length ?? 0) < 2;
  setTimeout(async () => {
    if (document.visibilityState === "visible" && !state.busy) await refresh();
    poll();
  }, alone ? POLL_ALONE : POLL);
}

export function startSide() {
  on("progress", draw);
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
