// Entry point: connects the parts of the page; each command has one name for its key and its button.
import { cannotTell, noneOfThese, renew, skip, start, undo } from "./actions.js";
import { focusFilter, startAnswers } from "./answers.js";
import { openAdd, openClasses } from "./classes.js";
import { openCopies, startCopies } from "./copies.js";
import { byId, setText, toast } from "./dom.js";
import { openExport } from "./exports.js";
import { openFigures } from "./figures.js";
import { openFinishing, startFinishing } from "./finishing.js";
import { openDisputed, openHistory, openSearch } from "./finding.js";
import { startGuidelines } from "./guidelines.js";
import { openHelp, startKeys } from "./keys.js";
import { openMap } from "./map.js";
import { openPerson, readPerson, showPerson } from "./person.js";
import { nameCheck, startPresence } from "./presence.js";
import { openQueues } from "./queues.js";
import { openMenu, openSettings, startTheme, toggleProbabilities, toggleTheme } from "./settings.js";
import { startSide } from "./side.js";
import { accept, openSources, startSources } from "./sources.js";
import { on, state } from "./state.js";
import { startTask, toggleZoom } from "./task.js";
import { save } from "./ticks.js";
import { no, startYesNo, toggleYesNo, unfold, yes } from "./yes_no.js";

const COMMANDS = {
  undo,
  skip,
  cannot: cannotTell,
  none: noneOfThese,
  save,
  probabilities: () => toast(toggleProbabilities() ? "Probabilities are hidden." : "Probabilities are shown."),
  yes,
  no,
  others: unfold,
  accept,
  sources: openSources,
  yesno: toggleYesNo,
  filter: () => {
    unfold();
    focusFilter();
  },
  zoom: toggleZoom,
  add: openAdd,
  classes: openClasses,
  search: openSearch,
  history: openHistory,
  disputed: openDisputed,
  figures: openFigures,
  queues: openQueues,
  finish: openFinishing,
  copies: openCopies,
  map: openMap,
  settings: openSettings,
  export: openExport,
  person: () => openPerson(nameCheck(), start),
  theme: toggleTheme,
  help: openHelp,
  menu: () => openMenu(run),
};

function run(command) {
  COMMANDS[command]();
}

function startButtons() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (!button) return;
    // As with classes: after a click, Space and Enter must not press the button again.
    if (event.detail > 0 && button.closest(".actions, .proposal, .suggestion")) button.blur();
    run(button.dataset.do);
  });
}

function startSession() {
  on("session", () => {
    setText(byId("project"), state.project);
    document.title = `${state.project} · everylabel`;
    document.documentElement.classList.toggle("multi-label", state.multiLabel);
    if (state.multiLabel) setText(byId("accuracy-heading"), "F1 score");
    showPerson();
  });
}

/** A lease may expire while the page is hidden; on return the person gets an item that is leased to them. */
function startLease() {
  let left = null;
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") left = Date.now();
    else if (left !== null && state.task && Date.now() - left > 1000 * state.task.lease_seconds) renew();
  });
}

readPerson();
showPerson();
startTheme();
startTask();
startAnswers();
startYesNo();
startSide();
startGuidelines();
startCopies();
startSources();
startFinishing();
startButtons();
startSession();
startLease();
startPresence();
startKeys(run);
await start();
document.documentElement.dataset.ready = "yes";
