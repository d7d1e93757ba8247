// One class in the classes dialog: name, description, key, colour and order, and a way to remove it.
import { count, make, setText } from "./dom.js";
import { classKey } from "./answers.js";
import { CLASS_KEYS } from "./keys.js";
import { classColour, shownName, state } from "./state.js";

const LONGEST = 200;
const LONGEST_ABOUT = 1000;

export function nameBox(id, value) {
  return make("input", { type: "text", id, value, maxLength: LONGEST, autocomplete: "off", dir: "auto", required: true });
}

const quiet = (id, text, more = {}) => make("button", { type: "button", id, className: "quiet", ...more }, text);

function field(id, text, box) {
  return make("div", { className: "small-field" }, make("label", { htmlFor: id, className: "meta" }, text), box);
}

/** A letter or digit that no command uses; "by its place" restores the default key. */
function keyBox(each) {
  const options = ["", ...CLASS_KEYS].map((key) => make("option", { value: key, selected: key === each.key }, key || "by its place"));
  return make("select", { id: `key-${each.id}` }, ...options);
}

/** Asks what happens to the labels before a class is removed. */
function removal(each, act) {
  const into = make("select", { id: `into-${each.id}` }, make("option", { value: "" }, "no class: ask about these items again"));
  for (const other of state.classes) if (other.id !== each.id) into.append(make("option", { value: String(other.id) }, `“${shownName(other.name)}”`));
  const sure = quiet(`sure-${each.id}`, "Remove the class");
  const box = make(
    "div",
    { className: "removal", hidden: true },
    field(into.id, "Where do its labels go?", into),
    sure,
    make("p", { className: "note" }, "Nothing is lost: you can bring back a removed class with its labels. Classes below it move up, and so do their keys."),
  );
  into.addEventListener("change", () => setText(sure, into.value ? "Merge the classes" : "Remove the class"));
  sure.addEventListener("click", () => act.remove(each, into.value ? Number(into.value) : null));
  return { box, into };
}

function more(each, position, act) {
  const key = keyBox(each);
  const paint = make("input", { type: "color", id: `colour-${each.id}`, value: classColour(each.id) });
  const { box, into } = removal(each, act);
  const up = quiet(`up-${each.id}`, "Up", { "aria-label": `Move ${each.name} up`, disabled: position === 0 });
  const down = quiet(`down-${each.id}`, "Down", { "aria-label": `Move ${each.name} down`, disabled: position === state.classes.length - 1 });
  const remove = quiet(`remove-${each.id}`, "Remove or merge …", { "aria-expanded": "false" });
  key.addEventListener("change", () => act.change(each, { own_key: key.value }, `The key of “${each.name}” is ${key.value || "the key of its position"}`));
  paint.addEventListener("change", () => act.change(each, { colour: paint.value }, `“${each.name}” has a new colour`));
  up.addEventListener("click", () => act.move(each, -1));
  down.addEventListener("click", () => act.move(each, 1));
  remove.addEventListener("click", () => {
    box.hidden = !box.hidden;
    remove.setAttribute("aria-expanded", String(!box.hidden));
    if (box.hidden) return;
    into.focus();
    box.scrollIntoView({ block: "nearest" }); // the whole box, not only the focused element
  });
  const row = make("div", { className: "row wrap" }, field(key.id, "Key", key), field(paint.id, "Colour", paint), up, down, remove);
  const details = make("details", { id: `more-${each.id}`, className: "more" }, make("summary", { "aria-label": `More about ${each.name}: key, colour, order, remove` }, "More"), row, box);
  return details;
}

/** `act` has change, move and remove; each returns once the server has answered. */
export function classRow(each, position, act) {
  const box = nameBox(`class-${each.id}`, each.name);
  const about = make("input", { type: "text", id: `about-${each.id}`, value: each.description, maxLength: LONGEST_ABOUT, autocomplete: "off", dir: "auto", placeholder: "What it is about (optional)" });
  about.setAttribute("aria-label", `What ${each.name} is about`);
  box.setAttribute("aria-label", `Name of class ${position + 1}`);
  const problem = make("p", { className: "problem-note", role: "alert", id: `problem-${each.id}` });
  const submit = make("button", { type: "submit", className: "quiet" }, "Save");
  const labels = make("span", { className: "meta" }, `${count(each.labels)} labelled`);
  const key = make("kbd", { "aria-hidden": "true" }, classKey(each.id));
  const form = make("form", { className: "row-form", noValidate: true }, key, box, about, labels, submit, problem);
  submit.disabled = true;
  const wanted = () => ({ name: box.value.trim(), description: about.value.trim() });
  form.addEventListener("input", () => {
    const { name, description } = wanted();
    submit.disabled = !name || (name === each.name && description === each.description);
    setText(submit, "Save");
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    const { name } = wanted();
    const sure = submit.textContent !== "Save";
    const said = name === each.name ? `Saved the description of “${name}”` : `Renamed to “${name}”`;
    const error = await act.change(each, { ...wanted(), sure }, said, `class-${each.id}`);
    if (error?.code === "class_alike") setText(submit, "Save anyway");
  });
  return make("li", {}, form, more(each, position, act));
}
