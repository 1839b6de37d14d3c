// The page: starts, follows the ledger, and knows which view is shown.

import { Detail } from "./detail.js";
import { Ledger, Past } from "./ledger.js";
import { List, h } from "./lists.js";
import { drawProgress } from "./progress.js";
import { drawTask, taskRows } from "./tasks.js";
import { Timeline } from "./timeline.js";
import * as views from "./views.js";
import { visible } from "./visible.js";

const $ = (id) => document.getElementById(id);
const TABS = ["tasks", "files", "queue", "controllers", "timeline", "contention", "trouble"];
// How long after an event the page requests the state, the reasons that the state lacks, and history.
const STATE_MS = 100;
const STATE_MS_MAX = 2000;
const WHY_MS = 400;
const DRAWN_MS = 300;
const HISTORY_MS = 2000;
const FORECAST_MS = 5000;
const ALL_MS = 60_000;
const REST_MS = 30_000;
const AGAIN_MS = 2000;

let ledger = null;
let past = new Past();
let stream = null;
let asking = 0;
let askingHistory = 0;
const folded = new Set();

// The page's secret follows the # in the address that the server printed. Without it the page is read only. The page
// keeps it for this window and this address only: a cookie would be sent to every server on the same machine.

const SECRET = "holdfast-secret";
const [, told, asked = location.hash.slice(1)] = location.hash.match(/^#secret=([\w-]+)(?:#(.*))?$/) || [];
let secret = told || "";
try { // a browser may forbid storage: then the secret lasts until the page is reloaded
  if (told) sessionStorage.setItem(SECRET, told);
  secret ||= sessionStorage.getItem(SECRET) || "";
} catch {
  secret = told || "";
}

// Orders: the only requests of this page that change anything.

async function order(path, body, pressed) {
  if (pressed) pressed.disabled = true;
  try {
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${secret}` };
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
    const said = await answer.json();
    if (answer.status === 401) { // the secret of an earlier server
      secret = "";
      draw();
    }
    if (!answer.ok) toast(`${said.error.message}. ${said.error.hint}`);
  } catch {
    toast("The server cannot be reached.");
  } finally {
    if (pressed) pressed.disabled = false;
  }
}

const place = (name) => name.split("/").map(encodeURIComponent).join("/");
const orders = {
  get may() { return Boolean(secret); },
  decide: (name, decision, pressed) => order(`/decide/${place(name)}`, { decision }, pressed),
  decideTask: (task, decision, pressed) => order("/decide", { list: task.list, task: task.name, item: task.item, tries: task.tries, decision }, pressed),
  analyze: (name, pressed) => order(`/analyze/${place(name)}`, {}, pressed),
};

let toasting = 0;
function toast(text) {
  $("toast").textContent = visible(text);
  $("toast").hidden = false;
  clearTimeout(toasting);
  toasting = setTimeout(() => ($("toast").hidden = true), 8000);
}

// Views

const timeline = new Timeline($("timeline-by"), $("timeline-span"), $("axis"), $("legend"));
const detail = new Detail($("detail"), orders, () => $(`list-${tab()}`).focus());
const show = (kind, id) => detail.open({ kind, id }, ledger, past);

const lists = {
  tasks: new List($("list-tasks"), {
    height: 54, draw: (row, made) => drawTask(row, made, ledger, orders, (one) => show("task", one.key)), empty: "No tasks yet. To start some: holdfast dispatch tasks.toml",
    open: (row) => show("task", row.key),
  }),
  files: new List($("list-files"), {
    height: 30, draw: views.drawFile, empty: "Nothing is held.",
    open: (row) => (row.kind === "folder" ? fold(row, !row.isFolded) : show("file", row.path)), fold,
  }),
  queue: new List($("list-queue"), {
    height: 54, draw: (row, made) => views.drawQueue(row, made, ledger), empty: "No agent is at work, and none is waiting.",
    open: (row) => (row.kind === "stray" ? show("file", row.one.file) : show(["grant", "ticket"].includes(row.kind) ? row.kind : "item", row.key)),
  }),
  controllers: new List($("list-controllers"), {
    height: 62, draw: (row, made) => views.drawController(row, made, orders), empty: "No work yet. To start some: holdfast dispatch screens.json",
    open: (row) => show("controller", row.key),
  }),
  timeline: new List($("list-timeline"), {
    height: 28, draw: (row, made) => timeline.draw(row, made, ledger, past), empty: "Nothing was held during this time.",
    open: (row) => show(timeline.by.value, row.key),
  }),
  contention: new List($("list-contention"), {
    height: 56, draw: (row, made) => views.drawContention(row, made, Math.max(0, ...past.contention.map((one) => one.waited_seconds))),
    empty: "No request had to wait for a file.", open: (row) => show("file", row.key),
  }),
  trouble: new List($("list-trouble"), {
    height: 54, draw: views.drawTrouble, empty: "No errors, no gaps, no blocked agents.",
    open: (row) => (row.of ? showFailed(row.of) : row.path ? show("file", row.path) : null),
  }),
};

function showFailed(one) {
  if (one.kind === "task") show("task", `${one.list}\n${one.name}`);
  else show(one.kind, one.kind === "item" ? one.item : one.name);
}

function fold(row, isFolded) {
  if (!row || row.kind !== "folder") return;
  // `folded` has the folders that are not as they were at first: hidden ones closed, all others open.
  if (isFolded !== (row.depth === 0 && row.path.startsWith("."))) folded.add(row.path);
  else folded.delete(row.path);
  lists.files.show(views.fileRows(ledger, folded, matcher()));
}

const tab = () => document.body.dataset.tab;
const tabs = () => TABS.filter((one) => !$(`tab-${one}`).hidden);
const isWide = () => matchMedia("(min-width: 1000px)").matches;
// On a wide screen, files and queue are side by side.
const shown = () => (isWide() && ["files", "queue"].includes(tab()) ? ["files", "queue"] : [tab()]);

function turnTo(name, { focus = false } = {}) {
  document.body.dataset.tab = name;
  for (const one of TABS) {
    const isOn = one === name;
    $(`tab-${one}`).setAttribute("aria-selected", isOn);
    $(`tab-${one}`).tabIndex = isOn ? 0 : -1;
  }
  $(`tab-${name}`).scrollIntoView({ block: "nearest", inline: "nearest" });
  history.replaceState(null, "", `#${name}`);
  if (ledger && ["timeline", "contention"].includes(name)) askHistory(0);
  draw();
  if (focus) $(`list-${name}`).focus();
}

function matcher() {
  const text = $("filter").value.trim().toLowerCase();
  return (...texts) => !text || texts.some((one) => one && one.toLowerCase().includes(text));
}

function draw() {
  if (!ledger) return;
  const matches = matcher();
  drawHeader();
  for (const name of shown()) {
    if (name === "tasks") lists.tasks.show(taskRows(ledger, matches));
    if (name === "files") lists.files.show(views.fileRows(ledger, folded, matches));
    if (name === "queue") lists.queue.show(views.queueRows(ledger, matches));
    if (name === "controllers") lists.controllers.show(views.controllerRows(ledger, matches));
    if (name === "contention") lists.contention.show(views.contentionRows(past, matches));
    if (name === "trouble") lists.trouble.show(views.troubleRows(ledger, matches));
    if (name === "timeline") {
      const rows = timeline.rows(ledger, past, matches);
      timeline.drawLegend(rows);
      timeline.drawAxis(ledger, past);
      lists.timeline.show(rows);
    }
  }
  askWhy();
}

function drawHeader() {
  const { counts } = ledger;
  $("name").textContent = visible(ledger.name);
  $("name").title = visible(ledger.root);
  $("phase").textContent = ledger.phase_words;
  $("phase").className = `chip ${ledger.phase}`;
  $("phase").hidden = false;
  const said = [`${counts.held} held`, `${counts.waiting} waiting`, counts.done ? `${counts.done} done` : "", counts.failed ? `${counts.failed} failed` : ""];
  $("figures").textContent = said.filter(Boolean).join(" · ");
  $("mode").textContent = orders.may ? "read and write" : "read only";
  $("mode").title = orders.may ? "You can approve, reject and stop from this page." : "This page is read only. To approve, reject or stop, open the full address that the server printed when it started.";
  $("mode").hidden = false;
  $("stop").hidden = !orders.may || !ledger.progress.some((one) => one.runs);
  document.title = visible(`${counts.held} held, ${counts.waiting} waiting · ${ledger.name}`);
  $("tab-tasks").hidden = !ledger.progress.some((one) => one.kind === "tasks");
  $("tab-controllers").hidden = !ledger.controllers.size;
  const undecided = (kind) => ledger.undecided.filter((one) => one.kind === kind);
  count("tasks", undecided("task").length, true);
  count("files", counts.held);
  count("queue", counts.at_work + counts.waiting);
  count("controllers", undecided("controller").length, true);
  count("trouble", counts.trouble, true);
  drawProgress($("progress"), ledger);
  drawGuidance();
  drawBanners();
}

// Commands to start with, in a repository where nothing has happened yet.
let guided = "";
function drawGuidance() {
  const look = JSON.stringify(ledger.guidance);
  if (look === guided) return;
  guided = look;
  const rows = ledger.guidance.flatMap((one) => [h("dt", "", h("code", "", one.command)), h("dd", "muted", one.does)]);
  lists.files.empty.replaceChildren("Nothing is held.", rows.length ? h("div", "guide", h("p", "", "There is nothing here yet. In this repository, run:"), h("dl", "", ...rows)) : "");
}

function count(name, number, isUrgent = false) {
  $(`count-${name}`).textContent = number || "";
  $(`count-${name}`).classList.toggle("urgent", isUrgent && number > 0);
}

let bannersDrawn = "";
function drawBanners() {
  const found = [];
  if (ledger.trouble) found.push(["wrong", `The scheduler failed: ${ledger.trouble}. Its queue is kept; restart it with holdfast dispatch --resume.`, null]);
  for (const one of ledger.progress) if (one.gone) found.push(["wrong", `${one.gone} To continue: `, null, one.command]);
  if (ledger.off) found.push(["careful", ledger.off, null]);
  for (const [kind, name, to] of [["controller", "controllers", "controllers"], ["task", "tasks", "tasks"]]) {
    const waiting = ledger.undecided.filter((one) => one.kind === kind);
    if (!waiting.length) continue;
    const text = waiting.length === 1 ? `${waiting[0].name} is waiting for a decision.` : `${waiting.length} ${name} are waiting for a decision.`;
    found.push(["careful", text + (orders.may ? "" : " This page is read only: to decide, open the full address that the server printed when it started."), to]);
  }
  const look = JSON.stringify([found, tab()]);
  if (look === bannersDrawn) return;
  bannersDrawn = look;
  $("banners").replaceChildren(...found.filter(([, , to]) => to !== tab() || !orders.may).map(([kind, text, to, command]) => {
    const made = h("p", `banner ${kind}`, h("span", "", text, command ? h("code", "", command) : ""));
    if (to && to !== tab()) {
      const go = h("button", "quiet", "Look");
      go.addEventListener("click", () => turnTo(to, { focus: true }));
      made.append(go);
    }
    return made;
  }));
}

// Requests to the server

// The state has reasons only for the first waiting items. The page requests the others when their rows are visible.
function askWhy() {
  if (asking || !shown().includes("queue")) return;
  const ids = lists.queue.seen().filter((row) => row.kind === "waiting" && !ledger.why.has(row.key)).map((row) => row.key);
  if (!ids.length) return;
  asking = setTimeout(async () => {
    try {
      const answer = await fetch(`/api/why?${ids.map((id) => `item=${encodeURIComponent(id)}`).join("&")}`);
      const { waiting } = await answer.json();
      for (const [id, said] of Object.entries(waiting || {})) ledger.why.set(id, said);
      lists.queue.paint();
    } catch {
      return; // as below
    } finally {
      asking = 0;
    }
  }, WHY_MS);
}

// After each event the server computes the whole state, including every order and count. The longer that takes, the less
// often the page requests it.
let askingState = 0;
let stateTook = 0;
function askState(wait = Math.min(STATE_MS_MAX, Math.max(STATE_MS, 8 * stateTook))) {
  askingState ||= setTimeout(async () => {
    askingState = 0;
    const began = performance.now();
    try {
      await load();
      stateTook = performance.now() - began;
    } catch {
      return; // the stream reports that the server is gone, and reconnects by itself
    }
  }, wait);
}

let isAnew = false; // the ledger was replaced: forget what is known about the old one
async function load() {
  const answer = await fetch("/api/state");
  const state = await answer.json();
  if (!answer.ok) throw new Error(state.error.message);
  if (ledger && !isAnew && state.head < ledger.head) return; // an older answer that arrived late
  ledger = new Ledger(state, isAnew ? null : ledger);
  isAnew = false;
  draw();
  detail.refresh(ledger, past);
  askHistory();
}

function again() {
  isAnew = true;
  past = new Past();
  askState(0);
}

// History: only what has changed since the last answer.
function askHistory(wait = !past.head ? 0 : tab() === "timeline" ? DRAWN_MS : HISTORY_MS) {
  askingHistory ||= setTimeout(async () => {
    askingHistory = 0;
    const asked = past;
    try {
      const answer = await fetch(`/api/history?since=${asked.head}`);
      if (!answer.ok || asked !== past) return;
      const told = await answer.json();
      if (told.head < past.head) past = new Past();
      past.learn(told);
      if (["timeline", "contention"].includes(tab())) draw();
      detail.refresh(ledger, past);
    } catch {
      return; // as above
    }
  }, wait);
}

// A browser allows only a few connections to one server, however many windows it has. So a hidden page closes its stream
// after a while, and continues from the same event when it becomes visible again.
let resting = 0;
function rest() {
  stream?.close();
  stream = null;
  detail.stop();
}

function follow() {
  clearTimeout(resting);
  if (stream || !ledger) return;
  stream = new EventSource(`/api/events?after=${ledger.head}`);
  stream.onopen = () => {
    link("live");
    askState(0); // a dispatcher may have died between the last answer and this stream
  };
  stream.onerror = () => {
    link("gone");
    if (stream?.readyState !== EventSource.CLOSED) return; // the browser tries again
    stream = null; // it was refused: the ledger cannot be read, or there are too many streams
    setTimeout(() => !document.hidden && follow(), AGAIN_MS);
  };
  stream.onmessage = () => askState();
  stream.addEventListener("reset", again);
  stream.addEventListener("trimmed", again);
  stream.addEventListener("changed", () => askState(0)); // a dispatcher has died, which no event reports
}

function link(how) {
  $("link").className = `link ${how}`;
  $("link").textContent = how === "live" ? "live" : "not connected";
}

async function begin() {
  try {
    await load();
  } catch {
    link("gone");
    setTimeout(begin, AGAIN_MS);
    return;
  }
  // The second frame begins when the first has been painted. The page requests nothing else before that.
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("holdfast-shown")));
  const isThere = TABS.includes(asked) && !$(`tab-${asked}`).hidden;
  if (!isThere) turnTo($("tab-tasks").hidden ? "files" : "tasks");
  document.body.dataset.ready = "yes";
  follow();
}

