// Reports to the server who has the page open, and when it closes; asks for a name if other people label, too.
import { insist, newKey, post } from "./api.js";
import { byId, memory, setText, toast } from "./dom.js";
import { askName, writePerson } from "./person.js";
import { state } from "./state.js";

const BEAT = 20_000; // milliseconds between heartbeats
const TAB = newKey();
const BROWSER = memory.get("browser") ?? newKey();
const WHY = "Your answers are stored under your name.";
let arrived = false;
let confirmed = null; // a name that the person has confirmed although it is in use elsewhere

const lone = () => `lone.${state.projectId}`; // this browser was the first in the project, and was not asked for a name

function announce(person = state.person, named = state.named) {
  memory.set("browser", BROWSER);
  return post("/api/here", { person, named, known: memory.get(lone()) !== null, browser: BROWSER, tab: TAB });
}

const taken = (name) => `Another browser labels as “${name}” just now. If that is you, continue; if not, choose another name.`;

/** Returns a name check that objects once to a name in use elsewhere. */
export function nameCheck() {
  return async (name) => {
    const { elsewhere } = await insist(() => announce(name, true), "Waiting");
    const wrong = elsewhere && confirmed !== name ? taken(name) : "";
    confirmed = name;
    return wrong;
  };
}

/** Decides the name under which this page labels, before it gets an item. */
export async function arrive() {
  const reply = await insist(announce, "Waiting");
  if (reply.ask) await settle(reply.guest);
  else {
    if (!state.named) {
      state.person = reply.person; // the only person who has labelled here, in any browser
      memory.set(lone(), "yes");
    }
    if (reply.elsewhere && confirmed !== state.person) toast(taken(state.person), { problem: true });
  }
  arrived = true;
  showWho(false);
}

/** Asks for a name; a person who enters none gets an unused guest name, never somebody else's. */
async function settle(guest) {
  const mine = memory.get(lone()) !== null;
  const name = await askName({ value: mine ? state.person : "", text: WHY, check: nameCheck() });
  writePerson(name ?? (mine ? state.person : guest));
  if (name !== null) return;
  toast(`You label as “${state.person}”. Click that name, at the top, to change it.`);
  await insist(announce, "Waiting");
}

/** Asks a person who was alone so far for a name, without interrupting the work. */
function showWho(ask) {
  setText(byId("who-stay"), `Stay “${state.person}”`);
  byId("who").hidden = !ask;
}

async function beat() {
  if (!arrived || document.visibilityState !== "visible") return;
  try {
    showWho((await announce()).ask);
  } catch {
    // The next heartbeat will do.
  }
}

function leave() {
  const body = new Blob([JSON.stringify({ tab: TAB })], { type: "application/json" });
  navigator.sendBeacon("/api/leave", body);
}

export function startPresence() {
  setInterval(beat, BEAT);
  document.addEventListener("visibilitychange", beat);
  addEventListener("pageshow", (event) => event.persisted && beat());
  addEventListener("pagehide", leave);
  byId("who-stay").addEventListener("click", () => {
    writePerson(state.person);
    showWho(false);
    beat();
  });
}
