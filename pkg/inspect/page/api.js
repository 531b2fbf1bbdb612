/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Requests to the operator, and the stream, which is reopened after its end.

import { Messages } from './sse.js';

/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').Events} Events */
/** @typedef {import('./types.js').Filter} Filter */

/** A stream without data for this long counts as broken, in milliseconds: an overview is due twice a second. */
const SILENCE = 6000;
const SHORTEST_WAIT = 500;
const LONGEST_WAIT = 10000;

/** Refused is an answer with a status of 400 or more. Its message names the reason. */
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
 * @property {(state: 'connecting' | 'live' | 'lost', retryAt?: number, reason?: string) => void} connection
 */

export class API {
  /** The moment of a recording that requests are about; empty for a running operator. */
  at = '';
  /** The bearer token. It is in memory only. */
  #token = '';
  /** @type {Promise<string> | undefined} */
  #asking;
  #askToken;
  /** @type {AbortController | undefined} */
  #streaming;
  /** @type {(() => void) | undefined} */
  #wake;

  /** @param {(reason: string) => Promise<string>} askToken is called when the operator requires a token */
  constructor(askToken) {
    this.#askToken = askToken;
  }

  /** @template T @param {string} what @param {Record<string, string>} [query] @param {AbortSignal} [signal] @returns {Promise<T>} */
  async get(what, query = {}, signal) {
    const response = await this.#fetch(`api/${what}?${new URLSearchParams(this.#dated(query))}`, { signal });
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
   * Opens the stream of the events that pass filter. It replaces the open stream.
   * @param {Filter} filter
   * @param {Listener} listener
   */
  stream(filter, listener) {
    this.stop();
    this.#streaming = new AbortController();
    this.#keepStreaming(filter, listener, this.#streaming.signal);
  }

  /** Ends the stream. */
  stop() {
    this.#streaming?.abort();
  }

  /** @param {Record<string, string>} query */
  #dated(query) {
    return this.at ? { ...query, at: this.at } : query;
  }

  /** Retries the stream now, if it waits for its next attempt. */
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
      // 403: the user of this token has no access. Another token may have.
      const asks = response.status === 401 || (response.status === 403 && token && init.method !== 'POST');
      if (!asks) throw refused;
      if (this.#token === token) await this.#newToken(token ? refused.message : '');
    }
  }

  /** Requests that fail at the same time ask for one token. @param {string} reason */
  async #newToken(reason) {
    this.#asking ??= this.#askToken(reason);
    try {
      this.#token = await this.#asking;
    } finally {
      this.#asking = undefined;
    }
  }

  /** @param {Filter} filter @param {Listener} listener @param {AbortSignal} stop */
  async #keepStreaming(filter, listener, stop) {
    let failures = 0;
    while (!stop.aborted) {
      listener.connection('connecting');
      const { got, reason } = await this.#streamOnce(this.#dated(streamQuery(filter)), listener, stop);
      if (stop.aborted) return;
      failures = got ? 0 : failures + 1;
      const wait = Math.min(LONGEST_WAIT, SHORTEST_WAIT * 2 ** failures) * (0.8 + 0.4 * Math.random());
      listener.connection('lost', Date.now() + wait, reason);
      await this.#sleep(wait);
    }
  }

  /**
   * Reads one stream to its end. It returns whether it received data, and the operator's reason for a refusal.
   * @param {Record<string, string>} query
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
      const response = await this.#fetch(`api/stream?${new URLSearchParams(query)}`, { signal, headers: { Accept: 'text/event-stream' } });
      alive();
      await read(response, (chunk) => {
        alive();
        if (!stop.aborted) messages.push(chunk);
      });
    } catch (err) {
      // The stream is reopened after every end.
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

/** The fields that are lists. They are null if the slice in Go is nil. */
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
/** Lists whose elements have lists. */
const nested = ['informers', 'objects', 'groups'];

/** Replaces null by empty lists. @param {any} answer */
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
    // The answer is not from the operator, but from a proxy perhaps.
  }
  return `The answer was ${response.status} ${response.statusText}.`;
}

/**
 * The part of the filter that the operator applies. It cannot narrow by controller, since changes have informers as
 * sources, and it compares whole names. The page itself filters by these two.
 * @param {Filter} filter
 * @returns {Record<string, string>}
 */
function streamQuery({ kind, namespace }) {
  return Object.fromEntries(Object.entries({ kind, namespace }).filter(([, value]) => value));
}
