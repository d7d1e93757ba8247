// The guidelines beside the task. The server has made their HTML safe; it is parsed outside the page, where nothing
// runs, and the page's content security policy would also refuse a script.
import { byId, memory } from "./dom.js";
import { on, state } from "./state.js";

function draw() {
  const box = byId("guidelines");
  box.hidden = !state.guidelines;
  if (box.hidden) return;
  const parsed = new DOMParser().parseFromString(state.guidelines, "text/html");
  for (const link of parsed.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noreferrer";
  }
  byId("guidelines-text").replaceChildren(...parsed.body.childNodes);
}

export function startGuidelines() {
  const box = byId("guidelines");
  box.open = memory.get("guidelines") !== "closed";
  box.addEventListener("toggle", () => memory.set("guidelines", box.open ? null : "closed"));
  on("session", draw);
}
