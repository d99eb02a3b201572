// What is read: the question, what was said before it, answers with their citations, and the passages.

const LONG = 700; // characters from which a passage is folded
const MOST = 20000; // characters that are written at once

// pieces: [{t: text, m: it is evidence} | {t: "[2]", c: number of the passage, v: there is such a passage}]
function written(pieces, cite) {
  return pieces.map((piece) => {
    if (piece.m) return make("mark", {}, piece.t);
    if (!piece.c) return document.createTextNode(piece.t);
    if (!piece.v) return make("span", { class: "as-nowhere", title: say("no_passage") }, piece.t);
    return make("button", { class: "as-cite", type: "button", "aria-label": say("passage", { n: piece.c }), onclick: () => cite(piece.c) }, `${piece.c}`);
  });
}

function running(pieces, cite) {
  const shown = [];
  const rest = [];
  let left = MOST;
  for (const piece of pieces) {
    if (piece.t.length <= left) shown.push(piece);
    else {
      if (left > 0) shown.push({ ...piece, t: piece.t.slice(0, left) });
      rest.push({ ...piece, t: piece.t.slice(Math.max(0, left)) });
    }
    left -= piece.t.length;
  }
  if (!rest.length) return written(shown, cite);
  const more = make("button", { class: "as-more", type: "button" }, count("more_characters", -left));
  more.addEventListener("click", () => more.replaceWith(...written(rest, cite)));
  return [...written(shown, cite), more];
}

function answerCard(answer, lang, cite) {
  const name = answer.label ? `${say("answer")} ${answer.label}` : say("answer");
  const text = answer.pieces.length
    ? make("div", { class: "as-text", dir: "auto", lang }, running(answer.pieces, cite))
    : make("p", { class: "as-none" }, say("no_answer"));
  return make("section", { class: "as-answer", "aria-label": name }, make("h3", { class: "as-kicker" }, name), text);
}

function conversation(turns) {
  if (!turns.length) return null;
  const lines = turns.map((turn) => make("p", { dir: "auto" }, make("span", { class: "as-who" }, turn.who), turn.t));
  return make("section", { class: "as-before", "aria-label": say("said_before") }, make("h3", { class: "as-kicker" }, say("said_before")), lines);
}

function passageItem(passage, cite) {
  const length = passage.pieces.reduce((sum, piece) => sum + piece.t.length, 0);
  const section = passage.section.join(" › ");
  const text = make("div", { class: "as-text", dir: "auto" }, running(passage.pieces, cite));
  const item = make(
    "li",
    { class: "as-passage", tabindex: "-1", "data-number": passage.number, "aria-label": say("passage", { n: passage.number }) },
    make("span", { class: "as-number", "aria-hidden": "true" }, `${passage.number}`),
    make("div", { class: "as-source" }, passage.title ? make("b", { dir: "auto" }, passage.title) : null,
      section ? make("span", { dir: "auto" }, section) : null,
      passage.date ? make("time", { datetime: passage.date }, passage.date) : null),
    text,
  );
  if (length > LONG) {
    item.classList.add("as-folded");
    const hidden = say(passage.pieces.some((piece) => piece.m) ? "show_all_evidence" : "show_all");
    const fold = make("button", { class: "as-more", type: "button", "aria-expanded": "false" }, hidden);
    fold.addEventListener("click", () => {
      const folded = item.classList.toggle("as-folded");
      fold.setAttribute("aria-expanded", String(!folded));
      fold.textContent = folded ? hidden : say("show_less");
    });
    item.append(fold);
  }
  return item;
}

function passageList(passages, cite) {
  if (!passages.length) return null;
  return make("section", { class: "as-passages", "aria-label": count("passages", passages.length) },
    make("h3", { class: "as-kicker" }, count("passages", passages.length)),
    make("ol", {}, passages.map((one) => passageItem(one, cite))));
}

// Everything of an item that is read, in the order in which it is read.
function reading(item) {
  let list = null;
  const cite = (number) => {
    const passage = list?.querySelector(`[data-number="${Number(number)}"]`);
    if (!passage) return;
    passage.querySelector('.as-more[aria-expanded="false"]')?.click();
    list.querySelectorAll(".as-cited").forEach((one) => one.classList.remove("as-cited"));
    passage.classList.add("as-cited");
    passage.focus({ preventScroll: true });
    passage.scrollIntoView({ block: "center", behavior: calm() ? "auto" : "smooth" });
  };
  list = passageList(item.passages, cite);
  const truth = item.truth === null ? null : make("section", { class: "as-truth", "aria-label": say("truth") },
    make("h3", { class: "as-kicker" }, say("truth")), make("div", { class: "as-text", dir: "auto" }, item.truth));
  const quotes = item.evidence.length ? make("section", { class: "as-truth", "aria-label": say("evidence") },
    make("h3", { class: "as-kicker" }, say("evidence")), item.evidence.map((one) => make("blockquote", { class: "as-text", dir: "auto" }, one))) : null;
  return make("div", { class: "as-reading" },
    conversation(item.conversation),
    make("div", {},
      make("h2", { class: "as-question", dir: "auto", tabindex: "-1", lang: item.lang }, item.question),
      item.day ? make("p", { class: "as-kicker as-day" }, say("asked_on"), make("time", { datetime: item.day }, item.day)) : null),
    make("div", { class: item.answers.length > 1 ? "as-answers as-pair" : "as-answers" }, item.answers.map((one) => answerCard(one, item.lang, cite))),
    truth, quotes, list);
}

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
