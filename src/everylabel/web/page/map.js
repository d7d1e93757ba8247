// The map of the pool in two dimensions. Keys replace the mouse: arrows move from point to point, Enter opens one.
import { jump } from "./actions.js";
import { get, post } from "./api.js";
import { closeDialog, showDialog } from "./dialogs.js";
import { count, make, settle, toast } from "./dom.js";
import { itemNote } from "./results.js";
import { openSeveral } from "./several.js";
import { classColour, isPartial, shownName, state } from "./state.js";

const MARGIN = 18;
const REACH = 14; // pixels around a point that still select it
const LEGEND = 20;
const MOST = 500; // items labelled at once
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Whether a point lies inside a polygon: a ray from it crosses the border an odd number of times. */
function contains(polygon, [x, y]) {
  let inside = false;
  polygon.forEach(([ax, ay], i) => {
    const [bx, by] = polygon.at(i - 1);
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  });
  return inside;
}

class Scatter {
  constructor(canvas, card, data) {
    Object.assign(this, { canvas, card, data, zoom: 1, shiftX: 0, shiftY: 0, active: -1, known: new Map() });
    Object.assign(this, { lasso: null, drawing: false, chosen: new Set() });
    this.showSoon = settle((index) => this.showCard(index), 60);
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerdown", (event) => this.grab(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => this.activate(-1));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(canvas);
  }

