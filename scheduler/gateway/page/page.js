"use strict";
// The live page: one snapshot a second becomes text. Names are other people's words: they are only ever
// written as text, never as markup.

const SILENT_MS = 7000; // nothing came for so long: the link is gone, whatever it says of itself
const AGAIN_MS = [1000, 2000, 4000, 8000];
const WINDOW_S = 600;
const HOLDERS = 6, WAITING = 8, LANDED = 14, LANES = 12; // rows shown; the rest is counted
const PAST = 1000; // endings remembered for the ribbons

const WHY = {
  gpu_busy: "hrx0 was busy",
  gpu_hot: "hrx0 was hot",
  template_mismatch: "a stand-in: the wanted model's template is not the pinned one",
  scorer_down: "the default model: no scorer answered in time",
  npu_quarantined: "came back: the NPU failed",
};
const STAYS = {
  warmup: "stayed: the box was just started",
  npu_unavailable: "stayed: the NPU is not there",
  npu_quarantined: "stayed: the NPU failed of late",
  npu_canary: "stayed: the NPU has not passed its canary",
  sensor_unknown: "stayed: the temperature is not known",
  capability: "stayed: the NPU's model cannot serve it",
  slower: "stayed: the NPU would finish later",
  too_long: "stayed: the prompt is too long for the NPU",
};
const STATE = {
  held: ["held", "is-on"], idle: ["idle", ""], hot: ["too hot: no new grant", "is-hot"],
  "no worker": ["no worker", "is-warn"], ending: ["its lost worker is being ended", "is-warn"],
  memory: ["waits for memory", "is-warn"], thinking: ["kept for a conversation", "is-warn"],
};
const ENDED = { answered: "answered", cancelled: "client left", released: "released", decided: "decided", served: "served" };

const $ = (id) => document.getElementById(id);
let points = [], past = [], pastFrom = -Infinity, stepS = 2, last = null, heardAt = 0, source = null, tries = 0, figures = null;
const colours = new Map();

// --- words ---------------------------------------------------------------------------------------

/** Return seconds as people say them. */
function duration(s) {
  if (s === null || s === undefined) return "?";
  if (s < 0.0995) return `${Math.round(s * 1000)}\u00a0ms`;
  if (s < 9.95) return `${s.toFixed(1)}\u00a0s`;
  if (s < 99.5) return `${Math.round(s)}\u00a0s`;
  const all = Math.round(s), m = Math.floor(all / 60);
  if (m < 100) return `${m}\u00a0min\u00a0${String(all % 60).padStart(2, "0")}\u00a0s`;
  return m < 2880 ? `${Math.floor(m / 60)}\u00a0h\u00a0${String(m % 60).padStart(2, "0")}\u00a0min` : `${Math.floor(m / 1440)}\u00a0d`;
}
const bytes = (n) => (n >= 2 ** 30 ? `${(n / 2 ** 30).toFixed(1)}\u00a0GiB` : `${Math.round(n / 2 ** 20)}\u00a0MiB`);
const percent = (part) => `${(part * 100).toFixed(part > 0 && part < 0.1 ? 1 : 0)}\u00a0%`;
const plural = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;

/** Return an element with a class and what is in it: strings become text. */
function h(tag, kind, ...inside) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.append(...inside);
  return made;
}
const named = (name) => h("bdi", "name", name);
const chip = (text, kind = "") => h("span", `chip ${kind}`, text);
const dot = (lane) => h("span", `dot c${colour(lane)}`);

/** Return the number of a lane's colour; beside each stands its name. */
function colour(lane) {
  if (!colours.has(lane)) colours.set(lane, colours.size % 10);
  return colours.get(lane);
}

/** Make a parent's children those of these items, keeping the nodes of items that stay. */
function list(parent, items, key, fill, tag = "li") {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  const kept = items.map((item) => {
    const id = key(item);
    const node = old.get(id) || h(tag, "");
    node.dataset.key = id;
    fill(node, item);
    return node;
  });
  if (kept.length !== parent.children.length || kept.some((node, n) => parent.children[n] !== node)) {
    parent.replaceChildren(...kept);
  }
}

