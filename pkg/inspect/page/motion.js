/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The positions of the dots. A dot is a change between the wire and a handler, or a key in the
// workqueue or in its sync. An event names the next stop of a dot. The dot moves there at a speed
// that an eye can follow. Positions are relative to stops, and do not depend on the layout.

import { keyOf } from './format.js';

/** @typedef {import('./types.js').Event} Event */
/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').ObjectName} ObjectName */
/** @typedef {import('./state.js').Section} Section */
/** @typedef {{ to: string, absorb?: boolean, failed?: boolean }} Leg */
/**
 * @typedef {object} Dot
 * @property {number} id
 * @property {string} section
 * @property {string} lane the informer's ID; '' on the track of the section
 * @property {ObjectName} object
 * @property {ObjectName} [becomes] the object of its key in the workqueue
 * @property {string} tone
 * @property {string} from
 * @property {string} to the stop at which it is, or to which it moves
 * @property {number} t 0 at from, 1 at to
 * @property {Leg[]} legs the next stops
 * @property {Leg} [leg]
 * @property {number} slot its place in the pile at its stop; -1 while it moves
 * @property {number} rested its time at the stop, in milliseconds
 * @property {number} fade 1 to 0 while it fades
 * @property {boolean} dying
 * @property {Dot} [behind] it starts after this one has reached its stop
 * @property {number} starts when it starts, on the clock of the Motion
 * @property {string} home its key in the map that finds it
 */

/** The largest numbers of dots, on the page and in a section. */
const MOST = 200;
const MOST_IN_SECTION = 90;
/** Milliseconds from stop to stop. */
const HOP = 420;
const FADE = 260;
/** The time between dots that start at the same place, in milliseconds. A dot with a longer wait is not drawn. */
const SPACING = 60;
const LONGEST_WAIT = 600;
/** If a section has fewer dots, a change gets a dot also if its event on the wire is missing. */
const QUIET = 20;
/** How long a dot stays at a stop without a further event, in milliseconds. */
const PATIENCE = /** @type {Record<string, number>} */ ({
  wire: 3000,
  queue: 120000,
  index: 2500,
  handlers: 900,
  workqueue: 120000,
  sync: 600000,
  server: 0,
});
/** A dot fades after this many milliseconds at a stop that is empty in the overview. */
const GIVE_UP = 2500;

const before = /** @type {Record<string, string>} */ ({ wire: 'start', queue: 'wire', index: 'queue', handlers: 'index' });
const tones = /** @type {Record<string, string>} */ ({ Added: 'added', Replaced: 'resync', Sync: 'resync', Deleted: 'deleted' });

export class Motion {
  /** @type {Set<Dot>} */
  dots = new Set();
  /** The number of dots that were not made, because there were too many. */
  refused = 0;
  /** Without animation, dots jump to their stops. */
  still = false;
  #nextID = 1;
  /** The clock of the Motion, in milliseconds. */
  #clock = 0;
  /** When the next dot may start, by section and lane. @type {Map<string, number>} */
  #gates = new Map();
  /** @type {Map<string, string[]>} sections by informer */
  #lanes = new Map();
  /** @type {Set<string>} */
  #sections = new Set();
  /** @type {Map<string, number>} */
  #crowd = new Map();
  /** Dots of a change, oldest first, by section and object. @type {Map<string, Dot[]>} */
  #changes = new Map();
  /** The dot of a key that waits, or moves to the workqueue. @type {Map<string, Dot>} */
  #waiting = new Map();
  /** The dot of a key whose sync runs. @type {Map<string, Dot>} */
  #syncing = new Map();
  /** Dots that rest at a stop. @type {Map<string, Dot[]>} */
  #piles = new Map();

  /** @param {Section[]} sections */
  arrange(sections) {
    this.clear();
    this.#lanes.clear();
    this.#sections = new Set(sections.map((s) => s.id));
    for (const section of sections) {
      for (const informer of section.informers) {
        this.#lanes.set(informer.id, [...(this.#lanes.get(informer.id) ?? []), section.id]);
      }
    }
  }

