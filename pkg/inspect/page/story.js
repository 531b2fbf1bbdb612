/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The life of an object in sentences: events become passes, and each sync has its causes. All
// functions are pure.

import * as address from './address.js';
import * as format from './format.js';

/** @typedef {import('./types.js').Event} Event */
/** @typedef {import('./types.js').Cause} Cause */
/** @typedef {import('./types.js').Life} Life */
/** @typedef {import('./types.js').ObjectName} ObjectName */

/** A piece of a sentence: text, or a link. @typedef {string | { text: string, href: string }} Piece */
/**
 * A pass is one change on its way into the index and to the handlers, one sync from its causes
 * to its end, or one write by the sync of another object.
 * @typedef {object} Pass
 * @property {'change' | 'sync' | 'written'} type
 * @property {Event[]} events in their order
 */

const ranks = /** @type {Record<string, number>} */ ({ wire: 1, queue: 2, index: 3, dispatch: 4, enqueue: 5, sync: 6, write: 7, done: 8 });

/**
 * An index of a life.
 * @typedef {{ life: Life, writes: Map<string, Event>, dones: Event[] }} Memory
 */

/** @param {Life} life @returns {Memory} */
export function remember(life) {
  const writes = new Map();
  for (const e of life.events) {
    // A delete and an eviction have the version before the deletion: they did not make it.
    if (e.stage !== 'write' || !e.resourceVersion || /^(delete|evict) /.test(e.verb ?? '')) continue;
    writes.set(`${format.keyOf(e)}\n${e.resourceVersion}`, e);
  }
  return { life, writes, dones: life.events.filter((e) => e.stage === 'done') };
}

/** Groups the events of a life. @param {Life} life @returns {Pass[]} oldest first */
export function passes(life) {
  const self = format.keyOf(life);
  /** @type {Pass[]} */
  const all = [];
  /** Syncs whose key waits, and running syncs, by controller and object. @type {[Map<string, Pass>, Map<string, Pass>]} */
  const [waiting, running] = [new Map(), new Map()];
  /** The newest change of each version. @type {Map<string, Pass>} */
  const changes = new Map();
  const begin = (/** @type {Pass['type']} */ type, /** @type {Event} */ event) => {
    const pass = { type, events: [event] };
    all.push(pass);
    return pass;
  };
  for (const event of life.events) {
    const key = `${event.source}\n${format.keyOf(event.for ?? event)}`;
    if (ranks[event.stage] <= ranks.enqueue && format.keyOf(event) === self) {
      const version = event.resourceVersion ?? '';
      const change = changes.get(version);
      if (change && continues(change, event)) change.events.push(event);
      else changes.set(version, begin('change', event));
      continue;
    }
    const open = running.get(key);
    switch (event.stage) {
      case 'enqueue':
        if (!add(waiting.get(key), event)) waiting.set(key, begin('sync', event));
        break;
      case 'sync':
        running.set(key, add(waiting.get(key), event) ?? begin('sync', event));
        waiting.delete(key);
        break;
      case 'write':
        if (!add(open, event)) begin(event.for && format.keyOf(event.for) !== self ? 'written' : 'sync', event);
        break;
      case 'done':
        if (!add(open, event)) begin('sync', event);
        running.delete(key);
    }
  }
  return all;
}

/** @param {Pass | undefined} pass @param {Event} event */
function add(pass, event) {
  pass?.events.push(event);
  return pass;
}

/** Reports whether the event is the next stage of the change. @param {Pass} change @param {Event} event */
function continues(change, event) {
  const last = change.events[change.events.length - 1];
  return ranks[last.stage] < ranks[event.stage] || (event.stage === 'enqueue' && last.stage === 'enqueue');
}

/** @param {Pass} pass @param {string} stage */
export function stageOf(pass, stage) {
  return pass.events.find((e) => e.stage === stage);
}

