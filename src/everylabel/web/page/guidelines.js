// What the labellers are told to do, beside the task. The server has made it safe; here it is parsed apart from the
// page, where nothing runs, and the page's policy would refuse a script besides.
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
