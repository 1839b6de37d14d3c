// Long lists of which only the visible rows are drawn, and small helpers for drawing.

import { visible } from "./visible.js";

// An element with a class and children. Text is never parsed as HTML, and every character of it is visible.
export function h(tag, look, ...children) {
  const made = document.createElement(tag);
  if (look) made.className = look;
  for (const child of children) {
    if (child === null || child === undefined || child === "") continue;
    made.append(child instanceof Node ? child : visible(child));
  }
  return made;
}

export function button(text, act, look = "") {
  const made = h("button", look, text);
  made.type = "button";
  made.addEventListener("click", (event) => {
    event.stopPropagation();
    act(made);
  });
  return made;
}

// A colour for a name, the same wherever it appears.
export function hue(name) {
  let sum = 7;
  for (let at = 0; at < name.length; at += 1) sum = (sum * 31 + name.charCodeAt(at)) >>> 0;
  return [172, 205, 262, 322, 12, 36, 58, 96, 140, 232, 290, 350][sum % 12];
}

export function who(name) {
  const made = h("span", "who", h("i", "dot"), h("span", "", name));
  made.style.setProperty("--h", hue(name));
  made.title = visible(name);
  return made;
}

// Who waits for whom: each waits for the next.
export function chain(steps) {
  const found = [];
  for (const [at, one] of steps.entries()) {
    found.push(at ? h("span", "arrow", ", which waits for ") : h("span", "arrow", "waits for "), who(one.name));
    if (one.path) found.push(" (", path(one.path), ")");
  }
  return h("span", "chain", ...found);
}

// A path that is too long for a line loses its middle, since its name is at the end.
export function path(full) {
  const parts = full.split("/");
  const isLong = full.length > 44 && parts.length > 3;
  const made = h("code", "", isLong ? `${parts[0]}/…/${parts.slice(full.endsWith("/") ? -3 : -2).join("/")}` : full);
  made.title = visible(full);
  return made;
}

export const many = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

// A duration in words.
export function length(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

// A duration to the second, as long as seconds matter.
export function countdown(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds >= 3600) return length(ms);
  return seconds % 60 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${seconds / 60} min`;
}

// The state of an agent towards a file. The server puts it in words; the page only counts the seconds.
export function stands(one, now) {
  if (one.retry_at) {
    const left = Date.parse(one.retry_at) - now;
    return `${one.said}, ${left > 0 ? `due in ${countdown(left)}` : `overdue for ${countdown(-left)}`}`;
  }
  return one.until ? `${one.said}, free in ${countdown(Date.parse(one.until) - now)}` : one.said;
}

const BEYOND = 4;

// A list whose rows have one height. `draw` makes the content of a row; `open` is called for the chosen row, `fold` for
// left (true) and right (false). The keyboard stays on the same row when others appear.
export class List {
  constructor(box, { height, draw, open, fold, empty, key = (row) => row.key }) {
    Object.assign(this, { box, height, draw, opens: open, fold, key, rows: [], at: -1, atKey: null });
    this.inner = h("div", "rows");
    this.empty = h("div", "empty", empty);
    this.made = new Map();
    box.append(this.inner, this.empty);
    box.addEventListener("scroll", () => this.paint(), { passive: true });
    box.addEventListener("keydown", (event) => this.press(event));
    box.addEventListener("focus", () => this.at < 0 && this.rows.length && this.go(this.next(-1, 1)));
    this.inner.addEventListener("click", (event) => {
      const row = event.target.closest("[data-at]");
      if (!row) return;
      this.go(Number(row.dataset.at));
      this.open();
    });
    new ResizeObserver(() => this.paint()).observe(box);
  }

  show(rows) {
    this.rows = rows;
    this.inner.style.height = `${rows.length * this.height}px`;
    this.empty.hidden = rows.length > 0;
    this.at = this.atKey === null ? -1 : rows.findIndex((row) => this.key(row) === this.atKey);
    this.paint();
  }

  // Draw the visible rows. Elements are made only for rows that were not visible before.
  paint() {
    const { scrollTop, clientHeight } = this.box;
    if (!clientHeight) return;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / this.height) + BEYOND);
    const seen = new Map();
    for (let at = first; at < last; at += 1) {
      const row = this.rows[at];
      const key = this.key(row);
      const made = this.made.get(key) || this.make();
      this.made.delete(key);
      seen.set(key, made);
      made.dataset.at = at;
      made.style.transform = `translateY(${at * this.height}px)`;
      made.id = `${this.box.id}-${at}`;
      made.classList.toggle("at", at === this.at);
      made.setAttribute("aria-selected", at === this.at);
      made.setAttribute("aria-posinset", at + 1);
      made.setAttribute("aria-setsize", this.rows.length);
      this.draw(row, made);
    }
    for (const old of this.made.values()) old.remove();
    this.made = seen;
    // In their visible order, for screen readers.
    let after = this.inner.firstChild;
    for (const made of seen.values()) {
      if (made === after) after = after.nextSibling;
      else this.inner.insertBefore(made, after);
    }
    this.shown = [first, last];
    if (this.at >= 0) this.box.setAttribute("aria-activedescendant", `${this.box.id}-${this.at}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  // The rows that are visible now.
  seen() {
    return this.shown ? this.rows.slice(...this.shown) : [];
  }

  make() {
    const made = h("div", "line");
    made.setAttribute("role", this.box.getAttribute("role") === "tree" ? "treeitem" : "option");
    made.style.height = `${this.height}px`;
    this.inner.append(made);
    return made;
  }

  go(at) {
    if (at < 0 || at >= this.rows.length) return;
    this.at = at;
    this.atKey = this.key(this.rows[at]);
    const top = at * this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + this.height - this.box.clientHeight;
    this.paint();
  }

  open() {
    const row = this.rows[this.at];
    if (row && this.opens) this.opens(row);
  }

  // The next row in a direction, without the headings.
  next(from, step) {
    let at = from + step;
    while (at >= 0 && at < this.rows.length && this.rows[at].isHeading) at += step;
    return at;
  }

  press(event) {
    if (event.target !== this.box || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1);
    const last = this.rows.length - 1;
    const moves = {
      ArrowDown: () => this.go(this.next(this.at, 1)), j: () => this.go(this.next(this.at, 1)),
      ArrowUp: () => this.go(this.next(this.at, -1)), k: () => this.go(this.next(this.at, -1)),
      PageDown: () => this.go(Math.min(last, this.at + page)), PageUp: () => this.go(Math.max(0, this.at - page)),
      Home: () => this.go(this.next(-1, 1)), End: () => this.go(last),
      Enter: () => this.open(), " ": () => this.open(),
      ArrowLeft: () => this.fold?.(this.rows[this.at], true), ArrowRight: () => this.fold?.(this.rows[this.at], false),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  }
}