/** Put text or nodes into a node only where they are others than before. */
function put(node, ...inside) {
  const next = [...h("div", "", ...inside).childNodes], old = node.childNodes;
  if (next.length !== old.length || next.some((one, n) => !one.isEqualNode(old[n]))) node.replaceChildren(...next);
}

// --- at a glance ---------------------------------------------------------------------------------

function say(now) {
  const inside = [];
  if (now.draining) inside.push(h("b", "", "This box drains"), `: it takes no new work, ${now.open ? `and has ${plural(now.open, "request")} to end` : "and nothing is open"}. `);
  const devices = Object.entries(now.devices);
  const [first, device] = devices.find(([, d]) => d.kind === "hrx") || devices[0] || ["", null];
  const held = device ? device.holders : [];
  if (!device) inside.push("This box has no device. ");
  else if (!held.length) inside.push(h("b", "", "Nobody"), ` holds ${first}${device.worker ? "" : ", which has no worker"}. `);
  else {
    const names = [...new Set(held.map((one) => one.lane))];
    inside.push(h("b", "", named(names[0])));
    inside.push(names.length > 1 ? ` and ${plural(names.length - 1, "other lane")} have held` : " has held");
    inside.push(` ${first} for `, h("b", "", duration(Math.max(...held.map((one) => one.held_s)))), ". ");
  }
  const waiting = now.totals.waiting;
  if (!waiting) inside.push("Nobody waits. ");
  else {
    const etas = devices.flatMap(([, d]) => d.waiting.map((one) => one.eta_s));
    const hidden = devices.some(([, d]) => d.waiting_total > d.waiting.length);
    inside.push(h("b", "", String(waiting)), waiting === 1 ? " waits" : " wait");
    if (device && device.state === "hot") inside.push(` until ${first} has cooled`);
    else if (etas.length && etas.every((eta) => eta !== null)) {
      const which = waiting === 1 ? ", to start in " : hidden ? ", the last in more than " : ", the last to start in ";
      inside.push(which, h("b", "", duration(Math.max(...etas))));
    }
    inside.push(". ");
  }
  const { value, reason } = now.readings.tctl;
  const hot = now.heat.some((line) => line.is_hot);
  if (value === null) inside.push(`Tctl is not known (${reason}).`);
  else inside.push(h("b", hot ? "hot" : "", `${value.toFixed(0)}\u00a0°C`), hot ? ", which is hot." : now.heat.length ? ", not hot." : ".");
  put($("say"), ...inside);
  const who = held.length ? held[0].lane : waiting ? `${waiting} wait` : "idle";
  document.title = `${who} - Fairlane`;
}

// --- devices -------------------------------------------------------------------------------------

function devices(now) {
  const all = Object.entries(now.devices);
  const main = all.find(([, d]) => d.kind === "hrx") || all[0];
  for (const [id, some] of [["first", all.filter((one) => one === main)], ["others", all.filter((one) => one !== main)]]) {
    list($(id), some, ([name]) => name, (node, [name, device]) => drawDevice(now, node, name, device), "section");
  }
}

function drawDevice(now, node, name, device) {
  if (!node.firstChild) frame(node, name);
  const [text, kind] = STATE[device.state] || [device.state, ""];
  node.className = `card device ${device.state === "hot" ? "is-hot" : ""} ${device.holders.length > 1 ? "many" : ""}`;
  const part = (what) => node.querySelector(what);
  put(part(".about"), device.backend === null ? "nothing computes here" : chip(device.backend), ` ${device.holders.length} of ${plural(device.seats, "seat")}`);
  part(".badge").className = `badge ${kind}`;
  put(part(".badge"), text);
  holders(part(".holders"), device);
  queue(part(".queue"), device);
  ribbon(part("svg"), holds(now, device), Math.min(WINDOW_S, now.at - pastFrom), colour);
  part("svg").setAttribute("aria-label", `Who held ${name} in the last ten minutes`);
}

