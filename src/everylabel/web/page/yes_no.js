// Yes or no: the page proposes one class and folds the others away; one key shows them.
//
// The model learns from a "no", and the page proposes the next class for the same item. Random checks, which hide the
// guess, and items without a guess show all classes, and a line says why. Keys of classes work as usual.
import { canAnswer, label, labelSet, noneOfThese, ruleOut, tellMode } from "./actions.js";
import { announce, breakable, byId, make, memory, percent, setText } from "./dom.js";
import { missed } from "./missed.js";
import { proposed } from "./ranking.js";
import { changed, className, on, shownName, state } from "./state.js";

const KEYS = { y: yes, Enter: yes, ArrowRight: yes, n: no, ArrowLeft: no, ArrowDown: unfold };

/** The shortcuts in the help. */
export const yesNoKeys = () => [
  [state.multiLabel ? ["y", "→"] : ["y", "Enter", "→"], "Yes / no: accept the proposed class"],
  [["n", "←"], "Yes / no: refuse it and show the next proposal"],
  [["↓"], "Yes / no: show all classes for this item"],
];

let unfolded = null; // the item for which all classes were requested

/** An answer to a proposal counts only while the proposal is in sight. */
function respond(answer) {
  const best = proposed();
  if (best && canAnswer()) answer(best);
  else if (best) missed();
}

export function yes() {
  respond(({ id }) => (state.multiLabel ? labelSet([id], []) : label(id)));
}

export function no() {
  if (state.multiLabel) respond(({ id }) => labelSet([], [id]));
  else respond(({ id, last }) => (last ? noneOfThese() : ruleOut(id)));
}

/** Shows all classes for the item in sight. */
export function unfold() {
  if (!proposed() || unfolded === state.task.item.id) return;
  unfolded = state.task.item.id;
  draw();
  announce("All classes are shown.");
}

/** Handles a key while a class is proposed; true if the key had a meaning. */
export function yesNoKey(event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.shiftKey || !KEYS[key] || !proposed()) return false;
  if (key === "Enter" && state.multiLabel) return false; // it saves the ticks
  if (key.startsWith("Arrow") && event.target.closest?.(".scrolls, .class")) return false; // arrows scroll there
  KEYS[key]();
  return true;
}

export function toggleYesNo() {
  state.yesNo = !state.yesNo;
  memory.set("yes-no", state.yesNo ? "yes" : null);
  changed("guess");
  tellMode();
  announce(state.yesNo ? `Yes or no. ${question() || noProposal()}` : "All classes are shown.");
}

function question() {
  const best = proposed();
  return best ? `Is it ${className(best.id)}?` : "";
}

/** Why nothing is proposed although it could be. */
function noProposal() {
  if (!state.yesNo || !state.task || !state.classes.length || proposed()) return "";
  if (state.hideProbabilities) return "No proposal while the model's guess is hidden.";
  if (!state.task.probabilities && !state.progress?.labelled) return "Proposals begin as soon as a label is learned: choose a class.";
  return "No proposal here, so that you are not biased: choose a class.";
}

/** Whether the person has answered the item before: its classes, with their answer, are all shown. */
const isRelabelled = () => (state.task?.answer ?? null) !== null;

function draw() {
  const best = proposed();
  byId("proposal").hidden = !best;
  setText(byId("no-proposal"), noProposal());
  document.documentElement.classList.toggle("folded", Boolean(best) && !isRelabelled() && unfolded !== state.task?.item.id);
  for (const button of document.querySelectorAll('[data-do="yesno"]')) button.setAttribute("aria-pressed", String(state.yesNo));
  byId("others").setAttribute("aria-expanded", String(!document.documentElement.classList.contains("folded")));
  if (!best) return;
  const name = make("strong", { dir: "auto" }, ...breakable(shownName(best.name)));
  const share = state.task.probabilities ? percent(state.task.probabilities[best.id] ?? 0) : "";
  byId("question").replaceChildren("Is it ", name, "? ", make("span", { className: "share" }, share));
  byId("question").title = best.description || "";
  setText(byId("no-word"), best.last ? "No: none of these" : "No");
  const gone = (state.task.ruled_out ?? []).map(className);
  setText(byId("ruled-out"), gone.length ? `Refused: ${gone.join(", ")}${best.last ? ". This is the last class left." : ""}` : "");
}

export function startYesNo() {
  for (const topic of ["task", "guess", "classes"]) on(topic, draw);
  draw();
}
