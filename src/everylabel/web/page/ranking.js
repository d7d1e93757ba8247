// The order of classes: by likelihood, or by how well the name matches the typed text.
import { guessShown, shownName, state } from "./state.js";

const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Classes by the model's probability, the most likely first; in their own order without a prediction. */
export function byLikelihood(classes, probabilities) {
  if (!probabilities) return classes;
  const chance = ({ id }) => probabilities[id] ?? 0;
  return [...classes].sort((a, b) => chance(b) - chance(a));
}

/** The class to ask about with yes or no, and whether it is the last one left; null if none may be proposed. */
export function proposed() {
  const asked = state.classes.find(({ id }) => id === state.task?.asks); // a confirmation of one class
  if (asked) return { ...asked, last: false };
  if (!state.yesNo || !guessShown()) return null;
  if (state.multiLabel) return mostUnsure();
  const left = state.classes.filter(({ id }) => !state.task.ruled_out?.includes(id));
  const best = byLikelihood(left, state.task.probabilities)[0];
  return best ? { ...best, last: left.length === 1 } : null;
}

/** The class of an item that the model is least sure of: its answer tells most, as all classes have one covariance. */
function mostUnsure() {
  const unsure = ({ id }) => Math.abs((state.task.probabilities[id] ?? 0) - 0.5);
  const best = [...state.classes].sort((a, b) => unsure(a) - unsure(b))[0];
  return best ? { ...best, last: false } : null;
}

/** Classes whose name contains the text: first names that begin with it, then names with a word that does, then others. */
export function matching(classes, typed) {
  const text = folded(typed.trim());
  const names = (each) => [folded(each.name), folded(shownName(each.name))];
  const place = (each) => {
    if (names(each).some((name) => name.startsWith(text))) return 0;
    return names(each).some((name) => name.includes(` ${text}`)) ? 1 : 2;
  };
  const found = classes.filter((each) => names(each).some((name) => name.includes(text)));
  return text ? [...found].sort((a, b) => place(a) - place(b)) : found;
}
