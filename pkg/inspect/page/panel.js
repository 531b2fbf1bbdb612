/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The panel beside the picture: the content of a gear, or the life of an object.

import { byID, el, setText } from './dom.js';
import * as format from './format.js';
import { gearNamed } from './gears.js';
import { LifeView } from './life.js';
import { viewOf } from './contents.js';

/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').Event} Event */
/** @typedef {import('./types.js').ObjectName} ObjectName */
/** @typedef {import('./address.js').Address} Address */
/** @typedef {import('./contents.js').View} View */
/** @typedef {import('./contents.js').Source} Source */

const POLL = 700;

export class Panel {
  #root = byID('panel');
  #title = byID('panel-title');
  #crumb = byID('panel-crumb');
  #body = byID('panel-body');
  #problem = el('p', { class: 'error', role: 'alert' });
  #api;
  #source;
  #follow;
  /** @type {View | undefined} */
  #view;
  /** @type {LifeView | undefined} */
  #life;
  #polled = 0;
  #polling = false;

  /** @param {import('./api.js').API} api @param {Source} source @param {(object: ObjectName) => void} follow */
  constructor(api, source, follow) {
    this.#api = api;
    this.#source = source;
    this.#follow = follow;
  }

  get isOpen() {
    return !this.#root.hidden;
  }

  /** Shows the gear or the object of an address. @param {Address} address @param {Overview | undefined} overview */
  show(address, overview) {
    if (address.view === 'object' && this.#life?.isOf(address.object)) return this.#life.goTo(address);
    this.#life?.close();
    this.#life = undefined;
    this.#view = undefined;
    const opens = address.view !== 'picture';
    this.#root.hidden = !opens;
    document.body.classList.toggle('with-panel', opens);
    if (address.view === 'gear') this.#showGear(address.gear, address.id, address.by, overview);
    if (address.view === 'object') this.#showLife(address);
    if (!opens) this.#body.replaceChildren();
    if (opens) this.#title.focus({ preventScroll: true });
  }

  /** @param {string} gear @param {string} id @param {string} by @param {Overview | undefined} overview */
  #showGear(gear, id, by, overview) {
    const about = gearNamed(gear);
    setText(this.#crumb, about?.title ?? gear);
    setText(this.#title, id);
    setText(this.#problem, '');
    if (!about) return this.#body.replaceChildren(el('p', {}, `The page has no station ${gear}.`));
    this.#view = viewOf(gear, id, by, this.#source);
    this.#body.replaceChildren(
      el('p', { class: 'lead' }, about.idea),
      el('details', {}, el('summary', {}, 'More about this station'), el('p', {}, about.more)),
      this.#problem,
      this.#view.root,
    );
    this.#body.scrollTop = 0;
    this.#polled = 0;
    if (overview) this.update(overview);
  }

  /** @param {{ object: ObjectName, seq: number, rv: string }} address */
  #showLife(address) {
    setText(this.#crumb, `The life of ${address.object.kind}`);
    setText(this.#title, format.path(address.object));
    this.#life = new LifeView(this.#api, address.object, address, this.#follow);
    this.#body.replaceChildren(this.#life.root);
    this.#body.scrollTop = 0;
  }

  /** @param {Overview} overview */
  update(overview) {
    this.#view?.update(overview);
  }

  /** Fetches the content again soon: the page shows another moment. */
  refresh() {
    this.#life?.refresh();
    this.#polled = 0;
  }

  /** @param {Event} event */
  notice(event) {
    this.#life?.notice(event);
  }

  /** Refreshes the open view if its data is old. @param {number} now */
  tick(now) {
    this.#life?.tick(now);
    if (!this.#view?.poll || this.#polling || now - this.#polled < POLL) return;
    this.#polled = now;
    this.#poll(this.#view);
  }

  /** @param {View} view */
  async #poll(view) {
    this.#polling = true;
    try {
      await view.poll?.();
      if (view === this.#view) setText(this.#problem, '');
    } catch (err) {
      if (view === this.#view) setText(this.#problem, err instanceof Error ? err.message : String(err));
    } finally {
      this.#polling = false;
    }
  }
}
