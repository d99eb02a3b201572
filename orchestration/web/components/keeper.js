// Keeps the ticket of a tab, in place of the password, and shows it when the page asks.
const NAME = "assay.ticket";
let shown = false;

export default function ({ data, setTriggerValue }) {
  try {
    if (data.ticket) sessionStorage.setItem(NAME, data.ticket);
    const kept = sessionStorage.getItem(NAME);
    if (data.asks && kept && !shown) {
      shown = true;
      setTriggerValue("ticket", kept);
    }
  } catch { /* a browser that keeps nothing is asked again */ }
}
