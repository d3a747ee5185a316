// Numbers for people: as many digits as mean something, and a dash where there is none.

const whole = new Intl.NumberFormat("en");

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
}

export function share(part, of) {
  return of ? `${Math.round((100 * part) / of)}%` : "–";
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)}%`);

export const rate = (value) => (value >= 10 ? whole.format(Math.round(value)) : (value || 0).toFixed(1));

export function age(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export const ago = (seconds) => (seconds < 1 ? "just now" : `${age(seconds)} ago`);

/** One name for each source of an answer, wherever it is shown. */
export const SOURCES = {
  exact: "exact hit",
  semantic: "hit by meaning",
  shared: "shared",
  miss: "generated",
  failed: "failed",
};

/** Why the cache has not answered, in words; a reason that is not among them speaks for itself. */
export const MISSES = {
  absent: "nothing is stored that could answer it",
  expired: "what was stored has expired",
  stale: "something that the stored answer depended on has changed",
  threshold: "the nearest question is not near enough",
  guard: "the nearest question asks something else",
  rejected: "the stored answer was rejected for this question",
  short: "too short a question to be found by its meaning",
  uncacheable: "the request may not be answered from the cache",
  lease: "the cache has not heard of the latest changes yet",
  unavailable: "the cache did not answer",
  off: "the cache was not asked",
};
