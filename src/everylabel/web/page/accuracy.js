// Accuracy of the model on the unlabelled items, worded to claim no more than is known.
import { byId, count, make, percent, plural, range, setText } from "./dom.js";
import { className, state } from "./state.js";

const ENOUGH_CHECKS = 20; // from here on the estimate is shown before its range

/** The large figure and the text beside it. With few checks the figure is the range: people would trust one number. */
export function accuracyFigures({ checks, estimate, low, high }) {
  if (estimate === null) return ["", ""];
  return checks < ENOUGH_CHECKS ? [range(low, high), ""] : [share(estimate), range(low, high)];
}

/** Nothing is certain: a share that rounds to 100 % is shown as "above 99 %". */
const share = (value) => (value > 0.995 ? "above 99\u00a0%" : percent(value));

function note({ accuracy, settings, labelled, finished }) {
  const { checks, needed, estimate, labels } = accuracy;
  const every = settings.check_every;
  if (estimate !== null) {
    const items = finished?.items ? "items that no person has labelled" : "unlabelled items";
    return `On ${items}, estimated from ${plural(checks, "random check")}${labels === labelled ? "" : ` (at label ${count(labels)})`}`;
  }
  if (needed && !every) return "Random checks are switched off in the settings.";
  if (needed) return `Known after ${plural(needed, checks ? "more random check" : "random check")}. ${drawn(every)} a random check.`;
  return "Computing …";
}

const drawn = (every) => (every === 1 ? "Every item is" : `One item in ${count(every)} is`);

/** Accuracy without any model, for comparison: 95 % may be worth nothing. With few checks it is not known well. */
function baseline({ checks, estimate, commonest, share: part, better }) {
  if (estimate === null || commonest === null || (better && checks < ENOUGH_CHECKS)) return [];
  const name = className(commonest);
  const baseline = `Always answering “${name}” would be right on about ${percent(part)}.`;
  return better ? [baseline] : [baseline, " ", make("strong", {}, "The model is no better than that yet.")];
}

/** How the figure was measured, and its limits. */
export function howMeasured(accuracy, every) {
  const how = every ? `${drawn(every)} drawn at random instead` : "When random checks are on, some items are drawn at random instead";
  const why =
    "The items you label are chosen because the model can learn from them, so the accuracy on them says little. " +
    `${how}, and the model's guess is hidden from you.`;
  if (accuracy.estimate === null) return why;
  if (state.multiLabel) {
    return `${why} F1 is the harmonic mean of precision and recall, over all pairs of an item and a class. Each check is predicted by the model without its own label.`;
  }
  const { checks, expected, unanswered } = accuracy;
  const missing =
    unanswered > 0 ? ` ${plural(unanswered, "check")} ${unanswered === 1 ? "was" : "were"} skipped or not answered, so the figure may be too high.` : "";
  return (
    `${why} Each label is also predicted by the model without that label: this shows how often the model is right at each level of ` +
    `confidence. The ${plural(checks, "random check")} correct for the other items, which are harder than average. By itself the model expects to be right ` +
    `on ${percent(expected)} of the unlabelled items. In 95 of 100 projects the range contains the true accuracy at all times.${missing}`
  );
}

/** Accuracy on the held-out test set, for the items from which the set was drawn. */
function testNote(test) {
  if (!test) return "";
  const { items, answered, n, estimate, low, high } = test;
  const far = answered < items ? `Test set: ${count(answered)} of ${count(items)} answered` : `Test set of ${plural(items, "item")}`;
  return estimate === null ? `${far}.` : `${far}; right on ${share(estimate)} (${range(low, high)}) of ${count(n)}.`;
}

export function drawAccuracy(progress) {
  const { accuracy, settings, test } = progress;
  const [figure, beside] = accuracyFigures(accuracy);
  setText(byId("accuracy"), figure);
  setText(byId("accuracy-range"), beside);
  setText(byId("accuracy-note"), note(progress));
  byId("accuracy-baseline").replaceChildren(...baseline(accuracy));
  setText(byId("test-note"), testNote(test));
  setText(byId("accuracy-why"), howMeasured(accuracy, settings.check_every));
}
