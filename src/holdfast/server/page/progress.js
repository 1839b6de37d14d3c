// The progress of all work. The server counts everything; the page only advances the seconds.

import { h, length } from "./lists.js";
import { visible } from "./visible.js";

// How many lists are shown together: those that are not finished, or else the last one.
const SHOWN_MAX = 3;

export function current(ledger) {
  const going = ledger.progress.filter((one) => one.left > 0);
  return (going.length ? going : ledger.progress.slice(-1)).slice(-SHOWN_MAX);
}

export function drawProgress(box, ledger) {
  box.hidden = !ledger.progress.length;
  box.replaceChildren(...current(ledger).map((one) => strip(one, ledger)));
}

function strip(one, ledger) {
  const bar = h("span", "parts", part("done", one.done, one), part("at-work", one.at_work + one.decisions, one), part("failed", one.failed, one));
  bar.setAttribute("role", "progressbar");
  bar.setAttribute("aria-valuemin", 0);
  bar.setAttribute("aria-valuemax", one.total);
  bar.setAttribute("aria-valuenow", one.done);
  bar.setAttribute("aria-label", visible(`${one.title}: ${one.done} of ${one.total} done`));
  const made = h("div", `work${one.gone ? " gone" : ""}`,
    h("b", "title", one.title), bar, h("span", "said", said(one)), h("span", "time muted", time(one, ledger)));
  made.title = one.forecast_basis;
  return made;
}

function part(look, count, one) {
  const made = h("i", look);
  made.style.setProperty("--part", one.total ? Math.min(1, count / one.total) : 0);
  return made;
}

export function said(one) {
  return [
    `${one.done} of ${one.total} done`, one.at_work ? `${one.at_work} at work` : "", one.cut_off ? `${one.cut_off} cut off` : "", one.decisions ? `${one.decisions} to decide` : "",
    one.failed ? `${one.failed} failed` : "", one.skipped ? `${one.skipped} ${one.kind === "tasks" ? "skipped" : "rejected"}` : "",
  ].filter(Boolean).join(" · ");
}

export function time(one, ledger) {
  const passed = one.runs ? Math.max(0, ledger.now - ledger.toldAt) : 0;
  return [length(one.elapsed_seconds * 1000 + passed), one.forecast].filter(Boolean).join(" · ");
}
