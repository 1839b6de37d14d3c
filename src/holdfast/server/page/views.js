// The rows of the lists, and how each is drawn.

import { button, chain, h, length, many, path, stands, who } from "./lists.js";
import { visible } from "./visible.js";

// The state of an agent towards the file that it holds or waits for; nothing if it simply owns the file.
function standing(one, ledger) {
  return one.standing && !one.standing.is_plain ? stands(one.standing, ledger.now) : "";
}

// Files

// Hidden folders belong to tools; people look for their own files first.
const hiddenLast = (a, b) => a.startsWith(".") - b.startsWith(".") || (a < b ? -1 : 1);

// The tree of held files, as rows. A folder whose only content is another folder shares a row with it.
export function fileRows(ledger, folded, matches) {
  const held = new Map();
  for (const grant of ledger.grants.values()) {
    const { name } = grant;
    const put = (place, mode) => {
      if (!matches(place, name)) return;
      if (!held.has(place)) held.set(place, []);
      held.get(place).push({ name, mode, grant, stands: standing(grant, ledger) });
    };
    grant.writes.forEach((one) => put(one, "write"));
    grant.reads.forEach((one) => put(one, "read"));
  }
  const root = { folders: new Map(), files: [], count: 0 };
  for (const one of [...held.keys()].sort(hiddenLast)) place(root, one, held.get(one));
  const rows = [];
  flatten(root, 0, "", folded, rows, ledger.wanted);
  return rows;
}

function place(root, full, holders) {
  const isFolder = full.endsWith("/");
  const parts = full.split("/").filter(Boolean);
  const name = parts.pop() + (isFolder ? "/" : "");
  let node = root;
  node.count += 1;
  for (const part of parts) {
    if (!node.folders.has(part)) node.folders.set(part, { folders: new Map(), files: [], count: 0 });
    node = node.folders.get(part);
    node.count += 1;
  }
  node.files.push({ name, path: full, holders });
}

function flatten(node, depth, above, folded, rows, waits) {
  for (const [part, child] of node.folders) {
    let [name, inner, full] = [part, child, `${above}${part}`];
    while (inner.folders.size === 1 && inner.files.length === 0) {
      const [[next, only]] = inner.folders;
      [name, inner, full] = [`${name}/${next}`, only, `${full}/${next}`];
    }
    // The folders of tools are closed at first: they may have thousands of files.
    const isFolded = folded.has(full) !== (depth === 0 && full.startsWith("."));
    rows.push({ key: `folder ${full}`, kind: "folder", name, path: full, depth, count: inner.count, isFolded });
    if (!isFolded) flatten(inner, depth + 1, `${full}/`, folded, rows, waits);
  }
  for (const file of node.files) rows.push({ key: file.path, kind: "file", depth, waits: waits.get(file.path) || 0, ...file });
}

export function drawFile(row, made) {
  made.style.setProperty("--depth", row.depth);
  made.setAttribute("aria-level", row.depth + 1);
  if (row.kind === "folder") {
    made.setAttribute("aria-expanded", !row.isFolded);
    made.className = `line folder${made.classList.contains("at") ? " at" : ""}`;
    made.replaceChildren(h("span", "twist", row.isFolded ? "▸" : "▾"), h("span", "path", row.name), h("span", "muted", row.isFolded ? `${row.count} held` : ""));
    return;
  }
  made.removeAttribute("aria-expanded");
  made.className = `line file${made.classList.contains("at") ? " at" : ""}`;
  const writer = row.holders.find((one) => one.mode === "write");
  const shown = writer || row.holders[0];
  const mode = h("span", `mode ${shown.mode}`, shown.mode === "write" ? "writes" : "reads");
  const more = row.holders.length > 1 ? h("span", "muted", `+${row.holders.length - 1}`) : "";
  const waits = row.waits ? h("span", "waits", `${row.waits} waiting`) : "";
  const state = shown.stands ? h("span", "stands muted", shown.stands) : "";
  made.replaceChildren(h("span", "path", row.name), h("span", "holders", waits, state, mode, who(shown.name), more));
  made.title = visible(`${row.path}: ${row.holders.map((one) => `${one.mode === "write" ? "written" : "read"} by ${one.name}${one.stands ? ` (${one.stands})` : ""}`).join(", ")}`);
}

// The queue

export function queueRows(ledger, matches) {
  const rows = (all) => all.map((row) => rowOf[row.kind](row, ledger)).filter((row) => row && fits(row, matches));
  return [
    ...group("Cut off: the dispatcher has died", rows(ledger.queue.cut_off)),
    ...group("At work", rows(ledger.queue.at_work)),
    ...group("Waiting", rows(ledger.queue.waiting)),
  ];
}

