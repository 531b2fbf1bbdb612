/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// One gear of the picture: a button with a cog, and its numbers.

import * as address from './address.js';
import { el, list, setAttr, setText, svg } from './dom.js';
import * as format from './format.js';
import { gearNamed } from './gears.js';

/** @typedef {import('./types.js').Informer} Informer */
/** @typedef {import('./types.js').Controller} Controller */
/** @typedef {import('./types.js').Hold} Hold */
/**
 * @typedef {object} GearView
 * @property {string} gear
 * @property {string} id
 * @property {HTMLButtonElement} button
 * @property {SVGElement} cog
 * @property {Record<string, HTMLElement>} parts
 * @property {number} angle
 * @property {number} owed degrees that it has to turn yet
 */

/** At most this many workers have a pip each. */
const MOST_PIPS = 24;

/** @param {string} gear @param {string} id @param {string} of the kind or the controller @returns {GearView} */
export function gearView(gear, id, of) {
  const about = gearNamed(gear);
  const cog = svg('svg', { class: 'cog', viewBox: '-10 -10 20 20', 'aria-hidden': 'true' }, svg('path', { d: cogPath(8) }));
  const parts = {
    // The kind, which may break between its words.
    value: el('b', { class: 'gear-value' }, ...(gear === 'wire' ? words(of).flatMap((word) => [word, el('wbr')]) : [])),
    unit: el('span', { class: 'gear-unit' }),
    extra: el('span', { class: 'gear-extra' }),
  };
  const texts = el(
    'span',
    { class: 'gear-text' },
    el('span', { class: 'vh' }, `${about?.title} of ${of}: `),
    el('span', { class: 'gear-title', 'aria-hidden': 'true' }, about?.title),
    parts.value,
    ' ',
    parts.unit,
    ' ',
    parts.extra,
  );
  const button = el(
    'button',
    {
      type: 'button',
      class: `gear gear-${gear}`,
      'data-gear': gear,
      'data-id': id,
      title: `${id}: ${about?.idea}`,
      tabindex: -1,
      onclick: () => {
        location.hash = address.ofGear(gear, id);
      },
    },
    cog,
    texts,
  );
  return { gear, id, button, cog, parts, angle: 0, owed: 0 };
}

/** The words of a kind: Horizontal, Pod and Autoscaler. @param {string} kind */
function words(kind) {
  return kind.split(/(?<=[a-z])(?=[A-Z])/);
}

/** @param {GearView} view @param {string} value @param {string} unit @param {string} extra @param {string} state */
function show(view, value, unit, extra, state) {
  setText(view.parts.value, value);
  setText(view.parts.unit, unit);
  setText(view.parts.extra, extra);
  setAttr(view.button, 'data-state', state || undefined);
}

/** @param {Hold | undefined} hold @param {number} now */
function heldFor(hold, now) {
  if (!hold) return '';
  const left = format.countdown(Date.parse(hold.until) - now);
  return hold.delay ? `each waits ${format.duration(hold.delay)}, ${left}` : `held, ${left}`;
}

/** @param {GearView} view @param {Informer} informer @param {number} now */
export function showInformerGear(view, informer, now) {
  switch (view.gear) {
    case 'wire': {
      const [text, state] = wireState(informer, now);
      return show(view, informer.kind, text || `rv ${informer.resourceVersion || '–'}`, '', state);
    }
    case 'queue': {
      const held = heldFor(informer.queueHeld, now);
      const kept = Math.max(informer.queued, informer.queueHeld?.kept ?? 0);
      return show(
        view,
        format.count(kept),
        held || (kept === 1 ? 'delta' : 'deltas'),
        held ? '' : informer.queue,
        held ? 'held' : kept ? 'busy' : '',
      );
    }
    case 'index':
      return show(
        view,
        format.count(informer.objects),
        informer.synced ? (informer.objects === 1 ? 'object' : 'objects') : 'not synced yet',
        informer.lag ? `lag ${format.duration(informer.lag)}` : '',
        informer.synced ? '' : 'waiting',
      );
    default: {
      const pending = informer.handlers.reduce((sum, h) => sum + h.pending, 0);
      const synced = informer.handlers.every((h) => h.synced);
      return show(
        view,
        format.count(pending),
        'pending',
        synced ? format.plural(informer.handlers.length, 'handler') : 'not synced yet',
        pending ? 'busy' : synced ? '' : 'waiting',
      );
    }
  }
}

/**
 * Returns the problem of a watch, and the state of its gear; '' if there is none.
 * @param {Informer} informer
 * @param {number} now
 * @returns {[string, string]}
 */
function wireState(informer, now) {
  if (informer.wireHeld) return [heldFor(informer.wireHeld, now), 'held'];
  if (informer.failing) return [`failing for ${format.age(now - Date.parse(informer.failing))}`, 'failing'];
  if (!informer.watching) return ['no open watch', 'failing'];
  if (!informer.synced) return ['not synced yet', 'waiting'];
  return ['', ''];
}

/** @param {GearView} view @param {Controller} c @param {number} now */
export function showControllerGear(view, c, now) {
  if (view.gear === 'workqueue') {
    const timers = c.timers ? format.plural(c.timers, 'timer') : 'no timers';
    const extra = c.retrying ? `${timers}, ${format.count(c.retrying)} retrying` : timers;
    return show(view, format.count(c.waiting), 'waiting', extra, c.retrying ? 'retrying' : c.waiting ? 'busy' : '');
  }
  const held = heldFor(c.syncHeld, now);
  const workers = c.workers ? `of ${format.plural(c.workers, 'worker')}` : 'no workers here';
  const syncs = [format.plural(c.syncs, 'sync')];
  if (c.failed) syncs.push(`${format.count(c.failed)} failed`);
  if (c.panics) syncs.push(`${format.count(c.panics)} panicked`);
  show(
    view,
    format.count(c.processing),
    held || workers,
    syncs.join(', '),
    held ? 'held' : c.processing ? 'busy' : c.workers ? '' : 'waiting',
  );
  showPips(view, c);
}

/** @param {Controller} c */
export function aboutController(c) {
  const added = `${format.plural(c.added, 'key')} added`;
  return c.workers ? `${added}, ${format.plural(c.syncs, 'sync')}` : `${added}. No workers: this replica is a standby, or it starts.`;
}

/** A pip per worker, filled while it syncs. @param {GearView} view @param {Controller} c */
function showPips(view, c) {
  let pips = view.parts.pips;
  if (!pips) {
    pips = view.parts.pips = el('span', { class: 'pips', 'aria-hidden': 'true' });
    view.button.append(pips);
  }
  const workers = Array.from({ length: Math.min(MOST_PIPS, c.workers) }, (_, n) => n);
  list(
    pips,
    workers,
    String,
    () => el('i'),
    (node, n) => node.classList.toggle('on', n < c.processing),
  );
}

/** The outline of a cog. @param {number} teeth */
function cogPath(teeth) {
  const points = [];
  for (let n = 0; n < teeth; n++) {
    for (const [radius, turn] of [
      [7, -0.33],
      [9.4, -0.17],
      [9.4, 0.17],
      [7, 0.33],
    ]) {
      const angle = ((n + turn) / teeth) * 2 * Math.PI;
      points.push(`${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`);
    }
  }
  return `M${points.join('L')}ZM3 0A3 3 0 1 0 -3 0A3 3 0 1 0 3 0Z`;
}
