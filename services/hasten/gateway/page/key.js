// The API key: in this tab's session storage and nowhere else. A link may bring it after `#key=`, which the address bar,
// and with it the history, loses at once.

const NAME = "hasten.key";
let kept = "";

export function key() {
  try {
    return sessionStorage.getItem(NAME) || "";
  } catch {
    return kept;
  }
}

export function keep(value) {
  kept = value;
  try {
    if (value) sessionStorage.setItem(NAME, value);
    else sessionStorage.removeItem(NAME);
  } catch {
    // Without storage it lasts as long as the page.
  }
}

/** Takes a key out of the address; true if there was one. */
export function taken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!found) return false;
  history.replaceState(null, "", location.pathname + location.search);
  keep(found.trim());
  return true;
}
