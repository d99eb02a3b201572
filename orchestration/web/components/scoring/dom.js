// Elements are made of nodes and texts, never of markup: whatever a text holds, it is read as text.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== ""));
  return element;
}

let texts = {}; // name -> text, in the language of the page

function say(name, values = {}) {
  return texts[name].replace(/\{(\w+)\}/g, (_, key) => values[key]);
}

function count(name, n) {
  return n === 1 ? say(`${name}_1`) : say(name, { n: n.toLocaleString(document.documentElement.lang) });
}

// What the browser may forget or refuse to keep is asked for with a default.
function remembered(store, name) {
  try { return store.getItem(name); } catch { return null; }
}

function remember(store, name, value) {
  try {
    if (value) store.setItem(name, value);
    else store.removeItem(name);
  } catch { /* a private window: then it is not remembered */ }
}

function randomName() {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((one) => one.toString(16).padStart(8, "0")).join("");
}

const isEditable = (element) => Boolean(element?.closest?.("input, textarea, select, [contenteditable='true']"));
const isControl = (element) => Boolean(element?.closest?.("button, a[href], summary, dialog"));
