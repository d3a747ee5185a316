// One question and its events, from the first to `done` or `failure`. A connection that is lost on the way is made again,
// and the answer goes on after the last event that came.

import { GONE, Problem, call, events, explained } from "./api.js";
import { key } from "./key.js";

const TRIES = 6;
/** Failures of a gateway that goes, and not of the answer: another one goes on with it. */
const GOING = ["draining", "disconnected"];

/** Asks, and gives every event to `hear`; ends with the last one. Throws Problem, or anything once `signal` is aborted. */
export async function ask(body, requestId, signal, hear) {
  let last = "";
  let tries = 0;
  let answer = await call("POST", "v1/stream", { body, signal, headers: { "x-request-id": requestId } });
  for (;;) {
    try {
      for await (const { id, data } of answer.body ? events(answer) : []) {
        last = id || last;
        tries = 0;
        const event = JSON.parse(data);
        if (event.type === "failure" && GOING.includes(event.code) && !id.endsWith(".end")) break;
        hear(event);
        if (event.type === "done" || event.type === "failure") return;
      }
    } catch (error) {
      if (signal.aborted || !(error instanceof Problem)) throw error;
    }
    answer = await again();
  }

  async function again() {
    for (;;) {
      if (signal.aborted) throw new DOMException("stopped", "AbortError");
      if (++tries > TRIES) throw new Problem(0, "lost", `The connection was lost. ${GONE}`);
      hear({ type: "lost" });
      await pause(200 * 2 ** tries, signal);
      try {
        return await call("GET", `v1/stream/${requestId}`, { signal, headers: last ? { "Last-Event-ID": last } : {} });
      } catch (error) {
        if (signal.aborted || !(error instanceof Problem) || error.status) throw error;
      }
    }
  }
}

/** Says that nobody wants the rest of an answer; a connection that merely ends is waited for. */
export function stop(requestId) {
  const headers = { Authorization: `Bearer ${key()}` };
  fetch(`v1/stream/${requestId}`, { method: "DELETE", headers, keepalive: true }).catch(() => {});
}

/** What a `failure` event says. */
export function problemOf(failure) {
  return new Problem(1, failure.code, explained(failure.detail || failure.code, failure.retry_after_ms || 0));
}

/** Waits, but no longer than until `signal`. */
export function pause(timeMs, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, timeMs);
    signal?.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}
