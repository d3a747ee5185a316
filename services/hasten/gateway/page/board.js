// The live board: a stream of views from the gateway, drawn as they come, and asked for again whenever it ends.

import { Problem, call, events, json } from "./api.js";
import { $, el, rows, say, svg } from "./dom.js";
import { SOURCES, age, ago, count, ms, percent, rate, share } from "./format.js";
import { pause } from "./stream.js";

const SILENT_MS = 6000;
const WAIT_MS = [300, 600, 1200, 2500, 5000];
const CHART = 40;

export class Board {
  /** `refused` is called when the key is not known. */
  constructor(refused) {
    this.refused = refused;
    this.operator = false;
    this.reading = null;
    $("change-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.publish($("tag").value.trim());
    });
  }

  /** Begins to read with the present key. */
  start() {
    this.stop();
    this.reading = new AbortController();
    this.read(this.reading.signal);
  }

  stop() {
    this.reading?.abort();
    state("off", "");
  }

  async read(signal) {
    for (let tries = 0; !signal.aborted; tries++) {
      const silence = new AbortController();
      const either = AbortSignal.any([signal, silence.signal]);
      let timer = setTimeout(() => silence.abort(), SILENT_MS);
      let why = "reconnecting…";
      try {
        for await (const { event, data } of events(await call("GET", "v1/board", { signal: either }))) {
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), SILENT_MS);
          tries = 0;
          state("live", "live");
          if (event === "caller") this.introduce(JSON.parse(data));
          else this.draw(JSON.parse(data));
        }
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof Problem) && !silence.signal.aborted) throw error;
        if (error.status === 401) return this.refused(error.text);
        if (error.status) why = error.text;
      } finally {
        clearTimeout(timer);
      }
      if (signal.aborted) return;
      state("lost", why);
      await pause(WAIT_MS[Math.min(tries, WAIT_MS.length - 1)], signal);
    }
  }

  /** Who the key stands for. */
  introduce({ tenant, operator }) {
    this.operator = operator;
    say($("who"), operator ? `${tenant}, operator` : tenant);
    $("change-form").hidden = !operator;
    say($("change-needs"), operator ? "" : "To publish a change or to reject a hit takes an operator's key: hasten keys create TENANT --operator.");
  }

  draw(view) {
    const { figures } = view;
    say($("board-scope"), `${view.tenant ? `tenant ${view.tenant}` : "all tenants"}, last ${age(view.window_s)}`);
    this.tiles(view, figures);
    this.chart(view);
    this.sources(figures);
    this.workers(view);
    this.tenants(view);
    this.invalidations(view);
  }

  tiles(view, figures) {
    const ttft = figures.ttft.all || {};
    const answered = figures.requests - (figures.ended.failed || 0);
    const hits = (figures.ended.exact || 0) + (figures.ended.semantic || 0);
    const tiles = [
      ["Hit rate", percent(figures.hit_rate), `${count(hits)} of ${count(answered)} answers`],
      ["First token, P95", ms(ttft.p95_ms), `P50 ${ms(ttft.p50_ms)}, P99 ${ms(ttft.p99_ms)}`],
      ["Throughput", `${rate(figures.per_s)}/s`, `${rate(figures.tokens_per_s)} tokens/s`],
      view.queued === undefined || view.queued === null
        ? ["Tokens saved", count(figures.saved_tokens), "not generated again"]
        : ["In line", count(view.queued), `${count(view.active)} of ${count(view.slots)} slots busy`],
    ];
    if ($("tiles").childElementCount !== tiles.length) {
      $("tiles").replaceChildren(...tiles.map(() => el("div", { class: "tile" }, el("h3"), el("p", { class: "figure" }), el("p", { class: "hint" }))));
    }
    tiles.forEach((texts, at) => texts.forEach((text, part) => say($("tiles").children[at].children[part], text)));
  }

  chart(view) {
    const totals = view.moments.map(({ ended }) => Object.values(ended).reduce((sum, one) => sum + one, 0));
    const most = Math.max(1, ...totals);
    const bars = view.moments.flatMap(({ ended }, at) => {
      let top = CHART;
      return Object.keys(SOURCES).filter((source) => ended[source]).map((source) => {
        const height = (CHART * ended[source]) / most;
        top -= height;
        return svg("rect", { class: source, x: at + 0.1, y: top, width: 0.8, height });
      });
    });
    const label = `Requests in each ${view.slot_s} s of the last ${age(view.window_s)}, at most ${most}`;
    const drawing = svg("svg", { viewBox: `0 0 ${view.moments.length} ${CHART}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...bars);
    const foot = el("p", { class: "axis", "aria-hidden": "true" }, el("span", {}, `${age(view.window_s)} ago`), el("span", {}, `peak ${rate(most / view.slot_s)}/s`), el("span", {}, "now"));
    $("chart").replaceChildren(drawing, foot);
  }

  sources(figures) {
    const table = Object.entries(SOURCES).map(([source, name]) => {
      const times = figures.ttft[source] || {};
      const number = figures.ended[source] || 0;
      return [el("span", { class: `key-of ${source}` }, name), count(number), share(number, figures.requests), ms(times.p50_ms), ms(times.p95_ms), ms(times.p99_ms)];
    });
    rows($("sources").tBodies[0], table);
  }

  workers(view) {
    const head = view.workers ? ["Worker", "State", "Busy", "In line", "Faults"] : ["Model", "Workers ready", "P50", "P95"];
    const body = view.workers
      ? view.workers.map((one) => [
          el("span", {}, one.model, el("span", { class: "hint under" }, ` ${one.name} · ${one.engine}`)),
          el("span", { class: `state-of ${["ready", "gone", "down"].includes(one.state) ? one.state : "waiting"}` }, one.state),
          `${one.active}/${one.slots}`,
          count(one.queued),
          one.attempts ? `${one.faults}/${count(one.attempts)}` : "–",
        ])
      : view.models.map((one) => [one.name, count(one.ready), ms(one.ttft.p50_ms), ms(one.ttft.p95_ms)]);
    say($("workers-title"), view.workers ? "Models and workers" : "Models");
    const heading = el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)));
    $("workers").tHead.replaceChildren(heading);
    rows($("workers").tBodies[0], body);
    $("workers").hidden = !body.length;
    $("workers-none").hidden = Boolean(body.length);
  }

  tenants(view) {
    const table = (view.tenants || []).slice(0, 12).map((one) => [one.name, count(one.requests), percent(one.hit_rate), ms(one.p95_ms)]);
    $("tenants-card").hidden = table.length < 2;
    rows($("tenants").tBodies[0], table);
  }

  invalidations(view) {
    const list = view.latest.map((one) => {
      const tags = one.tags.slice(0, 6).join(", ") + (one.tags.length > 6 ? ` and ${one.tags.length - 6} more` : "");
      return el("li", {}, el("b", {}, one.entries === 1 ? "1 answer" : `${count(one.entries)} answers`), ` ${tags}`, el("span", { class: "hint" }, ` ${[one.reason, view.tenant ? "" : one.tenant, ago(one.age_s)].filter(Boolean).join(" · ")}`));
    });
    $("latest").replaceChildren(...list);
    $("latest-none").hidden = Boolean(list.length);
  }

  async publish(tag) {
    if (!tag) return;
    say($("change-said"), "…");
    const { ok, text } = await this.remove({ tags: [tag], reason: "published on the page" });
    $("change-said").classList.toggle("problem", !ok);
    say($("change-said"), text);
    if (ok) $("tag").select();
  }

  /** Asks for answers to be removed; says in words what came of it. */
  async remove(what, rejected = false) {
    try {
      const done = await json("POST", "v1/invalidate", { body: what });
      const gone = done.entries === 1 ? "1 answer is gone" : `${count(done.entries || 0)} answers are gone`;
      const never = rejected ? ", and never answers that question again" : "";
      return { ok: true, text: `${gone}${never}: change ${done.sequence}, after ${ms(done.waited_ms || 0)}.` };
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 401) this.refused(error.text);
      return { ok: false, text: error.text };
    }
  }
}

function state(name, text) {
  $("link").className = `link ${name}`;
  say($("link"), text);
}
