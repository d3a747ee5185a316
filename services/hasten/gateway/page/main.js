// The page: who asks (the key), what is asked (the form), and the board beside it.

import { Answer } from "./answer.js";
import { Problem, json } from "./api.js";
import { Board } from "./board.js";
import { $, el, say } from "./dom.js";
import { keep, key, taken } from "./key.js";
import { ask, problemOf, stop } from "./stream.js";

const KEPT = 20;
const board = new Board(refused);
/** What stops each question that is being answered, the latest last. */
const running = [];
let latest = null;

function refused(why) {
  keep("");
  board.stop();
  wanted(why);
}

/** Shows the form for a key, and why it is there. */
function wanted(why) {
  say($("key-why"), why);
  $("key-why").classList.toggle("problem", Boolean(why));
  $("key-form").hidden = false;
  $("change-key").hidden = true;
  say($("who"), "");
  $("key").focus();
}

async function begin() {
  if (!key()) return wanted("");
  $("key-form").hidden = true;
  $("change-key").hidden = false;
  board.start();
  await Promise.all([offer("v1/models", named), offer("v1/collections", collected)]);
}

/** Fills a choice; without it the page works as well. */
async function offer(path, fill) {
  try {
    fill((await json("GET", path)).data);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

function named(models) {
  const before = $("model").value;
  $("model").replaceChildren(...models.map(({ id }) => el("option", { value: id }, id)));
  if (models.some(({ id }) => id === before)) $("model").value = before;
}

function collected(collections) {
  $("collections").replaceChildren(...collections.map(({ id }) => el("option", { value: id })));
  $("knowledge").placeholder = ["none", ...collections.slice(0, 3).map(({ id }) => id)].join(", or ");
}

function submit() {
  const question = $("question").value.trim();
  if (!key()) return wanted("Before you can ask, the gateway has to know who you are.");
  if (!question) return say($("ask-problem"), "Write a question first.");
  say($("ask-problem"), "");
  const knowledge = $("knowledge").value.split(/[\s,]+/).filter(Boolean);
  put(question, { model: $("model").value, knowledge, cache: $("cache").value });
}

async function put(question, options) {
  const stopping = new AbortController();
  stopping.signal.addEventListener("abort", () => stop(requestId));
  const requestId = crypto.getRandomValues(new Uint32Array(2)).reduce((text, part) => text + part.toString(16).padStart(8, "0"), "");
  const answer = new Answer(question, options, requestId, {
    stop: () => stopping.abort(),
    remove: (what, rejected) => board.remove(what, rejected),
    operator: () => board.operator,
  });
  latest?.fold();
  latest = answer;
  $("answers").prepend(answer.element);
  while ($("answers").childElementCount > KEPT) $("answers").lastElementChild.remove();
  running.push(stopping);
  stoppable();
  let failure = null;
  try {
    const body = { messages: [{ role: "user", content: question }], model: options.model, knowledge: options.knowledge, cache: { mode: options.cache }, explain: true };
    await ask(body, requestId, stopping.signal, (event) => {
      answer.hear(event);
      if (event.type === "failure") failure = problemOf(event);
    });
  } catch (error) {
    if (stopping.signal.aborted) failure = null;
    else if (error instanceof Problem) failure = error;
    else throw error;
  } finally {
    running.splice(running.indexOf(stopping), 1);
    stoppable();
  }
  if (failure?.status === 401) refused(failure.text);
  if (answer.running) answer.fail(failure?.text || "", !failure);
}

function stoppable() {
  $("stop").disabled = !running.length;
}

function stopLatest() {
  running.at(-1)?.abort();
}

function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function shown() {
  const other = theme() === "dark" ? "Light" : "Dark";
  say($("theme"), other);
  $("theme").setAttribute("aria-label", `${other} theme`);
}

$("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("hasten.theme", document.documentElement.dataset.theme);
  } catch {
    // It lasts as long as the page.
  }
  shown();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", shown);
$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
$("knowledge").addEventListener("focus", () => key() && offer("v1/collections", collected));
$("stop").addEventListener("click", () => {
  stopLatest();
  $("question").focus();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.isComposing) stopLatest();
});
addEventListener("pagehide", () => running.forEach((one) => one.abort()));
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keep($("key").value.trim());
  $("key").value = "";
  begin();
  $("question").focus();
});
$("change-key").addEventListener("click", () => refused(""));
addEventListener("hashchange", () => taken() && begin());

shown();
taken();
begin();
if (key()) $("question").focus();
