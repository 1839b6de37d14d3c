// Makes every character visible: one that leaves no mark, or changes the order of others, is spelled out as <U+202E>.
// The same characters as in visible.py; a test compares the two.

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Zs}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\u{e0100}-\u{e01ef}]|(?<!\p{So})\ufe0f/gu;
const spelled = (one) => (one === " " || one === "\n" || one === "\t" ? one : `<U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);

export const visible = (text) => String(text).replace(INVISIBLE, spelled);