  clear() {
    this.dots.clear();
    for (const map of [this.#crowd, this.#changes, this.#waiting, this.#syncing, this.#piles, this.#gates]) map.clear();
    this.refused = 0;
  }

  /** Moves the dot of an event. @param {Event} event */
  take(event) {
    switch (event.stage) {
      case 'enqueue':
        return this.#enqueue(event);
      case 'sync':
        return this.#sync(event);
      case 'write':
        return this.#write(event);
      case 'done':
        return this.#done(event);
      default:
        return this.#change(event);
    }
  }

  /** @param {Event} event */
  #change(event) {
    const stop = event.stage === 'dispatch' ? 'handlers' : event.stage;
    for (const section of this.#lanes.get(event.source) ?? []) {
      const home = `${section}\n${keyOf(event)}`;
      const dot = stop === 'wire' ? undefined : this.#heading(home, before[stop]);
      if (dot) {
        dot.legs.push({ to: stop });
        continue;
      }
      const made = this.#make(section, event.source, event, before[stop], stop !== 'wire');
      if (!made) continue;
      made.home = home;
      made.tone = tones[event.verb ?? ''] ?? 'updated';
      made.legs.push({ to: stop });
      const dots = this.#changes.get(home);
      if (dots) dots.push(made);
      else this.#changes.set(home, [made]);
    }
  }

  /** The oldest dot of a change whose last stop is this one. @param {string} home @param {string} stop */
  #heading(home, stop) {
    return this.#changes.get(home)?.find((dot) => (dot.legs.at(-1)?.to ?? dot.to) === stop && !dot.dying);
  }

  /** @param {Event} event */
  #enqueue(event) {
    if (!this.#sections.has(event.source)) return;
    const object = event.for ?? event;
    const key = `${event.source}\n${keyOf(object)}`;
    const carrier = this.#heading(`${event.source}\n${keyOf(event)}`, 'handlers');
    if (this.#waiting.has(key)) {
      // The workqueue has the key already: the dot of this change ends there.
      carrier?.legs.push({ to: 'workqueue', absorb: true });
      return;
    }
    const dot = carrier ?? this.#make(event.source, '', object, 'workqueue', true);
    if (!dot) return;
    if (carrier) dot.legs.push({ to: 'workqueue' });
    if (carrier) this.#forget(dot);
    dot.becomes = { kind: object.kind, namespace: object.namespace, name: object.name };
    dot.home = key;
    this.#waiting.set(key, dot);
  }

