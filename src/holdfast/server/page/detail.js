// The details of one thing: an agent's work with its output, a grant, a file, a controller.

import { button, h, length, stands, who } from "./lists.js";
import { chainOf, commitOf, decisionOf, diffOf, factsOf, keyOf, taskChip, troubleOf } from "./tasks.js";
import { blocked, decisionButtons, reason, stateChip } from "./views.js";
import { visible } from "./visible.js";

// How much output the page keeps.
const TEXT_MAX = 200_000;
const PATHS_MAX = 60;
const REFRESH_MS = 1000;
// Escape sequences that a terminal would obey, such as colours. Other control characters are spelled out.
const CONTROL = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b[\]P][^\u0007\u001b]*(?:\u0007|\u001b\\)|\r(?=\n)/g;

export class Detail {
  constructor(box, orders, closed) {
    Object.assign(this, { box, orders, closed, about: null, stream: null });
  }

  get isOpen() {
    return !this.box.hidden;
  }

  close() {
    if (!this.isOpen) return;
    this.stop();
    this.box.hidden = true;
    this.about = null;
    this.closed();
  }

  stop() {
    this.stream?.close();
    this.stream = null;
  }

  // Show something. `about` is {kind, id}.
  async open(about, ledger, past) {
    this.past = past;
    const isSame = this.about && this.about.kind === about.kind && this.about.id === about.id;
    if (!isSame) this.stop();
    this.about = about;
    const body = await this[about.kind](about.id, ledger, isSame);
    if (this.about !== about || body === null) return;
    const close = button("×", () => this.close(), "close");
    close.setAttribute("aria-label", "Close");
    const { scrollTop } = this.box;
    this.box.replaceChildren(close, ...body);
    this.box.classList.toggle("wide", Boolean(this.box.querySelector(".diff")));
    this.box.hidden = false;
    this.box.scrollTop = isSame ? scrollTop : 0;
    this.drawn = Date.now();
  }

  // Redraw after a change, but not while the person clicks, or reads an output.
  refresh(ledger, past) {
    const task = this.about?.kind === "task" && ledger.tasks.find((one) => keyOf(one) === this.about.id);
    if (this.isOpen && task && task.state !== this.state) {
      this.stop();
      this.open({ ...this.about }, ledger, past);
      return;
    }
    const isBusy = this.stream || this.box.matches(":active") || this.box.contains(document.activeElement);
    if (this.isOpen && !isBusy && Date.now() - this.drawn > REFRESH_MS) this.open({ ...this.about }, ledger, past);
  }

  async task(key, ledger, isSame) {
    const [list, name] = key.split("\n");
    const answer = await fetch(`/api/task?list=${encodeURIComponent(list)}&name=${encodeURIComponent(name)}`);
    if (!answer.ok) return [h("h2", "", name), h("p", "muted", "The ledger no longer has this task.")];
    const task = await answer.json();
    // Redrawn only if it changed: the person may be reading a long diff.
    const look = JSON.stringify([task, this.orders.may]);
    if (isSame && this.look === look && this.isOpen) return null;
    Object.assign(this, { look, state: task.state });
    const diff = await diffOf(task);
    return [
      h("h2", "", who(task.name)), h("p", "", taskChip(task.state)), ...decisionOf(task, this.orders), list_(factsOf(task, ledger)),
      ...troubleOf(task), ...chainOf(task), ...commitOf(task), ...diff,
      h("h3", "", "Prompt"), h("pre", "output prompt", task.prompt),
      ...this.output({ id: task.item, logs: task.logs }), ...files("Files", task.files),
    ];
  }