function frame(node, name) {
  node.setAttribute("aria-label", name);
  const ribbons = h("div", "ribbon");
  const svg = ribbons.appendChild(shape("svg", { viewBox: `0 0 ${WIDE} 26`, preserveAspectRatio: "none", role: "img" }));
  svg.setAttribute("class", "holds");
  const axis = ribbons.appendChild(h("div", "axis", h("span", "", "held, 10 min ago"), h("span", "", "now")));
  axis.setAttribute("aria-hidden", "true");
  const line = h("div", "queue", h("h3", ""), h("ol", ""));
  node.append(h("div", "top", h("h2", "", name), h("small", "about"), h("span", "badge")), h("div", "holders"), line, ribbons);
}

function holders(parent, device) {
  const shown = device.holders.slice(0, HOLDERS);
  const rows = shown.length ? shown : [{ request: "", nobody: true }];
  if (device.holders.length > HOLDERS) rows.push({ request: "more", more: device.holders.length - HOLDERS });
  list(parent, rows, (one) => one.request, (node, one) => {
    if (one.nobody) {
      node.className = "nobody";
      put(node, device.worker ? "nobody holds it" : "no worker serves it");
      return;
    }
    if (one.more) {
      node.className = "quiet";
      put(node, `and ${one.more} more`);
      return;
    }
    node.className = `holder c${colour(one.lane)}`;
    if (!node.firstChild) node.append(h("div", "line"), h("div", "under"), h("div", "bar", h("i", "")));
    const left = one.left_s === null ? "" : one.state === "draining" ? ", ending" : `, about ${duration(one.left_s)} left`;
    put(node.children[0], h("span", "who", named(one.lane)), h("span", "since", duration(one.held_s)));
    put(node.children[1], h("small", "", ...landing(one), left));
    const all = one.left_s === null ? 0 : one.held_s / Math.max(0.001, one.held_s + one.left_s);
    node.querySelector("i").style.width = `${(all * 100).toFixed(1)}%`;
  }, "div");
}

function queue(parent, device) {
  const shown = device.waiting.slice(0, WAITING);
  const rest = device.waiting_total - shown.length;
  parent.hidden = !device.waiting_total;
  const wait = `${device.waiting_total} ${device.waiting_total === 1 ? "waits" : "wait"}`;
  put(parent.firstChild, device.state === "hot" ? `${wait} for it to cool, then expected to start in` : `${wait}, expected to start in`);
  const rows = rest ? [...shown, { request: "more" }] : shown;
  list(parent.lastChild, rows, (one) => one.request, (node, one) => {
    if (one.request === "more") {
      node.className = "more";
      const far = device.waiting[device.waiting.length - 1].eta_s;
      put(node, `and ${rest} more${far === null ? "" : `, the ${device.waiting.length === device.waiting_total ? "last" : `${device.waiting.length}th`} in ${duration(far)}`}`);
      return;
    }
    const extra = one.priority === "batch" ? " batch" : "";
    put(node, h("span", "place", String(one.position)),
      h("span", "", dot(one.lane), named(one.lane), h("small", "", ` waited ${duration(one.waited_s)}${extra}`)),
      h("span", "eta", duration(one.eta_s)));
  });
}

/** Remember the endings of the window: a snapshot has but the last ones. */
function remember(now) {
  const { total, ended } = now.recent;
  const oldest = ended[ended.length - 1];
  if (!last || last.recent.total > total || (oldest && oldest.n > last.recent.total + 1)) {
    past = []; // of those between nothing is known
    pastFrom = total > ended.length ? now.at - oldest.ago_s : -Infinity;
  }
  const newest = past.length ? past[past.length - 1].n : 0;
  const fresh = ended.filter((one) => one.n > newest).reverse();
  for (const one of fresh) past.push({ n: one.n, lane: one.lane, kind: one.device, ranS: one.ran_s, at: now.at - one.ago_s });
  past = past.filter((one) => one.at > now.at - WINDOW_S).slice(-PAST);
  if (past.length === PAST) pastFrom = past[0].at;
}

