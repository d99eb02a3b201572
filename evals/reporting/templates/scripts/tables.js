"use strict";
// Sorting and filtering only: without this script the page shows the same, in the leaderboard's order.
(() => {
  const key = (row, column, numeric) => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.trim();
    const given = cell.dataset.sort;
    return given === undefined || given === "" ? NaN : Number(given);
  };
  const compare = (a, b, numeric) => (numeric ? a - b : a.localeCompare(b, undefined, { numeric: true }));

  const sort = (table, th) => {
    const numeric = th.classList.contains("num");
    const column = th.cellIndex;
    const sorted = th.getAttribute("aria-sort");
    const descending = sorted ? sorted === "ascending" : th.dataset.best === "high";
    const rows = [...table.tBodies[0].rows].map((row) => [key(row, column, numeric), row]);
    const missing = (value) => numeric && Number.isNaN(value);
    rows.sort(([a], [b]) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b); // what is missing stays last either way
      return descending ? -compare(a, b, numeric) : compare(a, b, numeric);
    });
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", descending ? "descending" : "ascending");
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const th of table.tHead.rows[0].cells) {
      if (!th.textContent.trim()) continue;
      if (th.classList.contains("rank")) th.setAttribute("aria-sort", "ascending");
      const button = document.createElement("button");
      button.type = "button";
      button.append(...th.childNodes);
      button.addEventListener("click", () => sort(table, th));
      th.append(button);
    }
  }

  // One choice for each axis on which the rows differ; a row is shown where every choice and every word fits.
  const choicesOf = (table, rows, changed) =>
    [...table.tHead.rows[0].cells]
      .filter((th) => th.dataset.axis)
      .flatMap((th) => {
        const nameOf = (row) => row.cells[th.cellIndex].dataset.name ?? "";
        const names = [...new Set(rows.map(nameOf))].filter(Boolean);
        if (names.length < 2) return [];
        const label = document.createElement("label");
        const select = document.createElement("select");
        names.sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
        select.append(new Option(`all (${names.length})`, ""), ...names.map((name) => new Option(name, name)));
        select.addEventListener("change", changed);
        label.append(`${th.dataset.axis} `, select);
        return [{ label, fits: (row) => !select.value || nameOf(row) === select.value, chosen: () => select.value !== "" }];
      });

  for (const table of document.querySelectorAll("table.filterable")) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 6) continue;
    const bar = document.createElement("div");
    const label = document.createElement("label");
    const input = document.createElement("input");
    const tally = document.createElement("span");
    bar.className = "filter";
    input.type = "search";
    input.placeholder = "part of a name";
    tally.setAttribute("aria-live", "polite");
    label.append("Show rows with ", input);
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word)) || !choices.every((choice) => choice.fits(row));
        shown += row.hidden ? 0 : 1;
      }
      const filtered = words.length > 0 || choices.some((choice) => choice.chosen());
      tally.textContent = filtered ? `${shown} of ${rows.length} rows` : "";
    };
    const choices = choicesOf(table, rows, show);
    input.addEventListener("input", show);
    bar.append(label, ...choices.map((choice) => choice.label), tally);
    table.closest(".scroll").before(bar);
  }

  // Columns that are not needed to decide are shown when they are chosen.
  for (const table of document.querySelectorAll("table.board")) {
    const heads = [...table.tHead.rows[0].cells].filter((th) => th.classList.contains("more"));
    if (!heads.length) continue;
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    details.className = "choose";
    summary.textContent = `${heads.length} more columns`;
    details.append(summary);
    for (const th of heads) {
      const label = document.createElement("label");
      const box = document.createElement("input");
      const show = () => {
        for (const row of table.rows) row.cells[th.cellIndex].hidden = !box.checked;
      };
      box.type = "checkbox";
      box.addEventListener("change", show);
      label.append(box, ` ${th.textContent.trim()}`);
      details.append(label);
      show();
    }
    table.closest(".scroll").before(details);
  }

  // A link to a folded section opens it.
  const unfold = () => {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return; // an address that is not ours
    }
    const fold = target?.querySelector(":scope > details.fold");
    if (fold) fold.open = true;
    for (let one = target?.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
