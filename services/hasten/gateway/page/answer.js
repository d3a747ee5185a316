// One question and its answer: the text as it comes, and beneath it where it came from, what it took and what ran when.

import { $, el, link, say } from "./dom.js";
import { MISSES, SOURCES, ago, count, ms, share } from "./format.js";
import { waterfall } from "./waterfall.js";

export class Answer {
  /** `actions` are what its buttons do: `stop` it, `remove` a wrong hit. */
  constructor(question, options, requestId, actions) {
    this.requestId = requestId;
    this.actions = actions;
    this.notes = {};
    this.begun = performance.now();
    this.running = true;
    this.text = document.createTextNode("");
    this.thought = document.createTextNode("");
    this.chip = el("span", { class: "chip waiting" }, "asking");
    this.state = el("span", { class: "hint state" });
    this.stop = el("button", { type: "button", class: "quiet", onclick: actions.stop }, "Stop");
    this.thinking = el("details", { class: "thinking", hidden: true }, el("summary", {}, "Reasoning"), el("p", {}, this.thought));
    this.body = el("p", { class: "text", "aria-busy": "true" }, this.text);
    this.about = el("div", { class: "about" });
    this.more = el("details", { class: "more", open: true, hidden: true }, el("summary", {}, "How it was answered"), this.about);
    this.element = el(
      "article",
      { class: "card answer", "aria-label": `Answer to: ${question.slice(0, 80)}` },
      el("h3", { class: "asked" }, question),
      el("p", { class: "hint asked-with" }, [`model ${options.model}`, options.knowledge.length ? `knowledge ${options.knowledge.join(", ")}` : "no knowledge", `cache ${options.cache}`].join(" · ")),
      el("div", { class: "row status" }, this.chip, this.state, this.stop),
      this.thinking,
      this.body,
      this.more,
    );
  }

  /** Makes room: what is beneath the answer can be opened again. */
  fold() {
    this.more.open = false;
  }

  /** Takes in one event of the stream. */
  hear(event) {
    if (event.type === "chunk") this.chunk(event);
    else if (event.type === "note") this.note(event.kind, event.data);
    else if (event.type === "done") this.done(event);
    else if (event.type === "lost") {
      this.lost = true;
      say(this.state, "the connection was lost, trying again…");
    }
  }

  chunk(event) {
    if (this.lost) say(this.state, "going on");
    this.lost = false;
    if (this.firstMs === undefined) {
      this.firstMs = performance.now() - this.begun;
      this.mark(this.notes.cache?.hit || "miss", "");
      say(this.state, `first token after ${ms(this.firstMs)}`);
      say($("said"), "The answer has begun.");
    }
    if (event.reasoning) {
      this.thinking.hidden = false;
      this.thought.appendData(event.reasoning);
    }
    if (event.text) this.text.appendData(event.text);
    for (const call of event.tool_calls || []) {
      const wanted = call.function || {};
      this.text.appendData(`${wanted.name ? `\n→ ${wanted.name} ` : ""}${wanted.arguments || ""}`);
    }
  }

  note(kind, data) {
    if (kind === "verification" || kind === "correction") (this.notes[kind] ??= []).push(data);
    else this.notes[kind] = kind === "cache" ? { ...this.notes.cache, ...data } : data;
    if (kind === "cache" && data.hit) this.mark(data.hit, "");
    if (!this.running) this.show();
  }

  mark(source, more) {
    const known = source in SOURCES ? source : "miss";
    this.chip.className = `chip ${known}`;
    say(this.chip, SOURCES[known] + more);
  }

  done(event) {
    this.ended = event;
    this.close();
    this.mark(event.cache || "miss", "");
    say(this.state, [event.model, `first token ${ms(this.firstMs)}`, `whole ${ms(this.totalMs)}`, event.finish_reason === "length" && "cut at the limit"].filter(Boolean).join(" · "));
    say($("said"), `The answer is whole: ${SOURCES[event.cache || "miss"]}, first token after ${ms(this.firstMs)}.`);
    this.show();
  }

