"use strict";
// Which question is shown, in which cells: chosen by lists and keys, and written into the page's address.
(() => {
  const place = document.querySelector("#journey .journey");
  if (!place) return;
  const { node, number, plain, rows } = journeyParts;
  const ROWS = 20; // questions that the matrix shows at once
  const COLUMNS = 5; // pipelines that it shows: A, B, and the first of the others
  let known = null;
  const now = { at: 0, a: 0, b: -1 };
  let leads = false; // whether the reader is led to the question once it is shown
  let isOpen = false; // whether a question is shown below the matrix
  let first = 0; // place of the matrix's first row among those that match
  let matching = [];
  const form = {};

  const option = (value, text) => node("option", { value }, text);
  const different = (values) => [...new Set(values.filter((value) => value !== null))].sort();

  const address = (at, a, b) => {
    const parts = [["q", known.questions.id[at]], ["a", known.cells[a]?.key]];
    if (b >= 0) parts.push(["b", known.cells[b].key]);
    return `#${parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
  };

  // What an address asks for: places, -1 for a name that is unknown; null where it asks for no question.
  const asked = () => {
    if (!location.hash.startsWith("#q=")) return null;
    const found = {};
    for (const part of location.hash.slice(1).split("&")) {
      const [, name, value] = /^([^=]*)=?(.*)$/s.exec(part);
      try {
        found[name] = decodeURIComponent(value);
      } catch {
        found[name] = value;
      }
    }
    const cell = (key) => known.cells.findIndex((one) => one.key === key);
    return { id: found.q, at: known.questions.id.indexOf(found.q), a: found.a === undefined ? now.a : cell(found.a),
      b: found.b === undefined ? now.b : cell(found.b), unknown: [found.a, found.b].filter((key) => key !== undefined && cell(key) < 0) };
  };

  const select = (name, label, options) => {
    const made = node("select", {}, ...options);
    form[name] = made;
    return node("label", {}, node("span", {}, label), made);
  };

  const choose = () => {
    const { questions, cells, steps, metrics } = known;
    const lists = (values, all) => [option("", all), ...different(values).map((value) => option(value, value))];
    const labels = cells.map((cell, at) => option(at, cell.label));
    form.search = node("input", { type: "search", placeholder: "words of a question, or its id" });
    form.disputed = node("input", { type: "checkbox" });
    form.wrong = node("input", { type: "checkbox" });
    return node("form", { class: "choose", role: "search", "aria-label": "Choose a question" },
      select("a", "Cell A", labels), select("b", "Cell B", [option(-1, "none"), ...labels.map((one) => one.cloneNode(true))]),
      node("label", {}, node("span", {}, "Search"), form.search),
      select("type", "Type", lists(questions.type, "any")), select("set", "Question set", lists(questions.set, "any")),
      select("source", "Source", lists(questions.sources.flat(), "any")),
      select("lost", "Lost by A at", [option("", "any"), option(".", "not lost"),
        ...steps.map((step, at) => option(String.fromCharCode(97 + at), step.label))]),
      select("metric", "Metric", metrics.map((one) => option(one.name, one.title))),
      node("label", { class: "check" }, form.wrong, node("span", {}, "wrong in A and right in B")),
      node("label", { class: "check" }, form.disputed, node("span", {}, "most disputed first")));
  };

  const isWrong = async () => {
    if (!form.wrong.checked || now.b < 0) return () => true;
    const metric = known.metrics.find((one) => one.name === form.metric.value);
    const [a, b] = await Promise.all([now.a, now.b].map((cell) => assayData.scores(metric.name, known.cells[cell].key)));
    const sign = metric.higher ? 1 : -1;
    if (metric.worst === null || metric.ideal === null) return (at) => sign * (b[at] - a[at]) > 0;
    const middle = (metric.worst + metric.ideal) / 2;
    return (at) => sign * (a[at] - middle) < 0 && sign * (b[at] - middle) >= 0;
  };

  const filtered = async () => {
    const { questions } = known;
    const words = form.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const ranking = known.cells[now.a]?.ranking ?? -1;
    const wrong = await isWrong();
    const found = questions.id.map((_, at) => at).filter((at) => {
      const text = `${questions.text[at]} ${questions.id[at]}`.toLowerCase();
      return words.every((word) => text.includes(word)) && (!form.type.value || questions.type[at] === form.type.value) &&
        (!form.set.value || questions.set[at] === form.set.value) &&
        (!form.source.value || questions.sources[at].includes(form.source.value)) &&
        (!form.lost.value || (ranking >= 0 && known.lost[ranking][at] === form.lost.value)) && wrong(at);
    });
    if (form.disputed.checked) found.sort((a, b) => (questions.dispute[b] ?? -1) - (questions.dispute[a] ?? -1) || a - b);
    return found;
  };

  const where = node("p", { class: "where", "aria-live": "polite" });
  const body = node("article", { tabindex: -1 });
  const box = node("div", { class: "matrix-box" });
  const step = (by, label) => {
    const button = node("button", { type: "button" }, label);
    button.addEventListener("click", () => move(by));
    return button;
  };
  const buttons = [step(-1, "Previous"), step(1, "Next")];

  const go = (at, a, b) => { location.hash = address(at, a, b); };

  // Open a question, and go to it.
  const lead = (at, a, b) => {
    leads = true;
    if (location.hash === address(at, a, b)) follow();
    else go(at, a, b);
  };

  const move = (by) => {
    const here = matching.indexOf(now.at);
    const next = !isOpen ? matching[first] : here < 0 ? (by > 0 ? matching.find((at) => at > now.at) ?? matching[0] : matching[0]) : matching[here + by];
    if (next !== undefined) go(next, now.a, now.b);
  };

  const told = () => {
    const here = matching.indexOf(now.at);
    const count = matching.length;
    const of = count === known.questions.id.length ? `${count}` : `${count} that match, of ${known.questions.id.length}`;
    where.textContent = count === 0 ? "No question matches." : !isOpen ? `${of} questions` : here < 0 ? `Not among the ${of}` : `Question ${here + 1} of ${of}`;
    buttons[0].disabled = count === 0 || (isOpen && here === 0);
    buttons[1].disabled = count === 0 || (isOpen && here === count - 1);
  };

  const answersOf = async (at, cells) => {
    const block = await assayData.block(at).catch(() => null); // the scores are shown without it
    if (!block) return [];
    const given = rows(block, "answers", at - block.first).filter((one) => known.runs[one.run][1] === 1);
    return cells.map((cell) => given.find((one) => known.runs[one.run][0] === cell));
  };

  const rowOf = async (at, cells, values) => {
    const { questions } = known;
    const answers = await answersOf(at, cells);
    const dispute = questions.dispute[at] === null ? null : `dispute ${number(questions.dispute[at])}`;
    return { id: questions.id[at], text: questions.text[at], language: questions.language[at], kind: questions.type[at],
      dispute: form.disputed.checked ? dispute : null,
      cells: cells.map((cell, of) => {
        const { ranking } = known.cells[cell];
        const sign = ranking < 0 ? " " : known.lost[ranking][at];
        const said = answers[of];
        return { value: values[of][at], why: "no value", answer: said?.answer ?? null, lost: sign >= "a" ? known.steps[sign.charCodeAt(0) - 97].label : "",
          status: !said || said.status === "ok" ? "" : said.reason ? `${said.status}: ${said.reason}` : said.status };
      }) };
  };

  let drawing = 0;
  const drawMatrix = async () => {
    drawing += 1;
    const own = drawing;
    const others = known.cells.map((_, at) => at).filter((at) => at !== now.a && at !== now.b);
    const cells = [now.a, ...(now.b >= 0 ? [now.b] : []), ...others].slice(0, COLUMNS);
    const metric = known.metrics.find((one) => one.name === form.metric.value) ?? known.metrics[0];
    const values = await Promise.all(cells.map((cell) => assayData.scores(metric.name, known.cells[cell].key)));
    const page = matching.slice(first, first + ROWS);
    const found = await Promise.all(page.map((at) => rowOf(at, cells, values)));
    if (own !== drawing) return; // another page has been asked for since
    const turned = (by, label) => {
      const button = node("button", { type: "button", disabled: by < 0 ? first === 0 : first + ROWS >= matching.length }, label);
      button.addEventListener("click", () => { first += by; drawMatrix(); });
      return button;
    };
    const at = (id) => known.questions.id.indexOf(id);
    const of = (key) => known.cells.findIndex((one) => one.key === key);
    const steps = matching.length > ROWS ? node("div", { class: "steps" }, turned(-ROWS, `Previous ${ROWS}`), turned(ROWS, `Next ${ROWS}`),
      node("p", { class: "where" }, `Rows ${first + 1}–${Math.min(first + ROWS, matching.length)} of ${matching.length}`)) : null;
    box.replaceChildren(...(page.length ? [journeyTable.draw(
      { metric, pipelines: cells.map((cell) => known.cells[cell]), rows: found },
      (id, key) => address(at(id), of(key), now.b === of(key) ? now.a : now.b),
      (id, key) => lead(at(id), of(key), now.b === of(key) ? now.a : now.b))] : []), ...(steps ? [steps] : []));
    markOpen();
  };
  const markOpen = () => journeyTable.choose(box, isOpen ? known.questions.id[now.at] : null, [now.a, now.b].map((one) => known.cells[one]?.key));

  // The matrix with the question that is shown in it.
  const showRows = () => {
    const here = matching.indexOf(now.at);
    first = here < 0 || !isOpen ? 0 : Math.floor(here / ROWS) * ROWS;
    return drawMatrix();
  };

  let turn = 0;
  const measured = async (cell) => {
    const { key } = known.cells[cell];
    const values = await Promise.all(known.metrics.map((metric) => assayData.scores(metric.name, key)));
    const why = await Promise.all(known.metrics.map((metric) => assayData.why(metric.name, key, now.at)));
    return { values: values.map((all) => all[now.at]), why };
  };

  const show = async () => {
    turn += 1;
    const own = turn;
    const { at, a, b } = now;
    const title = node("h3", { dir: "auto", lang: known.questions.language[at] }, known.questions.text[at]);
    body.setAttribute("aria-busy", "true");
    let parts;
    try {
      const block = await assayData.block(at);
      const cells = [["A", a], ["B", b]].filter(([, cell]) => cell >= 0);
      const sides = await Promise.all(cells.map(async ([name, cell]) => journeyView.sideOf(name, cell, known, block, at, await measured(cell))));
      parts = journeyView.article(known, block, at, sides);
    } catch (error) {
      parts = [node("p", { class: "warn" }, plain(error.message))];
    }
    if (own !== turn) return; // another question has been asked for since
    body.replaceChildren(title, ...parts);
    for (const long of body.querySelectorAll(".long")) {
      const mark = long.querySelector("mark");
      if (mark) long.scrollTop = mark.offsetTop - 40;
    }
    body.setAttribute("aria-busy", "false");
    body.dataset.shown = known.questions.id[at];
    body.hidden = false;
    told();
  };

  const refilter = async () => {
    matching = await filtered();
    if (isOpen && matching.length && !matching.includes(now.at)) go(matching[0], now.a, now.b);
    told();
    await showRows();
  };

  const follow = async (moves) => {
    const wanted = asked();
    if (wanted === null) return;
    const before = [now.a, now.b, first].join();
    body.hidden = false;
    if (wanted.at < 0) {
      body.replaceChildren(node("p", { class: "warn" }, `This study asks no question “${wanted.id}”.`));
      delete body.dataset.shown;
    } else {
      isOpen = true;
      Object.assign(now, { at: wanted.at, a: Math.max(wanted.a, 0), b: wanted.b });
      history.replaceState(null, "", address(now.at, now.a, now.b)); // whole, so that it can be passed on
      form.a.value = now.a;
      form.b.value = now.b;
      matching = await filtered();
      const here = matching.indexOf(now.at);
      if (here >= 0) first = Math.floor(here / ROWS) * ROWS;
      if (before === [now.a, now.b, first].join() && box.firstChild) markOpen();
      else drawMatrix();
      await show();
      if (wanted.unknown.length) body.prepend(node("p", { class: "warn" }, `This study has no cell “${wanted.unknown.join("”, “")}”.`));
    }
    if (leads) {
      leads = false;
      body.scrollIntoView({ block: "start" });
      body.focus({ preventScroll: true });
    } else if (moves && !place.contains(document.activeElement)) {
      place.scrollIntoView();
      body.focus({ preventScroll: true });
    }
  };

  const begin = async () => {
    if (known) return;
    known = await assayData.catalogue();
    if (!known || !known.questions.id.length || !known.cells.length) return;
    body.hidden = true;
    place.append(choose(), box, node("div", { class: "steps" }, ...buttons, where), body);
    place.hidden = false;
    const changed = () => {
      now.a = Number(form.a.value);
      now.b = Number(form.b.value);
      if (isOpen) go(now.at, now.a, now.b);
      else refilter();
    };
    for (const name of ["a", "b"]) form[name].addEventListener("change", changed);
    for (const name of ["type", "set", "source", "lost", "metric", "wrong", "disputed"]) form[name].addEventListener("change", refilter);
    form.search.addEventListener("input", refilter);
    form.search.form.addEventListener("submit", (event) => event.preventDefault());
    if (known.cells.length > 1) now.b = 1;
    form.b.value = now.b;
    matching = await filtered();
    told();
    if (asked()) await follow(true);
    else await showRows();
  };

  place.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, .long, .scroll")) return;
    const by = { j: 1, ArrowRight: 1, k: -1, ArrowLeft: -1 }[event.key];
    if (!by || !known) return;
    event.preventDefault();
    move(by);
  });
  window.addEventListener("hashchange", () => (known ? follow(true) : location.hash.startsWith("#q=") && begin()));
  if (location.hash.startsWith("#q=")) begin();
  else {
    // Nothing is unpacked before somebody comes near.
    const near = new IntersectionObserver((seen) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      near.disconnect();
      begin();
    }, { rootMargin: "600px" });
    near.observe(document.querySelector("#journey"));
  }
})();
