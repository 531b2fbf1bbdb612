/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The content of each gear: one view per gear, which is refreshed while its panel is open.

import * as address from './address.js';
import { el, list, setAttr, setText } from './dom.js';
import * as format from './format.js';
import { Holds } from './holds.js';

/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').Informer} Informer */
/** @typedef {import('./types.js').Controller} Controller */
/** @typedef {import('./types.js').Event} Event */
/** @typedef {import('./types.js').ObjectName} ObjectName */
/**
 * The data and actions of a view.
 * @typedef {object} Source
 * @property {<T>(what: string, query: Record<string, string>) => Promise<T>} get
 * @property {(request: import('./types.js').HoldRequest) => Promise<void>} hold
 * @property {(gear: string, id: string) => Event[]} recent
 * @property {() => number} now the operator's time, in milliseconds
 */
/**
 * @typedef {object} View
 * @property {HTMLElement} root
 * @property {(overview: Overview) => void} update shows the data of an overview
 * @property {() => Promise<void>} [poll] fetches the rest
 */

/** @param {string} gear @param {string} id @param {string} by @param {Source} source @returns {View} */
export function viewOf(gear, id, by, source) {
  switch (gear) {
    case 'wire':
      return wire(id, source);
    case 'queue':
      return queue(id, source);
    case 'index':
      return index(id, by, source);
    case 'handlers':
      return handlers(id, source);
    case 'workqueue':
      return workqueue(id, source);
    default:
      return sync(id, source);
  }
}

/** Named numbers. */
class Facts {
  root = el('dl', { class: 'facts' });

  /** @param {[string, string][]} facts */
  show(facts) {
    list(
      this.root,
      facts,
      ([name]) => name,
      ([name]) => el('div', {}, el('dt', {}, name), el('dd', {})),
      (node, [, value]) => setText(node.lastElementChild, value),
    );
  }
}

/** A heading with a list, and a text for an empty list. */
class Block {
  root;
  items = el('ul', { class: 'items' });
  #empty;
  #more = el('p', { class: 'muted' });

