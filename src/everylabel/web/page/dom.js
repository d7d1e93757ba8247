// Small helpers for building the page. Text is always inserted as text: no helper sets markup.

/** An element with properties, attributes ("aria-…", "data-…", role …) and children (nodes or text). */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Sets text only when it differs, so that screen readers do not repeat it. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const whole = new Intl.NumberFormat("en");

export const count = (number) => whole.format(number);

export const plural = (number, word, words = `${word}s`) => `${count(number)} ${number === 1 ? word : words}`;

export const percent = (share) => `${Math.round(100 * share)}\u00a0%`;

export const range = (low, high) => `${Math.round(100 * low)}–${Math.round(100 * high)}\u00a0%`;

/** Long names break after a joint (_ - . /) rather than anywhere. */
export function breakable(name) {
  return name.match(/.+?(?:[_\-./]+|$)/gsu).flatMap((part, i) => (i ? [make("wbr"), part] : [part]));
}

export function milliseconds(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms >= 100 ? Math.round(ms) : ms.toFixed(1)} ms`;
}

/** Calls `action` once, `wait` ms after the last call, but not later than `longest` ms after the first. */
export function settle(action, wait, longest = Infinity) {
  let timer = 0;
  let first = null;
  return (...values) => {
    const now = performance.now();
    first ??= now;
    clearTimeout(timer);
    const act = () => {
      first = null;
      action(...values);
    };
    timer = setTimeout(act, Math.max(0, Math.min(wait, first + longest - now)));
  };
}

/** Settings stored in this browser; silently none where storage is blocked. */
export const memory = {
  get(name) {
    try {
      return localStorage.getItem(`everylabel.${name}`);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(`everylabel.${name}`);
      else localStorage.setItem(`everylabel.${name}`, value);
    } catch {
      // Nothing to do: the page works without storage.
    }
  },
};

/** Announces a message to screen readers: in the open dialog, if any, as the page behind it is inert. */
export function announce(text) {
  setText([...document.querySelectorAll(".live")].at(-1), text);
}

/** Shows a short message; problems stay longer, because people have to read them. */
export function toast(text, { problem = false } = {}) {
  const close = make("button", { type: "button", className: "toast-close", "aria-label": "Dismiss" }, "×");
  const message = make("div", { className: problem ? "toast problem" : "toast" }, make("p", { dir: "auto" }, text), close);
  const gone = () => message.remove();
  close.addEventListener("click", gone);
  setTimeout(gone, problem ? 9000 : 3500);
  const toasts = byId("toasts");
  while (toasts.children.length >= 3) toasts.firstChild.remove();
  toasts.append(message);
}

const palette = ["#2f7fc1", "#d9822b", "#3f9b57", "#c44f52", "#8568b5", "#8c6b5a", "#d272ab", "#77807f", "#a59b2c", "#2aa5b5"];

/** The default colour of a class by its number; beyond ten, hues a golden angle apart. */
export function colour(number) {
  if (number === null || number === undefined || number < 0) return "#8b8f94";
  if (number < palette.length) return palette[number];
  return hex((number * 137.508) % 360, 0.45 + (number % 3) * 0.15, 0.48 + (number % 4) * 0.05);
}

/** Converts hue in degrees, saturation and lightness to "#rrggbb", as colour inputs need it. */
function hex(hue, saturation, lightness) {
  const part = (offset) => {
    const k = (offset + hue / 30) % 12;
    const share = lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * share).toString(16).padStart(2, "0");
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}
