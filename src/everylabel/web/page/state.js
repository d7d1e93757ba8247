// What the page knows, in one place; parts subscribe to what they draw.
import { colour, memory } from "./dom.js";

export const state = {
  person: "me",
  named: false, // the person has told this name
  project: "",
  projectId: "", // tells it from others of the same name at this address
  kind: "text",
  guidelines: "", // HTML that the server has made safe
  classes: [],
  settings: { strategy: "", check_every: 10 },
  strategies: [],
  sources: 0, // of suggestions
  multiLabel: false, // an item may have several classes, or none
  looks: false, // may change nothing
  task: null,
  finished: false,
  progress: null,
  busy: false,
  hideProbabilities: memory.get("hide") === "yes",
  yesNo: memory.get("yes-no") === "yes", // one class is proposed at a time
  plainKeys: memory.get("plain-keys") !== "no", // shortcuts of a single character
  undoable: [], // this tab's own answers, the latest last: number and item
  checked: new Set(), // items first seen here as random checks: their guesses stay hidden
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

/** Replies to answers leave out what is slow to count; what was known stays until it is counted again. */
function withPredicted(classes) {
  const known = new Map(state.classes.map((each) => [each.id, each.predicted]));
  return classes.map((each) => ({ ...each, predicted: each.predicted ?? known.get(each.id) ?? null }));
}

/** Takes news of the progress, unless something newer is shown already: figures never go backwards. */
export function setProgress(progress) {
  if (!progress || (state.progress && progress.version < state.progress.version)) return;
  const curve = progress.curve ?? state.progress?.curve ?? [];
  const classes = withPredicted(progress.classes);
  state.progress = { ...progress, curve, classes };
  setClasses(classes);
  setSettings(progress.settings);
  changed("progress");
}

/** A server that was restarted may count anew. */
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

/** Whether the model's guess may be seen: never on a random check, or it would bias the test. */
export function guessShown() {
  const { task } = state;
  if (!task?.probabilities || state.hideProbabilities) return false;
  return !["check", "test", "audit"].includes(task.reason) && !state.checked.has(task.item.id);
}

const WITH_KEYS = 20;

/** Whether there are more classes than keys: then letters filter, and commands want Shift. */
export const manyClasses = () => state.classes.length > WITH_KEYS;

/** A name as people read it: "card_lost" is "card lost". */
export const shownName = (name) => name.replaceAll("_", " ").trim() || name;

const classOf = (number) => state.classes.find((each) => each.id === number);

/** In place of a class's number: no class fits. */
export const NONE = -2;

/** A class by name; several of them, of a multi-label project, with commas. */
export const className = (number) => (Array.isArray(number) ? number.map(className).join(", ") || "none of these" : oneName(number));

const oneName = (number) => (number === NONE ? "none of these" : classOf(number) ? shownName(classOf(number).name) : `class ${number}`);

/** A class's colour in the map and the balance: its own, or that of its number. */
export const classColour = (number) => (Array.isArray(number) ? classColour(number[0] ?? NONE) : classOf(number)?.colour || colour(number));
