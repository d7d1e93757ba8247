// Actions on the current item, one request at a time. A key pressed during a request waits if its item is certain: an
// undo of the answer under way, and the answer that corrects it. Any other key would be for an item that the person
// has not seen: it does not count, and the page says so.
import { ApiError, get, insist, leftovers, post, save } from "./api.js";
import { announce, byId, count, plural, setText, toast } from "./dom.js";
import { meanwhileText } from "./meanwhile.js";
import { missed } from "./missed.js";
import { arrive } from "./presence.js";
import { proposed } from "./ranking.js";
import { changed, className, NONE, setBusy, setProgress, setSettings, setTask, setClasses, state } from "./state.js";

const WAITING = "Waiting";
const NO_CLASS = "/api/none";
const SLOW = 700; // milliseconds after which people wonder whether anything happens
const VERY_SLOW = 3000;
const LEARNING = "Learning …";
const COMPILING = "The first label takes longer: compiling, once only";

// Nobody reads an item in a tenth of a second: an answer that soon is the echo of the last key press.
const ECHO = 100;
let shownAt = 0;

function take(reply) {
  setProgress(reply.progress);
  setTask(reply.next);
  shownAt = performance.now();
}

/** Describes the item and the question for screen readers; only the question if the item was in sight before. */
function describe(task, before) {
  if (!task) return "All items are labelled.";
  const best = proposed();
  const question = best ? ` Is it ${className(best.id)}?` : "";
  if (best && task.item.id === before) return question.trim();
  const { item } = task;
  const fields = item.fields.map(([name, value]) => `${name}: ${value}`).join(", ");
  const content = (item.text ?? fields).slice(0, 300);
  const check = { check: "Random check. ", test: "Test set. " }[task.reason] ?? "";
  return `${check}Next item: ${content || `picture ${item.name}`}${question}`;
}

function showTick(text) {
  const tick = byId("tick");
  setText(tick, text);
  tick.classList.remove("fresh");
  void tick.offsetWidth; // restarts the animation
  tick.classList.add("fresh");
}

/** Shows a message when a request is slow; returns a function that ends it. An unreachable server has a banner. */
function sayWaiting(doing) {
  const tick = byId("tick");
  const say = (text) => {
    if (byId("offline").hidden) setText(tick, text);
  };
  const first = doing === LEARNING && state.progress?.update_ms === null;
  const timers = [setTimeout(() => say(doing), SLOW)];
  if (first) timers.push(setTimeout(() => say(COMPILING), VERY_SLOW));
  return () => {
    timers.forEach(clearTimeout);
    if (tick.textContent === doing || tick.textContent === COMPILING) setText(tick, "");
  };
}

/** Runs one request that ends in a new task; the page stays usable after any error. */
export async function exchange(request, said, doing = "Waiting for the server …") {
  if (state.busy) return false;
  setBusy(true);
  const waited = sayWaiting(doing);
  const before = state.task?.item.id;
  try {
    const reply = await request();
    waited();
    take(reply);
    if (said) {
      showTick(said());
      announce(`${said()}. ${describe(reply.next, before)}`);
    }
    return reply;
  } catch (error) {
    await recover(error);
    return false;
  } finally {
    waited();
    setBusy(false);
    changed("answered");
  }
}

const askNext = () => post("/api/next", { person: state.person, questions: state.multiLabel && state.yesNo });

/** Tells the server whether the next items are chosen for yes / no questions; the item in sight stays. */
export async function tellMode() {
  if (state.multiLabel && state.task) await askNext().catch(() => {}); // then the next request tells
}

/** Shows the server's message, then the current task: another person may have answered meanwhile. */
async function recover(error) {
  toast(error.message, { problem: true });
  if (!(error instanceof ApiError)) console.error(error);
  if (error.status === 401 || state.looks) return; // other requests would fail, too
  try {
    take(await insist(() => askNext(), WAITING));
  } catch (again) {
    toast(again.message, { problem: true });
  }
}

export function canAnswer() {
  return state.task !== null && !state.busy && performance.now() - shownAt >= ECHO;
}

let line = []; // the action under way, and the actions that wait for it

/** Runs actions one after the other; when one fails, the waiting ones are dropped. */
async function inTurn(step) {
  line.push(step);
  if (line.length > 1) return;
  while (line.length) {
    const done = await line[0].run();
    line.shift();
    if (!done) for (const _ of line.splice(0)) missed();
  }
}

/** The item that an answer given now is for: the one in sight, or the one that an undo brings back. */
function meant() {
  if (canAnswer()) return state.task.item.id;
  const last = line.at(-1);
  return last?.isUndo ? last.item : null;
}

/** Answers the item; `name` is the answer in words, empty for a skip. */
async function answer(path, extra, name, doing) {
  const item = meant();
  if (item !== null) await inTurn({ isUndo: false, item, run: () => give(item, path, extra, name, doing) });
  else if (state.task) missed();
}

