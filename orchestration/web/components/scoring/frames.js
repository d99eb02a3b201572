// What is around the item: the head with its progress, the way in, the end, the help.

const HELP = [
  ["0 … 9", "key_score"], ["or_enter", "key_on"], ["←", "key_back"], ["u", "key_undo"],
  ["s", "cannot_say"], ["c", "key_comment"], ["t", "key_tag"], ["?", "key_help"],
];

function helpDialog() {
  const dialog = make("dialog", { class: "as-help", "aria-label": say("keys") },
    make("h2", {}, say("keys")),
    make("dl", {}, HELP.flatMap(([key, text]) => [make("dt", {}, make("kbd", {}, texts[key] ?? key)), make("dd", {}, say(text))])),
    make("form", { method: "dialog" }, make("button", { class: "as-main" }, say("close"))));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  return dialog;
}

function head(view, act, help) {
  const { done, of } = view.progress ?? { done: 0, of: 0 };
  const bar = make("div", { class: "as-bar", role: "progressbar", "aria-label": say("scored"), "aria-valuemin": "0", "aria-valuemax": of, "aria-valuenow": done }, make("span"));
  bar.firstChild.style.width = `${of ? (100 * done) / of : 0}%`;
  const tally = view.progress ? make("span", { class: "as-tally" }, make("b", {}, `${done}`), say("tally", { of }),
    view.progress.wanted === null ? null : make("span", { class: "as-wanted" }, count("wanted", view.progress.wanted))) : null;
  const name = view.annotator ? make("button", { class: "as-plain as-name", type: "button", title: say("leave"), onclick: () => act("leave") }, make("bdi", {}, view.annotator)) : null;
  return make("header", { class: "as-head" },
    make("div", { class: "as-head-row" }, make("h1", {}, make("bdi", {}, view.study)), tally,
      make("span", { class: "as-tools" }, name,
        make("button", { class: "as-plain", type: "button", "aria-label": say("keys_and_help"), "aria-keyshortcuts": "?", onclick: help }, keyCap("?")))),
    view.progress ? bar : null);
}

function nameEntry(view, act) {
  const field = make("input", { type: "text", autocomplete: "name", maxlength: "80", required: true, dir: "auto", spellcheck: "false" });
  const form = make("form", { class: "as-entry" }, make("h2", {}, say("who")), make("p", {}, say("who_about")),
    make("label", {}, make("span", {}, say("name")), field),
    view.note ? make("p", { class: "as-warn", role: "alert" }, view.note) : null,
    make("button", { class: "as-main" }, say("begin")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) act("name", { name: field.value });
  });
  field.addEventListener("keydown", (event) => event.stopPropagation());
  requestAnimationFrame(() => field.focus());
  if (view.known.length) {
    const known = view.known.map((name) => make("button", { class: "as-known", type: "button", dir: "auto", onclick: () => act("name", { name }) }, name));
    form.append(make("div", { class: "as-names" }, make("p", { class: "as-kicker" }, say("go_on_as")), known));
  }
  return form;
}

function trouble(view) {
  return make("section", { class: "as-end", role: "alert" }, make("h2", {}, say("trouble")), make("p", {}, view.note));
}

function theEnd(view, act) {
  return make("section", { class: "as-end", tabindex: "-1" },
    make("h2", {}, say("done")),
    make("p", {}, count("done_more", view.progress.done)),
    make("div", { class: "as-end-row" },
      make("button", { class: "as-plain", type: "button", onclick: () => act("back") }, keyCap("←"), say("back")),
      make("button", { class: "as-plain", type: "button", disabled: !view.undo, onclick: () => act("undo") }, keyCap("u"), say("undo"))));
}
