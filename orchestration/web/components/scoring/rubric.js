// By what it is scored: the question to the annotator, anchors with their keys, a comment.

function keyCap(key) {
  return key === null ? null : make("kbd", { "aria-hidden": "true" }, key);
}

function anchorButton(anchor, ask, act) {
  const chosen = ask.chosen === anchor.index;
  return make("button",
    { class: "as-anchor", type: "button", "aria-pressed": String(chosen), "aria-keyshortcuts": anchor.key, "data-key": anchor.key,
      onclick: () => act("score", { index: anchor.index }) },
    keyCap(anchor.key), make("span", { dir: "auto" }, anchor.text));
}

function commentField(ask, act) {
  const draft = remembered(localStorage, ask.draft);
  const field = make("textarea", { rows: "1", maxlength: "10000", "aria-label": say("comment"), "aria-keyshortcuts": "c", placeholder: say("comment"), dir: "auto", spellcheck: "true" });
  field.value = draft ?? ask.comment ?? "";
  const grow = () => {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 200)}px`;
  };
  const isNew = () => field.value.trim() !== (ask.comment ?? "");
  field.addEventListener("input", () => {
    grow();
    remember(localStorage, ask.draft, isNew() ? field.value : "");
  });
  // A click on an anchor takes the comment with it; what else leaves the field saves it by itself.
  field.addEventListener("blur", () => setTimeout(() => {
    if (field.isConnected && document.activeElement !== field && isNew() && ask.answered) act("comment", {});
  }, 200));
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape" || (event.key === "Enter" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      field.blur();
    }
  });
  requestAnimationFrame(grow);
  return make("label", { class: "as-comment" }, keyCap("c"), field);
}

function answeredAsk(ask, at, act) {
  const chosen = ask.anchors.find((one) => one.index === ask.chosen);
  const state = ask.skipped ? say("cannot_say") : (chosen?.text ?? say("open"));
  return make("button", { class: "as-ask-closed", type: "button", onclick: () => act("focus", { step: at }) },
    make("span", { class: "as-ask-text" }, ask.ask), make("span", { class: ask.answered ? "as-said" : "as-open", dir: "auto" }, state));
}

function openAsk(ask, act, several) {
  const skip = make("button", { class: "as-anchor as-skip", type: "button", "aria-pressed": String(ask.skipped), "aria-keyshortcuts": "s", "data-key": "s", onclick: () => act("skip") },
    keyCap("s"), make("span", {}, say("cannot_say")));
  return make("div", { class: "as-ask", role: "group", "aria-label": ask.ask },
    make("h3", { class: "as-ask-head", dir: "auto" }, several && ask.name ? make("span", { class: "as-kicker" }, ask.name) : null, ask.ask),
    make("div", { class: "as-anchors" }, ask.anchors.map((one) => anchorButton(one, ask, act))),
    make("div", { class: "as-beside" }, skip, commentField(ask, act)));
}

// Why the answer failed: tags that others have given, and a field for one's own words.
function tagPanel(view, act) {
  const chips = view.tags.map((tag) => make("button", { class: "as-tag", type: "button", dir: "auto", "aria-pressed": String(tag.on), onclick: () => act("tag", { tag: tag.t }) }, tag.t));
  const field = make("input", { type: "text", maxlength: "60", "aria-label": say("own_tag"), "aria-keyshortcuts": "t", placeholder: say("why_failed"), dir: "auto" });
  const form = make("form", { class: "as-comment" }, keyCap("t"), field);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) act("tag", { tag: field.value });
  });
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") field.blur();
  });
  return make("div", { class: "as-tags", role: "group", "aria-label": say("tags") }, chips, form);
}

function rubricPanel(view, act) {
  const many = view.asks.length > 1;
  const asks = view.asks.map((ask, at) => (at === view.focus ? openAsk(ask, act, many) : answeredAsk(ask, at, act)));
  const compact = make("button", { class: "as-plain as-words", type: "button", onclick: () => words(panel, true) });
  const panel = make("aside", { class: "as-rubric", "aria-label": say("rubric") }, asks, tagPanel(view, act),
    make("div", { class: "as-moves" },
      make("button", { class: "as-plain", type: "button", "aria-keyshortcuts": "ArrowLeft", disabled: view.first, onclick: () => act("back") }, keyCap("←"), say("back")),
      make("button", { class: "as-plain", type: "button", "aria-keyshortcuts": "u", disabled: !view.undo, onclick: () => act("undo") }, keyCap("u"), say("undo")),
      compact,
      make("button", { class: "as-plain", type: "button", "aria-keyshortcuts": "ArrowRight", onclick: () => act("on") }, say("on"), keyCap("→"))));
  words(panel, false);
  return panel;
}

// On a narrow screen the anchors may be keys alone.
function words(panel, change) {
  const terse = (remembered(localStorage, "assay.terse") === "yes") !== change;
  if (change) remember(localStorage, "assay.terse", terse ? "yes" : "");
  panel.classList.toggle("as-terse", terse);
  const button = panel.querySelector(".as-words");
  button.textContent = say(terse ? "words" : "fewer_words");
  button.setAttribute("aria-expanded", String(!terse));
}