/** The causes of the sync of a pass. @param {Pass} pass */
export function causesOf(pass) {
  const event = stageOf(pass, 'sync') ?? stageOf(pass, 'done');
  return { causes: event?.causes ?? [], more: event?.moreCauses ?? 0 };
}

/**
 * Returns the sentence about the causes of a sync. For several causes it introduces a list.
 * @param {Pass} pass
 * @param {Memory} memory
 * @returns {Piece[]}
 */
export function why(pass, memory) {
  const { causes, more } = causesOf(pass);
  if (!stageOf(pass, 'sync') && !stageOf(pass, 'done')) return ['This sync has not started: its key waits in the workqueue.'];
  if (!causes.length) return ['The cause of this sync was not recorded.'];
  if (causes.length + more === 1) return ['This sync ran because ', ...because(causes[0], pass, memory), '.'];
  return [`This sync ran once for ${causes.length + more} causes:`];
}

/** One cause, as the rest of a sentence. @param {Cause} cause @param {Pass} pass @param {Memory} memory @returns {Piece[]} */
export function because(cause, pass, memory) {
  switch (cause.verb) {
    case 'After':
      return askedFor(pass, memory);
    case 'Retry':
      return failedBefore(pass, memory);
    case 'Start':
      return ['the object existed when the operator started'];
    case 'Sync':
      return ['of a resync of ', linkTo(cause), ', without a change'];
    case 'Added':
      return [linkTo(cause), ' was added', ...version(cause), ...writer(cause, memory)];
    case 'Deleted':
      return [linkTo(cause), ' was deleted', ...version(cause)];
    default:
      return [linkTo(cause), ' changed', ...fields(cause), ...version(cause), ...writer(cause, memory)];
  }
}

/** @param {Cause} cause @returns {Piece} */
function linkTo(cause) {
  return { text: format.title(cause), href: address.ofObject(cause, { rv: cause.resourceVersion }) };
}

/** @param {Cause} cause @returns {Piece[]} */
function version(cause) {
  return cause.resourceVersion ? [` (resourceVersion ${cause.resourceVersion})`] : [];
}

/** @param {Cause} cause @returns {Piece[]} */
function fields(cause) {
  const all = cause.fields ?? [];
  if (!all.length) return [];
  const rest = all.length > 5 ? ` and ${all.length - 5} more` : '';
  return [` in ${all.slice(0, 5).join(', ')}${rest}`];
}

/** The sync that wrote the version of the cause, if it is known. @param {Cause} cause @param {Memory} memory @returns {Piece[]} */
function writer(cause, memory) {
  const write = memory.writes.get(`${format.keyOf(cause)}\n${cause.resourceVersion}`);
  if (!write) return [];
  const by = write.for ?? write;
  return [
    ', which ',
    { text: `a sync of ${format.title(by)}`, href: address.ofObject(by, { seq: write.seq }) },
    ` wrote at ${format.clock(write.time)}`,
  ];
}

/** The last sync that ended before this one began. @param {Pass} pass @param {Memory} memory @param {(e: Event) => boolean} fits */
function endedBefore(pass, memory, fits) {
  const first = pass.events[0];
  return memory.dones.findLast((e) => e.source === first.source && e.seq < first.seq && fits(e));
}

/** @param {Pass} pass @param {Memory} memory @returns {Piece[]} */
function askedFor(pass, memory) {
  if (stageOf(pass, 'done')?.repeats) return ['the previous sync, which is omitted here, had requested a run at this time'];
  const done = endedBefore(pass, memory, (e) => (e.after ?? 0) > 0);
  if (!done) return ['an earlier sync had requested a run at this time'];
  const href = address.ofObject(done.for ?? done, { seq: done.seq });
  return [
    { text: `the sync that ended at ${format.clock(done.time)}`, href },
    ` had requested a run after ${format.duration(done.after ?? 0)}`,
  ];
}

