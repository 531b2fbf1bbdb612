/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The operator's side: requests, and the stream that is opened again whenever it ends.

import { Messages } from './sse.js';

/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').Events} Events */
/** @typedef {import('./types.js').Filter} Filter */

/** A stream in which nothing came for so long is taken for broken: an overview is due twice a second. */
const SILENCE = 6000;
const SHORTEST_WAIT = 500;
const LONGEST_WAIT = 10000;

/** Refused is an answer with a status of 400 and more. Its message says what to do. */
export class Refused extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * @typedef {object} Listener
 * @property {(overview: Overview) => void} overview
 * @property {(events: Events) => void} events
 * @property {(state: 'connecting' | 'live' | 'lost', retryAt?: number, reason?: string) => void} connection retryAt and reason: of what is lost
 */

export class API {
  /** The bearer token. It is in memory only, and gone when the page is. */
  #token = '';
  /** @type {Promise<string> | undefined} */
  #asking;
  #askToken;
  /** @type {AbortController | undefined} */
  #streaming;
  /** @type {(() => void) | undefined} */
  #wake;

  /** @param {(reason: string) => Promise<string>} askToken is called when the operator wants a token */
  constructor(askToken) {
    this.#askToken = askToken;
  }

  /** @template T @param {string} what @param {Record<string, string>} [query] @param {AbortSignal} [signal] @returns {Promise<T>} */
  async get(what, query = {}, signal) {
    const response = await this.#fetch(`api/${what}?${new URLSearchParams(query)}`, { signal });
    return withLists(await response.json());
  }

  /** @template T @param {string} what @param {unknown} body @returns {Promise<T>} */
  async post(what, body) {
    const response = await this.#fetch(`api/${what}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
    return withLists(await response.json());
  }

  /**
   * Opens the stream for what filter lets through, in the place of the one that is open.
   * @param {Filter} filter
   * @param {Listener} listener
   */
  stream(filter, listener) {
    this.#streaming?.abort();
    this.#streaming = new AbortController();
    this.#keepStreaming(streamQuery(filter), listener, this.#streaming.signal);
  }

  /** Tries again now, if the stream waits to. */
  hurry() {
    this.#wake?.();
  }

  /** @param {string} url @param {RequestInit} init @returns {Promise<Response>} */
  async #fetch(url, init) {
    for (;;) {
      const token = this.#token;
      const headers = new Headers(init.headers);
      if (token) headers.set('Authorization', `Bearer ${token}`);
      const response = await fetch(url, { ...init, headers, cache: 'no-store' });
      if (response.ok) return response;
      const refused = new Refused(response.status, await problem(response));
      // 403: whom the token is for may not look. Another token may help.
      const asks = response.status === 401 || (response.status === 403 && token && init.method !== 'POST');
      if (!asks) throw refused;
      if (this.#token === token) await this.#newToken(token ? refused.message : '');
    }
  }

  /** Requests that fail at the same time ask once. @param {string} reason */
  async #newToken(reason) {
    this.#asking ??= this.#askToken(reason);
    try {
      this.#token = await this.#asking;
    } finally {
      this.#asking = undefined;
    }
  }

  /** @param {string} query @param {Listener} listener @param {AbortSignal} stop */
  async #keepStreaming(query, listener, stop) {
    let failures = 0;
    while (!stop.aborted) {
      listener.connection('connecting');
      const { got, reason } = await this.#streamOnce(query, listener, stop);
      if (stop.aborted) return;
      failures = got ? 0 : failures + 1;
      const wait = Math.min(LONGEST_WAIT, SHORTEST_WAIT * 2 ** failures) * (0.8 + 0.4 * Math.random());
      listener.connection('lost', Date.now() + wait, reason);
      await this.#sleep(wait);
    }
  }

  /**
   * Reads one stream to its end. It returns whether anything came, and why not, if the operator said so.
   * @param {string} query
   * @param {Listener} listener
   * @param {AbortSignal} stop
   */
  async #streamOnce(query, listener, stop) {
    const broken = new AbortController();
    let silence = 0;
    let got = false;
    let reason = '';
    const alive = () => {
      clearTimeout(silence);
      silence = window.setTimeout(() => broken.abort(), SILENCE);
    };
    const messages = new Messages((event, data) => {
      if (!got) listener.connection('live');
      got = true;
      if (event === 'overview') listener.overview(withLists(JSON.parse(data)));
      else if (event === 'events') listener.events(withLists(JSON.parse(data)));
    });
    try {
      const signal = AbortSignal.any([stop, broken.signal]);
      const response = await this.#fetch(`api/stream${query}`, { signal, headers: { Accept: 'text/event-stream' } });
      alive();
      await read(response, (chunk) => {
        alive();
        if (!stop.aborted) messages.push(chunk);
      });
    } catch (err) {
      // However it ended, it is opened again.
      if (err instanceof Refused) reason = err.message;
    } finally {
      clearTimeout(silence);
    }
    return { got, reason };
  }

  /** @param {number} ms @returns {Promise<void>} */
  #sleep(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** @param {Response} response @param {(chunk: string) => void} take */
async function read(response, take) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    take(value);
  }
}

/** The fields that are lists, and are null where Go has an empty one. */
const lists = [
  'informers',
  'controllers',
  'handlers',
  'events',
  'objects',
  'passed',
  'deltas',
  'indexers',
  'groups',
  'waiting',
  'processing',
  'timers',
];
/** Those of them whose elements have lists. */
const nested = ['informers', 'objects', 'groups'];

/** Makes empty lists of those that are null. @param {any} answer */
function withLists(answer) {
  for (const name of lists) {
    if (answer[name] === null) answer[name] = [];
    if (nested.includes(name) && Array.isArray(answer[name])) answer[name].forEach(withLists);
  }
  return answer;
}

/** @param {Response} response */
async function problem(response) {
  try {
    const body = await response.json();
    if (typeof body.error === 'string') return body.error;
  } catch {
    // The answer is not the operator's own: a proxy's, perhaps.
  }
  return `The answer was ${response.status} ${response.statusText}.`;
}

/**
 * What the operator is asked to leave out. A controller's changes come from informers, which it
 * takes for other sources, and names it compares as a whole: these two are left to the page.
 * @param {Filter} filter
 */
function streamQuery({ kind, namespace }) {
  const set = Object.entries({ kind, namespace }).filter(([, value]) => value);
  return set.length ? `?${new URLSearchParams(set)}` : '';
}
