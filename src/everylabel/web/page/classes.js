// The classes dialog: add, change, order, remove, merge and restore classes; the last change can be undone.
import { refresh } from "./actions.js";
import { classKey } from "./answers.js";
import { get, newKey, patch, post } from "./api.js";
import { classRow, nameBox } from "./class_row.js";
import { closeDialog, showDialog } from "./dialogs.js";
import { announce, byId, make, plural, setText, toast } from "./dom.js";
import { className, setClasses, shownName, state } from "./state.js";

const ALIKE = "class_alike"; // error code of a name very similar to another; the page asks first

function addForm(done) {
  const box = nameBox("new-class", "");
  const problem = make("p", { className: "problem-note", role: "alert" });
  const label = make("label", { htmlFor: "new-class" }, "Name of the new class");
  const submit = make("button", { type: "submit", className: "primary" }, "Add");
  const form = make("form", { className: "row-form", noValidate: true }, label, make("div", { className: "row" }, box, submit), problem);
  const key = { value: newKey(), name: null };
  box.addEventListener("input", () => setText(submit, "Add"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = box.value.trim();
    if (!name) {
      setText(problem, "A class needs a name.");
      return;
    }
    if (key.name !== name) Object.assign(key, { value: newKey(), name }); // a retry with the same name keeps its key
    const body = { person: state.person, name, key: key.value, sure: submit.textContent !== "Add" };
    try {
      const reply = await post("/api/classes", body);
      setText(problem, "");
      setText(submit, "Add");
      setClasses(reply.classes);
      announce(`Class ${name} added`);
      refresh();
      box.value = "";
      done(name, reply);
    } catch (error) {
      setText(problem, words(error));
      if (error.code === ALIKE) setText(submit, "Add anyway");
    }
  });
  return { form, box };
}

/** Shows the server's refusal, or a question if the person may insist. */
function words(error) {
  return error.code === ALIKE ? error.message.replace(" Then pass sure", " Press again if so.") : error.message;
}

/** Tells the key of an added class; in a multi-label project that earlier items are not answered for it. */
function sayAdded(name) {
  const n = state.multiLabel ? (state.progress?.labelled ?? 0) : 0;
  const key = classKey(state.classes.at(-1)?.id);
  const more = n ? `${plural(n, "item")} without an answer to it: see Queues.` : key && `Its key is ${key}.`;
  toast(`Added “${shownName(name)}”. ${more}`);
}

export function openAdd() {
  const { form, box } = addForm((name) => {
    closeDialog();
    sayAdded(name);
  });
  box.setAttribute("autofocus", "");
  showDialog("add", "New class", [form]);
}

/** The list of classes, redrawn after every change; focus and unfolded rows stay. */
class ClassList {
  constructor() {
    this.list = make("ul", { className: "class-list" });
    this.last = make("div", { className: "row wrap", hidden: true });
    this.removed = make("ul", { className: "removed-list" });
    this.problem = make("p", { className: "problem-note", role: "alert" });
  }

  draw(reply) {
    const focused = document.activeElement?.id;
    const open = [...this.list.querySelectorAll("details[open]")].map((each) => each.id);
    this.list.replaceChildren(...state.classes.map((each, i) => classRow(each, i, this)));
    for (const id of open) if (byId(id)) byId(id).open = true;
    if (reply) this.drawChanges(reply);
    if (focused) (byId(focused) ?? byId("undo-classes"))?.focus(); // the button of a class that is gone: what was done, in words
  }

  drawChanges({ last, removed }) {
    const undo = make("button", { type: "button", className: "quiet", id: "undo-classes" }, "Undo");
    undo.addEventListener("click", () => this.send(() => post("/api/classes/undo", { person: state.person, saved: last.saved }), "Undone"));
    this.last.hidden = !last;
    this.last.replaceChildren(...(last ? [make("p", { dir: "auto" }, `Last change: ${last.what}.`), undo] : []));
    this.removed.replaceChildren(...removed.map((each) => this.removedRow(each)));
  }

  removedRow(each) {
    const where = each.into === null ? "the page asks about its items again" : `its labels went to “${className(each.into)}”`;
    const back = make("button", { type: "button", className: "quiet", id: `back-${each.id}` }, "Bring back");
    back.addEventListener("click", () => this.send(() => post(`/api/classes/${each.id}/restore`, { person: state.person }), `“${each.name}” is back`));
    return make("li", {}, make("p", { dir: "auto" }, `“${each.name}” was removed; ${where}.`), back);
  }

  /** Sends a change and shows the result; returns the error if it was refused. */
  async send(request, said, beside = null) {
    try {
      const reply = await request();
      setText(this.problem, "");
      setClasses(reply.classes);
      this.draw(reply);
      announce(said);
      refresh();
      return null;
    } catch (error) {
      setText((beside && byId(beside)) || this.problem, words(error));
      return error;
    }
  }

  change(each, changes, said) {
    const request = () => patch(`/api/classes/${each.id}`, { person: state.person, ...changes });
    return this.send(request, said, `problem-${each.id}`);
  }

  move(each, by) {
    const order = state.classes.map((other) => other.id);
    const at = order.indexOf(each.id);
    [order[at], order[at + by]] = [order[at + by], order[at]];
    return this.send(() => post("/api/classes/order", { person: state.person, order }), `“${each.name}” is number ${at + by + 1} now`);
  }

  remove(each, into) {
    const said = into === null ? `“${each.name}” is removed` : `“${each.name}” is merged into “${className(into)}”`;
    return this.send(() => post(`/api/classes/${each.id}/remove`, { person: state.person, into }), said);
  }
}

const shape = () => JSON.stringify(state.classes.map(({ id, name, description, key, colour }) => [id, name, description, key, colour]));

/** The names that are typed but not saved. */
function unsaved(box, list) {
  const changed = [...list.querySelectorAll("form")].filter((form) => !form.querySelector("[type=submit]").disabled);
  return [...changed.map((form) => form.querySelector("input").value.trim()), box.value.trim()].filter(Boolean).join(", ");
}

export async function openClasses() {
  const classes = new ClassList();
  const { form, box } = addForm((name, reply) => {
    sayAdded(name);
    classes.draw(reply);
  });
  const note = make("p", { className: "note" }, "A new name keeps the class's labels and its key.");
  const leaving = make("p", { className: "problem-note leaving", role: "alert" });
  let warned = ""; // warn once; then the dialog may close
  const keep = () => {
    const typed = unsaved(box, classes.list);
    if (!typed || typed === warned) return false;
    warned = typed;
    setText(leaving, `Not saved: ${typed}. Press Enter in its box to save, or Esc again to discard.`);
    return true;
  };
  showDialog("class-dialog", "Classes", [note, classes.last, classes.problem, classes.list, form, classes.removed, leaving], { keep });
  classes.draw(null);
  try {
    const before = shape();
    const reply = await get("/api/classes"); // other people may have changed some
    setClasses(reply.classes);
    if (shape() === before) classes.drawChanges(reply); // keep unsaved typing
    else classes.draw(reply);
  } catch {
    // The known classes stay in sight.
  }
}
