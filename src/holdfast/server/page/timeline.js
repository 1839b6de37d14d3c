// Grants over time: a row for each file, or for each agent. Each visible row is a small drawing.

import { h, hue, length, who } from "./lists.js";
import { visible } from "./visible.js";

const LABEL = () => (innerWidth < 700 ? 130 : 280);
// How much of the width lies after the present moment, so that its line is visible.
const BEYOND = 0.03;
// How many names the legend shows.
const NAMES_MAX = 8;

export class Timeline {
  constructor(by, span, axis, legend) {
    Object.assign(this, { by, span, axis, legend, drawn: "" });
  }

  // The time range that is shown.
  range(ledger, past) {
    const now = ledger.now;
    const seconds = Number(this.span.value) || 0;
    const until = (first) => [first, now + (now - first) * BEYOND];
    if (seconds) return until(now - seconds * 1000);
    // As far back as the oldest span; for "lately", at most an hour.
    const oldest = this.span.value === "lately" ? now - 3_600_000 : 0;
    let first = now - 30_000;
    for (const span of past.spans.values()) if (span.since >= oldest) first = Math.min(first, span.since);
    return until(first - (now - first) * 0.02);
  }

  rows(ledger, past, matches) {
    const [from] = this.range(ledger, past);
    const found = new Map();
    const put = (key, span, mode) => {
      if (!found.has(key)) found.set(key, { key, spans: [] });
      found.get(key).spans.push({ span, mode });
    };
    for (const span of past.spans.values()) {
      if (span.until && span.until < from) continue;
      if (this.by.value === "agent") {
        if (matches(span.holder, ...span.writes, ...span.reads)) put(span.holder, span, span.writes.length ? "write" : "read");
        continue;
      }
      for (const path of span.writes) if (matches(path, span.holder)) put(path, span, "write");
      for (const path of span.reads) if (matches(path, span.holder)) put(path, span, "read");
    }
    const rows = [...found.values()];
    for (const row of rows) row.writers = new Set(row.spans.filter((one) => one.mode === "write").map((one) => one.span.holder)).size;
    // Files with many writers come first, the files of tools last.
    return rows.sort((a, b) => a.key.startsWith(".") - b.key.startsWith(".") || b.writers - a.writers || (a.key < b.key ? -1 : 1));
  }

  draw(row, made, ledger, past) {
    made.className = `line track${made.classList.contains("at") ? " at" : ""}`;
    let canvas = made.querySelector("canvas");
    let label = made.querySelector(".path");
    if (!canvas) {
      canvas = h("canvas", "");
      label = h("span", "path", "");
      made.replaceChildren(label, canvas);
    }
    const name = visible(row.key);
    if (label.textContent !== name) label.textContent = name;
    const holders = new Set(row.spans.map((one) => one.span.holder));
    const held = row.spans.reduce((sum, one) => sum + (one.span.until || ledger.now) - one.span.since, 0);
    made.setAttribute("aria-label", visible(`${row.key}: held ${row.spans.length} times by ${holders.size}, ${length(held)} in all`));
    made.title = visible(`${row.key}\n${[...holders].slice(0, 8).join("\n")}`);
    this.paint(canvas, row, ledger, past, made);
  }

  paint(canvas, row, ledger, past, made) {
    const width = Math.max(50, made.clientWidth - LABEL() - 16);
    const height = made.clientHeight;
    const pen = sized(canvas, width, height);
    const [from, to] = this.range(ledger, past);
    const style = getComputedStyle(canvas);
    pen.fillStyle = style.getPropertyValue("--line");
    for (const at of ticks(from, to, width).moments) pen.fillRect(((at - from) / (to - from)) * width, 0, 1, height);
    const scale = width / (to - from);
    const light = style.getPropertyValue("--dot-l");
    for (const wantedMode of ["read", "write"]) {
      for (const { span, mode } of row.spans) {
        if (mode !== wantedMode) continue;
        const left = Math.max(0, (span.since - from) * scale);
        const right = Math.min(width, ((span.until || ledger.now) - from) * scale);
        if (right < 0 || left > width) continue;
        pen.fillStyle = `hsl(${hue(this.by.value === "agent" ? span.writes[0] || span.reads[0] || "" : span.holder)} 48% ${light})`;
        pen.globalAlpha = mode === "write" ? 1 : 0.35;
        const tall = mode === "write" ? height - 10 : 6;
        pen.beginPath();
        pen.roundRect(left, (height - tall) / 2, Math.max(2, right - left - 0.5), tall, 2);
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
    pen.fillStyle = style.getPropertyValue("--red");
    pen.fillRect(Math.round((ledger.now - from) * scale), 0, 1.5, height);
  }

  // The meaning of the marks, and the holder of each colour.
  drawLegend(rows) {
    const isByFile = this.by.value !== "agent";
    const counted = new Map();
    for (const row of rows) for (const { span } of row.spans) counted.set(span.holder, (counted.get(span.holder) || 0) + 1);
    const names = isByFile ? [...counted].sort((a, b) => b[1] - a[1]).map(([name]) => name) : [];
    const look = JSON.stringify([isByFile, names]);
    if (look === this.drawn) return;
    this.drawn = look;
    const mark = (kind, text) => h("span", "mark-of", h("i", `sample ${kind}`), text);
    this.legend.replaceChildren(
      mark("write", "writes"), mark("read", "reads"), mark("now", "now"),
      ...(isByFile ? names.slice(0, NAMES_MAX).map(who) : [h("span", "muted", "a colour for each file")]),
      names.length > NAMES_MAX ? h("span", "muted", `and ${names.length - NAMES_MAX} more`) : "");
  }

  // The times above the rows.
  drawAxis(ledger, past) {
    const width = Math.max(50, this.axis.parentElement.clientWidth - LABEL() - 16);
    const pen = sized(this.axis, width, 22);
    const [from, to] = this.range(ledger, past);
    const { moments, step } = ticks(from, to, width);
    const style = getComputedStyle(this.axis);
    pen.fillStyle = style.color;
    pen.font = `11px ${style.fontFamily}`;
    const nowAt = ((ledger.now - from) / (to - from)) * width;
    for (const at of moments) {
      const x = ((at - from) / (to - from)) * width;
      pen.fillRect(x, 16, 1, 6);
      const text = new Date(at - ledger.ahead).toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit", ...(step < 60_000 ? { second: "2-digit" } : {}) });
      if (x + 60 < nowAt - 20) pen.fillText(text, x + 4, 14);
    }
    pen.fillStyle = style.getPropertyValue("--red");
    pen.fillRect(Math.round(nowAt), 8, 1.5, 14);
    pen.textAlign = "right";
    pen.fillText("now", nowAt - 4, 14);
  }
}

// Round moments for the marks, as many as there is room for.
function ticks(from, to, width) {
  const steps = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800];
  const step = 1000 * (steps.find((one) => ((to - from) / 1000 / one) * 84 < width) || 2592000);
  const moments = [];
  for (let at = Math.ceil(from / step) * step; at < to; at += step) moments.push(at);
  return { moments, step };
}

function sized(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return pen;
}
