/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Numbers, times and names for people. All functions are pure.

/** @typedef {import('./types.js').ObjectName} ObjectName */

const grouped = new Intl.NumberFormat('en-US');

/** A count: 1,204 up to a million, 1.2M above. @param {number} n */
export function count(n) {
  if (n < 1e6) return grouped.format(n);
  if (n < 1e9) return `${(n / 1e6).toFixed(n < 1e7 ? 2 : 1)}M`;
  return `${(n / 1e9).toFixed(2)}G`;
}

/** "1 delta", "2 deltas". @param {number} n @param {string} one @param {string} [many] */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A duration in seconds, in three digits: 0.42 ms, 12 s, 3 min 5 s. @param {number} s */
export function duration(s) {
  if (s === 0) return '0 ms';
  if (s < 1e-3) return `${digits(s * 1e6)} µs`;
  if (s < 1) return `${digits(s * 1e3)} ms`;
  if (s < 60) return `${digits(s)} s`;
  if (s < 3600) return withRest(s, 60, 'min', 1, 's');
  if (s < 86400) return withRest(s, 3600, 'h', 60, 'min');
  return withRest(s, 86400, 'd', 3600, 'h');
}

/** @param {number} n */
function digits(n) {
  if (n >= 100) return String(Math.round(n));
  return String(Number(n.toPrecision(2)));
}

/** @param {number} s @param {number} big @param {string} bigName @param {number} small @param {string} smallName */
function withRest(s, big, bigName, small, smallName) {
  const whole = Math.floor(s / big);
  const rest = Math.floor((s - whole * big) / small);
  return rest ? `${whole} ${bigName} ${rest} ${smallName}` : `${whole} ${bigName}`;
}

/** Whole seconds that are left, as 0:42. Never negative. @param {number} ms */
export function countdown(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`;
}

/** A rough age: 3 s, 4 min, 2 h, 5 d. @param {number} ms */
export function age(ms) {
  const s = Math.max(0, ms / 1000);
  if (s < 120) return `${Math.floor(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/** A time in milliseconds, with the fractions that a Date leaves out: stages are microseconds apart. @param {string} time */
export function millis(time) {
  const parts = /^(.*:\d\d)(\.\d+)(.*)$/.exec(time);
  return parts ? Date.parse(parts[1] + parts[3]) + Number(parts[2]) * 1000 : Date.parse(time);
}

/** The time of day with milliseconds, in the reader's zone. @param {string | number} time */
export function clock(time) {
  const d = new Date(time);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, '0')}`;
}

/** @param {number} n */
function two(n) {
  return String(n).padStart(2, '0');
}

/** namespace/name, or name alone. @param {ObjectName} o */
export function path(o) {
  return o.namespace ? `${o.namespace}/${o.name}` : o.name;
}

/** Kind namespace/name. @param {ObjectName} o */
export function title(o) {
  return `${o.kind} ${path(o)}`;
}

/** One string per object, for maps. @param {ObjectName} o */
export function keyOf(o) {
  return `${o.kind}\n${o.namespace ?? ''}\n${o.name}`;
}

/** Omits the middle: generated names differ at the end. @param {string} s @param {number} max */
export function shorten(s, max) {
  if (s.length <= max) return s;
  const tail = Math.ceil((max - 1) / 2);
  return `${s.slice(0, max - 1 - tail)}…${s.slice(s.length - tail)}`;
}
