// The export dialog: labels, answers, predictions and the model as files.
import { get } from "./api.js";
import { showDialog } from "./dialogs.js";
import { make, setText } from "./dom.js";
import { state } from "./state.js";

const TABLES = [
  ["labels", "Labels", "one row per item"],
  ["answers", "Answers", "every answer of every person"],
  ["predictions", "Predictions", "probabilities of all unlabelled items"],
  ["all", "Labels and predictions", "one table: label, who gave it, and the model's probability"],
  ["test", "Test set", "its labels and the model's predictions; the model never learns from them"],
];

function nameOf(response) {
  const header = response.headers.get("content-disposition") ?? "";
  const encoded = /filename\*=utf-8''([^;]+)/i.exec(header);
  if (encoded) return decodeURIComponent(encoded[1]);
  return /filename="?([^";]+)"?/i.exec(header)?.[1] ?? "everylabel";
}

function keep(file, name) {
  const address = URL.createObjectURL(file);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Fetches before saving: a plain link would hide an error. */
async function fetchFile(address, status) {
  setText(status, "Preparing …");
  try {
    const response = await fetch(address, { cache: "no-store" });
    if (response.ok) {
      keep(await response.blob(), nameOf(response));
      setText(status, `Saved ${nameOf(response)}`);
    } else {
      const reply = await response.json().catch(() => null);
      setText(status, `Not possible: ${reply?.error?.message ?? `status ${response.status}`}`);
    }
  } catch {
    setText(status, "The server does not answer.");
  }
}

function link(address, text, title, status) {
  const anchor = make("a", { href: address, className: "download", "aria-label": title }, text);
  anchor.addEventListener("click", (event) => {
    event.preventDefault();
    fetchFile(address, status);
  });
  return anchor;
}

function row(title, note, links) {
  const about = make("div", {}, make("h3", {}, title), make("p", { className: "note" }, note));
  return make("section", { className: "export-row" }, about, make("div", { className: "downloads" }, ...links));
}

function rows(formats, status) {
  const offered = TABLES.filter(([what]) => what !== "test" || state.progress?.test);
  const tables = offered.map(([what, title, note]) => {
    const named = { ...formats.tables, ...(what === "answers" ? formats.answers : {}) };
    const address = (format) => `/api/export?what=${what}&format=${format}`;
    const links = Object.entries(named).map(([format, name]) => link(address(format), name, `${title} as ${name}`, status));
    return row(title, note, links);
  });
  const models = Object.entries(formats.models).map(([format, name]) => link(`/api/model?format=${format}`, name, `Model: ${name}`, status));
  return [...tables, row("Model", "to use elsewhere", models)];
}

export async function openExport() {
  const status = make("p", { className: "note", role: "status" });
  const body = make("div", {});
  showDialog("export", "Export", [body, status]);
  try {
    body.replaceChildren(...rows(await get("/api/formats"), status));
  } catch (error) {
    setText(status, error.message);
  }
}
