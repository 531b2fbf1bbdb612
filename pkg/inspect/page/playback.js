/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// A bounded buffer between the stream and the picture, for pauses and slow motion.

/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').Event} Event */
/** @typedef {{ time: number, event?: Event, overview?: Overview }} Item */

/** The delay of the picture in milliseconds. Events arrive in batches; the delay lets them pass one after another. */
const LIVE = 150;
/** A longer time without an event is skipped, in milliseconds. */
const IDLE = 200;

export class Playback {
  /** @type {Item[]} */
  #items = [];
  #head = 0;
  #limit;
  /** The time of the picture, on the operator's clock; 0 before the first item. */
  #shown = 0;
  #newest = 0;
  paused = false;
  speed = 1;
  /** The number of items that were dropped because the buffer was full. */
  lost = 0;

  /** @param {number} limit how many items are kept */
  constructor(limit) {
    this.#limit = limit;
  }

  /** @param {Item} item */
  push(item) {
    this.#items.push(item);
    if (item.time > this.#newest) this.#newest = item.time;
    if (this.#items.length - this.#head > this.#limit) {
      this.#head++;
      this.lost++;
    }
    if (this.#head > 4096 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }

  /** The time between the newest item and the picture, in milliseconds. */
  get behind() {
    return this.#shown ? Math.max(0, this.#newest - this.#shown) : 0;
  }

  get waiting() {
    return this.#items.length - this.#head;
  }

  /** Discards all items, and returns the newest overview. @returns {Item | undefined} */
  skip() {
    let overview;
    for (let i = this.#head; i < this.#items.length; i++) {
      if (this.#items[i].overview) overview = this.#items[i];
    }
    this.clear();
    return overview;
  }

  clear() {
    this.#items = [];
    this.#head = 0;
    this.#shown = this.#newest;
    this.lost = 0;
  }

  /** Discards all items, for items of another time. */
  rewind() {
    this.#newest = 0;
    this.clear();
  }

  /**
   * Advances the time by elapsed milliseconds, and calls show for each item that is due.
   * @param {number} elapsed
   * @param {(item: Item) => void} show
   */
  advance(elapsed, show) {
    if (this.paused) return;
    this.#move(elapsed);
    while (this.#head < this.#items.length) {
      const item = this.#items[this.#head];
      if (item.time > this.#shown) return;
      this.#head++;
      show(item);
    }
    this.lost = 0;
    this.#items.length = 0;
    this.#head = 0;
  }

  /** @param {number} elapsed */
  #move(elapsed) {
    const next = this.#items[this.#head];
    if (this.speed === 1) {
      // A late picture catches up in fast motion, and is faster the later it is.
      const rate = this.behind > 4 * LIVE ? Math.max(2, this.behind / 700) : Math.max(0.5, 0.5 + this.behind / LIVE / 2);
      if (next && next.time - this.#shown > IDLE) this.#shown = next.time;
      else this.#shown = Math.min(this.#newest, this.#shown + elapsed * rate);
      return;
    }
    this.#shown ||= next ? next.time : this.#newest;
    // After an overflow of the buffer, the picture jumps to the oldest item.
    if (next && next.time > this.#shown && this.lost) this.#shown = next.time;
    this.#shown = Math.min(this.#newest, this.#shown + elapsed * this.speed);
  }
}