  place(i) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const x = MARGIN + this.data.x[i] * (width - 2 * MARGIN);
    const y = MARGIN + (1 - this.data.y[i]) * (height - 2 * MARGIN);
    return [x * this.zoom + this.shiftX, y * this.zoom + this.shiftY];
  }

  /** The colour of a labelled item; answers that only rule classes out leave it to the guess. */
  colourOf(i) {
    const { label, absent, guess } = this.data;
    const open = isPartial(label[i], absent[i]) && !label[i].length;
    return classColour(open ? guess[i] : label[i]);
  }

  draw() {
    const { canvas, data } = this;
    const scale = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const styles = getComputedStyle(canvas);
    const ink = styles.color;
    const size = data.ids.length > 2000 ? 2.2 : 3;
    pen.globalAlpha = 0.55;
    for (let i = 0; i < data.ids.length; i += 1) if (data.label[i] === null) this.dot(pen, i, size, classColour(data.guess[i]));
    pen.globalAlpha = 1;
    for (let i = 0; i < data.ids.length; i += 1) if (data.label[i] !== null) this.dot(pen, i, size + 2, this.colourOf(i), ink);
    for (const i of this.chosen) this.dot(pen, i, size + 4, null, ink);
    if (this.lasso) {
      pen.beginPath();
      this.lasso.forEach(([x, y]) => pen.lineTo(x, y));
      pen.closePath();
      pen.lineWidth = 1.5;
      pen.strokeStyle = ink;
      pen.stroke();
    }
    if (this.active >= 0) this.dot(pen, this.active, size + 5, null, styles.accentColor);
  }

  dot(pen, i, radius, fill, ring) {
    const [x, y] = this.place(i);
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    if (fill) {
      pen.fillStyle = fill;
      pen.fill();
    }
    if (ring) {
      pen.lineWidth = fill ? 1.5 : 2.5;
      pen.strokeStyle = ring;
      pen.stroke();
    }
  }

  nearest(x, y, reach) {
    let best = -1;
    let least = reach * reach;
    for (let i = 0; i < this.data.ids.length; i += 1) {
      const [px, py] = this.place(i);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  activate(index) {
    if (index === this.active) return;
    this.active = index;
    this.canvas.style.cursor = index >= 0 ? "pointer" : "default";
    this.draw();
    this.showSoon(index);
  }

  hover(event) {
    if (this.lasso) {
      this.lasso.push([event.offsetX, event.offsetY]);
      this.draw();
    } else if (this.held) {
      const moved = Math.hypot(event.offsetX - this.held.x, event.offsetY - this.held.y);
      if (moved > 4) this.held.dragged = true;
      this.shiftX = this.held.shiftX + event.offsetX - this.held.x;
      this.shiftY = this.held.shiftY + event.offsetY - this.held.y;
      this.draw();
    } else this.activate(this.nearest(event.offsetX, event.offsetY, REACH));
  }

  grab(event) {
    this.canvas.setPointerCapture(event.pointerId);
    if (event.shiftKey || this.drawing) {
      this.lasso = [[event.offsetX, event.offsetY]];
      return;
    }
    this.held = { x: event.offsetX, y: event.offsetY, shiftX: this.shiftX, shiftY: this.shiftY, dragged: false };
  }

  release(event) {
    if (this.lasso) {
      const inside = this.data.ids.map((_, i) => i).filter((i) => contains(this.lasso, this.place(i)));
      this.lasso = null;
      this.draw();
      this.together(inside);
      return;
    }
    const { dragged } = this.held ?? { dragged: true };
    this.held = null;
    if (dragged) return;
    const reach = event.pointerType === "touch" ? 2 * REACH : REACH;
    const index = this.nearest(event.offsetX, event.offsetY, reach);
    if (index >= 0) this.open(index);
  }

  wheel(event) {
    event.preventDefault();
    const zoom = Math.min(40, Math.max(1, this.zoom * Math.exp(-event.deltaY / 400)));
    const factor = zoom / this.zoom;
    this.shiftX = zoom === 1 ? 0 : event.offsetX - (event.offsetX - this.shiftX) * factor;
    this.shiftY = zoom === 1 ? 0 : event.offsetY - (event.offsetY - this.shiftY) * factor;
    this.zoom = zoom;
    this.draw();
  }

  key(event) {
    const direction = DIRECTIONS[event.key];
    if (direction) {
      event.preventDefault();
      const here = this.active >= 0 ? this.place(this.active) : [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
      const next = this.active >= 0 ? this.beside(here, direction) : this.nearest(...here, Infinity);
      if (next >= 0) this.activate(next);
    } else if (event.key === " " && this.active >= 0) {
      event.preventDefault();
      if (!this.chosen.delete(this.active)) this.chosen.add(this.active);
      this.draw();
    } else if (event.key === "Enter" && this.chosen.size) {
      event.preventDefault();
      this.together([...this.chosen]);
    } else if (event.key === "Enter" && this.active >= 0) {
      event.preventDefault();
      this.open(this.active);
    }
  }

  /** The nearest point in a direction; sideways distance counts three times. */
  beside([x, y], [dx, dy]) {
    let best = -1;
    let least = Infinity;
    for (let i = 0; i < this.data.ids.length; i += 1) {
      const [px, py] = this.place(i);
      const ahead = (px - x) * dx + (py - y) * dy;
      const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (i === this.active || ahead < 0.5 || aside > 2 * ahead) continue;
      if (ahead + 3 * aside < least) [best, least] = [i, ahead + 3 * aside];
    }
    return best;
  }

  open(index) {
    const id = this.data.ids[index];
    closeDialog();
    jump(id);
  }

  /** Opens the unlabelled ones among several items, to label them at once. */
  async together(indices) {
    const ids = indices.filter((i) => this.data.label[i] === null).map((i) => this.data.ids[i]);
    if (!ids.length) return;
    try {
      const { items } = await post("/api/queues/shown", { items: ids.slice(0, MOST) });
      const note = ids.length > MOST ? `${count(ids.length)} were inside; these are the first.` : "";
      openSeveral("Chosen on the map", items, { note });
    } catch (error) {
      toast(error.message, { problem: true });
    }
  }

  async showCard(index) {
    const { card, data } = this;
    if (index < 0) {
      card.hidden = true;
      return;
    }
    const id = data.ids[index];
    if (!this.known.has(id)) this.known.set(id, get(`/api/items/${encodeURIComponent(id)}`).catch(() => null));
    const found = await this.known.get(id);
    if (index !== this.active) return;
    card.replaceChildren(...cardContents(found, data.label[index], data.absent[index], data.guess[index]));
    card.hidden = false;
    const [x, y] = this.place(index);
    card.style.left = `${Math.max(8, Math.min(x + 16, this.canvas.clientWidth - card.offsetWidth - 8))}px`;
    card.style.top = `${y + card.offsetHeight + 24 > this.canvas.clientHeight ? Math.max(8, y - card.offsetHeight - 14) : y + 14}px`;
  }
}

function cardContents(found, label, absent, guess) {
  const parts = [];
  const item = found?.item;
  if (item?.image) parts.push(make("img", { src: item.image, alt: "", className: item.pixelated ? "pixelated" : "" }));
  if (item) parts.push(make("p", { dir: "auto" }, item.text ? item.text.slice(0, 180) : `Item ${item.name}`));
  const where = found?.state ?? (label === null ? "free" : "labelled");
  parts.push(make("p", { className: "meta", dir: "auto" }, itemNote({ id: item?.id, state: where, label: found?.label ?? label, absent: found?.absent ?? absent, guess })));
  return parts;
}

function legend(data) {
  const used = state.classes.map((each) => [each, data.guess.filter((guess) => guess === each.id).length]);
  used.sort((a, b) => b[1] - a[1]);
  const shown = used.length > LEGEND ? used.slice(0, LEGEND) : state.classes.map((each) => [each]);
  const entries = shown.map(([each]) => {
    const patch = make("span", { className: "patch", "aria-hidden": "true" });
    patch.style.background = classColour(each.id);
    return make("li", {}, patch, make("span", { dir: "auto" }, shownName(each.name)));
  });
  if (used.length > LEGEND) entries.push(make("li", { className: "meta" }, `and ${count(used.length - LEGEND)} more`));
  return make("ul", { className: "map-legend", "aria-label": "Colours of the classes" }, ...entries);
}

export async function openMap() {
  const status = make("p", { className: "note", role: "status" }, "Drawing …");
  const body = make("div", { className: "map-body" }, status);
  let scatter = null;
  const dialog = showDialog("map", "Map", [body], { closed: () => scatter?.observer.disconnect() });
  try {
    const data = await get("/api/map");
    if (!dialog.open) return;
    const labelled = data.label.filter((label) => label !== null).length;
    const name =
      `Map of ${count(data.ids.length)} items, ${count(labelled)} labelled. ` +
      "Arrow keys walk from item to item, Enter opens one; Space chooses several, and Enter labels them together. Search finds items by their text.";
    const canvas = make("canvas", { tabIndex: 0, role: "application", "aria-label": name, className: "scatter" });
    const card = make("div", { className: "map-card", hidden: true, "aria-live": "polite" });
    const frame = make("div", { className: "map-frame" }, canvas, card);
    const method = data.method === "umap" ? "UMAP" : "principal components";
    status.textContent =
      `${count(data.ids.length)} items by ${method}, coloured by the predicted class; a ring marks a label. ` +
      "Click an item to label it. Scroll to zoom, drag to move. Hold Shift and drag round items to label them together.";
    const draw = make("button", { type: "button", className: "quiet", "aria-pressed": "false" }, "Draw round items");
    draw.addEventListener("click", () => {
      scatter.drawing = !scatter.drawing;
      draw.setAttribute("aria-pressed", String(scatter.drawing));
    });
    body.replaceChildren(frame, legend(data), status, draw);
    scatter = new Scatter(canvas, card, data);
    canvas.focus();
  } catch (error) {
    status.textContent = error.message;
  }
}
