/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The bar above the picture: time, filter, theme, hints, dialogs and keys.

import { byID, el, list, setAttr, setText } from './dom.js';
import { filtersSet, noFilter } from './state.js';

/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').Filter} Filter */
/**
 * The actions of the controls.
 * @typedef {object} Acts
 * @property {(paused: boolean) => void} pause
 * @property {(speed: number) => void} speed
 * @property {() => void} live
 * @property {(filter: Filter) => void} filter
 * @property {() => void} close closes the panel
 */

const TYPING = 250;

export class Controls {
  #acts;
  #pause = /** @type {HTMLButtonElement} */ (byID('pause'));
  #speed = /** @type {HTMLSelectElement} */ (byID('speed'));
  #filter = /** @type {HTMLFormElement} */ (byID('filter'));
  #typing = 0;

  /** @param {Acts} acts */
  constructor(acts) {
    this.#acts = acts;
    this.#pause.addEventListener('click', () => this.#togglePause());
    this.#speed.addEventListener('change', () => acts.speed(Number(this.#speed.value)));
    byID('live').addEventListener('click', () => this.#goLive());
    this.#filter.addEventListener('submit', (e) => e.preventDefault());
    this.#filter.addEventListener('input', () => this.#filterSoon());
    byID('filter-clear').addEventListener('click', () => this.setFilter(noFilter()));
    byID('filter-toggle').addEventListener('click', () => this.#toggleFilter());
    byID('help').addEventListener('click', () => openDialog('keys'));
    document.addEventListener('keydown', (e) => this.#key(e));
    initTheme();
    initIdeas();
  }

  /** @returns {Filter} */
  get filter() {
    const data = new FormData(this.#filter);
    const text = (/** @type {string} */ name) => String(data.get(name) ?? '').trim();
    return { controller: text('controller'), kind: text('kind'), namespace: text('namespace'), name: text('name') };
  }

  /** @param {Filter} filter */
  setFilter(filter) {
    for (const [name, value] of Object.entries(filter)) {
      const field = /** @type {HTMLInputElement} */ (this.#filter.elements.namedItem(name));
      if (field) field.value = value;
    }
    this.#filterNow();
  }

  /** Fills the choices of the filter. @param {Overview} overview */
  offer(overview) {
    const kinds = [...new Set([...overview.informers.map((i) => i.kind), ...overview.controllers.map((c) => c.kind)])].sort();
    options(
      this.#filter,
      'controller',
      overview.controllers.map((c) => c.id),
    );
    options(this.#filter, 'kind', kinds);
  }

  /** @param {number} behind milliseconds @param {string} text */
  showBehind(behind, text) {
    setText(byID('behind'), text);
    byID('live').hidden = behind < 1500;
  }

  #filterSoon() {
    clearTimeout(this.#typing);
    this.#typing = window.setTimeout(() => this.#filterNow(), TYPING);
  }

  #filterNow() {
    const filter = this.filter;
    const n = filtersSet(filter);
    setText(byID('filter-toggle'), n ? `Filter (${n})` : 'Filter');
    byID('filter-clear').hidden = n === 0;
    this.#acts.filter(filter);
  }

  #toggleFilter() {
    const open = this.#filter.classList.toggle('open');
    setAttr(byID('filter-toggle'), 'aria-expanded', String(open));
  }

  /** Pauses, unless it is paused. */
  pause() {
    if (this.#pause.getAttribute('aria-pressed') !== 'true') this.#togglePause();
  }

  #togglePause() {
    const paused = this.#pause.getAttribute('aria-pressed') !== 'true';
    this.#pause.setAttribute('aria-pressed', String(paused));
    setText(this.#pause, paused ? 'Resume' : 'Pause');
    document.body.classList.toggle('paused', paused);
    this.#acts.pause(paused);
  }

  #goLive() {
    if (this.#pause.getAttribute('aria-pressed') === 'true') this.#togglePause();
    this.#speed.value = '1';
    this.#acts.speed(1);
    this.#acts.live();
    this.#pause.focus();
  }

  /** @param {KeyboardEvent} e */
  #key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
    const target = /** @type {Element} */ (e.target);
    const writing = target.matches('input, select, textarea');
    if (e.key === 'Escape') {
      if (target.matches('#search')) return;
      this.#acts.close();
    } else if (writing) {
      return;
    } else if (e.key === '/') {
      e.preventDefault();
      byID('search').focus();
    } else if (e.key === '?') {
      openDialog('keys');
    } else if (e.key === ' ' && !target.closest('button, a, summary')) {
      e.preventDefault();
      this.#togglePause();
    }
  }
}

/** @param {HTMLFormElement} form @param {string} name @param {string[]} values */
function options(form, name, values) {
  const select = form.elements.namedItem(name);
  if (!(select instanceof HTMLSelectElement)) return;
  const all = ['', ...values];
  if (all.length === select.options.length && all.every((v, n) => v === select.options[n].value)) return;
  const chosen = select.value;
  list(
    select,
    all,
    (v) => v,
    (v) => el('option', { value: v }, v || 'all'),
  );
  select.value = chosen;
}

/** @param {string} id */
function openDialog(id) {
  /** @type {HTMLDialogElement} */ (byID(id)).showModal();
}

/** Asks for a bearer token. @param {string} reason why the operator refused the last one @returns {Promise<string>} */
export function askToken(reason) {
  const dialog = /** @type {HTMLDialogElement} */ (byID('auth'));
  const input = /** @type {HTMLInputElement} */ (byID('token'));
  setText(byID('auth-problem'), reason);
  input.value = '';
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    // Without a token the page is empty. If Esc closes the dialog, the next request opens it again.
    dialog.addEventListener(
      'close',
      () => {
        const token = input.value.trim();
        input.value = '';
        resolve(token);
      },
      { once: true },
    );
  });
}

const themes = ['auto', 'light', 'dark'];

function initTheme() {
  const button = byID('theme');
  let theme = remembered('glassback-theme') ?? 'auto';
  const apply = () => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    setText(button, `Theme: ${theme}`);
  };
  button.addEventListener('click', () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    remember('glassback-theme', theme);
    apply();
  });
  apply();
}

/** The first visit shows the hints, until the reader hides them. */
function initIdeas() {
  const show = (/** @type {boolean} */ on) => {
    document.body.classList.toggle('with-ideas', on);
    setAttr(byID('ideas'), 'aria-pressed', String(on));
    remember('glassback-ideas', on ? 'shown' : 'read');
  };
  byID('ideas').addEventListener('click', () => show(!document.body.classList.contains('with-ideas')));
  byID('ideas-read').addEventListener('click', () => {
    show(false);
    byID('ideas').focus();
  });
  show(remembered('glassback-ideas') !== 'read');
}

/** @param {string} key */
function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Without storage the next visit starts with the defaults.
  }
}