// The object that a row of the server's queue names.
const KINDS = { dispatched: "active", held: "review", queued: "waiting" };
const rowOf = {
  item: ({ id }, ledger) => ({ key: id, kind: KINDS[ledger.items.get(id).status], item: ledger.items.get(id) }),
  grant: ({ id }, ledger) => ({ key: id, kind: "grant", grant: ledger.grants.get(id) }),
  ticket: ({ id }, ledger) => ({ key: id, kind: "ticket", ticket: ledger.tickets.get(id) }),
  agent: ({ id, file }, ledger) => ({ key: `stray ${id} ${file}`, kind: "stray", one: ledger.standing.get(`${id}\n${file}`) }),
};

function fits(row, matches) {
  if (row.kind === "stray") return matches(row.one.agent, row.one.file);
  const one = row.item || row.grant || row.ticket;
  return matches(one.workflow || one.name || one.holder, ...one.write_paths, ...one.read_paths);
}

export function group(name, rows) {
  return rows.length ? [{ key: `heading ${name}`, isHeading: true, name, count: rows.length }, ...rows] : [];
}

export function drawQueue(row, made, ledger) {
  const at = made.classList.contains("at") ? " at" : "";
  if (row.isHeading) {
    made.className = "line heading";
    made.replaceChildren(h("span", "", row.name), h("b", "", String(row.count)));
    return;
  }
  made.className = `line two ${row.kind}${at}`;
  const [name, phase, since, second] = told(row, ledger);
  made.replaceChildren(
    h("span", "first", who(name), phase ? h("span", `chip ${phase.replace(" ", "_")}`, phase) : "", h("span", "since muted", since ? length(ledger.now - since) : "")),
    h("span", "second", ...second),
  );
}

// The parts of a row: its name, its phase, since when, and the second line.
function told(row, ledger) {
  if (row.kind === "active" || row.kind === "review") {
    const { item } = row;
    const task = ledger.ofTask.get(item.id);
    const steps = task?.chain || [];
    const said = steps.length ? chain(steps) : covers(item.write_paths, item.read_paths, leased(item, ledger));
    const phase = ledger.cutOff.has(item.id) ? "cut off" : task ? task.state : item.phase;
    return [item.workflow, phase, item.dispatched / 1000, [said, again(item)]];
  }
  if (row.kind === "grant") {
    const { grant } = row;
    return [grant.name, grant.phase, grant.since, [covers(grant.writes, grant.reads), also(standing(grant, ledger) || grant.reason)]];
  }
  if (row.kind === "ticket") {
    const { ticket } = row;
    const state = ticket.standing;
    return [ticket.holder, ticket.reserved ? "reserved" : "", ticket.since, state ? waits(state, ledger) : reason(ticket, ledger)];
  }
  if (row.kind === "stray") {
    const { one } = row;
    return [one.agent, "", Date.parse(one.since), waits(one, ledger)];
  }
  const task = ledger.ofTask.get(row.item.id);
  return [row.item.workflow, task ? task.state : row.item.phase, row.item.queued / 1000, [...reason(row.item, ledger), again(row.item)]];
}

// The files that a task has leased so far.
const leased = (item, ledger) => [...ledger.grants.values()].filter((one) => one.holder === item.id).flatMap((one) => one.writes);

const also = (text) => (text ? ` · ${text}` : "");

// An agent that waits: who holds the file, and when the retry is due.
function waits(one, ledger) {
  const whose = one.owner ? [who(one.owner), " has "] : ["waits for "];
  return [...whose, path(one.file), also(stands(one, ledger.now))];
}

function covers(wanted, reads, more_writes = []) {
  const writes = [...new Set([...wanted, ...more_writes])];
  if (!writes.length && !reads.length) return h("span", "covers", "no files yet");
  const [first] = writes.length ? writes : reads;
  const more = writes.length + reads.length - 1;
  const verb = writes.length ? "writes " : "reads ";
  return h("span", "covers", verb, path(first || "nothing"), more > 0 ? ` and ${more} more` : "");
}

function again(item) {
  const marks = [item.retries ? `try ${item.retries + 1}` : "", item.escalated ? "escalated" : ""].filter(Boolean);
  return marks.length ? h("span", "mark", marks.join(", ")) : "";
}

// Why a request waits, and for which holder.
export function reason(waiter, ledger) {
  const known = ledger.reasonOf(waiter);
  if (waiter.grant_id) return ["waits for a free slot, with its locks held"];
  const [first] = known.why || [];
  if (!first) return [known.sentence ? `waits for ${known.sentence}` : "waits"];
  const verb = first.kind === "reservation" ? "has reserved" : first.held_mode === "write" ? "writes" : "reads";
  const more = known.why.length - 1 + (known.why_more || 0);
  if (known.chain?.length > 1) return [chain(known.chain), more > 0 ? `, and ${more} more` : ""];
  return [who(first.name || first.holder), ` ${verb} `, path(first.path), more > 0 ? `, and ${more} more` : ""];
}

// Controllers

