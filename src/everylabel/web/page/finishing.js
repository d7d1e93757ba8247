// Finishing with the model: people confirm items drawn at random, then the model labels the rest.
import { exchange } from "./actions.js";
import { get, post } from "./api.js";
import { closeDialog, showDialog } from "./dialogs.js";
import { byId, count, make, plural, setText, settle } from "./dom.js";
import { className, on, shownName, state } from "./state.js";

const MOST = 0.5; // largest error rate that the server accepts
const share = (value) => `${Number((100 * value).toFixed(1))}\u00a0%`;
const errors = (wrong) => (wrong ? plural(wrong, "error") : "no error");

function number(id, text, value, most) {
  const box = make("input", { type: "number", id, value: String(value), min: "0.1", max: String(most), step: "any" });
  return [box, make("label", { className: "check-row", htmlFor: id }, text, box)];
}

/** The progress of the confirmations. */
export function confirmed({ confirmed: done, wrong, needed }) {
  const of = needed === null ? "" : ` of ${count(done + needed)}`;
  return `${count(done)}${of} confirmed, ${errors(wrong)}`;
}

/** The steps before the model may label. */
export function planned({ items, yes, needed }, { rate }) {
  if (!items || needed === null) {
    const sure = items ? `sure enough of ${plural(items, "item")} only, too few` : "not sure enough of any item";
    return `The model is ${sure} for an error rate of ${share(rate)}. Label more items, or allow a higher rate.`;
  }
  const answers = yes === null ? "label" : "say yes or no to this class on";
  const split = yes === null ? "" : ` (yes on ${count(yes)}, no on ${count(items - yes)})`;
  return `The model would ${answers} the ${plural(items, "item")} that it is surest of${split}. First confirm ${count(needed)} of them, drawn at random, or more if some are wrong.`;
}

/** The progress of the confirmations, and what the model may do now. */
export function running(now) {
  const holds = `at most ${share(now.rate)} of them are wrong, with ${share(now.confidence)} confidence`;
  if (now.needed === 0 && now.class !== null) {
    return `${confirmed(now)}. The model may say yes or no to ${className(now.class)} on ${plural(now.ready, "item")}: ${holds}.`;
  }
  if (now.ready) return `${confirmed(now)}. The model may label ${plural(now.ready, "item")}: ${holds}.`;
  if (now.needed === null) return `${confirmed(now)}. Too many are wrong for ${share(now.rate)}: stop, label more items and start again.`;
  return `${confirmed(now)}, for ${plural(now.items, "item")}. An item that you skip counts as an error.`;
}

function promised({ of, rate, confidence, confirmed: done, wrong }) {
  return `Of ${plural(of, "item")}, ${count(done)} were confirmed (${errors(wrong)}). At most ${share(rate)} are wrong, with ${share(confidence)} confidence.`;
}

/** What the model has labelled, as whole items and class by class. */
export function finished({ items, classes, ...whole }) {
  const labelled = items ? [`The model has labelled ${plural(items, "item")}.`] : [];
  if (whole.rate !== null) labelled.push(promised(whole));
  for (const each of classes) labelled.push(`The model has answered ${className(each.class)}. ${promised(each)}`);
  return labelled.join(" ");
}

/** What was just labelled: whole items, or one class of them. */
function labelledByModel() {
  const { items, classes } = state.progress.finished;
  return items ? `The model has labelled ${plural(items, "item")}` : `The model has answered ${className(classes.at(-1).class)}`;
}

/** A list of the classes, with a first entry for all of them. */
function classList() {
  const classes = state.classes.map(({ id, name }) => make("option", { value: String(id) }, shownName(name)));
  const box = make("select", { id: "finish-class" }, make("option", { value: "" }, "All classes of an item"), ...classes);
  return [box, make("label", { className: "check-row", htmlFor: box.id, hidden: !state.multiLabel }, "Classes ", box)];
}

export function openFinishing() {
  const [chosen, classRow] = classList();
  const [rate, rateRow] = number("finish-rate", "Allowed error rate, in % ", 5, 100 * MOST);
  const [sure, sureRow] = number("finish-confidence", "Confidence, in % ", 95, 99.9);
  const status = make("p", { className: "note", role: "status" });
  const before = make("p", { className: "note" });
  const start = make("button", { type: "button", className: "primary", disabled: true }, "Start confirming");
  const go = make("button", { type: "button", className: "primary", hidden: true }, "Let the model label them");
  const back = make("button", { type: "button", className: "quiet", hidden: true });
  const one = () => (chosen.value === "" ? {} : { class: Number(chosen.value) });
  const asked = () => ({ rate: Number(rate.value) / 100, confidence: Number(sure.value) / 100, ...one() });
  const draw = async () => {
    try {
      const plan = await get("/api/finish", asked());
      const now = plan.finishing;
      setText(status, now ? running(now) : planned(plan, asked()));
      setText(before, plan.finished ? finished(plan.finished) : "");
      for (const each of [rateRow, sureRow, start]) each.hidden = now !== null;
      classRow.hidden = now !== null || !state.multiLabel;
      start.disabled = plan.needed === null;
      go.hidden = !now?.ready;
      back.hidden = !now && !plan.finished;
      setText(back, now ? "Stop confirming" : "Take back what the model labelled");
    } catch (error) {
      setText(status, error.message);
    }
  };
  const act = (path, body, said) => {
    closeDialog();
    exchange(() => post(path, { person: state.person, ...body }), said);
  };
  start.addEventListener("click", () => act("/api/finish/start", asked(), () => "Confirmations begin"));
  go.addEventListener("click", () => act("/api/finish", {}, labelledByModel));
  back.addEventListener("click", () => act("/api/finish/undo", {}, () => "Done"));
  const soon = settle(draw, 200);
  for (const box of [chosen, rate, sure]) box.addEventListener("input", soon);
  const sets = state.multiLabel
    ? "With all classes, one wrong class makes the item wrong. With one class, you confirm it by yes or no, and the items stay in the pool for the other classes. "
    : "";
  const note = `${sets}Every export marks labels of the model. The model does not learn from them, and you can take all of them back at once.`;
  showDialog("finishing", "Let the model finish", [before, classRow, rateRow, sureRow, status, start, go, back, make("p", { className: "note" }, note)]);
  draw();
}

/** Opens the dialog when the confirmations suffice, or never will: too many items are wrong. */
export function startFinishing() {
  let confirming = false;
  on("progress", () => {
    const now = state.progress.finishing;
    setText(byId("finishing"), now ? running(now) : "");
    if (confirming && now && !now.needed) openFinishing();
    confirming = Boolean(now?.needed);
  });
}
