// Requests to the server. An answer is sent with a key until it is acknowledged; the server counts a key once, so
// retrying is always safe.
import { byId, memory } from "./dom.js";
import { forgetVersion, state } from "./state.js";

const TIMEOUT = 20_000;
const SILENT = "the server does not answer";
const WAITS = [300, 600, 1200, 2500];
// Temporary errors: too many requests, a proxy without its server, a full disk.
const PASSING = new Set([429, 502, 503, 504, 507]);
// Final errors: retrying would not help.
const FINAL = new Set([404, 409, 422]);
const ANSWERS = new Set(["/api/label", "/api/skip", "/api/cannot_tell", "/api/none"]);

export class ApiError extends Error {
  constructor(code, message, status) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** A temporary failure; retrying may help. */
export class Passing extends Error {}

/** Without randomUUID, which exists in secure contexts only: a phone may use http://192.168… */
export function newKey() {
  if (crypto.randomUUID) return crypto.randomUUID();
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function send(method, path, body) {
  const options = { method, headers: {}, cache: "no-store", credentials: "same-origin" };
  options.signal = AbortSignal.timeout(TIMEOUT);
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  let reply;
  try {
    response = await fetch(path, options);
    reply = await response.json().catch(() => null);
  } catch {
    throw new Passing(SILENT);
  }
  if (PASSING.has(response.status)) throw new Passing(reply?.error?.message ?? SILENT);
  if (response.ok && reply !== null) return reply;
  if (response.ok) throw new Passing("the reply broke off");
  throw errorOf(response.status, reply);
}

function errorOf(status, reply) {
  const error = reply?.error ?? {};
  const message = error.message ?? `the server refused this (status ${status})`;
  return new ApiError(error.code ?? "unknown", message, status);
}

export function get(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return send("GET", query ? `${path}?${query}` : path);
}

export const post = (path, body) => send("POST", path, body);
export const patch = (path, body) => send("PATCH", path, body);

/** Waits, but not longer than until the network comes back. */
function pause(ms) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    addEventListener("online", done);
  });
}

function banner(text) {
  const offline = byId("offline");
  offline.hidden = text === null;
  offline.textContent = text ?? "";
}

/** Retries until the server's answer is final; the banner shows `what` meanwhile. */
export async function insist(request, what) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const reply = await request();
      if (attempt > 0) banner(null);
      return reply;
    } catch (error) {
      if (!(error instanceof Passing)) {
        banner(null);
        throw error;
      }
      banner(`${what}: ${error.message}. Trying again …`);
      forgetVersion();
      await pause(WAITS[Math.min(attempt, WAITS.length - 1)]);
    }
  }
}

/** Unsaved answers by key, of all projects at this address. Stored in the browser, so that closing the page
    does not lose them. */
function unsaved() {
  try {
    return JSON.parse(memory.get("unsaved")) ?? {};
  } catch {
    return {};
  }
}

const same = (a, b) => a.project === b.project && a.body.person === b.body.person && a.body.item === b.body.item;

/** Stores an unsaved answer, replacing an older one for the same item; null deletes it. */
function remember(key, entry) {
  const entries = unsaved();
  if (entry) {
    for (const [old, other] of Object.entries(entries)) if (old !== key && same(other, entry)) delete entries[old];
    entries[key] = entry;
  } else delete entries[key];
  memory.set("unsaved", Object.keys(entries).length ? JSON.stringify(entries) : null);
}

/** Sends a request until the server has it. An answer is stored until it is saved or refused for good: without the
    token, for example, it waits for the next visit. An undo or a jump is not stored: that late it would surprise. */
export async function save(path, body) {
  const entry = { path, body: { ...body, key: body.key ?? newKey() }, project: state.projectId };
  const { key } = entry.body;
  if (ANSWERS.has(path)) remember(key, entry);
  try {
    const reply = await insist(() => post(path, entry.body), "Not saved yet, but not lost");
    remember(key, null);
    return reply;
  } catch (error) {
    if (FINAL.has(error.status)) remember(key, null);
    throw error;
  }
}

/** Answers that an earlier visit to this project could not deliver; `save` deletes each once it is saved. */
export function leftovers() {
  return Object.values(unsaved()).filter((entry) => entry.project === state.projectId && ANSWERS.has(entry.path));
}

addEventListener("beforeunload", (event) => {
  if (!byId("offline").hidden) event.preventDefault(); // it would be delivered at the next visit, but a warning is kinder
});
