// The page of scoring: shows what the server sends, and sends back what is pressed, once.

const BOUNCE = 250; // ms in which the same key twice is one press
const UNREAD = 300; // ms for which a new item takes no key: it cannot have been read yet

const MOVES = { ArrowLeft: "back", ArrowRight: "on", Enter: "on", u: "undo" };

const pages = new WeakMap();

class Page {
  constructor(root) {
    this.root = root;
    this.view = null;
    this.busy = false;
    this.waiting = []; // keys that were pressed while the server was busy with the same item
    this.begun = null; // a comment that is typed while the server is busy
    this.last = { key: "", at: 0 };
    this.shownAt = 0;
    this.looked = 0;
    this.since = null;
    this.onKey = (event) => this.key(event);
    this.onSight = () => this.clock(document.visibilityState === "visible");
    addEventListener("keydown", this.onKey, true);
    document.addEventListener("visibilitychange", this.onSight);
  }

  end() {
    removeEventListener("keydown", this.onKey, true);
    document.removeEventListener("visibilitychange", this.onSight);
  }

  // How long it was looked at: only while the page can be seen.
  clock(running) {
    if (this.since !== null) this.looked += performance.now() - this.since;
    this.since = running ? performance.now() : null;
  }

  show(view, send) {
    if (this.view?.serial === view.serial) return;
    texts = view.words;
    const before = this.view;
    const place = (one) => `${one?.kind}/${one?.place}/${one?.focus}`;
    const isNewItem = before?.kind !== view.kind || before?.place !== view.place;
    this.view = view;
    this.send = send;
    this.busy = false;
    clearTimeout(this.late);
    clearInterval(this.asking);
    for (const name of view.saved) remember(localStorage, name, "");
    if (place(before) !== place(view)) {
      this.looked = 0;
      this.since = null;
      this.clock(document.visibilityState === "visible");
    }
    const writing = this.written(place(before) === place(view));
    this.draw(isNewItem);
    if (writing) this.writeOn(writing);
    this.root.dataset.serial = view.serial;
    if (isNewItem) {
      this.shownAt = performance.now();
      this.waiting = [];
    } else this.next();
  }

  get field() { return this.root.querySelector(".as-comment textarea"); }

  // What is being typed into the comment is typed on, whatever is drawn anew meanwhile.
  written(isSamePlace) {
    const { field, begun } = this;
    this.begun = null;
    if (begun !== null) return { text: (isSamePlace && field?.value) || "", more: begun };
    if (!isSamePlace || !field || document.activeElement !== field) return null;
    return { text: field.value, more: "", at: [field.selectionStart, field.selectionEnd] };
  }

  writeOn({ text, more, at }) {
    const { field } = this;
    if (!field) return;
    field.value = (text || field.value) + more;
    field.focus({ preventScroll: true });
    if (at) field.setSelectionRange(...at);
    field.dispatchEvent(new Event("input"));
  }

  draw(isNewItem) {
    const { view } = this;
    const act = (kind, more) => this.act(kind, more);
    const help = helpDialog();
    const openHelp = () => help.showModal();
    const kinds = {
      name: () => nameEntry(view, act),
      end: () => theEnd(view, act),
      trouble: () => trouble(view),
      item: () => make("div", { class: "as-item" }, reading(view.item), rubricPanel(view, act)),
    };
    const kept = isNewItem || this.language !== view.words.question ? null : this.root.querySelector(".as-reading");
    const body = make("div", { class: "as-body" }, kinds[view.kind]());
    if (kept) body.querySelector(".as-reading").replaceWith(kept);
    this.language = view.words.question; // a text of the language
    const notice = make("p", { class: "as-notice", role: "status" });
    this.root.replaceChildren(head(view, act, openHelp), body, notice, help);
    this.help = help;
    requestAnimationFrame(() => { notice.textContent = view.notice ?? ""; });
    if (isNewItem) {
      scrollTo(0, 0);
      document.querySelector('[data-testid="stMain"]')?.scrollTo(0, 0);
      this.root.querySelector(".as-question, .as-end")?.focus({ preventScroll: true });
    }
  }

  act(kind, more = {}) {
    if (this.busy || !this.view) return;
    this.busy = true;
    this.clock(this.since !== null);
    const comment = this.field?.value;
    const seconds = Math.round(this.looked) / 1000;
    this.root.classList.add("as-busy");
    clearTimeout(this.late);
    clearInterval(this.asking);
    this.late = setTimeout(() => this.tellOfWaiting(), 4000);
    this.send({ press: randomName(), kind, token: this.view.token, seconds, comment, ...more });
  }

  // The server is away. What was pressed is perhaps not saved: the page shows what is, once it is back.
  tellOfWaiting() {
    const notice = this.root.querySelector(".as-notice");
    if (notice) notice.textContent = say("no_server");
    this.busy = false;
    this.asking = setInterval(() => this.send({ press: randomName(), kind: "look" }), 2000);
  }

  next() {
    const key = this.waiting.shift();
    if (key) this.press(key);
  }

  key(event) {
    if (!this.root.isConnected || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (isEditable(event.target) || event.defaultPrevented) return;
    if (this.help?.open) return;
    if (this.begun !== null && (event.key.length === 1 || event.key === "Enter")) {
      event.preventDefault();
      event.stopPropagation();
      this.begun += event.key === "Enter" ? "\n" : event.key;
      return;
    }
    if (!this.takes(event)) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "t") {
      this.root.querySelector(".as-tags input")?.focus();
      return;
    }
    if (event.key === "c") {
      if (this.busy) this.begun = "";
      else this.field?.focus();
      return;
    }
    const now = performance.now();
    const isMove = event.key === "?" || (event.key in MOVES && event.key !== "u");
    const isBounce = this.last.key === event.key && now - this.last.at < BOUNCE;
    this.last = { key: event.key, at: now };
    if (event.repeat || (!isMove && (isBounce || now - this.shownAt < UNREAD))) return;
    if (this.busy) this.waiting.push(event.key);
    else this.press(event.key);
  }

  takes(event) {
    if (event.key === "?") return true;
    if (!["item", "end"].includes(this.view?.kind)) return false;
    if (event.key === "Enter") return !isControl(event.target);
    return /^[0-9uscrt]$/.test(event.key) || event.key === "ArrowLeft" || event.key === "ArrowRight";
  }

  press(key) {
    if (key === "?") this.help.showModal();
    else if (MOVES[key]) this.act(MOVES[key]);
    else {
      const button = this.root.querySelector(`.as-ask [data-key="${key}"]`);
      button?.setAttribute("aria-pressed", "true");
      button?.click();
    }
  }
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".as-page");
  if (!pages.has(root)) pages.set(root, new Page(root));
  const page = pages.get(root);
  root.classList.remove("as-busy");
  page.show(data, (event) => setTriggerValue("event", event));
  return () => {
    if (!root.isConnected) { page.end(); pages.delete(root); }
  };
}
