// Finding items again: search, history and disputed items.
import { get } from "./api.js";
import { arrowKeys, closeDialog, showDialog } from "./dialogs.js";
import { make, plural, setText, settle } from "./dom.js";
import { itemRow, result } from "./results.js";
import { openSeveral } from "./several.js";
import { className, few, labelName, shownName, state } from "./state.js";

const PAGE = 50;
const FOUND = 100;

function summary(number) {
  if (!number) return "Nothing found";
  return number === FOUND ? `The first ${number} items.` : `${plural(number, "item")}.`;
}

/** The keys for the items found. */
function searchKeys(number) {
  if (!number) return "";
  return number === 1 ? "Enter opens it." : "Enter opens the first, Ctrl Enter labels them together.";
}

export function openSearch() {
  const box = make("input", { type: "search", id: "search-box", autocomplete: "off", dir: "auto", placeholder: "Words, or an item's id" });
  box.setAttribute("autofocus", "");
  const status = make("p", { className: "note", role: "status" });
  const keys = make("p", { className: "note no-keys" });
  const list = make("ul", { className: "results" });
  const several = make("button", { type: "button", className: "quiet", hidden: true }, "Label them together …");
  let hits = [];
  several.addEventListener("click", () => openSeveral(`Found: ${box.value.trim()}`, hits));
  let asked = ""; // the text of the last search
  let search = null; // a promise of its results
  const find = async (text) => {
    try {
      const { items } = text ? await get("/api/search", { q: text, limit: FOUND }) : { items: [] };
      if (text !== asked) return;
      list.replaceChildren(...items.map(itemRow));
      hits = items;
      several.hidden = items.length < 2;
      setText(status, text && summary(items.length));
      setText(keys, searchKeys(items.length));
    } catch (error) {
      if (text !== asked) return;
      setText(status, error.message);
      asked = ""; // Enter tries again
    }
  };
  const look = () => {
    const text = box.value.trim();
    if (text !== asked) {
      asked = text;
      search = find(text);
    }
    return search;
  };
  const soon = settle(look, 150);
  box.addEventListener("input", soon);
  box.addEventListener("keydown", async (event) => {
    if (event.key === "Escape") closeDialog(); // by default Escape would only clear the box
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    await look();
    if (event.ctrlKey && !several.hidden) several.click();
    else list.querySelector("button.result")?.click();
  });
  arrowKeys(list, box);
  const label = make("label", { htmlFor: "search-box", className: "unseen" }, "Search the items");
  showDialog("search", "Search", [label, box, make("div", { className: "row wrap" }, several, status, keys), list]);
}

function when(iso) {
  const date = new Date(iso);
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString();
}

function eventNote(event) {
  if (event.kind === "skip") return "skipped";
  if (event.kind === "cannot_tell") return "cannot tell";
  if (event.kind === "none") return "none of these";
  if (event.kind === "multi_label") return setNote(event);
  const name = event.class === null ? `${shownName(event.class_name)} (removed)` : className(event.class);
  return event.kind === "not" ? `not ${name}` : name;
}

/** A multi-label answer in words; if it covers some classes only, also the classes it rules out. */
function setNote({ class_name: names, absent }) {
  const there = names.map(shownName).join(", ");
  if (names.length + absent.length >= state.classes.length) return there || "none of these";
  return [there, absent.length ? `not ${few(absent.map(shownName))}` : ""].filter(Boolean).join("; ");
}

function eventRow(event, mine) {
  const answer = make("span", { className: "answer", dir: "auto" }, eventNote(event));
  const about = [mine ? "" : event.person, when(event.at), event.undone ? "undone" : ""].filter(Boolean).join(" · ");
  const row = result(event.item, event, make("span", { className: "result-note" }, answer, make("span", { className: "meta" }, about)));
  row.classList.toggle("undone", event.undone);
  return row;
}

function disputeRow(dispute) {
  const { item, label, absent, answers } = dispute;
  const said = answers.map((each) => `${each.person}: ${each.class === null ? "cannot tell" : labelName(each.class, each.absent)}`);
  const answer = make("span", { className: "answer", dir: "auto" }, labelName(label, absent));
  const about = make("span", { className: "meta", dir: "auto" }, said.join(" · "));
  return result(item, dispute, make("span", { className: "result-note" }, answer, about));
}

/** Items without a majority class. */
export async function openDisputed() {
  const list = make("ul", { className: "results" });
  const status = make("p", { className: "note", role: "status" });
  arrowKeys(list);
  showDialog("disputed", "Disputed", [status, list]);
  try {
    const { items } = await get("/api/disputed");
    list.replaceChildren(...items.map(disputeRow));
    setText(status, items.length ? "People disagree on these items. The model learns the latest answer until another person, or a changed answer, decides. Choose an item to answer it." : "No disputed items.");
  } catch (error) {
    setText(status, error.message);
  }
}

export function openHistory() {
  const mine = make("input", { type: "checkbox", id: "history-mine", checked: true });
  const list = make("ul", { className: "results" });
  const status = make("p", { className: "note", role: "status" });
  const more = make("button", { type: "button", className: "quiet", hidden: true }, "Show earlier ones");
  let last = null;
  const load = async (fresh) => {
    const parameters = { person: mine.checked ? state.person : "", limit: PAGE };
    if (!fresh && last !== null) parameters.before = last;
    try {
      const { events } = await get("/api/history", parameters);
      if (fresh) list.replaceChildren();
      list.append(...events.map((each) => eventRow(each, mine.checked)));
      last = events.at(-1)?.saved ?? last;
      more.hidden = events.length < PAGE;
      setText(status, list.children.length ? "Choose one to answer it again." : "Nothing has been answered yet.");
    } catch (error) {
      setText(status, error.message);
    }
  };
  mine.addEventListener("change", () => load(true));
  more.addEventListener("click", () => load(false));
  arrowKeys(list);
  const filter = make("label", { className: "check-row", htmlFor: "history-mine", hidden: (state.progress?.people.length ?? 0) < 2 }, mine, "Only mine");
  showDialog("history", "History", [filter, status, list, more]);
  load(true);
}
