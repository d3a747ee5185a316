// One question and its events, from the first to `done` or `failure`. A connection that is lost on the way is made again
// and the answer goes on after the last event that came; stopping it stops the generation.

import { Problem, call, events, explained, GONE } from "./api.js";

const TRIES = 6;

/** Asks, and gives every event to `hear`; ends with the last one. Throws Problem, and AbortError when stopped. */
export async function ask(body, requestId, signal, hear) {
  let last = "";
  let tries = 0;
  const headers = { "x-request-id": requestId };
  let answer = await call("POST", "v1/stream", { body, signal, headers });
  for (;;) {
    try {
      for await (const { id, data } of events(answer)) {
        last = id || last;
        tries = 0;
        const event = JSON.parse(data);
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
      if (++tries > TRIES || !last) throw new Problem(0, "lost", `The connection was lost. ${GONE}`);
      hear({ type: "lost" });
      await pause(250 * 2 ** tries, signal);
      try {
        return await call("POST", "v1/stream", { signal, headers: { ...headers, "Last-Event-ID": last } });
      } catch (error) {
        if (!(error instanceof Problem) || error.status) throw error;
      }
    }
  }
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