  /** Ends it without its result. */
  fail(text, stopped = false) {
    this.close();
    this.chip.className = `chip ${stopped ? "waiting" : "failed"}`;
    say(this.chip, stopped ? "stopped" : "failed");
    say(this.state, stopped ? `after ${ms(this.totalMs)}` : "");
    if (stopped) say($("said"), "Stopped.");
    else this.body.after(el("p", { class: "problem", role: "alert" }, text));
    this.show();
  }

  close() {
    this.running = false;
    this.totalMs = performance.now() - this.begun;
    this.body.setAttribute("aria-busy", "false");
    if (document.activeElement === this.stop) $("question").focus();
    this.stop.remove();
  }

  show() {
    this.more.hidden = false;
    this.about.replaceChildren(
      ...[this.facts(), this.removal(), this.warnings(), this.passages(), this.verification(), this.times()].filter(Boolean),
    );
  }

  facts() {
    const { cache = {}, route, compress, hedge, cascade } = this.notes;
    const done = this.ended || {};
    const usage = done.usage || {};
    const facts = [];
    const add = (name, ...parts) => {
      const shown = parts.filter(Boolean);
      if (shown.length) facts.push(el("dt", {}, name), el("dd", {}, shown.join(" · ")));
    };
    add("Source", done.cache && SOURCES[done.cache], cache.hit === "semantic" && `similarity ${Number(cache.similarity).toFixed(3)}`, cache.age_s !== undefined && `stored ${ago(cache.age_s)}`, cache.stale && "expired, being made anew", cache.stored === false && `not kept: ${cache.reason}`);
    if (!cache.hit) add("Cache", whyNot(cache));
    add("First token", this.firstMs !== undefined && `${ms(this.firstMs)} in this page`, done.ttft_ms > 0 && `${ms(done.ttft_ms)} in hasten`);
    if (compress) {
      const less = compress.tokens_before > compress.tokens_after && `${share(compress.tokens_before - compress.tokens_after, compress.tokens_before)} less`;
      add("Prompt tokens", `${count(compress.tokens_before)} before, ${count(compress.tokens_after)} after`, less);
    } else if (done.usage) add("Prompt tokens", count(usage.prompt_tokens), usage.cached_tokens > 0 && `${usage.cached_tokens === usage.prompt_tokens ? "all" : count(usage.cached_tokens)} from the cache`);
    if (done.usage) add("Answer tokens", count(usage.completion_tokens), done.finish_reason === "length" && "cut at the limit, so not kept");
    if (route) add("Router", `${route.model} on ${route.worker}`, route.reason, route.confidence < 1 && `confidence ${Number(route.confidence).toFixed(2)}`);
    if (cascade) add("Cascade", `${cascade.model} answered first`, cascade.escalated ? "a better model was asked" : "its answer was shown", cascade.reason);
    if (hedge) add("Hedge", `a second worker was asked after ${ms(hedge.after_ms)}`, `${hedge.won} spoke first`);
    add("Request", this.requestId);
    return facts.length ? el("dl", { class: "facts" }, ...facts) : null;
  }

  removal() {
    const { hit, entry_id: entry } = this.notes.cache || {};
    if (!["exact", "semantic"].includes(hit) || !this.actions.operator()) return null;
    const said = el("p", { class: "said", role: "status" });
    const button = el("button", { type: "button" }, hit === "semantic" ? "Reject this hit" : "Remove this answer");
    button.addEventListener("click", async () => {
      button.disabled = true;
      say(said, "…");
      const what = hit === "semantic" ? { request_id: this.requestId } : { entries: [entry] };
      const { ok, text } = await this.actions.remove(what, hit === "semantic");
      button.disabled = ok;
      said.classList.toggle("problem", !ok);
      say(said, text);
    });
    return el("div", { class: "row removal" }, button, said);
  }

