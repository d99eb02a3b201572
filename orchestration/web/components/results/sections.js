// Sections of the report on a page of the app: they come as HTML whose texts the server escaped.

const drawn = new WeakMap();

export default function sections({ data, parentElement, setTriggerValue }) {
  const place = parentElement.querySelector(".as-sections");
  if (drawn.get(place) === data.html) return;
  drawn.set(place, data.html);
  place.innerHTML = data.html;
  place.dataset.layout = data.layout;
  if (data.lang) place.lang = data.lang;
  place.dataset.drawn = "true";
  place.onclick = (event) => {
    const link = event.target.closest("a[href^='?']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    setTriggerValue("follow", Object.fromEntries(new URLSearchParams(link.getAttribute("href").slice(1))));
  };
}
