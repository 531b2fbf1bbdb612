/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Breakpoints: the reader holds a gear, and releases it.

import { el, setText } from './dom.js';
import * as format from './format.js';

/** @typedef {import('./types.js').Hold} Hold */
/** @typedef {import('./types.js').HoldRequest} HoldRequest */

const explain = /** @type {Record<string, string>} */ ({
  wire:
    'Hold stops reading the watch. Drop breaks the watch; the next one continues from the same resourceVersion. ' +
    'Expire breaks the watch, and the next one fails with 410 Gone, which causes a relist.',
  queue: 'Hold keeps deltas out of the queue: they accumulate before it, and the index becomes stale.',
  sync:
    'Hold makes workers wait before each sync: keys accumulate in the workqueue, and many changes of one object are one key. ' +
    'Delay makes each sync wait for some seconds.',
});

/** The items that accumulate. */
const piles = /** @type {Record<string, [string, string]>} */ ({
  wire: ['change', 'changes'],
  queue: ['delta', 'deltas'],
  sync: ['key', 'keys'],
});

export class Holds {
  root = el('div', { class: 'holds' });
  #state = el('p', { class: 'hold-state', role: 'status' });
  #problem = el('p', { class: 'error', role: 'alert' });
  #buttons = /** @type {Record<string, HTMLButtonElement>} */ ({});
  #post;
  #gear;
  #id;

  /** @param {string} gear @param {string} id @param {(request: HoldRequest) => Promise<void>} post */
  constructor(gear, id, post) {
    this.#gear = gear;
    this.#id = id;
    this.#post = post;
    const row = el('div', { class: 'row' }, this.#button('hold', 'Hold'), this.#button('release', 'Release'));
    if (gear === 'wire') row.append(this.#button('drop', 'Drop the watch'), this.#button('expire', 'Expire the watch'));
    if (gear === 'sync') row.append(this.#delay());
    this.root.append(el('h3', {}, 'Breakpoint'), row, this.#state, this.#problem, el('p', { class: 'muted' }, explain[gear]));
  }

  /** @param {string} action @param {string} label */
  #button(action, label) {
    const button = el('button', { type: 'button', 'data-action': action, onclick: () => this.#send(action, 0) }, label);
    this.#buttons[action] = button;
    return button;
  }

  #delay() {
    const seconds = el(
      'select',
      { 'aria-label': 'Delay' },
      ...['0.5', '2', '5', '15'].map((s) => el('option', { value: s, selected: s === '2' }, `${s} s`)),
    );
    const button = el(
      'button',
      { type: 'button', 'data-action': 'delay', onclick: () => this.#send('delay', Number(seconds.value)) },
      'Delay each sync',
    );
    return el('span', { class: 'joined' }, button, seconds);
  }

  /** @param {string} action @param {number} delay */
  async #send(action, delay) {
    setText(this.#problem, '');
    try {
      await this.#post({ gear: this.#gear, id: this.#id, action, ...(delay ? { delay } : {}) });
    } catch (err) {
      setText(this.#problem, err instanceof Error ? err.message : String(err));
    }
  }

  /** @param {Hold | undefined} hold @param {number} now in the operator's time */
  show(hold, now) {
    this.root.classList.toggle('held', Boolean(hold));
    this.#buttons.release.disabled = !hold;
    this.#buttons.hold.disabled = Boolean(hold && !hold.delay);
    if (!hold) return setText(this.#state, '');
    const how = hold.delay ? `Each sync waits ${format.duration(hold.delay)}` : `Held for ${format.age(now - Date.parse(hold.since))}`;
    const [one, many] = piles[this.#gear];
    const kept = `${format.plural(hold.kept, one, many)} ${hold.kept === 1 ? 'waits' : 'wait'} before it`;
    setText(this.#state, `${how}. ${kept}. Releases itself in ${format.countdown(Date.parse(hold.until) - now)}.`);
  }
}
