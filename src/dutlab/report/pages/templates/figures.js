// Interactive figures: values under the pointer, zoom, axes, units, modes, a slider along the horizontal axis, a table.
// The numbers are in the JSON element next to the drawing. Without this script, as in print, only the drawing is shown.
"use strict";
(() => {
const NS = "http://www.w3.org/2000/svg", INK = "#1a2029", QUIET = "#59636f", GRID = "#e1e5ea", FAINT = "#98a1ab", PAPER = "#ffffff";
const figures = [];

const html = (tag, attributes = {}, ...inside) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
};
const drawn = (into, tag, attributes, text) => {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, typeof value === "number" ? +value.toFixed(2) : value);
  if (text !== undefined) made.textContent = text;
  into.append(made);
  return made;
};
// Adds thousands separators from five digits on, at axes from four.
const grouped = (text, most) => text.replace(/^(-?)(\d+)/, (_, sign, whole) => whole.length < most ? sign + whole : sign + whole.replace(/\B(?=(\d{3})+$)/g, "\u202f"));
// Digits as in tables: as many as half the spread allows, two of its digits if it begins with 1, else one.
const digitsOf = (p, most) => {
  const half = p.length > 2 ? (p[3] - p[2]) / 2 : 0, place = Math.floor(Math.log10(half));
  return half > 0 ? Math.min(most, -place + (half < 2 * 10 ** place ? 1 : 0)) : most;
};
const said = (value, digits) => {
  if (digits < 0) return grouped(String(Math.round(value * 10 ** digits) / 10 ** digits), 5);
  const fine = value && Math.abs(value) < 10 ** -digits;
  return grouped(fine ? value.toPrecision(2) : value.toFixed(digits), 5);
};
const short = (value) => grouped(String(+value.toPrecision(6)), 4);
const withUnit = (text, unit) => unit ? `${text} ${unit}` : text;

