// Sources that are not fully trusted: their suggestions for this item, and their estimated accuracy.
import { accuracyFigures } from "./accuracy.js";
import { canAnswer, label } from "./actions.js";
import { get } from "./api.js";
import { showDialog } from "./dialogs.js";
import { breakable, byId, count, make, percent, plural, setText } from "./dom.js";
import { nothing } from "./missed.js";
import { className, on, state } from "./state.js";

/** The suggested classes with their sources, the class with most sources first. */
function grouped() {
  const groups = new Map();
  for (const each of state.task?.suggestions ?? []) groups.set(each.class, [...(groups.get(each.class) ?? []), each]);
  return [...groups.entries()].sort((a, b) => b[1].length - a[1].length);
}

const said = ({ source, score }) => (score === null ? source : `${source} (${score.toFixed(2)})`);

function sentence([number, sources]) {
  const names = sources.length === 1 ? sources[0].source : sources.map(said).join(", ");
  const score = sources.length === 1 && sources[0].score !== null ? `, ${sources[0].score.toFixed(2)}` : "";
  if (names === "given") return `The given label is ${className(number)}`;
  return `${names} ${sources.length === 1 ? "suggests" : "suggest"} ${className(number)}${score}`;
}

/** The class that one key accepts: the one that more sources suggest than any other. */
function accepted() {
  const [first, second] = grouped();
  return first && (!second || first[1].length > second[1].length) ? first[0] : null;
}

/** Why the item in sight shows no suggestion. */
function whyNone() {
  const hidden = ["check", "test", "audit"].includes(state.task?.reason);
  return hidden ? "No suggestion is shown here, so that you are not biased." : "There is no suggestion for this item.";
}

export function accept() {
  const number = accepted();
  if (number !== null && canAnswer()) label(number);
  else nothing(grouped().length ? "The sources suggest different classes: choose one." : whyNone());
}

/** In a project with suggestions the line is always there: without it, the classes below would move. */
function drawSuggestion() {
  const groups = grouped();
  byId("suggestion").hidden = !state.task || !(groups.length || state.sources);
  setText(byId("suggestion-text"), groups.map(sentence).join("; ") || whyNone());
  byId("suggestion-accept").hidden = accepted() === null;
  if (groups.length) byId("sources-section").hidden = false; // suggestions arrived while the page was open
}

/** A sentence on how many given labels are wrong; empty without a review. */
function reviewText(review) {
  if (!review) return "";
  const all = plural(review.labels, "given label");
  const corrected = `Corrected so far: ${count(review.corrected)}.`;
  if (review.estimate === null) return `${corrected} How many of the ${all} are wrong is shown after ${count(review.needed)} random checks.`;
  const between = `${count(review.low)} to ${count(review.high)}`;
  return `About ${count(Math.round(review.estimate))} of ${all} are wrong (${between}). ${corrected}`;
}

function accuracyText({ accuracy, low, high, checks }) {
  if (accuracy === null) return "unknown: no random check yet";
  const [figure, beside] = accuracyFigures({ checks, estimate: accuracy, low, high });
  return `${[figure, beside].filter(Boolean).join(", ")} (${plural(checks, "random check")})`;
}

function row(each) {
  const agrees = each.answered ? `${count(each.agree)} of ${count(each.answered)}` : "–";
  return tableRow(each.name, [count(each.suggestions), accuracyText(each), agrees]);
}

/** Sentences below a table on the classes that each source or person confuses. */
function confusions(sources, verb) {
  const pair = ({ said: one, label: other, n }) => `“${className(one)}” instead of “${className(other)}” (${count(n)})`;
  const told = sources.filter((each) => each.confusions.length);
  return told.map((each) => make("p", { className: "meta", dir: "auto" }, `${each.name} ${verb} ${each.confusions.map(pair).join(", ")}.`));
}

function personRow(each) {
  const speed = each.per_minute === null ? "–" : each.per_minute.toFixed(1);
  const agrees = each.shared ? `${count(each.agree)} of ${count(each.shared)}` : "–";
  return tableRow(each.name, [count(each.answers), speed, agrees]);
}

function pairRow({ names, items, share, alpha }) {
  return tableRow(names.join(" and "), [count(items), percent(share), alpha === null ? "–" : alpha.toFixed(2)]);
}

function tableRow(name, cells) {
  const texts = cells.map((text) => make("td", { dir: "auto" }, text));
  return make("tr", {}, make("th", { scope: "row", dir: "auto" }, ...breakable(name)), ...texts);
}

/** A table with titles, or nothing without rows. */
function table(titles, rows) {
  if (!rows.length) return [];
  const head = make("thead", {}, make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title))));
  return [make("div", { className: "table-box" }, make("table", { className: "figures-table" }, head, make("tbody", {}, ...rows)))];
}

const NOTE =
  "Accuracy is measured on random checks, which show no suggestion; its range holds at all times with 95 % probability. " +
  "Other items do not count, because they are harder than average. The more often labels agree with a source, the more the model trusts it.";

export async function openSources() {
  const status = make("p", { className: "note", role: "status" }, "Looking …");
  const body = make("div", {});
  showDialog("figures", state.sources ? "Sources" : "People", [status, body]);
  try {
    const { sources, people, pairs } = await get("/api/sources");
    body.replaceChildren(
      ...table(["source", "suggestions", "accuracy", "agrees with labels"], sources.map(row)),
      ...confusions(sources, "most often suggests"),
      ...table(["person", "answers", "per minute", "others agree"], people.map(personRow)),
      ...confusions(people, "most often differs from others:"),
      ...table(["pair", "shared items", "agree", "Krippendorff's alpha"], pairs.map(pairRow)),
    );
    setText(status, sources.length ? NOTE : "");
  } catch (error) {
    setText(status, error.message);
  }
}

export function startSources() {
  on("task", drawSuggestion);
  on("progress", () => setText(byId("review-note"), reviewText(state.progress?.review)));
  on("classes", drawSuggestion);
  on("session", () => {
    byId("sources-section").hidden = !state.sources;
  });
}
