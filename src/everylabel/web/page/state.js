// The page's state in one place; parts subscribe to the topics that they draw.
import { colour, memory } from "./dom.js";

export const state = {
  person: "me",
  named: false, // the person has entered this name
  project: "",
  projectId: "", // distinguishes projects of the same name at this address
  kind: "text",
  guidelines: "", // HTML made safe by the server
  classes: [],
  settings: { strategy: "", check_every: 10 },
  strategies: [],
  sources: 0, // number of sources of suggestions
  multiLabel: false, // an item may have several classes, or none
  looks: false, // read-only token
  task: null,
  finished: false,
  progress: null,
  busy: false,
  hideProbabilities: memory.get("hide") === "yes",
  yesNo: memory.get("yes-no") === "yes", // one class is proposed at a time
  plainKeys: memory.get("plain-keys") !== "no", // shortcuts of a single character
  undoable: [], // this tab's own answers, the latest last: number and item
  checked: new Set(), // items first shown here as random checks: their guesses stay hidden
};

const listeners = new Map();

/** Runs `action` whenever `topic` ("task", "classes", "progress", "busy", "settings") changes. */
export function on(topic, action) {
  if (!listeners.has(topic)) listeners.set(topic, []);
  listeners.get(topic).push(action);
}

export function changed(topic) {
  for (const action of listeners.get(topic) ?? []) action();
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export function setClasses(classes) {
  if (classes.length && same(classes, state.classes)) return;
  state.classes = classes;
  changed("classes");
}

export function setSettings(settings) {
  if (same(settings, state.settings)) return;
  state.settings = settings;
  changed("settings");
}

/** Replies to answers omit the slow prediction counts; the old counts stay until the next full count. */
function withPredicted(classes) {
  const known = new Map(state.classes.map((each) => [each.id, each.predicted]));
  return classes.map((each) => ({ ...each, predicted: each.predicted ?? known.get(each.id) ?? null }));
}

/** Updates the progress unless a newer one is shown already: figures never go backwards. */
export function setProgress(progress) {
  if (!progress || (state.progress && progress.version < state.progress.version)) return;
  const curve = progress.curve ?? state.progress?.curve ?? [];
  const classes = withPredicted(progress.classes);
  state.progress = { ...progress, curve, classes };
  setClasses(classes);
  setSettings(progress.settings);
  changed("progress");
}

/** Accepts any version next: a restarted server may count from the start again. */
export function forgetVersion() {
  if (state.progress) state.progress.version = -1;
}

export function setTask(task) {
  state.task = task;
  state.finished = task === null;
  if (["check", "test", "audit"].includes(task?.reason)) state.checked.add(task.item.id);
  changed("task");
}

export function setBusy(busy) {
  state.busy = busy;
  changed("busy");
}

/** Whether to show the model's guess: never on a random check, because it would bias the answer. */
export function guessShown() {
  const { task } = state;
  if (!task?.probabilities || state.hideProbabilities) return false;
  return !["check", "test", "audit"].includes(task.reason) && !state.checked.has(task.item.id);
}

const WITH_KEYS = 20;

/** Whether there are more classes than keys: then letters filter, and commands need Shift. */
export const manyClasses = () => state.classes.length > WITH_KEYS;

/** A readable name: "card_lost" becomes "card lost". */
export const shownName = (name) => name.replaceAll("_", " ").trim() || name;

const classOf = (number) => state.classes.find((each) => each.id === number);

/** Stands in place of a class number if no class fits. */
export const NONE = -2;

/** The name of a class, or the comma-separated names of several in a multi-label project. */
export const className = (number) => (Array.isArray(number) ? number.map(className).join(", ") || "none of these" : oneName(number));

const oneName = (number) => (number === NONE ? "none of these" : classOf(number) ? shownName(classOf(number).name) : `class ${number}`);

const FEW = 3; // classes that a note about a partial answer names

/** The first names, and the number of the others. */
export const few = (names) => names.slice(0, FEW).join(", ") + (names.length > FEW ? ` and ${names.length - FEW} more` : "");

/** Whether a multi-label answer leaves classes unanswered. */
export const isPartial = (label, absent) => Array.isArray(absent) && label.length + absent.length < state.classes.length;

/** A label in words; if it covers some classes only, also the classes that it rules out or leaves open. */
export function labelName(label, absent) {
  if (!isPartial(label, absent)) return className(label);
  const open = state.classes.filter(({ id }) => !label.includes(id) && !absent.includes(id));
  if (absent.length > FEW && open.length <= FEW) return `${className(label)}; ${className(open.map(({ id }) => id))} unanswered`;
  const not = absent.length ? `not ${few(absent.map(className))}` : "";
  return [label.length ? className(label) : "", not].filter(Boolean).join("; ");
}

/** A class's colour in the map and the table: its own, or the default for its number. */
export const classColour = (number) => (Array.isArray(number) ? classColour(number[0] ?? NONE) : classOf(number)?.colour || colour(number));