export function controllerRows(ledger, matches) {
  return [...ledger.controllers.values()]
    .filter((one) => matches(one.name, ...one.targets))
    .map((one) => ({ key: one.name, one }));
}

export function drawController(row, made, orders) {
  const { one } = row;
  const at = made.classList.contains("at") ? " at" : "";
  // Redrawn only if it changed: a button must not be replaced while the person presses it.
  const look = JSON.stringify([one.state, one.reason, one.analysed, one.failed, one.decision, one.targets.length, orders.may]);
  made.className = `line two controller${at}`;
  if (made.dataset.look === look && made.dataset.name === one.name) return;
  Object.assign(made.dataset, { look, name: one.name });
  const screens = one.screens.length;
  const done = screens ? `${one.analysed} of ${screens} screens analysed` : "";
  const bar = h("span", "bar", h("i", ""));
  bar.style.setProperty("--part", screens ? one.analysed / screens : 0);
  made.replaceChildren(
    h("span", "first", h("span", "title", one.name), stateChip(one.state), decisionButtons(one, orders)),
    h("span", "second", screens ? bar : "", ` ${[one.state === "error" ? one.reason : "", done, one.targets.length ? many(one.targets.length, "file") + " to write" : "", one.state === "error" ? "" : one.reason || one.decision].filter(Boolean).join(" · ")}`),
  );
}

export function stateChip(state) {
  return h("span", `chip ${state}`, state.replaceAll("_", " "));
}

// The buttons for what the server says that a person can order.
export function decisionButtons(one, orders) {
  if (!orders.may) return "";
  if (one.orders.includes("approve")) {
    return h("span", "buttons",
      button("Approve", (pressed) => orders.decide(one.name, "approve", pressed), "primary approve"),
      button("Reject", (pressed) => orders.decide(one.name, "reject", pressed), "reject"));
  }
  if (one.orders.includes("analyze")) {
    return h("span", "buttons", button("Analyse again", (pressed) => orders.analyze(one.name, pressed), "quiet"));
  }
  return "";
}

// Contention

export function contentionRows(past, matches) {
  return past.contention.filter((one) => matches(one.path)).map((one) => ({ key: one.path, one }));
}

export function drawContention(row, made, most) {
  const { one } = row;
  const bar = h("span", "bar wide", h("i", ""));
  bar.style.setProperty("--part", most ? one.waited_seconds / most : 0);
  made.className = `line two contended${made.classList.contains("at") ? " at" : ""}`;
  made.replaceChildren(
    h("span", "first", h("code", "path", one.path), one.waiting ? h("span", "waits", `${one.waiting} waiting`) : ""),
    h("span", "second", bar, ` waited for ${length(one.waited_seconds * 1000)} · held for ${length(one.held_seconds * 1000)} · ${many(one.grants, "grant")}${one.refused ? ` · ${one.refused} refused` : ""}`),
  );
}

// Trouble

export const blocked = (ledger) => ledger.agents.filter((one) => one.state === "blocked");

export function troubleRows(ledger, matches) {
  const broken = ledger.trouble ? [{ key: "broken", kind: "error", name: "the scheduler", text: ledger.trouble }] : [];
  const failed = ledger.failures.map((one) => ({ key: `error ${one.kind} ${one.list} ${one.name} ${one.item || ""}`, kind: "error", name: one.name, text: one.reason || "it failed", of: one }));
  const gaps = ledger.gaps.map((gap, at) => ({ key: `gap ${at} ${gap.path}`, kind: "gap", name: gap.workflow, path: gap.path, text: gap.why + missed(gap) })).reverse();
  const blockers = blocked(ledger).map((one) => ({
    key: `blocked ${one.key} ${one.file}`, kind: "blocked", name: one.agent, path: one.file,
    text: `${one.said}${one.owner ? ` · ${one.owner} has it` : ""}`,
  }));
  const fits = (row) => matches(row.name, row.path || "", row.text);
  return [
    ...group("Errors", [...broken, ...failed].filter(fits)),
    ...group("Blocked agents", blockers.filter(fits)),
    ...group("Gaps: writes that no grant covered", gaps.filter(fits)),
  ];
}

/** The screens whose analyses had not named what a merge wanted to write. */
function missed(gap) {
  const names = gap.screens.map((one) => one.split("/").at(-1));
  return names.length ? ` · missed by ${names.join(", ")}` : "";
}

export function drawTrouble(row, made) {
  if (row.isHeading) {
    made.className = "line heading";
    made.replaceChildren(h("span", "", row.name), h("b", "", String(row.count)));
    return;
  }
  made.className = `line two ${row.kind}${made.classList.contains("at") ? " at" : ""}`;
  made.replaceChildren(
    h("span", "first", who(row.name), row.path ? h("code", "path", row.path) : ""),
    h("span", "second", row.text),
  );
  made.title = visible(row.text);
}