/** Return who held a device when, in seconds of the window. */
function holds(now, device) {
  const x = (at) => WINDOW_S - (now.at - at);
  const done = past.filter((one) => one.kind === device.kind && one.ranS > 0).map((one) => ({ lane: one.lane, from: x(one.at - one.ranS), to: x(one.at) }));
  const present = device.holders.map((one) => ({ lane: one.lane, from: WINDOW_S - one.held_s, to: WINDOW_S }));
  return done.concat(present);
}

// --- where the last ones landed ------------------------------------------------------------------

/** Return what a ticket is and why it is where it is. */
function landing(one) {
  if (one.outside) return ["a program of its own"];
  const inside = [named(one.model || "no model")];
  if (one.rule) inside.push(" by rule ", chip(one.rule));
  else if (one.op !== "decide") inside.push(" asked for by name");
  if (one.why) inside.push(" ", chip(one.why, "why"), ` ${WHY[one.why] || ""}`);
  if (one.degraded) inside.push(" ", chip(one.degraded, "bad"), " a stand-in answered");
  if (one.stays) inside.push(" ", chip(one.stays, "why"), ` ${STAYS[one.stays] || ""}`);
  return inside;
}

function landed(now) {
  const device = Object.fromEntries(Object.entries(now.devices).map(([name, d]) => [d.kind, name]));
  const rows = [
    ...Object.entries(now.devices).flatMap(([name, d]) => d.holders.map((one) => ({ ...one, on: name, age: one.held_s - 1e6 }))),
    ...now.recent.ended.map((one) => ({ ...one, on: device[one.device] || one.device, age: one.ago_s, outside: one.op === "hold" })),
    ...now.recent.refused.map((one) => ({ ...one, age: one.ago_s })),
  ].sort((a, b) => a.age - b.age).slice(0, LANDED);
  const shown = rows.length ? rows : [{ request: "", none: true }];
  list($("landed"), shown, (one) => one.request, (node, one) => {
    if (one.none) put(node, h("span", "none", "Nothing has been asked since the start."));
    else if (one.message) {
      put(node, h("span", "", dot(one.lane), named(one.lane), " ", chip("refused", "bad")), h("small", "side", `${duration(one.ago_s)} ago`),
        h("span", "under", named(one.message)));
    } else {
      const outcome = one.outcome === undefined ? "runs" : ENDED[one.outcome] || one.outcome.replaceAll("_", " ");
      const kind = one.outcome === undefined || one.outcome === "answered" ? "good" : ENDED[one.outcome] ? "" : "bad";
      const times = one.outcome === undefined ? `for ${duration(one.held_s)}`
        : `waited ${duration(one.waited_s)}, ran ${duration(one.ran_s)}`;
      const ago = one.outcome === undefined ? "now" : `${duration(one.ago_s)} ago`;
      put(node, h("span", "", dot(one.lane), named(one.lane), one.on ? ` on ${one.on} ` : " ", chip(outcome, kind)), h("small", "side", ago),
        h("span", "under", ...landing(one), h("span", "", ` · ${times}`)));
    }
  });
}

// --- lanes, models, workers ----------------------------------------------------------------------

function lanes(now) {
  const all = Object.entries(now.lanes).sort(([, a], [, b]) => b.running + b.waiting - a.running - a.waiting || b.served_s - a.served_s);
  const served = all.filter(([, lane]) => lane.share > 0).sort(([a], [b]) => (a < b ? -1 : 1));
  list($("shares"), served, ([name]) => name, (node, [name, lane]) => {
    node.className = `c${colour(name)}`;
    node.style.flexGrow = lane.share;
  }, "i");
  const rows = all.slice(0, LANES);
  if (now.lanes_total > LANES) rows.push(["", null]);
  if (!all.length) rows.push(["", undefined]);
  list($("lanes"), rows, ([name, lane]) => (lane ? `lane ${name}` : ""), (node, [name, lane]) => {
    if (!lane) { put(node, h("span", "none", lane === null ? `and ${now.lanes_total - LANES} more` : "No lane has asked for anything yet.")); return; }
    const doing = [lane.running && `${lane.running} running`, lane.waiting && `${lane.waiting} waiting`].filter(Boolean).join(", ");
    const weight = lane.weight === 1 ? "" : `, weighs ${lane.weight}`;
    put(node, h("span", "", dot(name), named(name)), h("b", "side", lane.share === null ? "?" : percent(lane.share)),
      h("span", "under", `${doing || "quiet"}, served ${duration(lane.served_s)}${weight}`));
  });
}

