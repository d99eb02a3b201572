"use strict";
// One question as nodes: what it asks, and what one cell or two made of it.
const journeyView = (() => {
  const { node, link, number, slice, marked, rows, say } = journeyParts;
  const LONG = 700; // characters of a text from which it scrolls in itself

  const item = (name, ...value) => node("div", {}, node("dt", {}, name), node("dd", { dir: "auto" }, ...value));
  const prose = (text, children) =>
    node("p", { class: text.length > LONG ? "text long" : "text", dir: "auto", tabindex: text.length > LONG ? 0 : null,
      role: text.length > LONG ? "group" : null, "aria-label": text.length > LONG ? say("a long text") : null }, children);

  const facts = (one) => {
    const { about, asked, evidence, documents } = one;
    const named = new Map(documents.map((document) => [document.doc_id, document]));
    const where = (piece) => {
      const document = named.get(piece.doc_id);
      const url = document?.url ?? piece.url;
      const title = document?.title || url || piece.doc_id || say("(no page is named)");
      return node("cite", {}, url ? link(url, title) : title);
    };
    const pieces = evidence.map((piece) => node("blockquote", { dir: "auto" }, piece.quote ?? say("the whole document"),
      where(piece), piece.reason ? node("em", { class: "warn" }, `${say("not found")}: ${piece.reason}`) : null));
    const kinds = [about.id, about.set, about.type, about.sources.join(", ")].filter(Boolean).join(" · ");
    return node("dl", {}, item(say("Question"), kinds, asked.answerable === false ? ` · ${say("not answerable from the corpus")}` : ""),
      asked.conversation ? item(say("Said before"), asked.conversation) : null,
      item(say("Ground truth"), asked.ground_truth ?? say("– the question set gives none")),
      item(say("Evidence"), ...(pieces.length ? pieces : [say("– the question has none")])));
  };

  const scores = (one, sides) => {
    const heads = [node("th", { scope: "col" }, say("Metric")),
      ...sides.map((side) => node("th", { scope: "col", class: "num" }, side.name))];
    if (sides.length > 1) heads.push(node("th", { scope: "col", class: "num" }, say("B - A")));
    const lines = one.metrics.flatMap((metric, at) => {
      const values = sides.map((side) => side.values[at]);
      const missing = sides.map((side) => side.why[at]);
      if (values.every(Number.isNaN) && missing.every((why) => !why.length)) return [];
      const difference = values.length > 1 ? values[1] - values[0] : 0;
      const cells = values.map((value, of) => node("td", { class: "num" }, number(value, metric.unit),
        missing[of].map(([, status, reason]) => node("small", { class: "low" }, reason ? `${status}: ${reason}` : status))));
      if (sides.length > 1) {
        const better = difference === 0 || Number.isNaN(difference) ? "" : (difference > 0) === metric.higher ? " better" : " worse";
        cells.push(node("td", { class: `num${better}` }, difference > 0 ? "+" : "", number(difference, metric.unit),
          better ? node("small", {}, say(better.trim())) : null));
      }
      return [node("tr", {}, node("th", { scope: "row" }, metric.title), ...cells)];
    });
    const table = node("table", {}, node("thead", {}, node("tr", {}, ...heads)), node("tbody", {}, ...lines));
    return node("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": say("Scores of this question") }, table);
  };

  const spansOf = (hit, evidence) => evidence.flatMap((piece) => {
    if (piece.doc_id === null || piece.doc_id !== hit.doc) return [];
    if (piece.start === null || piece.end === null) return piece.quote === null ? [[0, hit.end - hit.start]] : [];
    const span = [Math.max(piece.start, hit.start) - hit.start, Math.min(piece.end, hit.end) - hit.start];
    return span[0] < span[1] ? [span] : [];
  });

  const comparedWith = (hit, other) => {
    if (!other) return null;
    const same = other.hits.find((one) => one.doc === hit.doc && one.start < hit.end && hit.start < one.end);
    if (!same) return node("strong", { class: "only" }, `${say("only in")} ${hit.side}`);
    return same.rank === hit.rank ? null : node("strong", { class: "moved" }, `${say("rank")} ${same.rank} in ${other.name}`);
  };

  const hits = (side, other, one) => {
    if (side.ended) return node("p", { class: "warn" }, `${say("The ranking ended with")} ${side.ended.status}: ${side.ended.reason ?? ""}`);
    if (!side.hits.length) return node("p", {}, say("No hit is stored for this cell and question."));
    const named = new Map(one.documents.map((document) => [document.doc_id, document]));
    return node("ol", { class: "hits" }, ...side.hits.map((hit) => {
      const document = named.get(hit.doc);
      const spans = spansOf(hit, one.evidence);
      const way = side.taken.filter((step) => step.rank === hit.rank).map((step) => `${step.step} ${step.at}`);
      const score = [hit.score === null ? "" : `${say("score")} ${number(hit.score)}`, spans.length ? say("holds evidence") : ""];
      const li = node("li", { value: hit.rank, class: spans.length ? "holds" : null, tabindex: -1 },
        node("p", { class: "source" }, node("span", { dir: "auto" }, document?.url ? link(document.url, document.title || document.url)
          : document?.title ?? `${say("passage")} ${hit.rank}`), " ", comparedWith(hit, other),
        node("span", { class: "score" }, score.filter(Boolean).join(" · ")),
        way.length ? node("span", { class: "score" }, `${say("rank after each step")}: ${way.join(", ")}`) : null),
        hit.text === null ? node("p", { class: "left-out" }, say("The current documents have no such passage."))
          : prose(hit.text, marked(hit.text, spans)));
      hit.node = li;
      return li;
    }));
  };

  const lost = (side, one) => {
    if (side.lost === " ") return null;
    if (side.lost === ".") return node("p", {}, say("The ranking holds the evidence that the question needs."));
    const step = one.steps[side.lost.charCodeAt(0) - 97];
    const at = side.losses.find((piece) => piece.lost_at === step.name)?.step;
    return node("p", { class: "lost-at" }, node("b", {}, `${say("Lost at")} ${say(step.label)}${at ? ` (${at})` : ""}. `), `${step.means} ${step.try}`.replaceAll("`", ""));
  };

  // Markers that the answer's citations have become buttons that lead to their passages.
  const cited = (text, answer, side) => text.split(/(\[\d{1,3}\])/).map((part) => {
    const marker = /^\[(\d{1,3})\]$/.exec(part);
    const citation = marker && answer.citations.find((one) => one.marker === Number(marker[1]));
    if (!citation) return part;
    const hit = side.hits.find((one) => one.chunk === citation.chunk_id && citation.chunk_id !== null);
    if (!hit) return citation.url ? link(citation.url, part) : node("s", { title: say("points to no passage") }, part);
    const button = node("button", { type: "button", class: "cited", title: `${say("passage at rank")} ${hit.rank}` }, part);
    button.addEventListener("click", () => { hit.node.scrollIntoView({ block: "center" }); hit.node.focus(); });
    return button;
  });

  const differing = (answer, rival, side) => {
    if (rival === null || rival === undefined) return cited(answer.answer, answer, side);
    return journeyDiff.parts(answer.answer, rival).map(([part, own]) =>
      (own ? node("strong", { class: "only" }, cited(part, answer, side)) : cited(part, answer, side)));
  };

  const judgements = (answer) => answer.judgements.map((one) => node("li", {}, node("b", {}, `${one.metric}: `),
    one.status === "ok" ? number(one.value) : `[${one.status}]`, one.uncalibrated ? ` (${say("uncalibrated")})` : "",
    one.again > 1 ? ` (${say("replicate")} ${one.again})` : "", one.reason ? ` – ${one.reason}` : "",
    one.statements.length ? node("ul", {}, ...one.statements.map((said) => node("li", { dir: "auto" },
      node("b", { class: "verdict" }, said.verdict ?? number(said.value)), ` ${said.text ?? ""}`,
      said.reason ? ` – ${said.reason}` : ""))) : null));

  const people = (answer) => answer.people.map((one) => node("li", { dir: "auto" }, node("b", {},
    `${one.annotator}, ${one.rubric}${one.criterion ? `, ${one.criterion}` : ""}: `),
  one.status === "ok" ? String(one.value) : one.status, one.comment ? ` – ${one.comment}` : ""));

  const answers = (side, other) => side.answers.map((answer, at) => {
    const rival = other?.answers[at]?.answer ?? other?.answers[0]?.answer;
    const of = answer.replicate > 1 ? `, ${say("replicate")} ${answer.replicate}` : "";
    const spent = [answer.seconds === null ? "" : `${number(answer.seconds, "s")} s`,
      answer.prompt_tokens === null ? "" : `${answer.prompt_tokens + (answer.completion_tokens ?? 0)} tokens`, answer.model ?? ""];
    const unwritten = answer.citations.filter((one) => !(answer.answer ?? "").includes(`[${one.marker}]`));
    return node("div", {}, node("h5", {}, `${say("Answer")}${of}`),
      answer.status === "ok" ? null : node("p", { class: "warn" }, `[${answer.status}] ${answer.reason ?? ""}`),
      answer.answer === null ? null : prose(answer.answer, differing(answer, rival, side)),
      unwritten.length ? node("p", { class: "cites" }, say("cites"), " ", unwritten.flatMap((one) => [...cited(`[${one.marker}]`, answer, side), " "])) : null,
      node("p", { class: "left-out" }, spent.filter(Boolean).join(" · ")),
      answer.judgements.length ? node("div", {}, node("h5", {}, say("Judgements")), node("ul", { class: "said" }, ...judgements(answer))) : null,
      answer.people.length ? node("div", {}, node("h5", {}, say("Human ratings")), node("ul", { class: "said" }, ...people(answer))) : null);
  });

  const column = (side, other, one) => {
    const found = hits(side, other, one); // before the answers: citations lead to them
    return node("div", { class: "side" }, node("h4", {}, `${side.name}: ${side.label}`), lost(side, one),
      side.ranking < 0 && !side.hits.length ? node("p", {}, say("This cell reads no ranking.")) : null, ...answers(side, other),
      side.ranking < 0 && !side.hits.length ? null : node("h5", {}, say("What was found")),
      side.ranking < 0 && !side.hits.length ? null : found);
  };

  // What one cell made of a question, out of its block.
  const sideOf = (name, cell, known, block, at, measured) => {
    const own = at - block.first;
    const { label, ranking } = known.cells[cell];
    const runs = new Map(known.runs.flatMap(([of, replicate], run) => (of === cell ? [[run, replicate]] : [])));
    const stretches = block.stretches;
    const of = (table) => rows(block, table, own);
    const found = of("hits").filter((hit) => hit.ranking === ranking).map((hit) => {
      const text = hit.stretch === null ? null : block.texts[stretches.text_[hit.stretch]] ?? null;
      const begin = hit.start - stretches.start[hit.stretch];
      return { side: name, rank: hit.rank, score: hit.score, chunk: hit.chunk_id, start: hit.start, end: hit.end,
        doc: block.texts[stretches.doc_id_[hit.stretch]], text: text === null ? null : slice(text, begin, begin + hit.end - hit.start) };
    });
    const [citations, statements, judged, said] = ["citations", "statements", "judgements", "people"].map(of);
    const given = of("answers").filter((answer) => runs.has(answer.run)).map((answer) => ({ ...answer, replicate: runs.get(answer.run),
      citations: citations.filter((one) => one.run === answer.run), people: said.filter((one) => one.run === answer.run),
      judgements: judged.filter((one) => one.run === answer.run).map((one) => ({ ...one,
        statements: statements.filter((part) => part.number === one.number) })) }));
    const of_ranking = (table) => of(table).filter((one) => one.ranking === ranking);
    return { name, label, ranking, hits: found, taken: of_ranking("taken"), losses: of_ranking("lost"), ended: of_ranking("ended")[0],
      answers: given.sort((a, b) => a.replicate - b.replicate), lost: ranking < 0 ? " " : known.lost[ranking][at], ...measured };
  };

  const article = (known, block, at, sides) => {
    const own = at - block.first;
    const columns = Object.entries(known.questions).map(([name, values]) => [name, values[at]]);
    const one = { about: Object.fromEntries(columns), asked: rows(block, "questions", own)[0], metrics: known.metrics,
      evidence: rows(block, "evidence", own), documents: rows(block, "documents", own), steps: known.steps };
    return [facts(one), node("h4", {}, say("Scores")), scores(one, sides),
      node("div", { class: sides.length > 1 ? "pair two" : "pair" },
        ...sides.map((side, of) => column(side, sides[1 - of], one)))];
  };

  return { sideOf, article };
})();