async function give(item, path, extra, name, doing) {
  if (state.task?.item.id !== item) {
    missed(); // undone, and leased to somebody else by now
    return false;
  }
  const body = { person: state.person, item };
  const reply = await exchange(() => save(path, { ...body, ...extra }), () => (name ? `Saved: ${name}` : "Skipped"), doing);
  if (reply) rememberAnswer(reply, item, name, path === NO_CLASS ? { class: state.multiLabel ? [] : NONE } : extra);
  return reply;
}

function rememberAnswer(reply, item, name, extra) {
  state.undoable.push({ saved: reply.saved, item, name });
  const others = meanwhileText(reply.meanwhile, extra.class ?? extra.present ?? null);
  if (others) toast(others, { problem: true });
}

export function label(number) {
  return answer("/api/label", { class: number }, className(number), LEARNING);
}

/** Saves the classes of an item in a multi-label project; `absent` defaults to all others. */
export function labelSet(present, absent = null) {
  const name = absent === null ? className(present) : present.length ? `yes, ${className(present)}` : `not ${className(absent)}`;
  return answer("/api/label_set", { present, absent }, name, LEARNING);
}

/** Rules out a class; the item stays for the next proposal. */
export const ruleOut = (number) => answer("/api/not", { class: number }, `not ${className(number)}`, LEARNING);

/** Labels several items with one class; one undo reverts all of them. */
export async function labelMany(items, number, remove = false) {
  const body = { person: state.person, items, class: number, remove };
  const name = (n) => `${plural(n, "item")} ${remove ? "without" : "as"} ${className(number)}`;
  const reply = await exchange(() => save("/api/label_many", body), () => `Saved: ${name(items.length)}`, LEARNING);
  if (!reply) return;
  const { labelled, left_out: left } = reply.bulk;
  state.undoable.push({ saved: reply.saved, item: null, name: name(labelled) });
  if (left.length) toast(`${plural(labelled, "item")} saved; ${count(left.length)} open on somebody else's screen.`, { problem: true });
  else toast(`${name(labelled)}. One undo takes back all of them.`);
}

export const skip = () => answer("/api/skip", {}, "");

export const noneOfThese = () => answer(NO_CLASS, {}, className(NONE), LEARNING);

export const cannotTell = () => answer("/api/cannot_tell", {}, "cannot tell");

/** The item that an undo brings back now; unknown for two undos in a row. */
function broughtBack() {
  const last = line.at(-1);
  if (!last) return state.undoable.at(-1)?.item ?? null;
  return last.isUndo ? null : last.item;
}

export async function undo() {
  if (state.busy && !line.length) missed();
  else await inTurn({ isUndo: true, item: broughtBack(), run: takeBack });
}

/** Undoes the last answer. Naming it prevents undoing an answer given in another window. */
async function takeBack() {
  const body = { person: state.person };
  const last = state.undoable.pop();
  if (last) body.saved = last.saved;
  const said = last?.name ? `Undone: ${last.name}` : "Undone";
  const reply = await exchange(() => save("/api/undo", body), () => said, LEARNING);
  if (!reply) state.undoable = [];
  return reply;
}

export async function jump(item) {
  const reply = await exchange(() => save("/api/jump", { person: state.person, item }), () => "Opened");
  // Otherwise Space would press the button that opened the dialog instead of skipping.
  document.activeElement?.blur();
  return reply;
}

/** Opens the session, delivers unsaved answers of an earlier visit, and shows the first item. */
export async function start() {
  setBusy(true);
  try {
    const session = await insist(() => get("/api/session", { person: state.person }), WAITING);
    state.project = session.project;
    state.projectId = session.project_id;
    state.kind = session.kind;
    state.guidelines = session.guidelines;
    state.strategies = session.strategies;
    state.sources = session.sources;
    state.multiLabel = session.multi_label;
    setSettings(session.settings);
    setClasses(session.classes);
    state.looks = session.looks;
    changed("session");
    if (session.looks) changed("task");
    else {
      await arrive();
      await deliver();
      take(await insist(() => askNext(), WAITING));
    }
  } catch (error) {
    await recover(error);
  } finally {
    setBusy(false);
  }
  await refresh();
}

async function deliver() {
  for (const entry of leftovers()) {
    try {
      const { meanwhile } = await save(entry.path, entry.body);
      const others = meanwhileText(meanwhile, entry.body.class ?? entry.body.present ?? null);
      toast(`An earlier answer is saved now. ${others}`, { problem: Boolean(others) });
    } catch {
      // Either refused for good, and the server's state counts, or it waits for the next visit.
    }
  }
}

/** Fetches the slow part of the progress: the curve, and other people's answers. */
export async function refresh() {
  try {
    setProgress(await get("/api/progress", { person: state.person }));
  } catch {
    // Slightly old figures are no reason to disturb; the next answer reports the error.
  }
}

/** Requests an item after there was none left. */
export const more = () => exchange(() => insist(() => askNext(), WAITING));

/** Requests the item again after a long absence: its lease may have gone to someone else. */
export async function renew() {
  if (state.busy || !state.task) return;
  const before = state.task.item.id;
  await more();
  if (state.task && state.task.item.id !== before) toast("Your item was given to somebody else while you were away; here is another one.");
}
