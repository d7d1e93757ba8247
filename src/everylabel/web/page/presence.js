// Tells the server who has the page open, and when it closes; asks for a name where others label, too.
import { insist, newKey, post } from "./api.js";
import { byId, memory, setText, toast } from "./dom.js";
import { askName, writePerson } from "./person.js";
import { state } from "./state.js";

const BEAT = 20_000; // milliseconds between signs of life
const TAB = newKey();
const BROWSER = memory.get("browser") ?? newKey();
const WHY = "Your name keeps your answers apart from others'.";
let arrived = false;
let confirmed = null; // a name that the person stands by though it is used elsewhere

const lone = () => `lone.${state.projectId}`; // this browser was the first in the project, and not asked

function tell(person = state.person, named = state.named) {
  memory.set("browser", BROWSER);
  return post("/api/here", { person, named, known: memory.get(lone()) !== null, browser: BROWSER, tab: TAB });
}

const taken = (name) => `Another browser labels as “${name}” just now. If that is you, go on; if not, take another name.`;

/** Returns a check of names: one that is used elsewhere now is questioned once. */
export function nameCheck() {
  return async (name) => {
    const { elsewhere } = await insist(() => tell(name, true), "Waiting");
    const wrong = elsewhere && confirmed !== name ? taken(name) : "";
    confirmed = name;
    return wrong;
  };
}

/** Settles under which name this page labels, before it gets an item. */
export async function arrive() {
  const reply = await insist(tell, "Waiting");
  if (reply.ask) await settle(reply.guest);
  else {
    if (!state.named) {
      state.person = reply.person; // the only one who has labelled here, in whatever browser
      memory.set(lone(), "yes");
    }
    if (reply.elsewhere && confirmed !== state.person) toast(taken(state.person), { problem: true });
  }
  arrived = true;
  showWho(false);
}

/** Who tells no name gets one that nobody has: never that of somebody else. */
async function settle(guest) {
  const mine = memory.get(lone()) !== null;
  const name = await askName({ value: mine ? state.person : "", text: WHY, check: nameCheck() });
  writePerson(name ?? (mine ? state.person : guest));
  if (name !== null) return;
  toast(`You label as “${state.person}”. Click that name, at the top, to tell yours.`);
  await insist(tell, "Waiting");
}

/** Whoever was alone is asked beside the work, not in the middle of it. */
function showWho(ask) {
  setText(byId("who-stay"), `Stay “${state.person}”`);
  byId("who").hidden = !ask;
}

async function beat() {
  if (!arrived || document.visibilityState !== "visible") return;
  try {
    showWho((await tell()).ask);
  } catch {
    // The next one will do.
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