function pulls(now) {
  $("pulling").hidden = !now.pulls.length;
  list($("pulls"), now.pulls, (one) => one.model, (node, one) => {
    const { done_bytes: done, total_bytes: total } = one;
    const part = total ? Math.min(1, done / total) : 0;
    if (!node.firstChild) node.append(h("span", ""), h("b", "side"), h("div", "bar", h("i", "")), h("span", "under"));
    put(node.children[0], named(one.model));
    put(node.children[1], total ? percent(part) : "?");
    node.querySelector("i").style.width = `${(part * 100).toFixed(1)}%`;
    const size = total ? `${bytes(done)} of ${bytes(total)}` : `${bytes(done)} so far`;
    put(node.children[3], `${one.asked ? size : "no store has it in hand yet"}, since ${duration(one.since_s)}, ${plural(one.waiting, "ticket")} waiting for it`);
  });
}

function models(now) {
  const { used_bytes: used, budget_bytes: budget } = now.memory;
  put($("memory"), used ? `${bytes(used)}${budget === null ? "" : ` of ${bytes(budget)}`} in use` : "");
  const rows = [...now.models].sort((a, b) => b.loaded - a.loaded);
  list($("models"), rows, (one) => one.id, (node, one) => {
    const facts = [one.device, one.bytes && bytes(one.bytes), `${one.context_length} tokens of context`, one.pinned && "pinned",
      one.loaded && (one.busy ? `${one.busy} at work` : one.idle_s !== null && `idle ${duration(one.idle_s)}`)].filter(Boolean);
    put(node, named(one.id), h("span", `badge ${one.loaded ? "is-on" : ""}`, one.loaded ? "loaded" : "not loaded"),
      h("span", "under", one.backend === null ? "nothing computes it " : chip(one.backend), ` ${facts.join(", ")}`));
  });
}

function workers(now) {
  list($("workers"), now.workers, (one) => `${one.device} ${one.name} ${one.pid || ""}`, (node, one) => {
    const there = one.backend !== null;
    const state = !there ? ["absent", "is-warn"] : one.suspect ? ["late, on trial", "is-warn"] : one.silent_s > 2.5 ? [`silent ${duration(one.silent_s)}`, "is-warn"] : ["alive", "is-on"];
    put(node, named(one.device || one.kind), h("span", `badge ${state[1]}`, state[0]),
      h("span", "under", ...(there ? [chip(one.backend), ` pid ${one.pid}, ${one.held} of ${plural(one.seats, "seat")} held`] : ["no worker"])));
  });
}

// --- curves --------------------------------------------------------------------------------------

function draw(now) {
  if (!figures) {
    figures = { tctl: new Figure("Tctl", "°C", [30, 80]), power: new Figure("Socket power", "W", [0, 60]), busy: new Figure("Occupancy", "%", [0, 100]) };
    for (const figure of Object.values(figures)) $("curves").append(figure.root);
  }
  const x = (point) => WINDOW_S - (now.at - point.at);
  const shown = points.filter((point) => x(point) >= 0);
  const curve = (name, tint) => [{ tint, points: shown.map((p) => [x(p), p.curves[name] ?? null]) }];
  const gapS = stepS * 2.6;
  reading(figures.tctl, now.readings.tctl, "°C", 1, now.heat.some((line) => line.is_hot), curve("tctl", "t-tctl"), heatLines(now.heat), gapS);
  reading(figures.power, now.readings.socket_power, "W", 0, false, curve("socket_power", "t-power"), [], gapS);
  const tints = ["t-first", "t-second", "t-third"];
  const names = Object.keys(now.devices);
  const held = (p, name) => (p.busy[name] === null || p.busy[name] === undefined ? null : p.busy[name] * 100);
  const curves = names.map((name, n) => ({ tint: tints[n % 3], points: means(shown.map((p) => [x(p), held(p, name)]), Math.round(10 / stepS)) }));
  const newest = curves.map((one) => one.points[one.points.length - 1]).map((p) => (p && p[1] !== null && WINDOW_S - p[0] < gapS ? percent(p[1] / 100) : "?"));
  const parts = names.map((name, n) => `${name} ${newest[n]}`);
  put(figures.busy.now, newest[0] || "?");
  put(figures.busy.key, ...parts.map((text, n) => h("span", tints[n % 3], h("i", n ? "second" : ""), text)), h("span", "", "mean of 10 s"));
  figures.busy.draw(curves, [], gapS, parts.join(", "));
}

