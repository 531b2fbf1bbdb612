/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The life of one object, in the panel: a timeline of passes, which is updated.

import * as address from './address.js';
import { Refused } from './api.js';
import { el, list, setText } from './dom.js';
import * as format from './format.js';
import { because, causesOf, headline, leftOut, outcome, passes, remember, stageOf, text, why } from './story.js';
import { isAbout } from './state.js';

/** @typedef {import('./types.js').Life} LifeOfObject */
/** @typedef {import('./types.js').Event} Event */
/** @typedef {import('./types.js').ObjectName} ObjectName */
/** @typedef {import('./story.js').Pass} Pass */
/** @typedef {import('./story.js').Memory} Memory */
/** @typedef {import('./story.js').Piece} Piece */
/** @typedef {{ seq: number, rv: string }} At */

/** The page shows this many passes at first, and this many more each time. */
const PAGE = 30;
/** At most one refresh in this many milliseconds; fewer if a refresh is slow. */
const REFRESH = 700;
/** A pass lists at most this many changes of its key. */
const MET = 6;

const stageTitles = /** @type {Record<string, string>} */ ({
  wire: 'Wire',
  queue: 'Queue',
  index: 'Index',
  dispatch: 'Handlers',
  enqueue: 'Workqueue',
  sync: 'Sync',
  write: 'Write',
  done: 'Done',
});

export class LifeView {
  root = el('div', { id: 'life' });
  #summary = el('p', { class: 'life-summary' });
  #note = el('p', { class: 'life-note', role: 'status' });
  #passes = el('ol', { class: 'passes' });
  #more = el('button', { type: 'button', class: 'quiet', onclick: () => this.#showMore() }, 'Show more');
  #order = el('button', { type: 'button', class: 'quiet', onclick: () => this.#turn() });
  #api;
  #object;
  #at;
  #shown = PAGE;
  #newestFirst = true;
  #stale = true;
  #asking = false;
  #asked = 0;
  /** Whether the event of the address has been scrolled to. */
  #found = false;
  /** @type {LifeOfObject | undefined} */
  #life;
  #stop = new AbortController();

