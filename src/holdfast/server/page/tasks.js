// Tasks: the rows of all lists, and the details of one task.

import { button, chain, h, length, many, who } from "./lists.js";
import { said } from "./progress.js";
import { visible } from "./visible.js";

// How much of a diff is drawn.
const LINES_MAX = 4000;

// Rows

export const keyOf = (one) => `${one.list}\n${one.name}`;

export function taskRows(ledger, matches) {
  const rows = [];
  const works = ledger.progress.filter((one) => one.kind === "tasks").reverse();
  for (const work of works) {
    const own = ledger.tasks.filter((one) => one.list === work.name && matches(one.name, one.line, one.state, one.reason));
    if (own.length && works.length > 1) rows.push({ key: `heading ${work.name}`, isHeading: true, name: work.title, text: said(work) });
    rows.push(...own.map((one) => ({ key: keyOf(one), one })));
  }
  return rows;
}

export function drawTask(row, made, ledger, orders, open) {
  if (row.isHeading) {
    made.className = "line heading";
    made.replaceChildren(h("span", "", row.name), h("b", "", row.text));
    return;
  }
  const { one } = row;
  const spent = time(one, ledger);
  // Redrawn only if it changed: a button must not be replaced while the person presses it.
  const look = JSON.stringify([one, spent, orders.may]);
  made.className = `line two task ${one.state}${made.classList.contains("at") ? " at" : ""}`;
  if (made.dataset.look === look) return;
  made.dataset.look = look;
  made.replaceChildren(
    h("span", "first", h("span", "title", one.name), taskChip(one.cut_off ? "cut off" : one.state), one.tries > 1 ? h("span", "mark", `try ${one.tries}`) : "",
      one.commit ? h("code", "muted", one.commit.slice(0, 10)) : "",
      one.undecided ? h("span", "buttons", button(orders.may ? "Review" : "Look", () => open(row), "primary review")) : h("span", "since muted", spent)),
    h("span", "second", ...second(one)),
  );
  made.title = visible(one.reason || one.line);
}

export const taskChip = (state) => h("span", `chip ${state.replace(" ", "_")}`, state);

function second(one) {
  if (one.chain.length) return [chain(one.chain)];
  if (one.reason) return [one.reason];
  if (one.state === "queued") return ["waits for a free slot · ", one.line];
  const files = one.changed ? `${many(one.changed, "file")} changed · ` : "";
  return [files, one.line];
}

// How long the task has been at work, or how long it took.
function time(one, ledger) {
  if (one.at_work && one.since) return length(ledger.now - Date.parse(one.since));
  return one.worked_seconds ? length(one.worked_seconds * 1000) : "";
}

// Details

export function factsOf(task, ledger) {
  return [
    ["list", task.list === "--task" ? "" : task.list], ["tries", task.tries ? `${task.tries}${task.round ? `, round ${task.round}` : ""}` : ""],
    ["at work", task.at_work ? time(task, ledger) : ""],
    ["took", task.ended && task.worked_seconds ? length(task.worked_seconds * 1000) : ""],
    ["waited", task.waited_seconds >= 1 ? `${length(task.waited_seconds * 1000)} for files of other tasks` : ""],
    ["after", task.after.join(", ")], ["check", task.terms.check], ["decision", task.decision],
  ];
}

// The reason of a failure, and the last lines of the output.
export function troubleOf(task) {
  const found = [];
  if (task.reason) found.push(h("p", task.state === "failed" ? "wrong" : "", task.reason));
  if (task.tail.length) {
    found.push(h("h3", "", "The last lines"), h("pre", "output tail", task.tail.join("\n")));
    if (task.log) found.push(h("p", "muted", "full output: ", h("code", "", task.log)));
  }
  return found;
}

export function chainOf(task) {
  if (!task.chain.length) return [];
  const rows = [{ name: task.name }, ...task.chain].map((one, at) => h("li", "", h("span", "arrow", at ? "waits for " : ""), who(one.name), one.path ? h("span", "muted", " for ") : "", one.path ? h("code", "", one.path) : ""));
  return [h("h3", "", "Wait chain"), h("ol", "steps", ...rows)];
}

export function commitOf(task) {
  if (!task.commit) return [];
  return [h("h3", "", "Commit"), h("p", "", h("code", "", task.commit.slice(0, 12)), h("span", "muted", "  git show "), h("code", "muted", task.commit.slice(0, 12)))];
}

// Approve and Reject, beside the diff: the person decides on the attempt whose diff is shown, and on no other.
export function decisionOf(task, orders) {
  if (task.state !== "reviewing") return [];
  if (task.cut_off) return [h("p", "careful", "Its dispatcher has died. When the list is resumed, this attempt is undone and repeated.")];
  if (!orders.may) return [h("p", "careful", "This task is waiting for a decision. This page is read only: open the full address that the server printed when it started, or run ", h("code", "", "holdfast decide"), ".")];
  return [h("p", "decide",
    button("Approve", (pressed) => orders.decideTask(task, "approve", pressed), "primary approve"),
    button("Reject", (pressed) => orders.decideTask(task, "reject", pressed), "reject"),
    h("span", "muted", "Reject undoes all its changes."))];
}

export async function diffOf(task) {
  const title = task.state === "failed" ? "Its changes, which were undone" : "Changes";
  if (!task.diff) return task.state === "reviewing" ? [h("h3", "", title), h("p", "muted", "There are no changes to show.")] : [];
  const answer = await fetch(`/api/diff/${encodeURIComponent(task.item)}`);
  if (!answer.ok) return [];
  const lines = (await answer.text()).split("\n");
  const isAll = answer.headers.get("Holdfast-Offset") === answer.headers.get("Holdfast-Size") && lines.length <= LINES_MAX;
  const box = h("pre", "output diff", ...lines.slice(0, LINES_MAX).map((line) => h("span", lookOf(line), `${line}\n`)));
  box.tabIndex = 0;
  box.setAttribute("aria-label", "Changes");
  return [h("h3", "", title), box, isAll ? "" : h("p", "muted", "full diff: ", h("code", "", `.holdfast/runs/${task.item}/changes.patch`))];
}

function lookOf(line) {
  if (/^(diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|Binary|GIT binary)/.test(line)) return "of-file";
  if (line.startsWith("@@")) return "of-place";
  return line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "same";
}
