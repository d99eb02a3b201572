// Keeps in sight what is new: the end of a conversation that is opened, and a question that was just put.
// A link to a passage scrolls to it, once the browser has opened what it stands in.
// A press or a turn of the wheel ends that: a click is lost when the page scrolls away under it.
const seen = new WeakMap();
const TAKEN = ["pointerdown", "wheel"];
let timer;

function main() {
  return document.querySelector('[data-testid="stMain"]');
}

function toTheEnd(tries = 3) {
  const place = main();
  place?.scrollTo({ top: place.scrollHeight });
  if (tries) timer = setTimeout(() => toTheEnd(tries - 1), 150);
}

function stay() {
  clearTimeout(timer);
}

function onClick(event) {
  const link = event.target.closest?.("a.as-cite");
  const passage = link && document.getElementById(link.hash.slice(1));
  if (!passage) return;
  for (let one = passage.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
  requestAnimationFrame(() => passage.scrollIntoView({ block: "center" }));
}

export default function ({ data }) {
  const before = seen.get(document);
  seen.set(document, data.serial);
  if (data.serial && before !== data.serial) toTheEnd();
  document.addEventListener("click", onClick);
  for (const one of TAKEN) document.addEventListener(one, stay, { capture: true, passive: true });
  return () => {
    document.removeEventListener("click", onClick);
    for (const one of TAKEN) document.removeEventListener(one, stay, { capture: true });
  };
}