  /**
   * @param {import('./api.js').API} api
   * @param {ObjectName} object
   * @param {At} at
   * @param {(object: ObjectName) => void} follow narrows the picture to the object
   */
  constructor(api, object, at, follow) {
    this.#api = api;
    this.#object = object;
    this.#at = at;
    const only = el('button', { type: 'button', class: 'quiet', onclick: () => follow(object) }, 'Show only this object in the picture');
    this.root.append(this.#summary, el('div', { class: 'row' }, this.#order, only), this.#note, this.#passes, this.#more);
    this.#passes.setAttribute('aria-label', 'Passes');
    this.#label();
  }

  /** @param {ObjectName} object */
  isOf(object) {
    return format.keyOf(object) === format.keyOf(this.#object);
  }

  /** Goes to another event of the same object. @param {At} at */
  goTo(at) {
    this.#at = at;
    this.#found = false;
    this.#stale = true;
    this.#render();
  }

  /** Fetches the life again soon. */
  refresh() {
    this.#stale = true;
    this.#asked = 0;
  }

  close() {
    this.#stop.abort();
  }

  /** @param {Event} event */
  notice(event) {
    if (!this.#stale && isAbout(event, this.#object)) this.#stale = true;
  }

  /** Fetches the life again after an event. @param {number} now */
  tick(now) {
    if (!this.#stale || this.#asking || now - this.#asked < REFRESH) return;
    this.#fetch(now);
  }

  /** @param {number} now */
  async #fetch(now) {
    this.#asking = true;
    this.#asked = now;
    this.#stale = false;
    const { kind, namespace = '', name } = this.#object;
    try {
      this.#life = await this.#api.get('life', { kind, namespace, name }, this.#stop.signal);
      const began = performance.now();
      this.#render();
      this.#asked = began + 12 * (performance.now() - began);
    } catch (err) {
      if (this.#stop.signal.aborted) return;
      // An object that does not exist is fetched again after its next event.
      if (err instanceof Refused && err.status === 404) this.#empty();
      else this.#stale = true;
      this.#asked = now + 2000;
      setText(this.#note, err instanceof Error ? err.message : String(err));
    } finally {
      this.#asking = false;
    }
  }

  /** Shows no life: the object does not exist yet at this moment of a recording. */
  #empty() {
    this.#life = undefined;
    setText(this.#summary, '');
    this.#more.hidden = true;
    list(this.#passes, [], String, () => el('li'));
  }

  #showMore() {
    this.#shown += PAGE;
    this.#render();
  }

  #turn() {
    this.#newestFirst = !this.#newestFirst;
    this.#label();
    this.#render();
  }

  #label() {
    setText(this.#order, this.#newestFirst ? 'Newest first' : 'Oldest first');
    this.#order.title = 'Reverse the order';
  }

  #render() {
    const life = this.#life;
    if (!life) return;
    const all = passes(life);
    const current = this.#currentIn(life);
    this.#summarize(life, all, current);
    const n = current ? all.findIndex((p) => p.events.includes(current)) : -1;
    if (this.#newestFirst) all.reverse();
    const at = this.#newestFirst && n >= 0 ? all.length - 1 - n : n;
    if (at >= this.#shown) this.#shown = at + 1;
    const memory = remember(life);
    const anchor = this.#passes.querySelector('li:has(> .events > .current)');
    const before = anchor?.getBoundingClientRect().top ?? 0;
    list(
      this.#passes,
      all.slice(0, this.#shown),
      (p) => String(p.events[0].seq),
      () => el('li', {}),
      (node, pass) => showPass(node, pass, memory, current),
    );
    this.#more.hidden = all.length <= this.#shown;
    setText(this.#more, `Show ${Math.min(PAGE, all.length - this.#shown)} more of ${all.length} passes`);
    if (current && !this.#found) this.#scroll(current);
    else if (anchor?.isConnected && this.root.parentElement)
      this.root.parentElement.scrollTop += anchor.getBoundingClientRect().top - before;
  }

  /** The event that the address names. @param {LifeOfObject} life */
  #currentIn(life) {
    const { seq, rv } = this.#at;
    if (seq) return life.events.find((e) => e.seq === seq);
    if (!rv) return undefined;
    const self = format.keyOf(life);
    const those = life.events.filter((e) => e.resourceVersion === rv && format.keyOf(e) === self);
    return those.find((e) => e.stage === 'index') ?? those[0];
  }

  /** @param {LifeOfObject} life @param {Pass[]} all @param {Event | undefined} current */
  #summarize(life, all, current) {
    const counts = { change: 0, sync: 0, written: 0 };
    for (const pass of all) counts[pass.type]++;
    const where = life.exists
      ? `The object is in the index of ${life.resource}.`
      : `The object is not in the index${life.resource ? ` of ${life.resource}` : ''}.`;
    setText(this.#summary, `${where} Remembered: ${format.plural(counts.change, 'change')}, ${format.plural(counts.sync, 'sync')}.`);
    const notes = [];
    if ((this.#at.seq || this.#at.rv) && !current) {
      notes.push(
        this.#at.seq
          ? `The operator no longer remembers event ${this.#at.seq}.`
          : `The operator does not remember the change to resourceVersion ${this.#at.rv}, or has not received it yet.`,
      );
    }
    if (life.forgotten) notes.push('The operator does not remember older events.');
    if (life.gaps) notes.push('Some events are missing: there were too many to record.');
    if (!life.events.length) notes.push('The operator remembers no event of this object.');
    setText(this.#note, notes.join(' '));
  }

  /** @param {Event} current */
  #scroll(current) {
    const node = this.#passes.querySelector(`[data-seq="${current.seq}"]`);
    if (!node) return;
    this.#found = true;
    node.scrollIntoView({ block: 'center' });
  }
}

/** @param {HTMLElement} node @param {Pass} pass @param {Memory} memory @param {Event | undefined} current */
function showPass(node, pass, memory, current) {
  const version = `${pass.events.length} ${pass.events.includes(/** @type {Event} */ (current)) ? current?.seq : ''}`;
  if (node.dataset.version === version) return;
  node.dataset.version = version;
  const done = stageOf(pass, 'done');
  node.className = `pass pass-${pass.type}${done?.error ? ' pass-failed' : ''}`;
  node.replaceChildren(
    heading(pass, memory.life),
    ...(pass.type === 'sync' ? explained(pass, memory) : []),
    ...changes(pass),
    eventList(pass, memory.life, current),
  );
}

/** @param {Pass} pass @param {LifeOfObject} life */
function heading(pass, life) {
  const first = pass.events[0];
  const done = stageOf(pass, 'done');
  const what = pass.type === 'sync' ? 'Sync' : headline(pass);
  const detail = pass.type === 'sync' ? `by ${first.source}` : first.resourceVersion ? `resourceVersion ${first.resourceVersion}` : '';
  const state = pass.type !== 'sync' ? '' : done?.error ? 'failed' : done ? 'ok' : stageOf(pass, 'sync') ? 'running' : 'waiting';
  return el(
    'h3',
    {},
    el('b', {}, what),
    ' ',
    el('span', { class: 'muted' }, detail),
    ' ',
    state && el('span', { class: `badge badge-${state}` }, state),
    el(
      'a',
      { class: 'time', href: address.ofObject(life, { seq: first.seq }), title: 'The address of this event' },
      format.clock(first.time),
    ),
  );
}

/** The causes of a sync, and its end. @param {Pass} pass @param {Memory} memory */
function explained(pass, memory) {
  const { causes, more } = causesOf(pass);
  /** @type {HTMLElement[]} */
  const nodes = [el('p', { class: 'why' }, ...pieces(why(pass, memory)))];
  if (causes.length + more > 1) {
    nodes.push(
      el(
        'ul',
        { class: 'causes' },
        ...causes.map((c) => el('li', {}, ...pieces(because(c, pass, memory)))),
        more > 0 && el('li', {}, `and ${more} more, which the operator did not keep`),
      ),
    );
  }
  const end = outcome(pass);
  if (end) nodes.push(el('p', { class: 'outcome' }, end));
  const omitted = leftOut(pass);
  if (omitted) nodes.push(el('p', { class: 'muted' }, omitted));
  const error = stageOf(pass, 'done')?.error;
  if (error) nodes.push(el('p', { class: 'error' }, error));
  return nodes;
}

/** @param {Pass} pass */
function changes(pass) {
  const all = pass.events.flatMap((e) => e.changes ?? []);
  if (!all.length) return [];
  return [el('dl', { class: 'changes' }, ...all.flatMap((c) => [el('dt', {}, c.path), change(c)]))];
}

/** @param {import('./types.js').Change} c */
function change(c) {
  if (!c.old && !c.new) return el('dd', {}, el('span', { class: 'muted' }, 'changed; its value is not shown'));
  return el(
    'dd',
    {},
    c.old ? el('del', {}, c.old) : el('span', { class: 'muted' }, 'not set'),
    el('span', { class: 'vh' }, ' became '),
    el('span', { 'aria-hidden': 'true', class: 'becomes' }, ' → '),
    c.new ? el('ins', {}, c.new) : el('span', { class: 'muted' }, 'not set'),
  );
}

/** @param {Pass} pass @param {LifeOfObject} life @param {Event | undefined} current */
function eventList(pass, life, current) {
  const start = format.millis(pass.events[0].time);
  const met = pass.events.filter((e) => e.stage === 'enqueue' && e !== current);
  const omitted = new Set(met.slice(MET));
  const note =
    omitted.size > 0 &&
    el('li', { class: 'muted' }, el('span', { class: 'stage-name' }, 'Workqueue'), `${omitted.size} more changes of the same key`);
  return el(
    'ol',
    { class: 'events' },
    note,
    ...pass.events
      .filter((e) => !omitted.has(e))
      .map((e) =>
        el(
          'li',
          {
            'data-seq': e.seq,
            'data-stage': e.stage,
            class: e === current ? 'current' : undefined,
            'aria-current': e === current ? 'true' : undefined,
          },
          el('span', { class: 'stage-name' }, stageTitles[e.stage] ?? e.stage),
          el('span', { class: 'event-text' }, ...pieces(text(e, life))),
          el(
            'a',
            { class: 'time', href: address.ofObject(life, { seq: e.seq }), title: e.line },
            `+${format.duration(Math.max(0, format.millis(e.time) - start) / 1000)}`,
          ),
        ),
      ),
  );
}

/** @param {Piece[]} all */
export function pieces(all) {
  return all.map((p) => (typeof p === 'string' ? p : el('a', { href: p.href }, p.text)));
}