  /** @param {string} title @param {string} empty */
  constructor(title, empty) {
    this.#empty = el('p', { class: 'muted' }, empty);
    this.root = el('section', { class: 'block' }, el('h3', {}, title), this.items, this.#empty, this.#more);
  }

  /**
   * @template T
   * @param {T[]} items
   * @param {(item: T) => string} keyOf
   * @param {(item: T) => Element} create
   * @param {(node: any, item: T) => void} [update]
   */
  show(items, keyOf, create, update) {
    list(this.items, items, keyOf, create, update);
    this.#empty.hidden = items.length > 0;
  }

  /** @param {number | undefined} n */
  more(n) {
    setText(this.#more, n ? `and ${format.count(n)} more` : '');
  }

  /** @param {Event[]} events */
  showEvents(events) {
    this.show(events, (e) => String(e.seq), eventItem);
  }
}

/** @param {Event} e */
function eventItem(e) {
  const about = e.stage === 'done' ? `${e.error ? 'failed' : 'done'} after ${format.duration(e.duration ?? 0)}` : (e.verb ?? e.stage);
  const version = e.resourceVersion ? ` rv ${e.resourceVersion}` : '';
  return el(
    'li',
    { class: `item${e.error ? ' item-failed' : ''}` },
    el('a', { href: address.ofObject(e.for ?? e, { seq: e.seq }), title: e.line }, format.title(e)),
    ' ',
    el('span', { class: 'detail' }, `${about}${version}`),
    el('span', { class: 'time' }, format.clock(e.time)),
    e.error && el('p', { class: 'error' }, e.error),
  );
}

/** @param {ObjectName} o @param {string} [rv] */
function objectLink(o, rv = '') {
  return el('a', { href: address.ofObject(o, { rv }) }, format.title(o));
}

/** @param {Overview} overview @param {string} id */
function informerOf(overview, id) {
  return overview.informers.find((i) => i.id === id);
}

/** @param {boolean} yes */
function yesNo(yes) {
  return yes ? 'yes' : 'no';
}

/** @param {string} id @param {Source} source @returns {View} */
function wire(id, source) {
  const facts = new Facts();
  const holds = new Holds('wire', id, source.hold);
  const error = el('p', { class: 'error', role: 'alert' });
  const recent = new Block('Last changes', 'None since you opened the page.');
  return {
    root: el('div', {}, holds.root, error, facts.root, recent.root),
    update(overview) {
      const i = informerOf(overview, id);
      if (!i) return;
      holds.root.hidden = !overview.breakpoints;
      holds.show(i.wireHeld, source.now());
      setText(error, i.failing ? `${i.error || 'The watch fails.'} It has failed since ${format.clock(i.failing)}.` : '');
      facts.show([
        ['Watch open', yesNo(i.watching)],
        ['First list complete', yesNo(i.synced)],
        ['Last resourceVersion', i.resourceVersion || 'none yet'],
        ['Objects arrived', format.count(i.arrived)],
        ['Failures', format.count(i.failures)],
      ]);
      recent.showEvents(source.recent('wire', id));
    },
  };
}

/** @param {string} id @param {Source} source @returns {View} */
function queue(id, source) {
  const facts = new Facts();
  const holds = new Holds('queue', id, source.hold);
  const waiting = new Block('In the queue', 'Empty: the informer pops each delta at once. Hold the queue to see deltas accumulate.');
  const passed = new Block('Last changes', 'The operator remembers none.');
  return {
    root: el('div', {}, holds.root, facts.root, waiting.root, passed.root),
    update(overview) {
      const i = informerOf(overview, id);
      if (!i) return;
      holds.root.hidden = !overview.breakpoints;
      holds.show(i.queueHeld, source.now());
      facts.show([
        ['Type', i.queue],
        ['Waiting deltas', format.count(i.queued)],
        ['Arrived', format.count(i.arrived)],
        ['Applied to the index', format.count(i.applied)],
      ]);
    },
    async poll() {
      /** @type {import('./types.js').Queue} */
      const q = await source.get('queue', { informer: id });
      waiting.show(
        q.objects,
        (d) => format.keyOf(d) + d.deltas[0]?.resourceVersion,
        (d) => el('li', { class: 'item' }, objectLink(d), el('ol', { class: 'deltas' })),
        (node, d) => showDeltas(node.querySelector('ol'), d.deltas, source.now()),
      );
      waiting.more(q.more);
      passed.showEvents(q.passed);
    },
  };
}

/** @param {HTMLElement} node @param {import('./types.js').Delta[]} deltas @param {number} now */
function showDeltas(node, deltas, now) {
  list(
    node,
    deltas.map((d, n) => ({ ...d, n })),
    (d) => `${d.n} ${d.resourceVersion}`,
    (d) => el('li', { class: `chip verb-${d.verb}` }, el('b', {}, d.verb), ` rv ${d.resourceVersion} `, el('span')),
    (li, d) => setText(li.lastElementChild, format.age(now - Date.parse(d.since))),
  );
}

/** @param {string} id @param {string} by @param {Source} source @returns {View} */
function index(id, by, source) {
  const facts = new Facts();
  const tabs = el('div', { class: 'tabs', role: 'group', 'aria-label': 'Indexer' });
  const search = el('input', { type: 'search', placeholder: 'Name contains …', 'aria-label': 'Name contains', oninput: () => show() });
  const groups = el('div');
  /** @type {import('./types.js').Index | undefined} */
  let last;
  const show = () => last && showGroups(groups, last, search.value.trim(), source.now());
  return {
    root: el('div', {}, facts.root, tabs, search, groups),
    update(overview) {
      const i = informerOf(overview, id);
      if (i)
        facts.show([
          ['Objects', format.count(i.objects)],
          ['Deltas applied', format.count(i.applied)],
          ['First list complete', yesNo(i.synced)],
          ['Lag of the newest change', format.duration(i.lag)],
        ]);
    },
    async poll() {
      last = /** @type {import('./types.js').Index} */ (await source.get('index', { informer: id, by }));
      list(
        tabs,
        ['', ...last.indexers],
        (name) => name,
        (name) => el('a', { href: address.ofGear('index', id, name) }, name ? `by ${name}` : 'by key'),
        (node, name) => setAttr(node, 'aria-current', name === by ? 'true' : undefined),
      );
      show();
    },
  };
}

/** @param {HTMLElement} root @param {import('./types.js').Index} data @param {string} part @param {number} now */
function showGroups(root, data, part, now) {
  const shown = data.groups.map((g) => ({ ...g, objects: part ? g.objects.filter((o) => format.path(o).includes(part)) : g.objects }));
  if (data.more) shown.push({ value: `… and ${format.count(data.more)} more values`, objects: [] });
  list(
    root,
    shown,
    (g) => g.value,
    (g) =>
      el(
        'section',
        { class: 'block' },
        el('h3', {}, el('span', {}, g.value || (data.by ? '(empty)' : 'By key')), ' ', el('small', {})),
        el('ul', { class: 'items' }),
        el('p', { class: 'muted' }),
      ),
    (node, g) => {
      setText(
        node.querySelector('small'),
        g.objects.length || !data.more ? format.count(g.objects.length + (part ? 0 : (g.more ?? 0))) : '',
      );
      list(
        node.querySelector('ul'),
        g.objects,
        format.keyOf,
        (o) => el('li', { class: 'item' }, objectLink(o), ' ', el('span', { class: 'detail' }), el('span', { class: 'time' })),
        (li, o) => {
          setText(li.children[1], `rv ${o.resourceVersion}`);
          setText(li.children[2], `${format.age(now - Date.parse(o.created))} old`);
        },
      );
      setText(node.lastElementChild, g.more ? `and ${format.count(g.more)} more` : '');
    },
  );
}

/** @param {string} id @param {Source} source @returns {View} */
function handlers(id, source) {
  const all = new Block('Handlers', 'No handler is registered.');
  const recent = new Block('Last notifications', 'None since you opened the page.');
  return {
    root: el('div', {}, all.root, recent.root),
    update(overview) {
      const i = informerOf(overview, id);
      if (!i) return;
      all.show(
        i.handlers.map((h, n) => ({ ...h, n })),
        (h) => `${h.n} ${h.name}`,
        (h) =>
          el(
            'li',
            { class: 'item' },
            el('b', {}, h.name),
            ' ',
            h.controller && el('a', { href: address.ofGear('workqueue', h.controller) }, `→ workqueue ${h.controller}`),
            ' ',
            el('span', { class: 'detail' }),
          ),
        (li, h) => setText(li.lastElementChild, `${format.count(h.pending)} pending, ${h.synced ? 'synced' : 'not synced yet'}`),
      );
      recent.showEvents(source.recent('handlers', id));
    },
  };
}

/** @param {Overview} overview @param {string} id */
function controllerOf(overview, id) {
  return overview.controllers.find((c) => c.id === id);
}

/** @param {string} id @param {Source} source @returns {View} */
function workqueue(id, source) {
  const facts = new Facts();
  const waiting = new Block('Waiting', 'No key waits.');
  const processing = new Block('Processing', 'No worker has a key.');
  const timers = new Block('Timers', 'No key has a timer.');
  return {
    root: el('div', {}, facts.root, waiting.root, processing.root, timers.root),
    update(overview) {
      const c = controllerOf(overview, id);
      if (!c) return;
      facts.show([
        ['Waiting', format.count(c.waiting)],
        ['Processing', format.count(c.processing)],
        ['Timers', format.count(c.timers)],
        ['Retrying', format.count(c.retrying)],
        ['Keys added', format.count(c.added)],
        ['Syncs', format.count(c.syncs)],
      ]);
    },
    async poll() {
      /** @type {import('./types.js').Workqueue} */
      const w = await source.get('workqueue', { controller: id });
      showEntries(waiting, w.waiting, source.now());
      showEntries(processing, w.processing, source.now());
      timers.show(
        w.timers,
        format.keyOf,
        (t) => el('li', { class: 'item' }, objectLink(t), ' ', el('span', { class: 'detail' }), el('span', { class: 'time' })),
        (li, t) => {
          li.classList.toggle('item-failed', Boolean(t.retries));
          setText(
            li.children[1],
            t.retries ? `failed ${t.retries === 1 ? 'once' : `${t.retries} times in a row`}, in backoff` : 'requested by its last sync',
          );
          setText(li.children[2], `in ${format.duration(Math.max(0, Math.round((Date.parse(t.at) - source.now()) / 100) / 10))}`);
        },
      );
      timers.more(w.more);
    },
  };
}

/** @param {Block} block @param {import('./types.js').Entry[]} entries @param {number} now */
function showEntries(block, entries, now) {
  block.show(
    entries,
    format.keyOf,
    () => el('li', { class: 'item' }),
    (li, e) => {
      const version = `${e.since} ${e.causes?.length} ${e.moreCauses} ${e.again}`;
      if (li.dataset.version !== version) {
        li.dataset.version = version;
        li.replaceChildren(
          objectLink(e),
          ' ',
          el('span', { class: 'detail' }, e.again ? 'dirty: requeued when its sync ends' : ''),
          el('span', { class: 'time' }),
          causes(e),
        );
      }
      setText(li.querySelector('.time'), `for ${format.duration(Math.max(0, Math.round((now - Date.parse(e.since)) / 100) / 10))}`);
    },
  );
}

/** @param {import('./types.js').Entry} e */
function causes(e) {
  const more = e.moreCauses ? [el('li', {}, `and ${e.moreCauses} more`)] : [];
  return el(
    'ul',
    { class: 'causes' },
    ...(e.causes ?? []).map((c) =>
      el('li', {}, c.name ? el('a', { href: address.ofObject(c, { rv: c.resourceVersion }) }, c.line) : c.line),
    ),
    ...more,
  );
}

/** @param {string} id @param {Source} source @returns {View} */
function sync(id, source) {
  const facts = new Facts();
  const holds = new Holds('sync', id, source.hold);
  const flight = new Block('In flight', 'No sync runs.');
  const recent = new Block('Last syncs and writes', 'None since you opened the page.');
  return {
    root: el('div', {}, holds.root, facts.root, flight.root, recent.root),
    update(overview) {
      const c = controllerOf(overview, id);
      if (!c) return;
      holds.root.hidden = !overview.breakpoints;
      holds.show(c.syncHeld, source.now());
      facts.show([
        ['Workers', c.workers ? format.count(c.workers) : 'none: this replica is a standby, or it starts'],
        ['In flight', format.count(c.processing)],
        ['Syncs', format.count(c.syncs)],
        ['Failed', format.count(c.failed)],
        ['Panicked', format.count(c.panics)],
      ]);
      recent.showEvents(source.recent('sync', id).filter((e) => e.stage !== 'sync'));
    },
    async poll() {
      /** @type {import('./types.js').Workqueue} */
      const w = await source.get('workqueue', { controller: id });
      showEntries(flight, w.processing, source.now());
    },
  };
}
