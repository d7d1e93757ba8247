// Items as rows of a list.
import { jump } from "./actions.js";
import { closeDialog } from "./dialogs.js";
import { make } from "./dom.js";
import { className, isPartial, labelName, state } from "./state.js";

/** A thumbnail of the whole picture; a picture with fewer pixels keeps hard edges. */
export function thumbnail(url) {
  if (!url) return null;
  const picture = make("img", { className: "thumb", alt: "", loading: "lazy" });
  picture.addEventListener("load", () => picture.classList.toggle("pixelated", picture.naturalWidth < picture.clientWidth));
  picture.src = url;
  return picture;
}

/** An item's label or, without one, the model's guess. */
export function itemNote(item) {
  if (item.state === "labelled") return item.label === null ? "labelled" : labelNote(item);
  if (item.state === "cannot_tell") return "cannot tell";
  if (item.state === "out") return item.id === state.task?.item.id ? "you have it open" : "open on another screen";
  // A guess shown here would give a random check away.
  const hidden = item.guess === null || state.hideProbabilities || state.checked.has(item.id);
  return hidden ? "" : `guess: ${className(item.guess)}`;
}

/** An item's label, and whether it leaves classes unanswered. */
export function labelNote({ label, absent }) {
  return `${isPartial(label, absent) ? "partly answered:" : "labelled"} ${labelName(label, absent)}`;
}

/** A row that opens the item, with `note` beside it. */
export function result(id, { name, image, text }, note) {
  const content = make("span", { className: "result-text", dir: "auto" }, text ?? name);
  const button = make("button", { type: "button", className: "result", "data-item": id }, thumbnail(image), content, note);
  button.addEventListener("click", () => {
    closeDialog();
    jump(id);
  });
  return make("li", {}, button);
}

export function itemRow(item) {
  return result(item.id, item, make("span", { className: "result-note", dir: "auto" }, itemNote(item)));
}
