// The plot: drawn on a grid, and its sides in a list.

import { ask } from "./api.js";
import { $, made, refill, remover, svg } from "./elements.js";
import { t } from "./labels.js";
import {
  areaOf, between, boundaryOf, crosses, entranceOf, fitting, fromGeoJson, nearestSide, noPlot, PRESETS, rounded, sidesOf,
  withLength,
} from "./plot.js";

const EDGE = 2.2; // metres around the plot
const OPEN = [[1.2, 1.2], [12.8, 8.8]]; // seen until the outline is closed, so that a corner stays where it was clicked
const HIT = 0.6; // metres from a corner or a side that a click still means it
const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class PlotPanel {
  constructor(state, say) {
    Object.assign(this, { state, say, drag: null, focused: null, picture: null });
    this.svg = $("plot-board");
    for (const [name, corners] of Object.entries(PRESETS)) {
      $("preset").append(made("option", { value: JSON.stringify(corners) }, name));
    }
    const heard = {
      preset: ({ value }) => {
        this.#take(value === "none" ? [] : JSON.parse(value));
        $("preset").value = "";
      },
      ratio: ({ value }) => this.#change((plot) => { plot.ratio = value ? Number(value) : null; }),
      north: ({ value }) => this.#change((plot) => { plot.north = value === "" ? null : ((Number(value) % 360) + 360) % 360; }),
      "plot-file": (input) => this.#upload(input),
      "trace-file": (input) => this.#trace(input),
      "trace-width": () => this.#draw(),
    };
    for (const [id, does] of Object.entries(heard)) $(id).addEventListener("change", ({ target }) => does(target));
    $("close-plot").addEventListener("click", () => this.#change((plot) => { plot.closed = true; }));
    $("no-plot").addEventListener("click", () => this.#take([]));
    $("end-trace").addEventListener("click", () => this.#setPicture(null));
    this.svg.addEventListener("pointerdown", (event) => this.#down(event));
    this.svg.addEventListener("pointermove", (event) => this.#move(event));
    this.svg.addEventListener("pointerup", (event) => this.#up(event));
    this.svg.addEventListener("pointercancel", () => { this.drag = null; this.#draw(); });
    this.svg.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.svg);
  }

  get #step() { return Number($("snap").value); }

  #change(edit) { this.state.change((doc) => edit(doc.plot)); }

  #take(corners) {
    const { north, ratio } = this.state.now.plot;
    this.#change((plot) => Object.assign(plot, noPlot(), { corners, closed: corners.length > 0, north, ratio }));
  }

  async #upload(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    try {
      const text = await file.text();
      const corners = /\.dxf$/i.test(file.name) ? fitting((await ask("plot", { dxf: text })).corners) : fromGeoJson(text);
      this.#take(corners);
      this.say(t("plot-read", { area: areaOf(corners).toFixed(1) }));
    } catch (error) { this.say(t(error.message), true); }
  }

  /** A picture below the plot, for this visit. */
  async #trace(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    const picture = new Image();
    picture.src = URL.createObjectURL(file);
    try {
      await picture.decode();
      this.#setPicture(picture);
    } catch { this.say(t("trace-none", { name: file.name }), true); }
  }

  #setPicture(picture) {
    if (this.picture) URL.revokeObjectURL(this.picture.src);
    this.picture = picture;
    $("traced").hidden = !picture;
    this.#draw();
  }

  /** Width and height of the picture, in metres. */
  get #traced() {
    const width = Number($("trace-width").value) || 20;
    return [width, (width * this.picture.naturalHeight) / this.picture.naturalWidth];
  }

  // -- with the pointer

  #point(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return [at.x, at.y].map((value) => rounded(value, this.#step));
  }

  #down(event) {
    const { corners } = this.state.now.plot, point = this.#point(event);
    const corner = corners.findIndex((each) => between(each, point) < HIT);
    event.preventDefault();
    if (corner >= 0) {
      this.drag = { corner, corners, isMoved: false };
      this.svg.setPointerCapture(event.pointerId);
    } else this.drag = { point };
  }

  #move(event) {
    if (!this.drag || this.drag.point) return;
    const point = this.#point(event), { corner } = this.drag;
    if (between(point, this.drag.corners[corner]) === 0) return;
    this.drag.isMoved = true;
    this.drag.corners = this.drag.corners.map((each, k) => (k === corner ? point : each));
    this.#draw(this.drag.corners);
  }

  #up(event) {
    const { drag } = this, { corners, closed } = this.state.now.plot;
    this.drag = null;
    if (!drag) return;
    if (drag.isMoved) return this.#change((plot) => { plot.corners = drag.corners; });
    if (drag.corner === 0 && !closed && corners.length > 2) return this.#change((plot) => { plot.closed = true; });
    if (drag.corner !== undefined) {
      this.focused = drag.corner;
      return this.#focus();
    }
    const point = this.#point(event);
    if (!closed) return this.#change((plot) => plot.corners.push(point));
    const { side, at, distance } = nearestSide(corners, point);
    if (distance < HIT) this.#change((plot) => { plot.entrance = { side, at: rounded(at, 0.1) }; });
  }

  // -- with keys: arrows move a corner, Delete takes it out

  #key(event) {
    const corner = Number(event.target.dataset?.corner ?? NaN);
    if (!Number.isInteger(corner)) return;
    if (WAYS[event.key]) {
      const step = this.#step * (event.shiftKey ? 5 : 1);
      this.#change((plot) => {
        plot.corners[corner] = plot.corners[corner].map((value, axis) => rounded(value + step * WAYS[event.key][axis]));
      });
    } else if (event.key === "Delete" || event.key === "Backspace") this.#removeCorner(corner);
    else if (event.key === "Enter" && corner === 0 && this.state.now.plot.corners.length > 2) {
      this.#change((plot) => { plot.closed = true; });
    } else return;
    event.preventDefault();
    event.stopPropagation();
    this.focused = Math.min(corner, this.state.now.plot.corners.length - 1);
    this.#focus();
  }

  #focus() { this.svg.querySelector(`[data-corner="${this.focused}"]`)?.focus(); }

  #removeCorner(corner) {
    this.#change((plot) => {
      plot.corners.splice(corner, 1);
      plot.entrance = null;
      if (plot.corners.length < 3) plot.closed = false;
    });
  }

  // -- what is seen

  show() {
    const { plot } = this.state.now, { corners, closed } = plot;
    this.#draw();
    $("north").value = plot.north ?? "";
    $("ratio").value = plot.ratio ?? "";
    $("free-outline").hidden = corners.length > 0;
    $("close-plot").hidden = closed || corners.length < 3;
    $("no-plot").disabled = !corners.length;
    const isWrong = closed && crosses(corners);
    $("plot-said").textContent = !corners.length ? t("plot-none") : !closed ? t("plot-open")
      : isWrong ? t("plot-crosses") : t("plot-area", { area: areaOf(corners).toFixed(1) });
    $("plot-said").classList.toggle("wrong", isWrong);
    refill($("sides"), closed ? sidesOf(corners).map((side, k) => this.#row(side, k)) : []);
  }

  #row([a, b], k) {
    const { corners, entrance } = this.state.now.plot, length = between(a, b), number = k + 1;
    const isHere = entrance?.side === k;
    const row = made("li", { className: isHere ? "chosen" : "" },
      made("span", { className: "number" }, String(number)),
      made("input", {
        type: "number", min: 0.5, max: 200, step: 0.1, value: rounded(length), ariaLabel: t("side-length", { number }),
        on: { change: ({ target }) => this.#change((plot) => { plot.corners = withLength(plot.corners, k, Number(target.value)); }) },
      }), "m", made("span", { className: "space" }),
      made("button", {
        className: "pill", ariaPressed: String(isHere), ariaLabel: t("entrance-on-side", { number }),
        on: { click: () => this.#change((plot) => { plot.entrance = isHere ? null : { side: k, at: rounded(length / 2, 0.1) }; }) },
      }, t("entrance")),
      made("button", {
        className: "x", ariaLabel: t("split-side", { number }), title: t("split-side", { number }),
        on: { click: () => this.#change((plot) => {
          plot.corners.splice(k + 1, 0, [0, 1].map((axis) => rounded((a[axis] + b[axis]) / 2)));
          plot.entrance = null;
        }) },
      }, "+"),
      corners.length > 3 ? remover(t("corner", { number }), () => this.#removeCorner(k)) : "");
    if (isHere) {
      row.append(made("label", { className: "under" }, t("entrance-at"), made("input", {
        type: "number", min: 0, max: rounded(length), step: 0.1, value: entrance.at, ariaLabel: t("entrance-at-label"),
        on: { change: ({ target }) => this.#change((plot) => {
          plot.entrance.at = Math.min(length, Math.max(0, Number(target.value) || 0));
        }) },
      }), "m"));
    }
    return row;
  }

  #view(corners) {
    const seen = [...corners, ...(this.state.now.plot.closed ? [] : OPEN), ...(this.picture ? [[0, 0], this.#traced] : [])];
    const [low, high] = [Math.min, Math.max].map((most) => [0, 1].map((axis) => most(...seen.map((point) => point[axis]))));
    const size = [0, 1].map((axis) => high[axis] - low[axis] + 2 * EDGE);
    return [low[0] - EDGE, low[1] - EDGE, ...size];
  }

  #draw(corners = this.state.now.plot.corners) {
    const { plot } = this.state.now, { closed, north } = plot;
    if (!this.drag) this.view = this.#view(corners);
    const [x, y, width, height] = this.view;
    const px = Math.max(width / (this.svg.clientWidth || 520), height / (this.svg.clientHeight || 420)); // metres of a pixel
    this.svg.setAttribute("viewBox", this.view.join(" "));
    const box = { x: x - 50, y: y - 50, width: width + 100, height: height + 100 };
    const parts = [svg("rect", { ...box, class: "grid" })];
    if (this.picture) {
      const [wide, high] = this.#traced;
      parts.push(svg("image", { href: this.picture.src, width: wide, height: high, opacity: 0.55, preserveAspectRatio: "none" }));
    }
    if (corners.length) {
      const points = corners.map((corner) => corner.join(",")).join(" ");
      parts.push(svg(closed ? "polygon" : "polyline", { points, class: closed && crosses(corners) ? "outline wrong" : "outline" }));
    }
    (closed ? sidesOf(corners) : sidesOf(corners).slice(0, -1)).forEach(([a, b], k) => {
      const length = between(a, b) || 1, isEntered = closed && plot.entrance?.side === k;
      const share = isEntered ? (plot.entrance.at < length / 2 ? 0.75 : 0.25) : 0.5; // beside the entrance
      const way = [(b[1] - a[1]) / length, (a[0] - b[0]) / length].map((value) => value * this.#turn(corners));
      const [x0, y0] = [0, 1].map((axis) => a[axis] + share * (b[axis] - a[axis]));
      const label = svg("text", { x: x0 + 25 * px * way[0], y: y0 + 14 * px * way[1], "font-size": 12 * px });
      label.textContent = `${rounded(length)} m`;
      parts.push(label);
    });
    parts.push(...this.#entrance({ ...plot, corners }, px), ...(north === null ? [] : this.#compass(north, px)));
    corners.forEach(([cx, cy], k) => parts.push(svg("circle", {
      cx, cy, r: 6 * px, class: "corner", tabindex: 0, role: "button", "data-corner": k,
      "aria-label": t("corner-at", { number: k + 1, x: cx, y: cy }),
    })));
    this.svg.replaceChildren(...this.svg.querySelectorAll("defs"), ...parts);
  }

  /** 1 if the corners go round clockwise, else -1. */
  #turn(corners) {
    return sidesOf(corners).reduce((sum, [[x1, y1], [x2, y2]]) => sum + x1 * y2 - x2 * y1, 0) >= 0 ? 1 : -1;
  }

  #entrance(plot, px) {
    const place = entranceOf(plot);
    if (!place) return [];
    const [a, b] = sidesOf(plot.corners)[plot.entrance.side], length = between(a, b) || 1;
    const along = [0, 1].map((axis) => (b[axis] - a[axis]) / length);
    const out = [along[1], -along[0]].map((value) => value * this.#turn(plot.corners));
    const tip = (far, aside) => [0, 1].map((axis) => place[axis] + px * (far * out[axis] + aside * along[axis])).join(",");
    return [svg("polygon", { points: [tip(2, 0), tip(18, 9), tip(18, -9)].join(" "), class: "entrance" })];
  }

  #compass(north, px) {
    const [x, y, width] = this.view, size = 16 * px;
    const at = `translate(${x + width - 1.6 * size} ${y + 1.6 * size}) rotate(${north}) scale(${size})`;
    const needle = svg("g", { transform: at, class: "compass" });
    const letter = svg("text", { x: 0, y: 0.5, "font-size": 0.8 });
    letter.textContent = "N";
    needle.append(svg("path", { d: "M0,-1 L.45,0 L-.45,0 Z" }), letter);
    return [needle];
  }
}

/** Corners for a request, or {ratio}, or nothing; throws an error where the plot is none. */
export function outlineAsked(plot) {
  const sun = plot.north === null ? {} : { north: plot.north }, door = entranceOf(plot);
  if (!plot.corners.length) return { ...sun, ...(plot.ratio ? { ratio: plot.ratio } : {}) };
  const boundary = boundaryOf(plot);
  if (!boundary) throw new Error(t(plot.closed ? "plot-crosses" : "plot-not-closed"));
  return { boundary, ...sun, ...(door ? { front_door: door } : {}) };
}