const ticksOf = (s) => {
  const out = [];
  if (s.log) {
    const steps = Math.log10(s.high / s.low) > 3 ? [1] : Math.log10(s.high / s.low) > 1.3 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
    for (let e = Math.floor(Math.log10(s.low)); e <= Math.log10(s.high); e++)
      for (const m of steps) if (m * 10 ** e >= s.low && m * 10 ** e <= s.high) out.push(m * 10 ** e);
    return out.length > 1 ? out : [s.low, s.high];
  }
  const rough = (s.high - s.low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((m) => m * power >= rough * 0.8);
  for (let n = Math.ceil(s.low / step - 1e-9); n <= s.high / step + 1e-9; n++) out.push(+(n * step).toPrecision(12));
  return out;
};
const along = (s, length) => (v) => length * (s.log ? Math.log(v / s.low) / Math.log(s.high / s.low) : (v - s.low) / (s.high - s.low));
const from = (s, length) => (at) => s.log ? s.low * (s.high / s.low) ** (at / length) : s.low + (at / length) * (s.high - s.low);

// Middles of texts in one line, as near to their places as possible; null without room.
const spreadWords = (ticks, low, high) => {
  const widths = ticks.map(([, words]) => words.length * 13 * 0.58 + 9), blocks = [];
  let offset = widths[0] / 2 || 0;
  const offsets = widths.map((w, n) => n ? offset += (widths[n - 1] + w) / 2 : offset), room = high - low - widths.reduce((a, b) => a + b, 0);
  if (room < 0) return null;
  ticks.forEach(([at], n) => {
    let total = at - low - offsets[n], count = 1;
    while (blocks.length && blocks.at(-1)[0] / blocks.at(-1)[1] > total / count) { const [t, c] = blocks.pop(); total += t; count += c; }
    blocks.push([total, count]);
  });
  return blocks.flatMap(([t, c]) => Array(c).fill(Math.min(Math.max(t / c, 0), room))).map((start, n) => low + start + offsets[n]);
};

class Figure {
  constructor(element, data) {
    this.element = element;
    this.data = data;
    this.picture = element.querySelector("svg");
    this.box = this.picture.getAttribute("viewBox").split(" ").map(Number);
    this.off = new Set();
    this.view = data.views[0];
    this.x = { low: data.x.low, high: data.x.high, log: data.x.log };
    this.log = null;
    this.at = null;
    this.tip = html("div", { class: "tip", hidden: "" });
    this.frame = html("div", { class: "frame" });
    this.picture.before(this.frame);
    this.frame.append(this.picture, this.tip);
    this.svg = this.picture;
    this.y = this.view;
    this.listen(this.picture);
    this.opener = html("button", { type: "button", class: "explore", "aria-expanded": "false" }, "Explore");
    this.opener.setAttribute("aria-label", `Explore: ${element.querySelector("h3").textContent}`);
    this.opener.addEventListener("click", () => this.open());
    this.frame.after(this.opener);
  }

  points(n) {
    return this.off.has(n) ? [] : this.view.points[n];
  }

  shown() {
    const low = Math.min(this.x.low, this.x.high), high = Math.max(this.x.low, this.x.high);
    return this.data.lines.map((_, n) => this.points(n).filter((p) => p[0] >= low && p[0] <= high && !(this.y.log && p[1] <= 0)));
  }

  places() {
    return [...new Set(this.shown().flat().map((p) => p[0]))].sort((a, b) => a - b);
  }

  words(x) {
    const tick = this.data.x.ticks.find(([at]) => Math.abs(at - x) < 1e-6 * (Math.abs(x) || 1));
    return tick ? tick[1] : short(x);
  }

  // Shows or hides the controls, which are made on first use.
  open() {
    const open = this.opener.getAttribute("aria-expanded") === "true";
    this.opener.setAttribute("aria-expanded", String(!open));
    this.controls ??= this.makeControls();
    this.controls.hidden = open;
    if (!open) this.draw();
  }

  makeControls() {
    const { data } = this, controls = html("div", { class: "controls" }), row = html("div", { class: "row" });
    const button = (words, act, pressed) => {
      const made = html("button", { type: "button" }, words);
      if (pressed !== undefined) made.setAttribute("aria-pressed", String(pressed));
      made.addEventListener("click", () => act(made));
      return made;
    };
    const toggle = (words, pressed, act) => button(words, (b) => {
      const now = b.getAttribute("aria-pressed") !== "true";
      b.setAttribute("aria-pressed", String(now));
      act(now);
      this.draw();
    }, pressed);
    const legend = html("div", { class: "row", role: "group", "aria-label": "Lines shown" });
    data.lines.forEach((line, n) => {
      const made = toggle("", true, (on) => on ? this.off.delete(n) : this.off.add(n));
      const mark = drawn(made, "svg", { viewBox: "-6 -6 12 12", class: "key", "aria-hidden": "true" });
      this.mark(mark, 0, 0, line, 4);
      made.append(line.label);
      legend.append(made);
    });
    controls.append(legend, row);
    if (data.views.length > 1) {
      const select = html("select", {}, ...data.views.map((v, n) => html("option", { value: n }, v.title)));
      select.addEventListener("change", () => { this.view = data.views[select.value]; this.log = null; this.draw(); });
      row.append(html("label", {}, "Unit ", select));
    }
    row.append(toggle("Log y", this.view.log, (on) => { this.log = on; }));
    this.logY = row.lastChild;
    if (!data.x.fixed && data.x.low > 0) row.append(toggle("Log x", data.x.log, (on) => { this.x.log = on; }));
    row.append(
      button("Zoom in", () => this.zoom(0.5)), button("Zoom out", () => this.zoom(2)),
      button("Whole", () => { [this.x.low, this.x.high] = [data.x.low, data.x.high]; this.draw(); }),
      toggle("Table", false, (on) => { this.tabled = on; }));
    this.slider = html("input", { type: "range", min: 0, step: 1, "aria-label": data.x.title });
    this.slider.addEventListener("input", () => this.everywhere(this.places()[this.slider.value]));
    controls.append(html("label", { class: "slide" }, data.x.title, this.slider));
    this.readout = html("div", { class: "readout" });
    controls.append(this.readout);
    this.opener.after(controls);
    return controls;
  }

  zoom(factor) {
    const width = this.data.width, middle = along(this.x, width)(this.at ?? from(this.x, width)(width / 2)), value = from(this.x, width);
    const [low, high] = [value(middle - factor * width / 2), value(middle + factor * width / 2)];
    this.range(low, high);
  }

  // Sets the visible range: at most all of the axis, at least two places.
  range(low, high) {
    const { data } = this, before = [this.x.low, this.x.high];
    [this.x.low, this.x.high] = [Math.max(low, data.x.low), Math.min(high, data.x.high)];
    if (this.places().length < 2) [this.x.low, this.x.high] = before;
    this.draw();
  }

  scaleY() {
    const all = this.shown().flat(), log = this.log ?? this.view.log, of = (p) => p.length > 2 ? [p[2], p[3]] : [p[1]];
    const whole = !this.off.size && this.x.low === this.data.x.low && this.x.high === this.data.x.high;
    if ((whole && log === this.view.log) || !all.length) return this.view;
    const values = all.flatMap(of).filter((v) => !log || v > 0), low = Math.min(...values), high = Math.max(...values);
    if (!values.length) return this.view;
    return log ? { low: low / 1.35, high: high * 1.35, log } : { low: Math.min(0, low), high: high > 0 ? high * 1.08 : low < 0 ? 0 : 1, log };
  }

  mark(into, x, y, line, size, hollow) {
    const paint = hollow ? { fill: PAPER, stroke: line.colour, "stroke-width": 1.5 } : { fill: line.colour };
    if (line.place === undefined) drawn(into, "path", { d: `M${x - size} ${y}h${2 * size}`, stroke: line.colour, "stroke-width": 1.5 });
    else if (!line.mark.length) drawn(into, "circle", { cx: x, cy: y, r: size, ...paint });
    else drawn(into, "polygon", { points: line.mark.map(([dx, dy]) => `${(x + dx * size).toFixed(2)},${(y + dy * size).toFixed(2)}`).join(" "), ...paint });
  }

  draw() {
    const { data, view, box } = this, W = data.width, H = data.height;
    this.y = { log: this.log ?? view.log };
    this.y = this.scaleY();
    this.logY.setAttribute("aria-pressed", String(this.y.log));
    const x = along(this.x, W), up = along(this.y, H), y = (v) => H - up(v);
    const svg = document.createElementNS(NS, "svg");
    const set = (name, value) => svg.setAttribute(name, value);
    set("viewBox", box.join(" ")); set("role", "img"); set("class", "redrawn"); set("font-family", this.picture.getAttribute("font-family"));
    set("aria-label", this.picture.getAttribute("aria-label"));
    const text = (at, down, words, colour, anchor, size = 13) =>
      drawn(svg, "text", { x: at, y: down + size * 0.35, "font-size": size, fill: colour, "text-anchor": anchor }, words);
    const rule = (d, colour, width = 1, dash = "") => drawn(svg, "path", { d, fill: "none", stroke: colour, "stroke-width": width, "stroke-dasharray": dash });
    for (const tick of ticksOf(this.y)) { rule(`M0 ${y(tick)}H${W}`, GRID); text(-8, y(tick), short(tick), QUIET, "end"); }
    drawn(svg, "text", { transform: `translate(${box[0] + 12} ${H / 2}) rotate(-90)`, "font-size": 13, fill: QUIET, "text-anchor": "middle" }, view.title + (this.y.log ? " (log)" : ""));
    const own = data.x.ticks.filter(([at]) => at >= this.x.low && at <= this.x.high);
    const ticks = (own.length ? own : ticksOf(this.x).filter((t) => !data.x.whole || Number.isInteger(t)).map((t) => [t, short(t)])).map(([at, words]) => [x(at), words]).sort((a, b) => a[0] - b[0]);
    const spread = own.length ? spreadWords(ticks, -16, W + 16) : null, moved = spread?.some((at, n) => Math.abs(at - ticks[n][0]) > 1), rows = [];
    ticks.forEach(([at, words], n) => {
      if (!own.length) rule(`M${at} 0V${H}`, GRID);
      if (spread) {
        rule(`M${at} ${H}v4${moved ? `L${spread[n]} ${H + 11}` : ""}`, FAINT);
        text(spread[n], H + (moved ? 20 : 15), words, QUIET, "middle");
        return;
      }
      const half = words.length * 13 * 0.29 + 3;
      let row = 0;
      while (rows[row] !== undefined && at - half < rows[row]) row++;
      if (row < 3) { rows[row] = at + half; text(at, H + 14 + 16 * row, words, QUIET, "middle"); }
    });
    rule(`M0 ${H}H${W}`, FAINT);
    text(W / 2, H + 36 + (spread ? moved ? 7 : 2 : 16 * (Math.min(Math.max(rows.length, 1), 3) - 1)), data.x.title + (this.x.log ? " (log)" : ""), QUIET, "middle");
    const clip = `clip-${figures.indexOf(this)}`;
    drawn(drawn(svg, "clipPath", { id: clip }), "rect", { x: -5, y: -5, width: W + 10, height: H + 10 });
    const inside = drawn(svg, "g", { "clip-path": `url(#${clip})` });
    for (const [words, limit] of view.limits) if (limit >= this.y.low && limit <= this.y.high) {
      rule(`M0 ${y(limit)}H${W}`, QUIET, 1.5, "2 3");
      text(4, y(limit) - 8, words, QUIET, "start", 12);
    }
    let taken = -1e9;
    for (const [at, words] of data.moments) if (at >= this.x.low && at <= this.x.high) {
      rule(`M${x(at)} -6V${H}`, INK, 1.25, "3 3");
      if (words && x(at) - words.length * 4 > taken) { text(x(at), -14, words, INK, "middle", 12.5); taken = x(at) + words.length * 4; }
    }
    const ends = [];
    data.lines.forEach((line, n) => {
      const points = this.points(n).filter((p) => !(this.y.log && p[1] <= 0)), loose = line.place === undefined;
      const to = (p) => x(p[0]) + line.shift;
      let d = "";
      points.forEach((p, i) => { d += `${i && p[4] !== 0 ? "L" : "M"}${to(p).toFixed(2)} ${y(p[1]).toFixed(2)}`; });
      if (d) drawn(inside, "path", { d, fill: "none", stroke: line.colour, "stroke-width": loose ? 1.5 : 2, "stroke-dasharray": line.dash, "stroke-linejoin": "round" });
      const seen = this.shown()[n];
      for (const p of seen) if (p.length > 2 && p[2] < p[3] && (!this.y.log || p[2] > 0))
        drawn(inside, "path", { d: `M${to(p)} ${y(p[2])}V${y(p[3])}`, stroke: line.colour, "stroke-width": 1.5 });
      if ((seen.length <= 40 || line.apart) && !(loose && seen.length > 1)) for (const p of seen) this.mark(inside, to(p), y(p[1]), line, line.apart ? 3 : 3.5, p[5]);
      if (seen.length) ends.push({ line, x: to(seen.at(-1)), y: y(seen.at(-1)[1]) });
    });
    ends.filter((e) => e.y >= -5).sort((a, b) => a.y - b.y).reduce((last, end, n, all) => {
      const at = Math.min(Math.max(end.y, last + 16.5), H + 12 - 16.5 * (all.length - 1 - n));
      rule(`M${end.x + 6} ${end.y}L${W + 12} ${at}`, FAINT, 0.75);
      const named = text(W + 16, at, end.line.short, end.line.colour, "start", 13.5);
      if (end.line.place !== undefined) named.setAttribute("font-weight", 600);
      return at;
    }, -99);
    this.frame.querySelector(".redrawn, .tabled")?.remove();
    this.frame.classList.add("explored");
    this.svg = svg;
    this.frame.prepend(this.tabled ? this.table() : svg);
    if (!this.tabled) this.listen(svg);
    const places = this.places();
    this.slider.max = Math.max(0, places.length - 1);
    this.point(this.at !== null && places.length ? this.nearest(this.at) : null);
  }

  table() {
    const { data } = this, shown = this.shown(), kept = data.lines.map((_, n) => n).filter((n) => shown[n].length);
    const head = html("tr", {}, html("th", { scope: "col" }, data.x.title), ...kept.map((n) => html("th", { scope: "col", class: "num" }, data.lines[n].label)));
    const rows = this.places().map((at) => html("tr", {}, html("th", { scope: "row" }, this.words(at)), ...kept.map((n) => {
      const p = shown[n].find((q) => q[0] === at);
      return html("td", { class: "num" }, p ? said(p[1], digitsOf(p, this.view.digits)) : "");
    })));
    const inside = html("table", {}, html("caption", {}, this.view.title), html("thead", {}, head), html("tbody", {}, ...rows));
    return html("div", { class: "tabled box", tabindex: 0, role: "region", "aria-label": `${this.view.title}, as a table` }, inside);
  }

  nearest(x) {
    const place = along(this.x, this.data.width);
    return this.places().reduce((best, at) => best === null || Math.abs(place(at) - place(x)) < Math.abs(place(best) - place(x)) ? at : best, null);
  }

  // Returns each line's value nearest to x, and its place if that differs from x.
  values(x) {
    const place = along(this.x, this.data.width);
    return this.shown().map((points, n) => {
      const p = points.reduce((best, q) => !best || Math.abs(place(q[0]) - place(x)) < Math.abs(place(best[0]) - place(x)) ? q : best, null);
      if (!p || Math.abs(place(p[0]) - place(x)) > 24) return null;
      const digits = digitsOf(p, this.view.digits), range = p.length > 2 && p[2] < p[3] ? ` (${said(p[2], digits)}–${said(p[3], digits)})` : "";
      const elsewhere = p[0] !== x ? ` at ${this.words(p[0])}` : "";
      return { line: this.data.lines[n], p, words: withUnit(said(p[1], digits), this.view.unit) + range + elsewhere + (p[5] ? ", missed the goal" : "") };
    }).filter(Boolean);
  }

  // Shows the values at x; none without x.
  point(x, tipped = false) {
    this.at = x ?? null;
    this.svg.querySelector(".cursor")?.remove();
    this.tip.hidden = true;
    if (this.at === null) { this.readout?.replaceChildren(); return; }
    const { width: W, height: H } = this.data, found = this.values(x), at = along(this.x, W)(x), up = along(this.y, H);
    const group = drawn(this.svg, "g", { class: "cursor", "pointer-events": "none" });
    drawn(group, "path", { d: `M${at.toFixed(2)} 0V${H}`, stroke: INK, "stroke-width": 1 });
    for (const { line, p } of found) if (p[1] <= this.y.high) drawn(group, "circle", { cx: along(this.x, W)(p[0]) + line.shift, cy: H - up(p[1]), r: 6, fill: "none", stroke: line.colour, "stroke-width": 2 });
    const head = withUnit(this.words(x), this.data.x.unit);
    const lines = (most) => [html("strong", {}, head), ...found.slice(0, most).map(({ line, words }) =>
      html("span", {}, html("span", { class: line.place === undefined ? "loose" : `mode m${line.place}` }, line.label), " ", words))];
    if (this.slider) {
      this.slider.value = this.places().indexOf(x);
      this.slider.setAttribute("aria-valuetext", `${head}: ${found.map(({ line, words }) => `${line.label} ${words}`).join("; ")}`);
      this.readout.replaceChildren(...lines(99));
    }
    if (tipped && (!this.controls || this.controls.hidden)) {
      this.tip.replaceChildren(...lines(12));
      this.tip.hidden = false;
      const share = (at - this.box[0]) / this.box[2];
      this.tip.style.setProperty("left", share < 0.5 ? `${100 * share + 2}%` : "auto");
      this.tip.style.setProperty("right", share < 0.5 ? "auto" : `${100 * (1 - share) + 2}%`);
    }
  }

  // Moves all figures of a run with the same axis together, if they have values near the same place.
  everywhere(x, tipped) {
    this.point(x, tipped);
    for (const other of figures)
      if (other !== this && other.data.x.name === this.data.x.name && other.group === this.group) other.point(x === null ? null : other.near(x));
  }

  near(x) {
    const at = this.nearest(x), place = along(this.x, this.data.width);
    return at !== null && Math.abs(place(at) - place(x)) <= 24 ? at : null;
  }

  listen(svg) {
    const where = (event) => {
      const to = svg.getScreenCTM();
      return to ? (event.clientX - to.e) / to.a : 0;
    };
    let began = null, shade = null;
    svg.addEventListener("pointermove", (event) => {
      const at = where(event);
      if (began !== null) {
        const to = Math.min(Math.max(at, 0), this.data.width);
        shade ??= drawn(svg, "rect", { y: 0, height: this.data.height, fill: FAINT, "fill-opacity": 0.25 });
        shade.setAttribute("x", Math.min(began, to));
        shade.setAttribute("width", Math.abs(to - began));
      } else if (at >= -8 && at <= this.data.width + 8) this.everywhere(this.nearest(from(this.x, this.data.width)(at)), true);
      else this.everywhere(null);
    });
    svg.addEventListener("pointerleave", (event) => { if (began === null && event.pointerType !== "touch" && (!this.controls || this.controls.hidden)) this.everywhere(null); });
    svg.addEventListener("pointerdown", (event) => {
      const at = where(event);
      if (event.pointerType === "touch") this.everywhere(this.nearest(from(this.x, this.data.width)(at)), true);
      if (svg === this.picture || event.pointerType === "touch" || event.button || at < 0 || at > this.data.width) return;
      began = at;
      svg.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    svg.addEventListener("pointerup", (event) => {
      if (began === null) return;
      const [low, high] = [began, Math.min(Math.max(where(event), 0), this.data.width)].sort((a, b) => a - b), value = from(this.x, this.data.width);
      began = null;
      shade?.remove();
      shade = null;
      if (high - low > 8) this.range(value(low), value(high));
    });
  }
}

for (const element of document.querySelectorAll("figure")) {
  const held = element.querySelector("script[type='application/json']");
  if (!held || !element.querySelector("svg")) continue;
  const made = new Figure(element, JSON.parse(held.textContent));
  made.group = element.closest("article");
  figures.push(made);
}
// A link to a row inside closed details opens them first.
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let closed = false;
  for (let e = target?.closest("details:not([open])"); e; e = e.parentElement.closest("details:not([open])")) e.open = closed = true;
  if (closed) target.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();
document.addEventListener("keydown", (event) => { if (event.key === "Escape") for (const figure of figures) figure.tip.hidden = true; });
})();