  /** A part of the answer by its place, which counts characters and not halves of them. */
  part(start, end) {
    return [...this.text.data].slice(start, end).join("");
  }

  warnings() {
    const { correction = [], guard = {}, sources = {} } = this.notes;
    const found = correction.map(({ by, start, end, text }) => ["Correction", `(${by}) “${this.part(start, end)}” should be “${text}”`]);
    for (const [rule, times] of Object.entries(guard.redacted || {})) found.push(["Guard", `${rule} has hidden ${count(times)} ${times === 1 ? "place" : "places"}`]);
    if (guard.stopped) found.push(["Guard", `${guard.stopped} has stopped the answer${guard.reason ? ` (${guard.reason})` : ""}`]);
    for (const rule of guard.unanswered || []) found.push(["Guard", `${rule} has not answered and was left out`]);
    for (const name of sources.missing || []) found.push(["Knowledge", `nothing was found in ${name}`]);
    for (const [name, reason] of Object.entries(sources.skipped || {})) found.push(["Knowledge", `${name} was left out (${reason})`]);
    return found.length ? el("ul", { class: "warnings" }, ...found.map(([name, text]) => el("li", {}, el("b", {}, name), ` ${text}`))) : null;
  }

  passages() {
    const passages = this.notes.sources?.passages || [];
    if (!passages.length) return null;
    const list = passages.map((one) =>
      el(
        "li",
        {},
        link(one.url || "", one.title || one.document || one.id),
        el("span", { class: "hint" }, ` ${[one.collection, one.document, one.end > 0 && `characters ${one.start}–${one.end}`, one.score !== undefined && `score ${Number(one.score).toFixed(3)}`].filter(Boolean).join(" · ")}`),
      ),
    );
    return el("section", { class: "passages" }, el("h4", {}, "Passages"), el("ol", {}, ...list));
  }

  verification() {
    const said = this.notes.verification || [];
    if (!said.length) return null;
    const list = said.flatMap((one) => [el("li", {}, el("b", {}, one.by), ` ${verdict(one)}`), ...(one.sentences || []).map((sentence) => this.sentence(sentence))]);
    return el("section", { class: "verification" }, el("h4", {}, "Verification"), el("ul", {}, ...list));
  }

  sentence({ start, end, outcome, passage, span, fault }) {
    const place = passage && `${passage}${span ? `, characters ${span[0]}–${span[1]}` : ""}`;
    const why = [place, outcome !== "supported" && fault && fault.replaceAll("_", " ")].filter(Boolean).join(" · ");
    return el("li", { class: "sentence" }, el("b", { class: outcome === "unsupported" ? "problem" : null }, outcome), ` ${this.part(start, end)}`, el("span", { class: "hint" }, ` ${why}`));
  }

  times() {
    const stages = this.notes.timeline?.stages || [];
    return stages.length ? waterfall(stages) : null;
  }
}

/** Why the cache has not answered, from an explained miss. */
function whyNot(cache) {
  if (!cache.reason) return "";
  const near = cache.similarity ? `similarity ${Number(cache.similarity).toFixed(3)}` : "";
  const sure = cache.confidence !== undefined && cache.threshold ? `confidence ${Number(cache.confidence).toFixed(3)} of ${cache.threshold} needed` : "";
  return [MISSES[cache.reason] || cache.reason, cache.guard && `guard ${cache.guard}`, near, sure].filter(Boolean).join(" · ");
}

/** What a verification came to, in words. */
function verdict({ passed, outcome, supported, unsupported, uncited, detail }) {
  if (supported + unsupported + uncited === 0) return "found no sentence to verify";
  const counts = supported === undefined ? "" : `${supported} supported, ${unsupported} unsupported, ${uncited} uncited`;
  return [passed === undefined ? outcome : passed ? "passed" : "not passed", counts, detail].filter(Boolean).join(" · ");
}
