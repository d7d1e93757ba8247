// Settings, the theme, and the menu of a phone.
import { refresh } from "./actions.js";
import { patch } from "./api.js";
import { closeDialog, showDialog } from "./dialogs.js";
import { announce, make, memory, setText } from "./dom.js";
import { changed, setSettings, state } from "./state.js";
import { setStartsTicked, startsTicked } from "./ticks.js";

const DARK = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (document.documentElement.dataset.theme ?? (DARK.matches ? "dark" : "light")) === "dark";

function showTheme() {
  for (const word of document.querySelectorAll(".theme-word")) setText(word, isDark() ? "Light" : "Dark");
}

/** Switches the theme. If the result equals the system's preference, the page follows the system again. */
export function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  const system = DARK.matches ? "dark" : "light";
  if (theme === system) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  memory.set("theme", theme === system ? null : theme);
  showTheme();
}

export function startTheme() {
  showTheme();
  DARK.addEventListener("change", showTheme);
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
    setText(status, "Saved. It takes effect with the next item.");
    refresh();
  } catch (error) {
    setText(status, error.message);
  }
}

/** A list that saves the chosen entry, with a label and a note below it. */
function choiceField(id, text, options, chosen, note, save) {
  const entries = options.map(([value, title]) => make("option", { value, selected: value === chosen }, title));
  const box = make("select", { id }, ...entries);
  box.addEventListener("change", () => save(box.value));
  return make("div", { className: "field" }, make("label", { htmlFor: id }, text), box, note);
}

function strategyChoice(status) {
  const sentence = (name) => state.strategies.find((each) => each.name === name)?.sentence ?? "";
  const note = make("p", { className: "note" }, sentence(state.settings.strategy));
  const options = state.strategies.map(({ name, title }) => [name, title]);
  return choiceField("strategy", "How the next item is chosen", options, state.settings.strategy, note, (strategy) => {
    setText(note, sentence(strategy));
    saveSettings({ strategy }, status);
  });
}

function checkChoice(status) {
  const value = String(state.settings.check_every);
  const box = make("input", { type: "number", id: "check-every", min: 0, max: 1000, step: 1, value, inputMode: "numeric" });
  box.addEventListener("change", () => {
    const every = Number(box.value);
    if (box.value === "" || !Number.isInteger(every) || every < 0) setText(status, "Give a whole number; 0 means never.");
    else saveSettings({ check_every: every }, status);
  });
  const label = make("label", { htmlFor: "check-every" }, "Random check, one item in");
  const text = "One item in N is drawn at random, and the model is scored on it before it learns the answer; 0 switches checks off.";
  return make("div", { className: "field" }, label, box, make("p", { className: "note" }, text));
}

/** The switch for learning from class names, if an encoder can embed them. */
function namesChoice(status) {
  const box = make("input", { type: "checkbox", id: "names", checked: state.settings.names });
  box.addEventListener("change", () => saveSettings({ names: box.checked }, status));
  return make("label", { className: "check-row", htmlFor: "names" }, box, "The model starts from the names and descriptions of the classes");
}

/** The choice of fine-tuning the encoder, or the reason why it cannot be. */
function networkChoice(network, status) {
  const note = make("p", { className: "note" }, network.sentence);
  if (!network.can) return make("div", { className: "field" }, make("span", {}, "Fine-tuning"), note);
  const titles = { auto: "When it helps", on: "When it helps, even if it takes minutes", frozen: "Never" };
  return choiceField("network", "Fine-tune the network", Object.entries(titles), network.setting, note, (setting) => saveSettings({ network: setting }, status));
}

/** The switch that ticks predicted classes from the start, in a multi-label project. */
function tickChoice() {
  const box = make("input", { type: "checkbox", id: "start-ticked", checked: startsTicked() });
  box.addEventListener("change", () => setStartsTicked(box.checked));
  return make("label", { className: "check-row", htmlFor: "start-ticked" }, box, "Tick the classes that the model predicts");
}

export function openSettings() {
  const status = make("p", { className: "note", role: "status" });
  const hide = make("input", { type: "checkbox", id: "hide", checked: state.hideProbabilities });
  hide.addEventListener("change", toggleProbabilities);
  const hideText = "Hide the model's probabilities, so that they do not bias me";
  const hideRow = make("label", { className: "check-row", htmlFor: "hide" }, hide, hideText);
  const keys = make("input", { type: "checkbox", id: "plain-keys", checked: state.plainKeys });
  keys.addEventListener("change", () => {
    state.plainKeys = keys.checked;
    memory.set("plain-keys", keys.checked ? null : "no");
  });
  // People who use speech input, or hit keys by accident, must be able to switch shortcuts off (WCAG 2.1.4).
  const keysRow = make("label", { className: "check-row", htmlFor: "plain-keys" }, keys, "Shortcuts by single keys");
  const theme = make("button", { type: "button", className: "quiet" }, "Switch between light and dark");
  theme.addEventListener("click", toggleTheme);
  showDialog("settings", "Settings", [
    strategyChoice(status),
    checkChoice(status),
    ...(state.progress?.names ? [namesChoice(status)] : []),
    ...(state.progress?.network && !state.multiLabel ? [networkChoice(state.progress.network, status)] : []),
    status,
    ...(state.multiLabel ? [tickChoice()] : []),
    hideRow,
    keysRow,
    theme,
  ]);
}

/** Puts the tools, and the buttons for which a phone has no room, in a list. */
export function openMenu(run) {
  const entries = [...document.querySelectorAll(".tools button, .actions .in-menu")].map((tool) => {
    const button = make("button", { type: "button", className: "menu-entry" }, (tool.querySelector("span") ?? tool).textContent);
    button.addEventListener("click", () => {
      closeDialog();
      run(tool.dataset.do);
    });
    return make("li", {}, button);
  });
  showDialog("menu", "Menu", [make("ul", { className: "menu-list" }, ...entries)]);
}
