// What the page knows: the state as it was asked for once, and every event since. Nothing is drawn here.

const milliseconds = (text) => (text ? Date.parse(text) : 0);
const ENDINGS = {
  lock_released: "released", lock_reaped: "reaped", lock_stolen: "stolen",
  lock_forced: "forced", lock_moved: "moved",
};
// What changes how agents stand towards files; how, only the server says.
const OF_AGENTS = new Set([
  "contention_heartbeat", "contention_over", "stop_held", "back_in_line", "file_handed_over", "agent_blocked",
  "agent_resumed", "agent_resting", "agent_awake", "agent_present", "agent_gone", "leases_limited",
  "leases_lasting", "blocker_free", "blocker_free_told", "blocker_free_over",
]);
// Of what is over, so much is kept for the timeline.
const SPANS_MAX = 4000;
const GAPS_MAX = 500;

export class Ledger {
  constructor(state) {
    this.head = state.head;
    this.name = state.name;
    this.root = state.root;
    this.off = state.off;
    // How far the ledger's clock is ahead of the browser's.
    this.ahead = milliseconds(state.now) - Date.now();
    this.items = new Map();
    this.why = new Map();
    for (const item of [...state.locks.active_items, ...state.locks.held_items]) this.items.set(item.id, item);
    for (const item of state.waiting) {
      this.items.set(item.id, item);
      this.why.set(item.id, item);
    }
    this.tickets = new Map(state.tickets.map((one) => [one.id, { ...one, since: milliseconds(one.since) }]));
    this.grants = new Map();
    for (const one of state.locks.active_grants) this.grants.set(one.id, asGrant(one, milliseconds(one.acquired_at)));
    this.controllers = new Map(state.controllers.map((one) => [one.name, one]));
    this.gaps = state.gaps;
    this.standHead = 0;
    this.stand(state);
    this.toldHead = 0;
    this.tell(state);
    this.spans = new Map();
    this.spansHead = 0;
    this.contention = [];
    for (const grant of this.grants.values()) this.open(grant);
  }

  get now() {
    return Date.now() + this.ahead;
  }

  // How agents stand towards files, as the server tells it.
  stand(told) {
    if (told.head < this.standHead) return;
    this.standHead = told.head;
    this.agents = told.agents;
    this.standing = new Map(told.agents.map((one) => [`${one.key}\n${one.file}`, one]));
  }

  // What only the server counts: how far the work is, every task, what has failed, and how many there are of each.
  tell(told) {
    if (told.head < this.toldHead) return;
    this.toldHead = told.head;
    this.toldAt = milliseconds(told.now);
    for (const name of ["phase", "counts", "failures", "undecided", "progress", "tasks", "trouble", "guidance"]) this[name] = told[name];
    this.cutOff = new Set(told.cut_off);
    this.ofTask = new Map(this.tasks.map((one) => [one.item, one]));
  }

  // Those in line who are no items: an item says itself what it waits for.
  get strangers() {
    return [...this.tickets.values()].filter((one) => !this.items.has(one.holder));
  }

  // How the owner of a grant or a ticket stands towards its first file; nothing if that is no agent.
  standingOf(one) {
    const [first] = one.writes || one.write_paths;
    return first && one.owner?.key ? this.standing.get(`${one.owner.key}\n${first}`) : undefined;
  }

  // Agents that wait and stand in no line.
  get strays() {
    return this.agents.filter((one) => one.state === "retry_pending" && !one.line);
  }

  get blocked() {
    return this.agents.filter((one) => one.state === "blocked");
  }

  // What people call a holder: an item by its workflow.
  called(grant) {
    const item = this.items.get(grant.holder);
    return item ? item.workflow : grant.name;
  }

  // History as the server tells it, merged with what is known already.
  learn(history) {
    this.contention = history.contention;
    this.gaps = history.gaps;
    const known = this.spans;
    this.spans = new Map();
    for (const one of history.spans) {
      const span = asSpan(one.grant, one.holder, one.item, one.read_paths, one.write_paths, milliseconds(one.since));
      span.until = one.until ? milliseconds(one.until) : 0;
      this.spans.set(one.grant, span);
    }
    for (const [id, span] of known) {
      const told = this.spans.get(id);
      if (!told) this.spans.set(id, span);
      else if (span.until) told.until = span.until;
    }
  }

