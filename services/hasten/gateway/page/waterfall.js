// What ran when in one request, and what did not and why, from the note `timeline`.

import { el } from "./dom.js";
import { ms } from "./format.js";

const NAMES = {
  exact: "look up by key",
  embed: "embed",
  semantic: "look up by meaning",
  retrieve: "retrieve",
  route: "route",
  lease: "lease",
  join: "join",
  follow: "follow",
  compress: "compress",
  generate: "generate",
  first_token: "first token",
  hedge: "hedge",
  cascade: "cascade",
  checks: "checks",
  store: "store",
};
const TICKS = 4;

export function waterfall(stages) {
  const end = Math.max(1, ...stages.map((stage) => stage.end_ms));
  return el(
    "table",
    { class: "waterfall" },
    el("caption", {}, "What ran when"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Stage"), el("th", { scope: "col" }, scale(end)), el("th", { scope: "col" }, "Took"))),
    el("tbody", {}, ...grouped(stages).map((group) => (group[0].outcome === "skipped" ? absent(group) : row(group[0], end)))),
  );
}

function scale(end) {
  const ticks = Array.from({ length: TICKS + 1 }, (_, at) => {
    const tick = el("span", {}, at ? ms((end * at) / TICKS) : "0");
    tick.style.left = `${(100 * at) / TICKS}%`;
    return tick;
  });
  return el("span", { class: "scale" }, el("span", { class: "unseen" }, "When"), el("span", { "aria-hidden": "true" }, ...ticks));
}

/** Neighbours that did not run, for the same reason, are one row. */
function grouped(stages) {
  const groups = [];
  for (const stage of stages) {
    const before = groups.at(-1)?.[0];
    if (stage.outcome === "skipped" && before?.outcome === "skipped" && before.reason === stage.reason) groups.at(-1).push(stage);
    else groups.push([stage]);
  }
  return groups;
}

const nameOf = (stage) => NAMES[stage.name] || stage.name;

const why = (stage) => el("span", { class: "why" }, el("b", {}, stage.outcome), stage.reason ? ` ${stage.reason}` : "");

function absent(group) {
  return el("tr", { class: "stage skipped" }, el("th", { scope: "row" }, group.map(nameOf).join(", ")), el("td", {}, why(group[0])), el("td", {}, "–"));
}

function row(stage, end) {
  const bar = el("span", { class: "bar" });
  bar.style.left = `${(100 * stage.start_ms) / end}%`;
  bar.style.width = `${(100 * (stage.end_ms - stage.start_ms)) / end}%`;
  return el(
    "tr",
    { class: `stage ${outcomeOf(stage.outcome)}` },
    el("th", { scope: "row" }, nameOf(stage)),
    el(
      "td",
      {},
      el("span", { class: "track", "aria-hidden": "true" }, bar),
      el("span", { class: "unseen" }, `from ${ms(stage.start_ms)} to ${ms(stage.end_ms)}`),
      why(stage),
    ),
    el("td", {}, ms(stage.end_ms - stage.start_ms)),
  );
}

const OUTCOMES = ["ran", "hit", "miss", "cancelled", "failed"];

/** An outcome becomes part of a class name, so only those that we know do. */
function outcomeOf(outcome) {
  return OUTCOMES.includes(outcome) ? outcome : "ran";
}