// Keyboard and mouse

function ask(title, text, yes) {
  $("ask-title").textContent = visible(title);
  $("ask-text").textContent = visible(text);
  $("ask-yes").onclick = () => {
    $("ask").close();
    yes();
  };
  $("ask-no").onclick = () => $("ask").close();
  $("ask").showModal();
}

// The commands that continue the work that is running.
const commands = () => [...new Set(ledger.progress.filter((one) => one.runs).map((one) => one.command))].join("; ") || "holdfast dispatch --resume";

$("stop").addEventListener("click", () =>
  ask("Stop this run?", `No new task will start; running tasks finish. To continue: ${commands()}`, () => order("/stop", {}, $("stop"))));
$("filter").addEventListener("input", draw);
$("timeline-by").addEventListener("change", draw);
$("timeline-span").addEventListener("change", draw);
for (const name of TABS) $(`tab-${name}`).addEventListener("click", () => turnTo(name));
document.querySelector("nav").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const name = tabs().at((tabs().indexOf(tab()) + step) % tabs().length);
  turnTo(name);
  $(`tab-${name}`).focus();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (document.activeElement === $("filter")) $(`list-${tab()}`).focus();
    else detail.close();
    return;
  }
  if (event.target.matches("input, select, textarea")) return;
  const wanted = event.key >= "1" && event.key <= "9" ? tabs()[event.key - 1] : "";
  if (wanted) turnTo(wanted, { focus: true });
  else if (event.key === "/") $("filter").focus();
  else if (event.key === "?") $("keys").showModal();
  else return;
  event.preventDefault();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
matchMedia("(min-width: 1000px)").addEventListener("change", draw);
document.addEventListener("visibilitychange", () => {
  clearTimeout(resting);
  if (document.hidden) resting = setTimeout(rest, REST_MS);
  else {
    follow();
    draw();
  }
});
addEventListener("pagehide", rest);
addEventListener("pageshow", follow);
setInterval(() => !document.hidden && draw(), 1000);
setInterval(() => !document.hidden && stream && ledger?.progress.some((one) => one.left) && askState(0), FORECAST_MS);
setInterval(() => !document.hidden && ledger && askState(0), ALL_MS);

turnTo(TABS.includes(asked) ? asked : "files");
begin();