  // One more event. What changed, in words; "reload" if only the server knows.
  apply(event) {
    if (event.seq <= this.head) return [];
    this.head = event.seq;
    const data = event.data;
    const at = milliseconds(event.timestamp);
    if (OF_AGENTS.has(event.type)) return ["agents"];
    if (event.type === "lock_acquired") return this.acquired(data, at);
    if (event.type in ENDINGS) return this.ended(data, at);
    switch (event.type) {
      case "ticket_added":
        this.tickets.set(data.id, {
          id: data.id, holder: data.holder.id, owner: data.holder, since: at, reserved: false, reason: data.reason || "",
          read_paths: data.read_paths, write_paths: data.write_paths, for: [], why: [],
        });
        return ["tickets"];
      case "ticket_dropped":
        this.tickets.delete(data.ticket);
        return ["tickets"];
      case "ticket_reserved": {
        const ticket = this.tickets.get(data.ticket);
        if (ticket) ticket.reserved = true;
        return ["tickets"];
      }
      case "work_queued": case "work_dispatched": case "work_waits": case "work_retried": case "work_ended":
        return this.item(data);
      case "work_state":
        return this.flow(data);
      case "coverage_gap": {
        const span = this.spans.get(data.grant);
        const workflow = span ? span.holder : data.client;
        const controller = this.controllers.get(workflow);
        const screens = controller ? controller.screens : span && span.item ? [workflow] : [];
        this.gaps.push({ path: data.path, why: data.why, workflow, screens, at: at * 1000 });
        if (this.gaps.length > GAPS_MAX) this.gaps.shift();
        return ["trouble"];
      }
      case "work_broken": case "work_mended": case "work_taken_up":
      case "task_list_begun": case "task_list_ended": case "task_changed": case "task_decided": case "task_forgotten":
        return ["summary"];
      case "work_assigned": case "work_forgotten":
      case "gate_on": case "gate_off":
        return ["reload"];
      default:
        return [];
    }
  }

  acquired(data, at) {
    const grant = asGrant({ ...data, holder: data.holder.id, owner: data.holder }, at);
    this.tickets.delete(data.id);
    this.grants.set(grant.id, grant);
    this.open(grant);
    return ["grants", "tickets", ...ofAgent(grant)];
  }

  ended(data, at) {
    const span = this.spans.get(data.grant);
    if (span) span.until = at;
    const grant = this.grants.get(data.grant);
    this.grants.delete(data.grant);
    return ["grants", ...(grant ? ofAgent(grant) : [])];
  }

  open(grant) {
    const span = asSpan(grant.id, this.called(grant), grant.item, grant.reads, grant.writes, grant.since);
    this.spans.set(grant.id, span);
    if (this.spans.size <= SPANS_MAX) return;
    for (const [id, old] of this.spans) {
      if (old.until) {
        this.spans.delete(id);
        return;
      }
    }
  }

  item(data) {
    const isOver = data.status === "completed" || data.status === "error";
    if (isOver) this.items.delete(data.id);
    else this.items.set(data.id, data);
    if (data.status !== "queued") this.why.delete(data.id);
    const span = this.spans.get(data.grant_id);
    if (span) {
      span.holder = data.workflow;
      span.item = data.id;
    }
    const grant = this.grants.get(data.grant_id);
    if (grant) Object.assign(grant, { name: data.workflow, item: data.id, phase: data.phase });
    const controller = this.controllers.get(data.data.group);
    if (controller && isOver && data.phase === "analyze") {
      if (data.status === "completed") controller.analysed = Math.min(controller.analysed + 1, controller.screens.length);
      else controller.failed += 1;
    }
    return ["items", "controllers"];
  }

  flow(data) {
    const known = this.controllers.get(data.workflow);
    if (!known) return ["reload"];
    const again = data.state === "queued" && !data.data.decision;
    Object.assign(known, {
      state: data.state, reason: data.reason,
      targets: data.data.targets || known.targets, decision: data.data.decision || "",
      ...(again ? { analysed: 0, failed: 0 } : {}),
    });
    return ["controllers", "trouble"];
  }

  get active() {
    return [...this.items.values()].filter((one) => one.status === "dispatched").sort((a, b) => a.dispatched - b.dispatched);
  }

  get inReview() {
    return [...this.items.values()].filter((one) => one.status === "held").sort((a, b) => a.dispatched - b.dispatched);
  }

  get waiting() {
    return [...this.items.values()].filter((one) => one.status === "queued").sort(byRank);
  }
}

const ORDER = { verify: 0, ci: 0, test: 1, fix: 1, apply: 2, merge: 2, analyze: 3 };

function byRank(a, b) {
  return b.escalated - a.escalated || b.priority - a.priority || (ORDER[a.phase] ?? 4) - (ORDER[b.phase] ?? 4) || a.arrival - b.arrival;
}

function ofAgent(grant) {
  return grant.owner.key?.startsWith("@") ? ["agents"] : [];
}

function asGrant(data, since) {
  return {
    id: data.id, holder: data.holder, name: data.name || data.holder, item: data.item || "", phase: data.phase || "",
    reads: data.read_paths, writes: data.write_paths, since, reason: data.reason || "", token: data.token,
    until: milliseconds(data.expires_at), owner: data.owner || {},
  };
}

function asSpan(grant, holder, item, reads, writes, since) {
  return { grant, holder, item, reads, writes, since, until: 0 };
}