  /** @param {Event} event */
  #sync(event) {
    const key = `${event.source}\n${keyOf(event.for ?? event)}`;
    const dot = this.#waiting.get(key) ?? this.#make(event.source, '', event.for ?? event, 'workqueue', true);
    if (!dot) return;
    this.#waiting.delete(key);
    dot.home = key;
    dot.legs.push({ to: 'sync' });
    this.#syncing.set(key, dot);
  }

  /** @param {Event} event */
  #done(event) {
    const key = `${event.source}\n${keyOf(event.for ?? event)}`;
    const dot = this.#syncing.get(key);
    if (!dot) return;
    this.#syncing.delete(key);
    dot.legs.push({ to: 'end', failed: Boolean(event.error) });
  }

  /** @param {Event} event */
  #write(event) {
    const dot = this.#make(event.source, '', event, 'sync', false);
    if (!dot) return;
    dot.tone = 'write';
    dot.behind = this.#syncing.get(`${event.source}\n${keyOf(event.for ?? event)}`);
    dot.legs.push({ to: 'server' }, { to: 'end' });
  }

  /**
   * @param {string} section
   * @param {string} lane
   * @param {ObjectName} object
   * @param {string} at
   * @param {boolean} late whether an earlier event should have made it
   * @returns {Dot | undefined}
   */
  #make(section, lane, object, at, late) {
    if (!this.#sections.has(section)) return undefined;
    const crowd = this.#crowd.get(section) ?? 0;
    const starts = this.#startAt(`${section}\n${lane}\n${at}`);
    if (this.dots.size >= MOST || crowd >= (late ? QUIET : MOST_IN_SECTION) || starts === undefined) {
      this.refused++;
      return undefined;
    }
    this.#crowd.set(section, crowd + 1);
    /** @type {Dot} */
    const dot = {
      starts,
      id: this.#nextID++,
      section,
      lane,
      tone: 'key',
      from: at,
      to: at,
      t: 1,
      legs: [],
      slot: -1,
      rested: 0,
      fade: 1,
      dying: false,
      home: '',
      object: { kind: object.kind, namespace: object.namespace, name: object.name },
    };
    this.dots.add(dot);
    return dot;
  }

  /** The time at which the next dot may start here; undefined if it is too late. @param {string} gate */
  #startAt(gate) {
    const at = Math.max(this.#clock, this.#gates.get(gate) ?? 0);
    if (at > this.#clock + LONGEST_WAIT) return undefined;
    this.#gates.set(gate, at + SPACING);
    return at;
  }

  /** Reports whether the dot has not started yet. @param {Dot} dot */
  isHidden(dot) {
    return dot.behind !== undefined || dot.starts > this.#clock;
  }

  /**
   * Advances the clock by elapsed milliseconds. pace is below 1 in slow motion.
   * @param {number} elapsed
   * @param {number} pace
   */
  step(elapsed, pace) {
    this.#clock += elapsed * pace;
    for (const dot of this.dots) {
      if (dot.dying) this.#fade(dot, elapsed);
      else if (dot.t < 1) this.#move(dot, elapsed, pace);
      else if (dot.legs.length) this.#leave(dot);
      else this.#rest(dot, elapsed);
    }
  }

  /** @param {Dot} dot @param {number} elapsed @param {number} pace */
  #move(dot, elapsed, pace) {
    // A dot with many stops ahead is faster. So the picture keeps up.
    const hurry = 1 + 0.45 * Math.max(0, dot.legs.length - 1);
    dot.t = this.still ? 1 : Math.min(1, dot.t + (elapsed * pace * hurry) / HOP);
    if (dot.t < 1) return;
    if (dot.leg?.absorb) dot.dying = true;
    if (dot.lane && dot.to === 'workqueue') {
      dot.lane = '';
      if (dot.leg?.absorb) return;
      dot.tone = 'key';
      dot.object = dot.becomes ?? dot.object;
    }
    if (!dot.legs.length && !dot.dying) this.#settle(dot);
  }

  /** @param {Dot} dot */
  #leave(dot) {
    if (dot.starts > this.#clock && !this.still) return;
    if (dot.behind && !dot.behind.dying && (dot.behind.to !== 'sync' || dot.behind.t < 1)) return;
    const leg = /** @type {Leg} */ (dot.legs.shift());
    this.#unsettle(dot);
    dot.behind = undefined;
    dot.rested = 0;
    if (leg.to === 'end') {
      dot.tone = leg.failed ? 'failed' : dot.tone;
      dot.dying = true;
      return;
    }
    dot.leg = leg;
    dot.from = dot.to;
    dot.to = leg.to;
    dot.t = 0;
  }

  /** @param {Dot} dot @param {number} elapsed */
  #rest(dot, elapsed) {
    if (dot.slot < 0) this.#settle(dot);
    dot.rested += elapsed;
    if (dot.rested > (PATIENCE[dot.to] ?? 0)) dot.dying = true;
  }

  /** @param {Dot} dot @param {number} elapsed */
  #fade(dot, elapsed) {
    dot.fade -= elapsed / (dot.tone === 'failed' ? FADE * 4 : FADE);
    if (dot.fade > 0) return;
    this.#unsettle(dot);
    this.#forget(dot);
    if (this.#waiting.get(dot.home) === dot) this.#waiting.delete(dot.home);
    if (this.#syncing.get(dot.home) === dot) this.#syncing.delete(dot.home);
    this.dots.delete(dot);
    this.#crowd.set(dot.section, (this.#crowd.get(dot.section) ?? 1) - 1);
  }

  /** Removes the dot from the changes. @param {Dot} dot */
  #forget(dot) {
    const dots = this.#changes.get(dot.home);
    const n = dots?.indexOf(dot) ?? -1;
    if (!dots || n < 0) return;
    dots.splice(n, 1);
    if (!dots.length) this.#changes.delete(dot.home);
  }

  /** @param {Dot} dot */
  #settle(dot) {
    const name = `${dot.section}\n${dot.lane}\n${dot.to}`;
    const pile = this.#piles.get(name) ?? [];
    this.#piles.set(name, pile);
    dot.slot = pile.push(dot) - 1;
  }

  /** @param {Dot} dot */
  #unsettle(dot) {
    if (dot.slot < 0) return;
    const pile = this.#piles.get(`${dot.section}\n${dot.lane}\n${dot.to}`) ?? [];
    const n = pile.indexOf(dot);
    if (n >= 0) pile.splice(n, 1);
    for (let i = Math.max(0, n); i < pile.length; i++) pile[i].slot = i;
    dot.slot = -1;
  }

  /** Fades dots at stops that are empty in the overview: their events were omitted or filtered. @param {Overview} overview */
  agree(overview) {
    const queued = new Map(overview.informers.map((i) => [i.id, i.queued]));
    const controllers = new Map(overview.controllers.map((c) => [c.id, c]));
    for (const dot of this.dots) {
      if (dot.rested < GIVE_UP || dot.legs.length) continue;
      const controller = controllers.get(dot.section);
      const empty =
        (dot.to === 'queue' && !queued.get(dot.lane)) ||
        (dot.to === 'workqueue' && !controller?.waiting && !controller?.processing) ||
        (dot.to === 'sync' && !controller?.processing);
      if (empty) dot.dying = true;
    }
  }
}

/** The position of a dot between two distances on its track. @param {Dot} dot @param {number} from @param {number} to */
export function between(dot, from, to) {
  const t = dot.t * dot.t * (3 - 2 * dot.t);
  return from + (to - from) * t;
}
