// Makes elements. Whatever comes from a model, a document or another tenant becomes text here, never markup.

export const $ = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is no node becomes text, and nothing for null. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Changes the text of an element only if it is another one, so that nothing is announced twice. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Rows of a table's body from arrays of cells; the first cell is the row's heading. */
export function rows(body, table) {
  body.replaceChildren(
    ...table.map((cells) =>
      el("tr", {}, ...cells.map((cell, at) => (at ? el("td", {}, cell) : el("th", { scope: "row" }, cell)))),
    ),
  );
}

/** A link for an address of the web, plain text for every other one. */
export function link(url, text) {
  let safe = false;
  try {
    safe = ["http:", "https:"].includes(new URL(url).protocol);
  } catch {
    // Not an address.
  }
  return safe ? el("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, text) : text;
}
