// The smaller dialogs: settings, name, export, menu; and the theme.
import { refresh, start } from "./actions.js";
import { patch } from "./api.js";
import { closeDialog, showDialog } from "./dialogs.js";
import { announce, byId, make, memory, setText, toast } from "./dom.js";
import { changed, setSettings, state } from "./state.js";

const DARK = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (document.documentElement.dataset.theme ?? (DARK.matches ? "dark" : "light")) === "dark";

function showTheme() {
  for (const word of document.querySelectorAll(".theme-word")) setText(word, isDark() ? "Light" : "Dark");
}

/** Switches the theme. Back at what the system wants, it is the system's again. */
export function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  const system = DARK.matches ? "dark" : "light";
  if (theme === system) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  memory.set("theme", theme === system ? null : theme);
  showTheme();
  changed("theme");
}

export function startTheme() {
  showTheme();
  DARK.addEventListener("change", () => {
    showTheme();
    changed("theme");
  });
}

export function toggleProbabilities() {
  state.hideProbabilities = !state.hideProbabilities;
  memory.set("hide", state.hideProbabilities ? "yes" : null);
  changed("guess");
  announce(state.hideProbabilities ? "Probabilities hidden" : "Probabilities shown");
  return state.hideProbabilities;
}

async function saveSettings(change, status) {
  try {
    setSettings((await patch("/api/settings", { person: state.person, ...change })).settings);
    setText(status, "Saved. It counts from the next item on.");
    refresh();
  } catch (error) {
    setText(status, error.message);
  }
}

function strategyChoice(status) {
  const options = state.strategies.map((strategy) => {
    const id = `strategy-${strategy.name}`;
    const radio = make("input", { type: "radio", name: "strategy", id, value: strategy.name, checked: strategy.name === state.settings.strategy });
    radio.addEventListener("change", () => saveSettings({ strategy: strategy.name }, status));
    const title = make("span", { className: "option-title" }, strategy.title);
    const sentence = make("span", { className: "option-note" }, strategy.sentence);
    return make("label", { className: "option", htmlFor: id }, radio, make("span", {}, title, sentence));
  });
  return make("fieldset", {}, make("legend", {}, "How the next item is chosen"), ...options);
}

function checkChoice(status) {
  const box = make("input", { type: "number", id: "check-every", min: 0, max: 1000, step: 1, value: String(state.settings.check_every), inputMode: "numeric" });
  box.addEventListener("change", () => {
    const every = Number(box.value);
    if (box.value === "" || !Number.isInteger(every) || every < 0) setText(status, "Give a whole number; 0 means never.");
    else saveSettings({ check_every: every }, status);
  });
  const note = "One item in so many is drawn at random and scored before it is learned from; 0 means never.";
  return make("div", { className: "field" }, make("label", { htmlFor: "check-every" }, "Random check, one item in"), box, make("p", { className: "note" }, note));
}

export function openSettings() {
  const status = make("p", { className: "note", role: "status" });
  const hide = make("input", { type: "checkbox", id: "hide", checked: state.hideProbabilities });
  hide.addEventListener("change", toggleProbabilities);
  const hideRow = make("label", { className: "check-row", htmlFor: "hide" }, hide, "Hide the model's probabilities, so that they do not sway me");
  const keys = make("input", { type: "checkbox", id: "plain-keys", checked: state.plainKeys });
  keys.addEventListener("change", () => {
    state.plainKeys = keys.checked;
    memory.set("plain-keys", keys.checked ? null : "no");
  });
  // Who speaks to the computer, or slips on the keyboard, must be able to switch them off (WCAG 2.1.4).
  const keysRow = make("label", { className: "check-row", htmlFor: "plain-keys" }, keys, "Shortcuts by single keys");
  const theme = make("button", { type: "button", className: "quiet" }, "Switch between light and dark");
  theme.addEventListener("click", toggleTheme);
  showDialog("settings", "Settings", [strategyChoice(status), checkChoice(status), status, hideRow, keysRow, theme]);
}

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
  const note = make("p", { className: "note" }, "Answers are kept under this name. Several people can label at once, each under their own.");
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
  showDialog("person", "Who are you?", [form]);
  box.select();
}

const EXPORTS = [
  ["labels", "Labels", "one row an item"],
  ["answers", "Answers", "every answer of every person"],
  ["predictions", "Predictions", "probabilities for all that is not labelled"],
];
const FORMATS = ["csv", "jsonl", "parquet"];
const MODELS = [
  ["everylabel", "everylabel"],
  ["skops", "scikit-learn (skops)"],
  ["onnx", "ONNX"],
  ["torch", "PyTorch"],
];

function download(href, text, title) {
  return make("a", { href, download: "", className: "download", "aria-label": title }, text);
}

export function openExport() {
  const rows = EXPORTS.map(([what, title, note]) => {
    const links = FORMATS.map((format) => download(`/api/export?what=${what}&format=${format}`, format.toUpperCase(), `${title} as ${format.toUpperCase()}`));
    return make("section", { className: "export-row" }, make("div", {}, make("h3", {}, title), make("p", { className: "note" }, note)), make("div", { className: "downloads" }, ...links));
  });
  const models = MODELS.map(([format, name]) => download(`/api/model?format=${format}`, name, `The model for ${name}`));
  const model = make("section", { className: "export-row" }, make("div", {}, make("h3", {}, "Model"), make("p", { className: "note" }, "to use elsewhere")), make("div", { className: "downloads" }, ...models));
  showDialog("export", "Export", [...rows, model]);
}

/** On a phone the tools are in a list. */
export function openMenu(run) {
  const entries = [...document.querySelectorAll(".tools button")].map((tool) => {
    const button = make("button", { type: "button", className: "menu-entry" }, tool.textContent);
    button.addEventListener("click", () => {
      closeDialog();
      run(tool.dataset.do);
    });
    return make("li", {}, button);
  });
  showDialog("menu", "Menu", [make("ul", { className: "menu-list" }, ...entries)]);
}

export function showPerson() {
  setText(byId("person"), state.person);
}
