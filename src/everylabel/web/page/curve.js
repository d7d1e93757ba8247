// The learning curve: the model's own expected accuracy, and its accuracy on the unlabelled items.
import { make, percent, plural, range } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const BOX = { width: 300, height: 150, left: 34, right: 6, top: 8, bottom: 22 };
const MOST_POINTS = 160;
const FEWEST_CHECKS = 20; // with fewer, a line would look too certain, so only the band is drawn

function shape(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Thins the points to a maximum, always keeping the last one. */
function thin(points) {
  const step = Math.ceil(points.length / MOST_POINTS);
  return points.filter((_, i) => (points.length - 1 - i) % step === 0);
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function axes(svg, x, y, most) {
  for (const share of [0, 0.5, 1]) {
    const height = y(share);
    svg.append(shape("line", { class: "grid", x1: BOX.left, x2: BOX.width - BOX.right, y1: height, y2: height }));
    svg.append(shape("text", { class: "tick-label", x: BOX.left - 6, y: height + 3.5, "text-anchor": "end" }, `${100 * share}`));
  }
  const attributes = { class: "tick-label", y: BOX.height - 5 };
  svg.append(shape("text", { ...attributes, x: BOX.left }, "0"));
  svg.append(shape("text", { ...attributes, x: x(most), "text-anchor": "end" }, plural(most, "label")));
}

function summary(points) {
  const last = points.at(-1);
  const checked = points.findLast((point) => point.accuracy !== null);
  const checks = checked ? `; random checks say ${range(checked.low, checked.high)} on unlabelled items` : "";
  return `After ${plural(last.labels, "label")} the model expects ${percent(last.expected)}${checks}.`;
}

/** Marks where the encoder was fine-tuned. */
function mark(svg, at, labels) {
  svg.append(shape("line", { class: "generation", x1: at, x2: at, y1: BOX.top, y2: BOX.height - BOX.bottom }));
  svg.lastChild.append(shape("title", {}, `Since label ${labels} the model reads your items better`));
}

function drawing(points, checked, sure, learned) {
  const most = Math.max(points.at(-1).labels, 1);
  const x = (labels) => BOX.left + ((BOX.width - BOX.left - BOX.right) * labels) / most;
  const y = (share) => BOX.top + (BOX.height - BOX.top - BOX.bottom) * (1 - share);
  const svg = shape("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": summary(points), class: "curve" });
  axes(svg, x, y, most);
  for (const labels of learned.filter((number) => number <= most)) mark(svg, x(labels), labels);
  if (checked.length > 1) {
    const upper = checked.map((point) => [x(point.labels), y(point.high)]);
    const lower = checked.map((point) => [x(point.labels), y(point.low)]).reverse();
    svg.append(shape("path", { class: "band", d: `${path([...upper, ...lower])}Z` }));
  }
  if (sure.length > 1) {
    svg.append(shape("path", { class: "checked", d: path(sure.map((point) => [x(point.labels), y(point.accuracy)])) }));
  }
  svg.append(shape("path", { class: "expected", d: path(points.map((point) => [x(point.labels), y(point.expected)])) }));
  return svg;
}

function legend(checked, sure, learned) {
  const entry = (kind, text) => make("li", { className: kind }, text);
  const entries = [entry("expected", "expected by the model, %")];
  if (sure.length > 1) entries.push(entry("checked", "by random checks, with interval"));
  else if (checked.length > 1) entries.push(entry("interval", "by random checks: the interval"));
  if (learned.length) entries.push(entry("generation", "the network was fine-tuned"));
  return make("ul", { className: "legend" }, ...entries);
}

export function drawCurve(box, curve, network) {
  const points = thin(curve.filter((point) => point.expected !== null));
  if (points.length < 2) {
    box.replaceChildren(make("p", { className: "note" }, "The curve appears after the first labels."));
    return;
  }
  const checked = points.filter((point) => point.accuracy !== null);
  const sure = checked.filter((point) => point.checks >= FEWEST_CHECKS);
  const learned = (network?.generations ?? []).filter((each) => each.trusted).map((each) => each.labels);
  box.replaceChildren(drawing(points, checked, sure, learned), legend(checked, sure, learned));
}
