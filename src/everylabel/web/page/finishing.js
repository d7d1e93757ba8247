// Letting the model finish: what can be promised, how many that are, what people found who looked at a sample.
import { exchange } from "./actions.js";
import { get, post } from "./api.js";
import { closeDialog, showDialog } from "./dialogs.js";
import { count, make, plural, setText, settle } from "./dom.js";
import { state } from "./state.js";

const share = (value) => `${(100 * value).toFixed(1)} %`;

function number(id, text, value, most) {
  const box = make("input", { type: "number", id, value: String(value), min: "0.1", max: String(most), step: "any" });
  return [box, make("label", { className: "check-row", htmlFor: id }, text, box)];
}

const MOST = 0.5; // that may be wrong, as the server takes it

/** What would make a promise possible, and where nothing can, what is possible instead. */
function advice({ checks, needed, least }, rate) {
  const wanted = `An error rate of ${share(rate)} needs ${count(needed)} confirmations without an error. You have ${count(checks)}`;
  const left = state.progress?.left ?? Infinity;
  if (checks + left >= needed) return `${wanted}.`;
  const known = Math.ceil(1000 * least) / 1000; // rounded up, so that it can be promised when it is typed above
  const instead = known <= MOST ? `${share(known)} can be promised now, or label the rest yourself.` : "Label the rest yourself.";
  return `${wanted}, and only ${plural(left, "item")} ${left === 1 ? "is" : "are"} left. ${instead}`;
}

export function told(plan, rate) {
  if (plan.threshold === null) {
    const made = `${plural(plan.checks, "random check")} with ${plural(plan.wrong, "error")}`;
    return `Nothing can be promised yet: ${made}. ${advice(plan, rate)}`;
  }
  const above = `The model would label ${plural(plan.items, "item")}, those it is at least ${share(plan.threshold)} sure of.`;
  return `${above} Of ${plural(plan.checks, "random check")} as sure, ${count(plan.wrong)} were wrong: at most ${share(plan.bound)} are.`;
}

function found(finished) {
  if (!finished) return "";
  const seen = `${count(finished.audited)} of ${count(finished.audit)} drawn to confirm are looked at, ${count(finished.wrong)} wrong`;
  const most = finished.bound === null ? "" : `: with 95 % confidence at most ${share(finished.bound)} are`;
  return `The model has labelled ${plural(finished.items, "item")}. ${seen}${most}.`;
}

export function openFinishing() {
  const [rate, rateRow] = number("finish-rate", "Allowed error rate, in % ", 2, 100 * MOST);
  const [sure, sureRow] = number("finish-confidence", "Confidence, in % ", 95, 99.9);
  const [sample, sampleRow] = number("finish-audit", "Then show me so many of them to confirm ", 50, 1000);
  const status = make("p", { className: "note", role: "status" });
  const before = make("p", { className: "note" });
  const go = make("button", { type: "button", className: "primary", disabled: true }, "Let the model label them");
  const back = make("button", { type: "button", className: "quiet", hidden: true }, "Take back what the model labelled");
  const asked = () => ({ rate: Number(rate.value) / 100, confidence: Number(sure.value) / 100 });
  const draw = async () => {
    try {
      const plan = await get("/api/finish", asked());
      setText(status, told(plan, asked().rate));
      setText(before, found(plan.finished));
      go.disabled = !plan.items;
      back.hidden = !plan.finished;
    } catch (error) {
      setText(status, error.message);
    }
  };
  const act = (path, body, said) => {
    closeDialog();
    exchange(() => post(path, { person: state.person, ...body }), () => said);
  };
  const sampled = () => Math.round(Number(sample.value));
  go.addEventListener("click", () => act("/api/finish", { ...asked(), audit: sampled() }, "The model has labelled what it is sure of"));
  back.addEventListener("click", () => act("/api/finish/undo", {}, "Taken back"));
  const soon = settle(draw, 200);
  for (const box of [rate, sure]) box.addEventListener("input", soon);
  const note = "Its labels are marked as the model's in every export, nothing is learned from them, and all are taken back at once.";
  showDialog("finishing", "Let the model finish", [before, rateRow, sureRow, sampleRow, status, go, back, make("p", { className: "note" }, note)]);
  draw();
}