  async item(id, ledger, isSame) {
    const task = ledger.ofTask.get(id);
    if (task) return this.task(keyOf(task), ledger, isSame);
    const answer = await fetch(`/api/items/${encodeURIComponent(id)}`);
    if (!answer.ok) return [h("h2", "", id), h("p", "muted", "The ledger no longer has this item.")];
    const item = await answer.json();
    const facts = [
      ["phase", item.phase], ["status", item.status],
      ["waiting", item.status === "queued" ? length(ledger.now - item.queued / 1000) : ""],
      ["at work", item.status === "dispatched" ? length(ledger.now - item.dispatched / 1000) : ""],
      ["tries", item.retries ? String(item.retries + 1) : ""], ["reason", item.reason], ["item", item.id],
    ];
    return [
      h("h2", "", who(item.workflow)), list_(facts), ...(item.status === "queued" ? this.waits(item, ledger) : []),
      ...this.output(item), ...files("Writes", item.write_paths), ...files("Reads", item.read_paths),
    ];
  }

  waits(item, ledger) {
    const all = (item.why || []).map((one) => h("li", "", ...reason({ ...item, id: "", grant_id: "", why: [one], why_more: 0 }, ledger), h("span", "muted", ` for ${length(ledger.now - Date.parse(one.since))}`)));
    const more = item.why_more ? h("li", "muted", `and ${item.why_more} more`) : "";
    return [h("h3", "", "Waits for"), all.length ? h("ul", "", ...all, more) : h("p", "", item.sentence)];
  }

  // The output of its agents, as they print it.
  output(item) {
    if (!item.logs.length) return [];
    const text = h("pre", "output", "");
    text.tabIndex = 0;
    text.setAttribute("aria-label", "Output");
    const tabs = item.logs.map((log) => button(log.name.replace(".log", ""), (pressed) => {
      for (const one of tabs) one.setAttribute("aria-pressed", one === pressed);
      this.follow(item.id, log, text);
    }, "quiet"));
    tabs.at(-1).click();
    return [h("h3", "", "Output ", h("span", "choices", ...tabs)), text];
  }

  follow(id, log, box) {
    this.stop();
    box.textContent = "";
    const from = Math.max(0, log.size - TEXT_MAX);
    const stream = new EventSource(`/api/output/${encodeURIComponent(id)}/${encodeURIComponent(log.name)}?offset=${from}`);
    this.stream = stream;
    stream.onmessage = (event) => {
      const isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
      box.append(visible(JSON.parse(event.data).replace(CONTROL, "")));
      if (box.textContent.length > 2 * TEXT_MAX) box.textContent = box.textContent.slice(-TEXT_MAX);
      if (isAtEnd) box.scrollTop = box.scrollHeight;
    };
    stream.addEventListener("end", () => {
      stream.close();
      if (this.stream === stream) this.stream = null;
    });
  }

  async grant(id, ledger) {
    const grant = ledger.grants.get(id);
    if (!grant) return [h("h2", "", "This grant has ended")];
    const { owner, standing: state } = grant;
    const facts = [
      ["state", state ? stands(state, ledger.now) : ""],
      ["for", length(ledger.now - grant.since)], ["reason", grant.reason], ["user", owner.user], ["client", owner.client],
      ["process", owner.pid ? String(owner.pid) : ""], ["session", owner.session],
      ["lease ends", grant.until ? `in ${length(grant.until - ledger.now)}` : "when its owner ends"], ["grant", grant.id],
    ];
    return [h("h2", "", who(grant.name)), list_(facts), ...files("Writes", grant.writes), ...files("Reads", grant.reads)];
  }

  async ticket(id, ledger) {
    const ticket = ledger.tickets.get(id);
    if (!ticket) return [h("h2", "", "This request is no longer waiting")];
    const state = ticket.standing;
    const facts = [
      ["state", state ? stands(state, ledger.now) : ""], ["place in queue", state?.line ? String(state.line) : ""],
      ["waiting", length(ledger.now - ticket.since)], ["reason", ticket.reason],
    ];
    return [
      h("h2", "", who(ticket.holder)), list_(facts),
      ...this.waits({ ...ticket, sentence: ticket.sentence || "its turn in the queue" }, ledger),
      ...files("To write", ticket.write_paths), ...files("To read", ticket.read_paths),
    ];
  }

