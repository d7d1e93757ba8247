// The labeller's name: from the link, from this browser's memory, or as entered.
import { closeDialog, showDialog } from "./dialogs.js";
import { byId, make, memory, setText, toast } from "./dom.js";
import { state } from "./state.js";

const LONGEST = 64;
const LINK = "/as/"; // followed by a name: a personal link

const clean = (name) => (name ?? "").normalize("NFC").replace(/\p{Cc}/gu, " ").trim().slice(0, LONGEST);

function nameInLink() {
  if (!location.pathname.startsWith(LINK)) return "";
  try {
    return clean(decodeURIComponent(location.pathname.slice(LINK.length)));
  } catch {
    return ""; // a truncated link
  }
}

/** The name in the address first (so two tabs can be two people), then the one stored in this browser. */
export function readPerson() {
  const linked = nameInLink();
  if (linked) memory.set("person", linked);
  const name = clean(new URLSearchParams(location.search).get("person")) || linked || clean(memory.get("person"));
  state.person = name || "me";
  state.named = Boolean(name);
}

export function writePerson(name) {
  state.person = name;
  state.named = true;
  state.undoable = [];
  memory.set("person", name);
  const address = new URL("/", location.href);
  address.search = location.search;
  address.searchParams.set("person", name);
  history.replaceState(null, "", address);
  showPerson();
}

/** Asks for a name. Resolves to it, or to null if the dialog was closed; `check` returns an objection to a name. */
export function askName({ value, text, check }) {
  const box = make("input", { type: "text", id: "person-name", value, maxLength: LONGEST, autocomplete: "nickname", dir: "auto" });
  box.setAttribute("autofocus", "");
  const label = make("label", { htmlFor: "person-name" }, "Your name");
  const submit = make("button", { type: "submit", className: "primary" }, "Continue");
  const problem = make("p", { className: "problem-note", role: "alert" });
  const note = make("p", { className: "note" }, text);
  const form = make("form", { className: "row-form", noValidate: true }, label, make("div", { className: "row" }, box, submit), problem, note);
  return new Promise((resolve) => {
    let chosen = null;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const name = clean(box.value);
      const wrong = name ? await check(name) : "Enter a name, so that your answers are stored under it.";
      setText(problem, wrong);
      if (wrong) return;
      chosen = name;
      closeDialog();
    });
    showDialog("person-dialog", "Who are you?", [form], { closed: () => resolve(chosen) });
    box.select();
  });
}

/** Changes the name; `again` restarts the session with it. */
export async function openPerson(check, again) {
  const text = "Answers are kept under this name. Several people can label at once, each under their own.";
  const name = await askName({ value: state.person, text, check });
  if (name === null) return;
  const before = state.person;
  writePerson(name);
  if (name === before) return;
  await again();
  const stay = state.progress?.people.some((each) => each.name === before && each.answers);
  toast(`You label as “${name}” now.${stay ? ` Earlier answers stay under “${before}”.` : ""}`);
}

export function showPerson() {
  setText(byId("person"), state.person);
}
