// The model's quality by class: precision, recall and confusions.
import { get, newKey, post } from "./api.js";
import { showDialog } from "./dialogs.js";
import { breakable, count, make, percent, plural, range, setText } from "./dom.js";
import { shownName, state } from "./state.js";

const MEANING =
  "Precision: of the items predicted as a class, how many belong to it. Recall: of the items that belong to a class, how many are predicted as this class. " +
  "Each item is predicted by a model that did not learn its label. ";
const WISHED = 10; // checks that one press requests

const head = (...titles) => make("thead", {}, make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title))));
const named = (name) => make("th", { scope: "row", dir: "auto", title: name }, ...breakable(shownName(name)));

/** A share with its range or, with too few checks, how many are missing. */
function cell(known, n, needed) {
  if (!known) return make("td", { className: "meta" }, `${count(needed - n)} to go`);
  return make("td", {}, `${percent(known.estimate)} `, make("span", { className: "meta" }, range(known.low, known.high)));
}

function wishButton(number, name, wishes, draw, status) {
  const open = wishes.find((wish) => wish.class === number);
  const text = open ? `${plural(open.checks, "check")} to come` : "Test more";
  const button = make("button", { type: "button", className: "quiet", "aria-label": `${text}: ${name}`, disabled: Boolean(open) }, text);
  const key = newKey();
  button.addEventListener("click", async () => {
    try {
      draw(await post("/api/wish", { person: state.person, class: number, checks: WISHED, key }));
      setText(status, `Every second item is now a check, drawn among the items predicted as “${shownName(name)}”, until there are ${WISHED}.`);
    } catch (error) {
      setText(status, error.message);
    }
  });
  return make("td", {}, button);
}

function classTable({ classes }, reply, draw, status, wishing) {
  const rows = classes.map((each) => {
    const name = reply.classes[each.class];
    const cells = [cell(each.precision, each.predicted, reply.needed), cell(each.recall, each.true, reply.needed)];
    if (state.multiLabel) cells.push(cell(each.f1, each.true_or_predicted, reply.needed));
    return make("tr", {}, named(name), ...cells, wishing ? wishButton(each.class, name, reply.wishes, draw, status) : null);
  });
  const titles = ["class", "precision", "recall"];
  if (state.multiLabel) titles.push("F1");
  if (wishing) titles.push("");
  return make("div", { className: "table-box" }, make("table", { className: "figures-table" }, head(...titles), make("tbody", {}, ...rows)));
}

/** The confusions between classes, the most frequent first. */
function confusionTable({ confusion }, names) {
  const wrong = confusion.filter((pair) => pair.true !== pair.guess).sort((a, b) => b.count - a.count);
  if (!wrong.length) return make("p", { className: "note" }, "No confusions.");
  const rows = wrong.map((pair) => make("tr", {}, named(names[pair.true]), make("td", { dir: "auto" }, shownName(names[pair.guess])), make("td", {}, count(pair.count))));
  return make("div", { className: "table-box" }, make("table", { className: "figures-table" }, head("class", "predicted as", "items"), make("tbody", {}, ...rows)));
}

function section(title, figures, reply, draw, status, wishing) {
  if (state.multiLabel) return [make("h3", {}, title), overall(figures), classTable(figures, reply, draw, status, wishing)];
  return [make("h3", {}, title), classTable(figures, reply, draw, status, wishing), make("h3", {}, "Confusions"), confusionTable(figures, reply.classes)];
}

/** Figures over all classes of a multi-label project. */
function overall({ micro, macro, exact }) {
  const parts = [];
  if (micro) parts.push(`Micro F1 ${percent(micro.estimate)} (${range(micro.low, micro.high)})`);
  if (macro) parts.push(`macro F1 ${percent(macro.estimate)} over ${plural(macro.classes, "class", "classes")} with enough checks`);
  if (exact) parts.push(`all classes right on ${percent(exact.estimate)} of the items (${range(exact.low, exact.high)})`);
  return make("p", { className: "note" }, parts.length ? `${parts.join("; ")}.` : "Too few random checks yet.");
}

/** Agreement between people by class. */
function agreementTable({ agreement, classes }) {
  if (!agreement?.length) return [];
  const rows = agreement.map((each) => make("tr", {}, named(classes[each.class]), make("td", {}, percent(each.share)), make("td", {}, each.alpha === null ? "–" : each.alpha.toFixed(2)), make("td", {}, count(each.items))));
  const table = make("table", { className: "figures-table" }, head("class", "agreement", "Krippendorff's alpha", "shared items"), make("tbody", {}, ...rows));
  return [make("h3", {}, "How far people agree"), make("div", { className: "table-box" }, table)];
}

export async function openFigures() {
  const status = make("p", { className: "note", role: "status" }, "Looking …");
  const body = make("div", {});
  const draw = (reply) => {
    const parts = reply.checks ? section("By random checks", reply.checks, reply, draw, status, true) : [];
    if (reply.test) parts.push(...section("By the test set", reply.test, reply, draw, status, false));
    body.replaceChildren(...parts, ...agreementTable(reply));
  };
  showDialog("figures", "By class", [status, body]);
  try {
    const reply = await get("/api/figures");
    draw(reply);
    const fewest = `A figure needs ${count(reply.needed)} random checks; the table says how many are to go.`;
    setText(status, reply.checks ? MEANING + fewest : "Available after the first labels of two classes.");
  } catch (error) {
    setText(status, error.message);
  }
}
