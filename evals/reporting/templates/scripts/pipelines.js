"use strict";
// One pipeline wherever it stands: pointing at it marks it in every table and chart; a row of the leaderboard opens it.
(() => {
  const keysOf = (one) => one.dataset.pipeline.split("\n");
  let marked = [];
  const mark = (target) => {
    for (const one of marked) one.classList.remove("linked");
    const own = new Set(target ? keysOf(target) : []);
    marked = own.size ? [...document.querySelectorAll("[data-pipeline]")].filter((one) => keysOf(one).some((key) => own.has(key))) : [];
    for (const one of marked) one.classList.add("linked");
  };
  for (const event of ["pointerover", "focusin"]) {
    document.addEventListener(event, ({ target }) => mark(target.closest("[data-pipeline]")));
  }

  const { node } = journeyParts;
  const heads = (table) => [...table.tHead.rows[0].cells];

  const links = (key) => {
    const pairs = document.querySelector("#pairs .pairs");
    const compare = pairs ? node("a", { href: "#pairs" }, "Compare it with the leader") : null;
    compare?.addEventListener("click", () => {
      const [first, second] = pairs.querySelectorAll("select[data-cell]");
      const leader = JSON.parse(pairs.dataset.known).leader ?? second.value;
      first.value = key;
      if (leader !== key) second.value = leader;
      first.dispatchEvent(new Event("change"));
    });
    const questions = node("a", { href: "#journey" }, "Its questions");
    assayData.catalogue().then((known) => {
      const id = known?.questions.id[0];
      if (id !== undefined) questions.href = `#q=${encodeURIComponent(id)}&a=${encodeURIComponent(key)}`;
    }, () => {});
    return node("p", {}, questions, compare ? [" · ", compare] : []);
  };

  const details = (row, key) => {
    const table = row.closest("table");
    const items = heads(table).flatMap((th, at) => {
      const text = row.cells[at].innerText.trim();
      const title = th.textContent.trim();
      return title && text && at > 0 ? [node("div", {}, node("dt", {}, title), node("dd", {}, text))] : [];
    });
    return node("tr", { class: "details" }, node("td", { colspan: row.cells.length }, node("dl", { class: "of-pipeline" }, items), links(key)));
  };

  const buttons = new Map();
  const toggle = (key, isOpen) => {
    const button = buttons.get(key);
    if (!button) return;
    const row = button.closest("tr");
    if (row.nextElementSibling?.classList.contains("details")) row.nextElementSibling.remove();
    button.setAttribute("aria-expanded", isOpen);
    if (!isOpen) return;
    const hidden = [...row.cells].filter((cell) => cell.hidden); // their texts are read, too
    for (const cell of hidden) cell.hidden = false;
    row.after(details(row, key));
    for (const cell of hidden) cell.hidden = true;
  };

  const board = document.querySelector("#leaderboard table.board");
  for (const row of board?.querySelectorAll("tbody tr[data-pipeline]") ?? []) {
    const key = row.dataset.pipeline;
    const name = row.querySelector("[scope=row]")?.textContent.trim() ?? key;
    const button = node("button", { type: "button", class: "opens", "aria-expanded": "false", "aria-label": `Details of ${name}` });
    buttons.set(key, button);
    button.addEventListener("click", () => {
      const isOpen = button.getAttribute("aria-expanded") !== "true";
      toggle(key, isOpen);
      history.replaceState(null, "", isOpen ? `#pipeline=${encodeURIComponent(key)}` : location.pathname + location.search);
    });
    row.cells[0].append(button);
    row.addEventListener("click", (event) => { if (!event.target.closest("a, button") && !getSelection().toString()) button.click(); });
  }
  // Rows are sorted without what is open between them.
  board?.tHead.addEventListener("click", () => { for (const key of buttons.keys()) toggle(key, false); }, true);

  const follow = () => {
    const [, text] = /^#pipeline=(.*)$/s.exec(location.hash) ?? [];
    if (text === undefined) return;
    try {
      const key = decodeURIComponent(text);
      toggle(key, true);
      buttons.get(key)?.scrollIntoView({ block: "center" });
    } catch { /* an address that is not ours */ }
  };
  addEventListener("hashchange", follow);
  addEventListener("DOMContentLoaded", follow); // once the tables of the page have been read
})();