/** Return the temperatures at which something happens, each once, and what does. */
function heatLines(heat) {
  const moving = new Map();
  for (const line of heat) if (line.what === "move") moving.set(line.on_c, [...(moving.get(line.on_c) || []), line.class]);
  const holds = heat.filter((line) => line.what === "hold").map((line) => ({ value: line.on_c, text: `no new grant from ${line.on_c}\u00a0°C` }));
  const moves = [...moving].map(([value, some]) => ({ value, text: `${some.join(", ")} ${some.length > 1 ? "move" : "moves"} from ${value}\u00a0°C` }));
  return holds.concat(moves);
}

function reading(figure, said, unit, digits, hot, curves, limits, gapS) {
  const text = said.value === null ? "unknown" : `${said.value.toFixed(digits)} ${unit}`;
  put(figure.now, text);
  figure.now.className = `now ${hot ? "hot" : ""}`;
  put(figure.key, said.value === null ? `no value: ${said.reason}` : `${said.source} ${said.label}${hot ? ", hot" : ""}`);
  figure.draw(curves, limits, gapS, text);
}

// --- the link ------------------------------------------------------------------------------------

function link(text, kind) {
  $("link").className = `badge ${kind}`;
  if ($("link").textContent !== text) $("link").textContent = text;
}

function lost(text) {
  link("not live", "is-hot");
  document.body.className = "is-stale";
  $("lost").hidden = false;
  put($("lost"), text + (last ? ` What stands below was true ${duration((performance.now() - last.shownAt) / 1000)} ago.` : ""));
}

function show(now) {
  remember(now);
  last = now;
  now.shownAt = performance.now();
  document.body.className = "";
  $("lost").hidden = true;
  put($("lost"));
  const [state, kind] = now.draining ? ["live, box drains", "is-warn"] : now.ready ? ["live", "is-on"] : ["live, box not ready", "is-warn"];
  link(state, kind);
  put($("about"), `${now.version}, up ${duration(now.up_s)}, start ${now.boot}`);
  for (const name of Object.keys(now.lanes)) colour(name);
  for (const part of [say, devices, draw, landed, lanes, pulls, models, workers]) part(now);
}

function open() {
  if (source) source.close();
  const own = source = new EventSource("v1/live/events");
  heardAt = performance.now();
  const on = (name, heed) => own.addEventListener(name, (event) => {
    if (own !== source) return;
    heardAt = performance.now();
    tries = 0;
    heed(JSON.parse(event.data));
  });
  on("curves", (told) => {
    stepS = told.step_s;
    const all = told.whole ? told.points : points.concat(told.points);
    points = all.filter((point) => point.at >= all[all.length - 1].at - told.keep_s);
  });
  on("snapshot", show);
  on("lost", (told) => lost(`The broker has not answered for ${duration(told.for_s)}. This page goes on by itself when it does.`));
  own.addEventListener("error", () => { if (own === source) away(); });
}

function away() {
  if (source) source.close();
  source = null;
  lost("The gateway does not answer, or as many watch as may. This page tries again by itself.");
  setTimeout(() => { if (!source && !document.hidden) open(); }, AGAIN_MS[Math.min(tries++, AGAIN_MS.length - 1)]);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) { if (source) source.close(); source = null; } // nobody looks: nobody is asked
  else if (!source) open();
});
setInterval(() => { if (source && performance.now() - heardAt > SILENT_MS) away(); }, 1000);
open();
