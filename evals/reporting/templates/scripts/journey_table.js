"use strict";
// Questions by pipelines: a row a question, and in each place score, lost step and answer. Texts become text nodes.
const journeyTable = (() => {
  const { node, number, say } = journeyParts;
  const STEPS = 4; // of colour: the worse, the stronger
  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  // How good a value is, from 0 to 1; null where its metric has no bounds.
  const share = (value, metric) => {
    if (value === null || Number.isNaN(value) || metric.worst === null || metric.ideal === null) return null;
    return Math.min(1, Math.max(0, (value - metric.worst) / (metric.ideal - metric.worst)));
  };

  const place = (cell, metric, label, href) => {
    const good = share(cell.value, metric);
    const missing = cell.value === null || Number.isNaN(cell.value);
    const sign = good === null ? "" : good >= 0.5 ? "✓ " : "✗ ";
    const lost = cell.lost && cell.lost !== "found" ? node("span", { class: "lost-step" }, `${say("lost")}: ${say(cell.lost)}`) : null;
    const failed = cell.status ? node("span", { class: "warn" }, `[${cell.status}] `) : null;
    const said = node("span", { class: "snippet", dir: "auto" }, failed, cell.answer ?? (cell.status ? "" : "–"));
    const value = node("b", { class: good !== null && good < 0.5 ? "warn" : null, title: missing ? cell.why : null }, sign, number(cell.value, metric.unit));
    return node("td", { class: good === null ? null : `miss${Math.round((1 - good) * STEPS)}`, "data-pipeline": label.key },
      node("a", { href, title: label.label }, value, lost, said));
  };

  // what: { metric, pipelines: [{key, label}], rows: [{id, text, language, kind, dispute, cells}] }
  // address(question, pipeline) -> href; open(question, pipeline): called in place of following it
  const draw = (what, address, open) => {
    const { metric, pipelines, rows } = what;
    const heads = pipelines.map((one, at) => node("th", { scope: "col", "data-pipeline": one.key },
      pipelines.length > 1 && at < 2 ? node("span", { class: "letter" }, "AB"[at]) : null, one.label));
    const lines = rows.map((row) => {
      const about = [row.id, row.kind, row.dispute].filter(Boolean).join(" · ");
      const line = node("tr", { "data-question": row.id }, node("th", { scope: "row" },
        node("a", { href: address(row.id, pipelines[0]?.key), dir: "auto", lang: row.language }, row.text), node("small", {}, about)),
      row.cells.map((cell, at) => place(cell, metric, pipelines[at], address(row.id, pipelines[at].key))));
      line.querySelectorAll("a").forEach((link, at) => link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        open(row.id, pipelines[Math.max(0, at - 1)]?.key);
      }));
      return line;
    });
    const table = node("table", { class: "questions" },
      node("thead", {}, node("tr", {}, node("th", { scope: "col" }, say("Question")), ...heads)), node("tbody", {}, ...lines));
    table.addEventListener("keydown", (event) => {
      const by = MOVES[event.key];
      const here = event.target.closest("td, th");
      if (!by || !here || event.ctrlKey || event.metaKey || event.altKey) return;
      const next = table.rows[here.parentElement.rowIndex + by[0]]?.cells[here.cellIndex + by[1]]?.querySelector("a");
      event.preventDefault();
      event.stopPropagation();
      next?.focus();
    });
    return node("div", { class: "scroll tall", role: "region", tabindex: 0, "aria-label": say("Questions by pipelines") }, table);
  };

  // Mark what is open in a table that is drawn.
  const choose = (box, question, pipelines) => {
    for (const line of box.querySelectorAll("tr[data-question]")) {
      const here = line.dataset.question === question;
      line.classList.toggle("open", here);
      for (const one of line.querySelectorAll("td")) one.classList.toggle("open", here && pipelines.includes(one.dataset.pipeline));
      if (here) line.setAttribute("aria-current", "true");
      else line.removeAttribute("aria-current");
    }
  };

  return { draw, choose };
})();
