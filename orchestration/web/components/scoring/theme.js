// Light and dark: the system's choice, unless this browser was set otherwise.

const LOOKS = ["", "light", "dark"];
const LOOK_WORDS = { "": "as the system", light: "light", dark: "dark" };

function wear(look) {
  if (look) document.documentElement.dataset.look = look;
  else delete document.documentElement.dataset.look;
}

function lookSwitch() {
  const button = make("button", { class: "as-plain", type: "button" });
  const show = (look) => {
    wear(look);
    button.replaceChildren(make("span", { class: "as-moon", "aria-hidden": "true" }));
    button.setAttribute("aria-label", `Colours: ${LOOK_WORDS[look]}. Change`);
    button.title = `Colours: ${LOOK_WORDS[look]}`;
  };
  const current = () => (LOOKS.includes(remembered(localStorage, "assay.look")) ? remembered(localStorage, "assay.look") : "") ?? "";
  button.addEventListener("click", () => {
    const next = LOOKS[(LOOKS.indexOf(current()) + 1) % LOOKS.length];
    remember(localStorage, "assay.look", next);
    show(next);
  });
  show(current());
  return button;
}
