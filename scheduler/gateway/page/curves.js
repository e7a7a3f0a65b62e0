"use strict";
// Curves by hand: SVG paths over the last ten minutes. What was not known is a gap, never a zero.

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 600, HIGH = 100; // of a plot's own units; a second is one wide

/** Return an SVG element with attributes. */
function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Split points into runs without a gap: a null value or a missing point ends a run. */
function runs(points, gapS) {
  const found = [];
  let run = [];
  for (const [x, y] of points) {
    const broken = run.length > 0 && x - run[run.length - 1][0] > gapS;
    if ((y === null || broken) && run.length) { found.push(run); run = []; }
    if (y !== null) run.push([x, y]);
  }
  if (run.length) found.push(run);
  return found;
}

/** Return the path of runs; one point alone is a dash of its own. */
function path(found, height, base) {
  let text = "";
  for (const run of found) {
    const at = run.map(([x, y]) => [x.toFixed(1), height(y).toFixed(2)]);
    if (at.length === 1) at.push([(run[0][0] + 1).toFixed(1), at[0][1]]);
    text += "M" + at.map(([x, y]) => x + " " + y).join("L");
    if (base !== undefined) text += `L${at[at.length - 1][0]} ${base}L${at[0][0]} ${base}Z`;
  }
  return text;
}

/** Return the steps of a scale: two or three round values inside a range. */
function steps(low, high) {
  const rough = (high - low) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at < high; at += step) if (at > low) found.push(at);
  return found;
}

/** Return points of which each is the mean of so many, itself the last; a gap stays one. */
function means(points, many) {
  return points.map(([x, y], n) => {
    const near = points.slice(Math.max(0, n - many + 1), n + 1).map(([, one]) => one).filter((one) => one !== null);
    return [x, y === null ? null : near.reduce((sum, one) => sum + one, 0) / near.length];
  });
}

/** A figure with a caption, a plot and an axis. */
class Figure {
  constructor(title, unit, range) {
    this.title = title;
    this.unit = unit;
    this.range = range; // [low, high] that is always shown
    this.root = document.createElement("figure");
    const caption = this.root.appendChild(document.createElement("figcaption"));
    this.now = caption.appendChild(document.createElement("span"));
    this.now.className = "now";
    const name = caption.appendChild(document.createElement("b"));
    name.textContent = title;
    this.spread = caption.appendChild(document.createElement("small"));
    this.spread.className = "range";
    this.key = caption.appendChild(document.createElement("small"));
    this.key.className = "key";
    this.plot = this.root.appendChild(document.createElement("div"));
    this.plot.className = "plot";
    this.svg = this.plot.appendChild(shape("svg", {
      viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img",
    }));
    const axis = this.root.appendChild(document.createElement("div"));
    axis.className = "axis";
    axis.setAttribute("aria-hidden", "true");
    for (const text of ["10 min ago", "5 min", "now"]) {
      axis.appendChild(document.createElement("span")).textContent = text;
    }
  }

  /**
   * Draw.
   * curves: [{name, tint, points: [[x, y or null]]}], x in seconds from ten minutes ago.
   * limits: [{value, text}], lines at which something happens.
   */
  draw(curves, limits, gapS, said) {
    const known = curves.flatMap((one) => one.points.map(([, y]) => y)).filter((y) => y !== null);
    const all = known.concat(limits.map((one) => one.value));
    const low = Math.min(this.range[0], ...all);
    const top = Math.max(this.range[1], ...all);
    const high = top + (top - low) * 0.06;
    const height = (y) => HIGH - ((y - low) / (high - low)) * HIGH;
    const parts = [], labels = [];
    for (const at of steps(low, high)) {
      parts.push(shape("line", { class: "grid", x1: 0, x2: WIDE, y1: height(at), y2: height(at) }));
      labels.push([at, `${at}`, ""]);
    }
    for (const [number, one] of curves.entries()) {
      const found = runs(one.points, gapS);
      const second = number ? " second" : "";
      if (!number) parts.push(shape("path", { class: `under ${one.tint}`, d: path(found, height, HIGH) }));
      parts.push(shape("path", { class: `curve ${one.tint}${second}`, d: path(found, height) }));
    }
    let above = -HIGH, label = null;
    for (const one of [...limits].sort((a, b) => b.value - a.value)) {
      const at = height(one.value);
      parts.push(shape("line", { class: "limit", x1: 0, x2: WIDE, y1: at, y2: at }));
      if (label && at - above < 16) label.splice(0, 3, one.value, `${label[1]}; ${one.text}`, "at-limit below"); // no room between
      else labels.push(label = [one.value, one.text, "at-limit"]);
      above = at;
    }
    this.svg.replaceChildren(...parts);
    for (const old of this.plot.querySelectorAll("span")) old.remove();
    for (const [at, text, kind] of labels) {
      const label = this.plot.appendChild(document.createElement("span"));
      label.textContent = text;
      label.className = kind;
      label.style.top = `${height(at)}%`;
    }
    const range = known.length ? `${Math.min(...known).toFixed(0)} to ${Math.max(...known).toFixed(0)} ${this.unit}` : "nothing known";
    this.spread.textContent = known.length ? range : ""; // the key has the reason
    this.svg.setAttribute("aria-label", `${this.title} over the last ten minutes: ${range}; now ${said}`);
  }
}

/** Draw who held a device when: one bar a hold, packed into rows where holds overlap. */
function ribbon(svg, holds, keptS, colour) {
  const rows = [];
  const placed = [...holds].sort((a, b) => a.from - b.from).map((hold) => {
    let row = rows.findIndex((end) => end <= hold.from + 0.05);
    if (row < 0) row = rows.length < 4 ? rows.push(0) - 1 : 3;
    rows[row] = Math.max(rows[row], hold.to);
    return [hold, row];
  });
  const high = 26 / Math.max(1, rows.length);
  const parts = keptS < WIDE ? [shape("rect", { class: "unkept", x: 0, y: 0, width: WIDE - keptS, height: 26 })] : [];
  for (const [hold, row] of placed) {
    parts.push(shape("rect", {
      class: `held c${colour(hold.lane)}`, x: Math.max(0, hold.from).toFixed(2), y: (row * high + 1).toFixed(1),
      width: Math.max(0.8, hold.to - Math.max(0, hold.from) - 0.4).toFixed(2), height: Math.max(2, high - 2).toFixed(1), rx: 1,
    }));
  }
  svg.replaceChildren(...parts);
}