/** @param {Pass} pass @param {Memory} memory @returns {Piece[]} */
function failedBefore(pass, memory) {
  const done = endedBefore(pass, memory, (e) => Boolean(e.error));
  if (!done) return ['an earlier sync had failed, and its backoff expired'];
  const href = address.ofObject(done.for ?? done, { seq: done.seq });
  const waited = (format.millis(pass.events[0].time) - format.millis(done.time)) / 1000;
  return [
    { text: `the sync at ${format.clock(done.time)}`, href },
    ` had failed, and its backoff of ${format.duration(Math.max(0, waited))} expired`,
  ];
}

/** The end of a sync, in a sentence. @param {Pass} pass */
export function outcome(pass) {
  const done = stageOf(pass, 'done');
  const writes = pass.events.filter((e) => e.stage === 'write').length;
  if (!done) return stageOf(pass, 'sync') ? 'It runs.' : '';
  const took = format.duration(done.duration ?? 0);
  const wrote = writes ? `wrote ${writes === 1 ? 'one object' : `${writes} objects`}` : 'wrote nothing';
  const after = done.after ? ` It requested a run in ${format.duration(done.after)}.` : '';
  if (done.error) return `It failed after ${took}, ${wrote}, and is retried after a backoff.${after}`;
  return `It took ${took} and ${wrote}.${after}`;
}

/** A sentence about the omitted syncs before this one. @param {Pass} pass */
export function leftOut(pass) {
  const n = stageOf(pass, 'done')?.repeats ?? 0;
  if (!n) return '';
  return n === 1
    ? 'One earlier sync is omitted: a timer caused it, and it wrote nothing.'
    : `${format.count(n)} earlier syncs are omitted: timers caused them, and they wrote nothing.`;
}

/** The heading of a change. @param {Pass} pass */
export function headline(pass) {
  const event = pass.events.find((e) => e.verb) ?? pass.events[0];
  const verb =
    /** @type {Record<string, string>} */ ({ Sync: 'Resynced', Replaced: 'Listed' })[event.verb ?? ''] ?? event.verb ?? 'Changed';
  return pass.type === 'written' ? 'Written' : verb;
}

/** The text of an event, beside its stage and its time. @param {Event} event @param {ObjectName} self @returns {Piece[]} */
export function text(event, self) {
  const own = format.keyOf(event) === format.keyOf(self);
  const subject = own ? [] : [{ text: format.title(event), href: address.ofObject(event, { seq: event.seq }) }];
  switch (event.stage) {
    case 'wire':
      return [`arrived with the ${event.verb === 'Replaced' ? 'list' : 'watch'}`];
    case 'queue':
      return [`${event.verb ?? 'a delta'}, added to the delta queue`];
    case 'index':
      return [event.verb === 'Deleted' ? 'deleted from the index' : 'applied to the index'];
    case 'dispatch':
      return ['handlers were notified'];
    case 'enqueue':
      return enqueued(event, own, subject);
    case 'sync':
      return [`a worker of ${event.source} took the key`];
    case 'write':
      return [
        `${event.verb ?? 'wrote'} `,
        ...(own ? ['the object itself'] : subject),
        ...(event.for && own && format.keyOf(event.for) !== format.keyOf(self)
          ? [', by the sync of ', { text: format.title(event.for), href: address.ofObject(event.for, { seq: event.seq }) }]
          : []),
        ...(event.resourceVersion ? [` → resourceVersion ${event.resourceVersion}`] : []),
      ];
    default:
      return [event.error ? `failed after ${format.duration(event.duration ?? 0)}` : `ended after ${format.duration(event.duration ?? 0)}`];
  }
}

/** @param {Event} event @param {boolean} own @param {Piece[]} subject @returns {Piece[]} */
function enqueued(event, own, subject) {
  const object = event.for ?? event;
  const key = { text: format.title(object), href: address.ofObject(object, { seq: event.seq }) };
  if (own && format.keyOf(object) === format.keyOf(event)) return [`its key goes to ${event.source}`];
  if (own) return ['the key of ', key, ` goes to ${event.source}`];
  return [...subject, ` was ${(event.verb ?? 'changed').toLowerCase()}`];
}
