// Adding, renaming and describing classes.
import { get, newKey, patch, post } from "./api.js";
import { closeDialog, showDialog } from "./dialogs.js";
import { announce, count, make, setText, toast } from "./dom.js";
import { refresh } from "./actions.js";
import { setClasses, state } from "./state.js";

const LONGEST = 200;
const LONGEST_ABOUT = 1000;

function nameBox(id, value) {
  return make("input", { type: "text", id, value, maxLength: LONGEST, autocomplete: "off", dir: "auto", required: true });
}

/** Sends a change of classes; the message of a refusal stands beside the box, where it is needed. */
async function change(request, problem, said) {
  try {
    const reply = await request();
    setClasses(reply.classes);
    setText(problem, "");
    announce(said);
    refresh();
    return true;
  } catch (error) {
    setText(problem, error.message);
    return false;
  }
}

function addForm(done) {
  const box = nameBox("new-class", "");
  const problem = make("p", { className: "problem-note", role: "alert" });
  const label = make("label", { htmlFor: "new-class" }, "Name of the new class");
  const submit = make("button", { type: "submit", className: "primary" }, "Add");
  const form = make("form", { className: "row-form", noValidate: true }, label, make("div", { className: "row" }, box, submit), problem);
  const key = { value: newKey(), name: null };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = box.value.trim();
    if (!name) {
      setText(problem, "A class needs a name.");
      return;
    }
    if (key.name !== name) Object.assign(key, { value: newKey(), name }); // the same name again is the same wish
    const body = { person: state.person, name, key: key.value };
    if (await change(() => post("/api/classes", body), problem, `Class ${name} added`)) {
      box.value = "";
      done(name);
    }
  });
  return { form, box };
}

export function openAdd() {
  const { form, box } = addForm((name) => {
    closeDialog();
    toast(`Added “${name}”. Nothing else has moved.`);
  });
  box.setAttribute("autofocus", "");
  showDialog("add", "New class", [form]);
}

function renameRow(each) {
  const id = `class-${each.id}`;
  const box = nameBox(id, each.name);
  const problem = make("p", { className: "problem-note", role: "alert" });
  const about = make("input", { type: "text", id: `about-${each.id}`, value: each.description, maxLength: LONGEST_ABOUT, autocomplete: "off", dir: "auto" });
  const aboutLabel = make("label", { htmlFor: about.id, className: "meta" }, "What it is about (optional)");
  const submit = make("button", { type: "submit", className: "quiet" }, "Save");
  const labels = make("span", { className: "meta" }, `${count(each.labels)} labelled`);
  const label = make("label", { htmlFor: id }, `Class ${each.id + 1}`, labels);
  const form = make("form", { className: "row-form", noValidate: true }, label, make("div", { className: "row" }, box, submit), aboutLabel, about, problem);
  submit.disabled = true;
  let saved = [each.name, each.description];
  const wanted = () => [box.value.trim(), about.value.trim()];
  form.addEventListener("input", () => {
    submit.disabled = !wanted()[0] || wanted().every((value, i) => value === saved[i]);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [name, description] = wanted();
    if (submit.disabled) return;
    const body = { person: state.person, name, description };
    const said = name === saved[0] ? `“${name}” is described` : `Renamed to “${name}”`;
    if (await change(() => patch(`/api/classes/${each.id}`, body), problem, said)) {
      saved = [name, description];
      submit.disabled = true;
      box.focus();
      toast(`${said}.`);
    }
  });
  return make("li", {}, form);
}

export async function openClasses() {
  const list = make("ul", { className: "class-list" });
  const { form } = addForm((name) => {
    toast(`Added “${name}”.`);
    list.append(renameRow(state.classes.at(-1)));
  });
  const note = make("p", { className: "note" }, "A new name keeps the class's labels and its key.");
  showDialog("class-dialog", "Classes", [note, list, form]);
  list.replaceChildren(...state.classes.map(renameRow));
  try {
    setClasses((await get("/api/classes")).classes); // others may have added some
    if (list.children.length !== state.classes.length) list.replaceChildren(...state.classes.map(renameRow));
  } catch {
    // What is known already is shown.
  }
}
