"use strict";
// Nodes of texts that anybody may have written: they become text nodes, never markup.
const journeyParts = (() => {
  // As on the rest of the page: no control characters, and none that turn the direction of what follows.
  const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
  const plain = (text) => String(text).replace(UNSEEN, "\ufffd");

  const node = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      made.setAttribute(key, value === true ? "" : plain(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === "") continue;
      made.append(typeof child === "string" ? plain(child) : child);
    }
    return made;
  };

  const link = (url, text) => {
    let safe = false;
    try {
      safe = ["http:", "https:"].includes(new URL(url).protocol);
    } catch {
      safe = false;
    }
    return safe ? node("a", { href: url, rel: "noopener noreferrer" }, text) : node("span", {}, text);
  };

  // Three decimals as elsewhere on the page, a tie to the even digit.
  const rounded = (value) => {
    const size = Math.abs(value);
    const below = Math.floor(size * 1000);
    const tie = size * 1000 - below === 0.5 && (below + 0.5) / 1000 === size;
    return tie ? ((below + (below % 2)) / 1000).toFixed(3) : size.toFixed(3);
  };
  const number = (value, unit = "") => {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const sign = value < 0 ? "−" : "";
    const size = Math.abs(value);
    if (unit === "tokens") {
      const whole = String(Math.round(size)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
      return sign + (size >= 100 ? whole : size.toFixed(1));
    }
    if (unit === "s" && size > 0 && size < 0.01) return sign + size.toFixed(Math.min(9, 1 - Math.floor(Math.log10(size))));
    return sign + rounded(value);
  };

  // Offsets are those of characters; a string's own count halves of some.
  const slice = (text, start, end) =>
    /[\ud800-\udbff]/.test(text) ? Array.from(text).slice(start, end).join("") : text.slice(start, end);

  const marked = (text, spans) => {
    const found = [];
    let at = 0;
    const length = /[\ud800-\udbff]/.test(text) ? Array.from(text).length : text.length;
    for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
      const from = Math.max(at, start);
      if (from >= Math.min(end, length)) continue;
      found.push(slice(text, at, from), node("mark", {}, slice(text, from, Math.min(end, length))));
      at = Math.min(end, length);
    }
    found.push(slice(text, at, length));
    return found;
  };

  // A table of a block as rows, its texts in place of their numbers; only those of one question.
  const rows = (block, table, question) => {
    const columns = block[table];
    const names = Object.keys(columns);
    const found = [];
    columns.question.forEach((of, row) => {
      if (of !== question) return;
      const one = {};
      for (const name of names) {
        const value = columns[name][row];
        if (name.endsWith("_")) one[name.slice(0, -1)] = value < 0 ? null : block.texts[value];
        else one[name] = value;
      }
      found.push(one);
    });
    return found;
  };

  // Texts by their English ones, where a page is in another language.
  const words = Object.create(null);
  const say = (text) => words[text] ?? text;

  return { plain, node, link, number, slice, marked, rows, say, words };
})();
