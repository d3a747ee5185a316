// Talks to the gateway that this page came from: JSON, and streams of server-sent events with the key in a header.

import { key } from "./key.js";

/** A failure that can be shown: `text` says what happened and what to do. `status` is 0 when nobody answered. */
export class Problem extends Error {
  constructor(status, code, text, waitMs = 0) {
    super(text);
    Object.assign(this, { status, code, text, waitMs });
  }
}

export const GONE = "The gateway does not answer. Is hasten running, and this page from its address?";
const UNKNOWN_KEY = "The gateway does not know this key. It may have been revoked, or be of another system.";

export async function call(method, path, { body, signal, headers } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      signal,
      cache: "no-store",
      headers: {
        Authorization: `Bearer ${key()}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "gone", GONE);
  }
  if (!answer.ok) throw await problem(answer);
  return answer;
}

export async function json(method, path, options) {
  return (await call(method, path, options)).json();
}

async function problem(answer) {
  let error = {};
  try {
    error = (await answer.json()).error || {};
  } catch {
    // Something between us and the gateway has answered.
  }
  const waitMs = Number(error.retry_after_ms) || 0;
  const text = answer.status === 401 ? UNKNOWN_KEY : explained(error.message || `HTTP status ${answer.status}`, waitMs);
  return new Problem(answer.status, error.code || "", text, waitMs);
}

/** A failure's words as a sentence, and when to come back. */
export function explained(message, waitMs) {
  const sentence = message.charAt(0).toUpperCase() + message.slice(1) + (/[.!?]$/.test(message) ? "" : ".");
  return waitMs ? `${sentence} Try again in ${Math.max(1, Math.ceil(waitMs / 1000))} s.` : sentence;
}

/** The events of a response as they come: `{id, event, data}`. Throws Problem when the connection is lost. */
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { id: "", event: "", data: [] };
  for (;;) {
    const { value, done } = await reader.read().catch(lost);
    if (done) return;
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (event.data.length) yield { id: event.id, event: event.event, data: event.data.join("\n") };
        event = { id: event.id, event: "", data: [] };
        continue;
      }
      const [, name, text] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (name === "data") event.data.push(text);
      else if (name === "id" || name === "event") event[name] = text;
    }
  }
}

function lost() {
  throw new Problem(0, "lost", `The connection was lost. ${GONE}`);
}
