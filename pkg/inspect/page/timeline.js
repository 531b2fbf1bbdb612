/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The slider of a recording: it chooses the moment that the page shows. A running operator has none.

import { byID, setAttr, setText } from './dom.js';
import * as format from './format.js';

/** @typedef {import('./types.js').Overview} Overview */

/** An arrow key moves by this part of the recording. Page Up and Page Down move by a tenth. */
const STEPS = 600;

export class Timeline {
  #root = byID('recording');
  #slider = /** @type {HTMLInputElement} */ (byID('moment'));
  #text = byID('moment-text');
  #from = 0;
  #dragging = false;

  /** @param {(at: string) => void} seek goes to a moment */
  constructor(seek) {
    this.#slider.addEventListener('input', () => {
      const at = new Date(this.#from + Number(this.#slider.value)).toISOString();
      this.#label(at);
      seek(at);
    });
    this.#slider.addEventListener('pointerdown', () => (this.#dragging = true));
    addEventListener('pointerup', () => (this.#dragging = false));
  }

  /** Shows the moment of an overview. @param {Overview} overview */
  show({ recording, time }) {
    this.#root.hidden = !recording;
    if (!recording || this.#dragging) return;
    this.#from = Date.parse(recording.from);
    const length = Date.parse(recording.to) - this.#from;
    setAttr(this.#slider, 'max', length);
    setAttr(this.#slider, 'step', Math.max(1, Math.floor(length / STEPS)));
    this.#slider.value = String(Date.parse(time) - this.#from);
    this.#label(time);
  }

  /** @param {string} at */
  #label(at) {
    const since = format.duration(Math.max(0, Math.round((Date.parse(at) - this.#from) / 100) / 10));
    const text = `${new Date(at).toLocaleString()}, ${since} after the start`;
    setText(this.#text, text);
    setAttr(this.#slider, 'aria-valuetext', text);
  }
}
