"use strict";
// Two cells, question by question: from the packed scores (assay_data.js), which are the stored ones to the last bit.
// Student's interval over clusters: with d the differences, m their mean over n questions and r a cluster's sum of
// d - m, the standard error is sqrt(G / (G - 1) * sum of r²) / n over G clusters (evals/statistics/resampling.py).
(() => {
  const box = document.querySelector("#pairs .pairs");
  if (!box) return;
  const known = JSON.parse(box.dataset.known);
  const [first, second] = box.querySelectorAll("select[data-cell]");
  const metric = box.querySelector("select[data-metric]");
  const said = box.querySelector(".pair-said");
  const order = box.querySelector("[data-order]");
  const more = box.querySelector("[data-more]");
  const FEW = 10;
  let all = false;
  let rising = true;
  let turn = 0;

  const number = (value, unit) => {
    if (value === null || Number.isNaN(value)) return "–";
    let text;
    if (unit === "tokens") text = Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en").replaceAll(",", "\u202f") : value.toFixed(1);
    else {
      const small = unit === "s" && value !== 0 && Math.abs(value) < 0.01;
      text = value.toFixed(small ? Math.min(9, 1 - Math.floor(Math.log10(Math.abs(value)))) : 3);
    }
    return text.replace("-", "−");
  };
  const signed = (value, unit) => (value > 0 ? "+" : "") + number(value, unit);
  const ends = (low, high, unit) => `${number(low, unit)} to ${number(high, unit)}`;
  const pValue = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`);

  // The quantile of Student's distribution for 95 %: Fisher and Cornish's expansion around the normal one.
  const student = (df) => {
    const z = 1.959963984540054;
    const [a, b, c] = [z ** 3, z ** 5, z ** 7];
    return z + (a + z) / (4 * df) + (5 * b + 16 * a + 3 * z) / (96 * df ** 2) + (3 * c + 19 * b + 17 * a - 15 * z) / (384 * df ** 3);
  };

  const interval = (pairs) => {
    const mean = pairs.reduce((sum, one) => sum + one.difference, 0) / pairs.length;
    const sums = new Map();
    for (const one of pairs) sums.set(one.cluster, (sums.get(one.cluster) ?? 0) + one.difference - mean);
    const groups = sums.size;
    if (groups < known.least) return [mean, null, null, groups];
    const squares = [...sums.values()].reduce((sum, rest) => sum + rest ** 2, 0);
    const half = student(groups - 1) * Math.sqrt((squares * groups) / (groups - 1)) / pairs.length;
    return half > 0 ? [mean, mean - half, mean + half, groups] : [mean, null, null, groups];
  };

  const words = (pairs, missing) => {
    const name = metric.selectedOptions[0].textContent;
    const unit = known.units[metric.value];
    const better = known.higher[metric.value] ? 1 : -1;
    const wins = pairs.filter((one) => one.difference * better > 1e-12).length;
    const losses = pairs.filter((one) => one.difference * better < -1e-12).length;
    const counts = `The first is better on ${wins}, as good on ${pairs.length - wins - losses}, worse on ${losses} of ${pairs.length} questions.`
      + (missing ? ` ${missing} more ${missing === 1 ? "has" : "have"} no value in one of the two.` : "");
    const sides = [first.value, second.value];
    const other = sides.find((cell) => cell !== known.leader);
    const stored = sides.includes(known.leader) && sides[0] !== sides[1] ? known.results[metric.value]?.[other] : undefined;
    if (stored) {
      const [difference, low, high, p, tied, within] = stored;
      const sign = first.value === known.leader ? -1 : 1;
      const [from, to] = sign > 0 ? [low, high] : [high, low];
      const range = low === null || high === null ? "too few questions for an interval" : `95 % interval ${ends(sign * from, sign * to, unit)}`;
      const verdict = within ? "within the margin" : tied ? "tied" : "significantly different";
      return `Mean difference of ${name}: ${signed(sign * difference, unit)} (${range}; ${pValue(p)}, as on the leaderboard: ${verdict}). ${counts}`;
    }
    if (!pairs.length) return `No question has a value of ${name} in both.`;
    const [mean, low, high, groups] = interval(pairs);
    const margin = known.margins[metric.value];
    const within = low !== null && margin !== null && Math.max(-low, high) < margin - 1e-12 ? "; within the margin" : "";
    const range = low !== null ? `95 % interval ${ends(low, high, unit)}, Student's, of this pair alone${within}`
      : groups < known.least ? "too few questions for an interval" : "the same on every question, so no interval";
    return `Mean difference of ${name}: ${signed(mean, unit)} (${range}). ${counts}`;
  };

  const row = (one, unit) => {
    const line = document.createElement("tr");
    const head = document.createElement("th");
    const link = document.createElement("a");
    head.scope = "row";
    head.className = "cell";
    const part = encodeURIComponent;
    link.href = `#q=${part(one.id)}&a=${part(first.value)}&b=${part(second.value)}`;
    link.textContent = one.text || one.id;
    link.dir = "auto";
    head.append(link);
    line.append(head);
    for (const text of [number(one.a, unit), number(one.b, unit), Number.isNaN(one.difference) ? "–" : signed(one.difference, unit)]) {
      const cell = document.createElement("td");
      cell.className = "num";
      cell.textContent = text;
      line.append(cell);
    }
    return line;
  };

  const show = async () => {
    const mine = ++turn;
    const [catalogue, a, b] = await Promise.all([
      assayData.catalogue(), assayData.scores(metric.value, first.value), assayData.scores(metric.value, second.value)]);
    if (mine !== turn) return; // something else was chosen meanwhile
    const { id, text } = catalogue.questions;
    const every = id.map((name, at) => ({
      id: name, text: text[at], a: a[at], b: b[at], difference: a[at] - b[at], cluster: known.clusters[at] ?? at,
    })).filter((one) => !Number.isNaN(one.a) || !Number.isNaN(one.b));
    const both = every.filter((one) => !Number.isNaN(one.difference));
    const rest = every.filter((one) => Number.isNaN(one.difference));
    both.sort((one, other) => (rising ? 1 : -1) * (one.difference - other.difference));
    said.textContent = words(both, rest.length);
    const listed = [...both, ...rest];
    const unit = known.units[metric.value];
    box.querySelector("tbody").replaceChildren(...(all ? listed : listed.slice(0, FEW)).map((one) => row(one, unit)));
    more.hidden = all || listed.length <= FEW;
    more.textContent = `Show all ${listed.length} questions`;
    order.closest("th").setAttribute("aria-sort", rising ? "ascending" : "descending");
  };
  const shown = () => show().catch((error) => { said.textContent = `The scores cannot be read: ${error.message}`; });

  // Nothing is unpacked before a reader comes near.
  let begun = false;
  const begin = () => {
    if (begun) return;
    begun = true;
    shown();
  };
  for (const select of [first, second, metric]) select.addEventListener("change", () => { begun = true; shown(); });
  box.querySelector("[data-swap]").addEventListener("click", () => {
    [first.value, second.value] = [second.value, first.value];
    begun = true;
    shown();
  });
  order.addEventListener("click", () => { rising = !rising; shown(); });
  more.addEventListener("click", () => { all = true; shown(); });
  box.hidden = false;
  new IntersectionObserver((seen, observer) => {
    if (!seen.some((one) => one.isIntersecting)) return;
    observer.disconnect();
    begin();
  }, { rootMargin: "400px" }).observe(box);
})();
