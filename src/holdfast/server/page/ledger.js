// The server's last answer, with maps for lookups. Nothing is computed here: grants, counts and every order come from the
// server.

const milliseconds = (text) => (text ? Date.parse(text) : 0);
// How many spans are kept for the timeline.
const SPANS_MAX = 4000;
// A larger change of the difference between the clocks means that one of them was set.
const SET_MS = 2000;
const TOLD = [
  "head", "name", "root", "off", "phase", "phase_words", "counts", "failures", "undecided", "progress", "tasks", "trouble", "guidance",
  "queue", "gaps", "agents", "calls",
];

export class Ledger {
  constructor(state, before) {
    for (const name of TOLD) this[name] = state[name];
    this.toldAt = milliseconds(state.now);
    this.ahead = aheadOf(this.toldAt - Date.now(), before);
    this.items = byId([...state.locks.active_items, ...state.locks.held_items, ...state.waiting]);
    this.grants = byId(state.locks.active_grants.map(asGrant));
    this.tickets = byId(state.tickets.map(asTicket));
    this.wanted = new Map(Object.entries(state.wanted));
    this.controllers = new Map(state.controllers.map((one) => [one.name, one]));
    this.standing = new Map(this.agents.map((one) => [`${one.key}\n${one.file}`, one]));
    this.cutOff = new Set(state.cut_off);
    this.ofTask = new Map(this.tasks.map((one) => [one.item, one]));
    // Why items wait: from the state and from later requests; `older` has what earlier states said.
    this.why = byId(state.waiting.filter((one) => one.why));
    this.older = before ? new Map([...before.older, ...before.why].filter(([id]) => this.items.has(id))) : new Map();
  }

  get now() {
    return Date.now() + this.ahead;
  }

  // Why an item or a ticket waits.
  reasonOf(waiter) {
    return this.why.get(waiter.id) || this.older.get(waiter.id) || waiter;
  }
}

// History. The server sends only what has changed since the last request, and that is merged with what is known.
export class Past {
  constructor() {
    Object.assign(this, { head: 0, spans: new Map(), contention: [] });
  }

  learn(told) {
    this.head = told.head;
    this.contention = told.contention;
    for (const one of told.spans) this.spans.set(one.grant, asSpan(one));
    for (const [id, span] of this.spans) {
      if (this.spans.size <= SPANS_MAX) break;
      if (span.until) this.spans.delete(id);
    }
  }
}

// How far the ledger's clock is ahead of the browser's. An answer takes time, and may be a second old, so of several
// estimates the largest is the best.
function aheadOf(found, before) {
  return before && Math.abs(found - before.ahead) < SET_MS ? Math.max(found, before.ahead) : found;
}

const byId = (all) => new Map(all.map((one) => [one.id, one]));

function asGrant(one) {
  return { ...one, reads: one.read_paths, writes: one.write_paths, since: milliseconds(one.acquired_at), until: milliseconds(one.expires_at) };
}

const asTicket = (one) => ({ ...one, since: milliseconds(one.since) });

function asSpan(one) {
  return { ...one, reads: one.read_paths, writes: one.write_paths, since: milliseconds(one.since), until: milliseconds(one.until) };
}
