// Keeps in sight what is new: the end of a conversation that is opened, and a question that was just put.
// A link to a passage scrolls to it, once the browser has opened what it stands in.
// A press or a turn of the wheel ends that: a click is lost when the page scrolls away under it.
const TAKEN = ["pointerdown", "wheel"];
// Of the page, not of this module: Streamlit may load it again.
const state = (window.assayFollow ??= {});

function main() {
  return document.querySelector('[data-testid="stMain"]');
}

function toTheEnd(tries = 3) {
  stay(); // one at a time: a press ends what the question before began, too
  const place = main();
  place?.scrollTo({ top: place.scrollHeight });
  if (tries) state.timer = setTimeout(() => toTheEnd(tries - 1), 150);
}

function stay() {
  clearTimeout(state.timer);
}

function onClick(event) {
  const link = event.target.closest?.("a.as-cite");
  const passage = link && document.getElementById(link.hash.slice(1));
  if (!passage) return;
  for (let one = passage.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
  requestAnimationFrame(() => passage.scrollIntoView({ block: "center" }));
}

export default function ({ data }) {
  const before = state.serial;
  state.serial = data.serial;
  if (data.serial && before !== data.serial) toTheEnd();
  document.addEventListener("click", onClick);
  for (const one of TAKEN) document.addEventListener(one, stay, { capture: true, passive: true });
  return () => {
    document.removeEventListener("click", onClick);
    for (const one of TAKEN) document.removeEventListener(one, stay, { capture: true });
  };
}
