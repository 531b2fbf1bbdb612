/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The search box: a combobox over the objects in all indexes.

import * as address from './address.js';
import { byID, el, setAttr } from './dom.js';
import * as format from './format.js';

/** @typedef {import('./types.js').Found} Found */

const TYPING = 150;

export class Search {
  #input = /** @type {HTMLInputElement} */ (byID('search'));
  #results = byID('search-results');
  #find;
  #typing = 0;
  #asked = 0;
  #active = -1;

  /** @param {(text: string) => Promise<Found>} find */
  constructor(find) {
    this.#find = find;
    this.#input.addEventListener('input', () => this.#soon());
    this.#input.addEventListener('keydown', (e) => this.#key(e));
    this.#input.addEventListener('focus', () => this.#input.value.trim() && this.#soon());
    this.#input.addEventListener('blur', () => this.#close());
    // A click must not move the focus from the input: without it the list closes.
    this.#results.addEventListener('mousedown', (e) => e.preventDefault());
    this.#results.addEventListener('click', (e) => this.#choose(/** @type {Element} */ (e.target).closest('[role=option]')));
  }

  #soon() {
    clearTimeout(this.#typing);
    this.#typing = window.setTimeout(() => this.#ask(), TYPING);
  }

  async #ask() {
    const text = this.#input.value.trim();
    const asked = ++this.#asked;
    if (!text) return this.#close();
    try {
      const found = await this.#find(text);
      if (asked === this.#asked && document.activeElement === this.#input) this.#show(found);
    } catch (err) {
      this.#say(err instanceof Error ? err.message : String(err));
    }
  }

  /** @param {Found} found */
  #show(found) {
    if (!found.objects.length) return this.#say('No index has an object with such a name.');
    const options = found.objects.map((o, n) =>
      el(
        'li',
        // Not a link: an option must not contain controls.
        { role: 'option', id: `found-${n}`, 'data-address': address.ofObject(o) },
        el('span', { class: 'muted' }, o.kind),
        ' ',
        format.path(o),
      ),
    );
    this.#results.replaceChildren(...options);
    if (found.more) this.#results.append(el('li', { class: 'muted', role: 'presentation' }, `and ${format.count(found.more)} more`));
    this.#open(true);
    this.#activate(0);
  }

  /** @param {string} text */
  #say(text) {
    this.#results.replaceChildren(el('li', { class: 'muted', role: 'presentation' }, text));
    this.#open(true);
    this.#active = -1;
  }

  /** @param {boolean} open */
  #open(open) {
    this.#results.hidden = !open;
    setAttr(this.#input, 'aria-expanded', String(open));
  }

  #close() {
    this.#asked++;
    clearTimeout(this.#typing);
    this.#open(false);
    setAttr(this.#input, 'aria-activedescendant', undefined);
  }

  /** Opens the life of the object of an option. @param {Element | null} option */
  #choose(option) {
    if (!(option instanceof HTMLElement)) return;
    location.hash = option.dataset.address ?? '';
    this.#done();
  }

  #done() {
    this.#input.value = '';
    this.#close();
  }

  /** @param {number} n */
  #activate(n) {
    const options = this.#results.querySelectorAll('[role=option]');
    this.#active = Math.max(0, Math.min(options.length - 1, n));
    options.forEach((option, i) => setAttr(option, 'aria-selected', String(i === this.#active)));
    options[this.#active]?.scrollIntoView({ block: 'nearest' });
    setAttr(this.#input, 'aria-activedescendant', options[this.#active]?.id);
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    if (e.key === 'Escape') {
      if (this.#results.hidden) this.#input.blur();
      this.#done();
    } else if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      this.#activate(this.#active + (e.key === 'ArrowDown' ? 1 : -1));
    } else if (e.key === 'Enter') {
      const chosen = this.#results.querySelector('[aria-selected=true]');
      if (this.#results.hidden || !chosen) return this.#soon();
      this.#choose(chosen);
    }
  }
}
