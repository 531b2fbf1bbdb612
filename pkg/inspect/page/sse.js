/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Parses a text/event-stream from fetch. fetch can send an Authorization header, and an
// EventSource cannot.

/**
 * Takes the chunks of a stream, and calls back for each message.
 */
export class Messages {
  #rest = '';
  #event = '';
  /** @type {string[]} */
  #data = [];
  #take;

  /** @param {(event: string, data: string) => void} take */
  constructor(take) {
    this.#take = take;
  }

  /** @param {string} chunk */
  push(chunk) {
    const lines = (this.#rest + chunk).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#line(line.endsWith('\r') ? line.slice(0, -1) : line);
  }

  /** @param {string} line */
  #line(line) {
    if (line === '') {
      if (this.#data.length) this.#take(this.#event || 'message', this.#data.join('\n'));
      this.#event = '';
      this.#data = [];
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#event = value;
    else if (field === 'data') this.#data.push(value);
  }
}
