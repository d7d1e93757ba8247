// Who is labelling.
import { start } from "./actions.js";
import { closeDialog, showDialog } from "./dialogs.js";
import { byId, make, memory, setText, toast } from "./dom.js";
import { state } from "./state.js";

/** Who labels: the address first (so two tabs can be two people), then what this browser remembers. */
export function readPerson() {
  const named = new URLSearchParams(location.search).get("person")?.trim();
  state.person = (named || memory.get("person") || "me").slice(0, 64);
}

function writePerson(name) {
  state.person = name;
  state.undoable = [];
  memory.set("person", name);
  const address = new URL(location.href);
  address.searchParams.set("person", name);
  history.replaceState(null, "", address);
}

export function openPerson() {
  const box = make("input", { type: "text", id: "person-name", value: state.person, maxLength: 64, autocomplete: "nickname", dir: "auto" });
  box.setAttribute("autofocus", "");
  const label = make("label", { htmlFor: "person-name" }, "Your name");
  const submit = make("button", { type: "submit", className: "primary" }, "Go on");
  const text = "Answers are kept under this name. Several people can label at once, each under their own.";
  const note = make("p", { className: "note" }, text);
  const form = make("form", { className: "row-form", noValidate: true }, label, make("div", { className: "row" }, box, submit), note);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = box.value.trim();
    closeDialog();
    if (!name || name === state.person) return;
    writePerson(name);
    start();
    toast(`You label as “${name}” now.`);
  });
  showDialog("person-dialog", "Who are you?", [form]);
  box.select();
}

export function showPerson() {
  setText(byId("person"), state.person);
}
