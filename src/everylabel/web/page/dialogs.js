// One dialog at a time, by the browser's own <dialog>: it traps and restores the focus, and Escape closes it.
import { make } from "./dom.js";

let open = null;
let opener = null; // the element that had the focus before, and gets it again

// The close event comes a moment later; keys pressed meanwhile are already for the page.
export const dialogOpen = () => open !== null && open.open;

/** Whether a dialog has just restored the focus to this element: Space then skips instead of opening it again. */
export const gaveBack = (element) => element === opener && !dialogOpen();

addEventListener("focusout", (event) => {
  if (!dialogOpen() && event.target === opener) opener = null;
});

export function closeDialog() {
  open?.close();
}

/** Shows a dialog with a title and contents. `name` marks it for styles; `closed` runs after it closes. `keep` runs before:
 * if it returns true the dialog stays open, because something would be lost. */
export function showDialog(name, title, contents, { closed, keep } = {}) {
  closeDialog();
  const heading = make("h2", { id: "dialog-title", tabIndex: -1 }, title);
  const close = make("button", { type: "button", className: "close", "aria-label": "Close" }, "×");
  const body = make("div", { className: "dialog-body" }, ...contents);
  const dialog = make("dialog", { className: `dialog ${name}`, "aria-labelledby": "dialog-title" });
  const live = make("div", { className: "live unseen", "aria-live": "polite", "aria-atomic": "true" });
  dialog.append(make("div", { className: "dialog-head" }, heading, close), body, live);
  const leave = () => {
    if (!keep?.()) dialog.close();
  };
  close.addEventListener("click", leave);
  dialog.addEventListener("pointerdown", (event) => {
    if (event.target === dialog) leave(); // the backdrop
  });
  dialog.addEventListener("cancel", (event) => {
    if (event.target === dialog && keep?.()) event.preventDefault(); // Escape
  });
  dialog.addEventListener("close", () => {
    if (open === dialog) open = null;
    dialog.remove();
    closed?.();
  });
  document.body.append(dialog);
  open = dialog;
  opener = document.activeElement;
  dialog.showModal();
  const still = !body.querySelector("a, button, input, select, summary, textarea");
  if (still && body.scrollHeight > body.clientHeight) body.tabIndex = 0; // so that keys can scroll it
  (body.querySelector("[autofocus]") ?? heading).focus(); // screen readers read the title; Tab continues from there
  return dialog;
}

/** Up and down move through the buttons of a list, or through the elements that `stop` selects. */
export function arrowKeys(list, before, stop = "button.result") {
  const move = (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const stops = [...(before ? [before] : []), ...list.querySelectorAll(stop)];
    const here = stops.indexOf(document.activeElement);
    const next = stops[here + (event.key === "ArrowDown" ? 1 : -1)];
    if (here < 0 || !next) return;
    event.preventDefault();
    next.focus();
  };
  list.addEventListener("keydown", move);
  before?.addEventListener("keydown", move);
}
