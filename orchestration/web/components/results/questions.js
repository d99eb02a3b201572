// The page Questions: the matrix that the server sends, beside it the journey of the question that is open.

const MOVE = { j: 1, k: -1 };
const boxes = new WeakMap();

class Questions {
  constructor(root) {
    this.box = root.querySelector(".matrix-box");
    this.panel = root.querySelector(".panel");
    this.root = root.querySelector(".as-questions");
    this.drawn = "";
    this.shown = "";
    this.onKey = (event) => this.key(event);
    addEventListener("keydown", this.onKey);
  }

  end() { removeEventListener("keydown", this.onKey); }

  address(question, pipeline) {
    const query = new URLSearchParams(location.search);
    query.set("question", question);
    if (pipeline) query.set("show", pipeline);
    return `?${query}`;
  }

  open(question, pipeline, beside = this.data.open?.beside ?? null) {
    this.send("open", { question, pipeline: pipeline ?? null, beside });
  }

  show(data, send) {
    this.data = data;
    this.send = send;
    for (const one of Object.keys(journeyParts.words)) delete journeyParts.words[one];
    Object.assign(journeyParts.words, data.journey);
    this.panel.setAttribute("aria-label", data.words.open);
    if (data.serial !== this.drawn) {
      const held = this.box.querySelector(".scroll");
      const at = held && data.place === this.place ? [held.scrollLeft, held.scrollTop] : [0, 0];
      this.box.replaceChildren(...this.matrix());
      const box = this.box.querySelector(".scroll");
      if (box) [box.scrollLeft, box.scrollTop] = at;
      this.drawn = data.serial;
      this.place = data.place;
    }
    const { open } = data;
    journeyTable.choose(this.box, open?.question, open ? [open.pipeline, open.beside] : []);
    this.root.classList.toggle("with-panel", open !== null);
    const wanted = open === null ? "" : JSON.stringify([open.question, open.pipeline, open.beside, data.words.open]);
    if (wanted !== this.shown) {
      this.panel.replaceChildren(...(open === null ? [] : this.journey(open)));
      this.panel.scrollTop = 0;
      if (open !== null && !this.box.contains(this.box.getRootNode().activeElement)) this.panel.focus({ preventScroll: true });
      this.shown = wanted;
    }
    this.panel.hidden = open === null;
    this.root.dataset.shown = open?.question ?? "";
    this.root.dataset.serial = data.serial;
  }

  matrix() {
    const { node } = journeyParts;
    const { words, first, size, matching, total } = this.data;
    const step = (by, text, off) => {
      const button = node("button", { type: "button", disabled: off }, text);
      button.addEventListener("click", () => this.send("page", Math.floor(first / size) + by));
      return button;
    };
    const last = Math.min(first + size, matching);
    const where = node("p", { class: "where", role: "status" }, matching
      ? words.where.replace("{first}", first + 1).replace("{last}", last).replace("{n}", matching).replace("{total}", total) : words.none);
    const bar = node("div", { class: "steps" }, matching > size
      ? [step(-1, words.previous, first === 0), step(1, words.next, last >= matching)] : [], where);
    if (!matching) return [bar];
    return [bar, journeyTable.draw(this.data.matrix, (...of) => this.address(...of), (...of) => this.open(...of))];
  }

  journey(open) {
    const { node } = journeyParts;
    const { words } = this.data;
    const close = node("button", { type: "button" }, words.close);
    close.addEventListener("click", () => this.send("open", { question: null }));
    if (!open.journey) return [close, node("p", { class: "warn" }, words.unknown)];
    const { known, block, measured } = open.journey;
    const list = (title, options, chosen, take) => {
      const select = node("select", {}, options.map(([key, label]) => node("option", { value: key, selected: key === chosen }, label)));
      select.addEventListener("change", () => take(select.value || null));
      return node("label", {}, `${title} `, select);
    };
    const others = open.choices.filter(([key]) => key !== open.pipeline);
    const lists = [
      list(words.pipeline, open.choices, open.pipeline, (one) => this.open(open.question, one, open.beside === one ? null : open.beside)),
      list(words.beside, [["", words.alone], ...others], open.beside ?? "", (one) => this.open(open.question, open.pipeline, one))];
    const letter = (key, at) => "AB"[this.data.matrix.pipelines.findIndex((one) => one.key === key)] ?? "CD"[at]; // as above the matrix
    const pair = [open.pipeline, open.beside];
    const sides = known.cells.map((one, at) => journeyView.sideOf(letter(pair[at], at), at, known, block, 0, {
      values: measured[at].values.map((value) => value ?? NaN), why: measured[at].why }));
    const title = node("h3", { dir: "auto", lang: known.questions.language[0] }, known.questions.text[0]);
    return [node("div", { class: "steps" }, close, ...lists), title,
      ...journeyView.article(known, block, 0, sides)];
  }

  // j and k open the next and the previous question, Escape closes the panel.
  key(event) {
    const from = event.composedPath()[0];
    if (event.ctrlKey || event.metaKey || event.altKey || from.closest?.("input, select, textarea, [role=combobox]")) return;
    const { open, matrix } = this.data;
    if (event.key === "Escape" && open) this.send("open", { question: null });
    const by = MOVE[event.key];
    if (!by || !matrix.rows.length) return;
    const here = matrix.rows.findIndex((row) => row.id === open?.question);
    const next = matrix.rows[here < 0 ? 0 : here + by];
    if (next) this.open(next.id, open?.pipeline ?? null);
  }
}

export default function questions({ data, parentElement, setTriggerValue }) {
  if (!boxes.has(parentElement)) boxes.set(parentElement, new Questions(parentElement));
  const page = boxes.get(parentElement);
  page.show(data, setTriggerValue);
  return () => { page.end(); boxes.delete(parentElement); };
}