  async file(path, ledger) {
    const covers = (one) => one.writes.includes(path) || one.reads.includes(path);
    const verb = (one) => (one.writes.includes(path) ? "writing" : "reading");
    const said = (one) => {
      const state = one.owner?.key && ledger.standing.get(`${one.owner.key}\n${path}`);
      return state ? h("span", "muted", `, ${stands(state, ledger.now)}`) : "";
    };
    const held = [...ledger.grants.values()].filter(covers).map((one) => h("li", "", who(one.name), `, ${verb(one)} for ${length(ledger.now - one.since)}`, said(one)));
    const waits = [...ledger.items.values(), ...ledger.tickets.values(), ...ledger.calls]
      .filter((one) => (one.status ? one.status === "queued" && !one.grant_id : true) && (one.write_paths.includes(path) || one.read_paths.includes(path)))
      .slice(0, PATHS_MAX).map((one) => h("li", "", who(one.workflow || one.holder), said(one)));
    const stray = (one) => h("li", "", who(one.agent), h("span", "muted", `, ${stands(one, ledger.now)}`));
    const strays = ledger.queue.waiting.filter((row) => row.kind === "agent" && row.file === path);
    waits.push(...strays.map((row) => stray(ledger.standing.get(`${row.id}\n${path}`))));
    const stopped = blocked(ledger).filter((one) => one.file === path).map(stray);
    const before = [...this.past.spans.values()].filter((one) => one.until && covers(one)).slice(-20).reverse()
      .map((one) => h("li", "", who(one.holder), h("span", "muted", `, ${verb(one)} for ${length(one.until - one.since)}, until ${length(ledger.now - one.until)} ago`)));
    return [
      h("h2", "", h("code", "", path)), ...section("Held by", held, "no agent"), ...section("Wanted by", waits, ""), ...section("Blocked here", stopped, ""), ...section("Earlier", before, ""),
    ];
  }

  async agent(name, ledger) {
    const spans = [...this.past.spans.values()].filter((one) => one.holder === name);
    const last = spans.at(-1);
    if (last?.item) return this.item(last.item, ledger);
    const rows = spans.slice(-30).reverse().map((one) => h("li", "", h("code", "", one.writes[0] || one.reads[0] || ""), h("span", "muted", ` for ${length((one.until || ledger.now) - one.since)}`)));
    const states = ledger.agents.filter((one) => one.agent === name)
      .map((one) => h("li", "", h("code", "", one.file), h("span", "muted", ` ${stands(one, ledger.now)}`)));
    return [h("h2", "", who(name)), ...section("Now", states, ""), ...section("Held", rows, "nothing")];
  }

  async controller(name, ledger) {
    const one = ledger.controllers.get(name);
    if (!one) return [h("h2", "", name)];
    const answer = await fetch(`/api/items?workflow=${encodeURIComponent(name)}`);
    const { items } = await answer.json();
    const rows = items.map((item) => h("li", "", button(item.workflow, () => this.open({ kind: "item", id: item.id }, ledger, this.past), "link"), " ",
      h("span", "muted", `${item.phase}, ${item.status}${item.data.findings === undefined ? "" : `, ${item.data.findings} findings`}`), item.reason ? h("div", "wrong", item.reason) : ""));
    const targets = one.targets.length ? one.targets : [...new Set(items.flatMap((item) => item.data.write_targets || []))];
    return [
      h("h2", "", name), h("p", "", stateChip(one.state), " ", decisionButtons(one, this.orders)),
      list_([["screens", one.screens.join(", ")], ["decision", one.decision], ["reason", one.reason]]),
      ...section("Work", rows, "nothing yet"), ...files("Its merge writes", targets),
    ];
  }
}

function list_(facts) {
  const made = h("dl", "");
  for (const [name, value] of facts) if (value) made.append(h("dt", "", name), h("dd", "", value));
  return made;
}

function section(title, rows, none) {
  if (!rows.length && !none) return [];
  return [h("h3", "", title), rows.length ? h("ul", "", ...rows) : h("p", "muted", none)];
}

function files(title, paths) {
  const rows = paths.slice(0, PATHS_MAX).map((path) => h("li", "", h("code", "", path)));
  if (paths.length > PATHS_MAX) rows.push(h("li", "muted", `and ${paths.length - PATHS_MAX} more`));
  return section(title, rows, "");
}
