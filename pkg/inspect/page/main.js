/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The page: it connects the parts.
//
// Tests and other programs may rely on:
//
//   [data-section=ID]              a controller's section of the picture; in it, .zoom is a link: the
//                                  picture of this controller alone, or of all
//   [data-gear=G][data-id=ID]      a gear, a <button>: G is wire, queue, index or handlers and ID an
//                                  informer's, or G is workqueue or sync and ID a controller's;
//                                  data-state is held, failing, waiting, retrying, busy, or absent;
//                                  .gear-value, .gear-unit and .gear-extra are its texts
//   .dot                           a moving change, key or write, an <a>; its type is dot-added,
//                                  dot-updated, dot-deleted, dot-resync, dot-key, dot-write or dot-failed
//   #panel, #panel-close           the panel beside the picture, hidden if it is closed
//   #panel [data-action=A]         in a gear's panel: hold, release, drop, expire, delay; .hold-state
//   #life                          in it, the life of an object: .pass.pass-change, .pass-sync (with .why
//                                  and .outcome; .pass-failed), .pass-written, and in these li[data-seq]
//                                  [data-stage]; .current is the event in the address
//   #search, #search-results       the search box, and a li[role=option] for each result
//   #pause, #speed, #live          #pause has aria-pressed; the values of #speed are 1, 0.25, 0.0625
//   #behind                        the delay of the picture
//   #recording, #moment            the slider of a recording, and its <input>; hidden for a running operator
//   #filter, #filter-toggle        a form: controller, kind, namespace, name; #filter-clear
//   #ideas, #ideas-read            show and hide the hints: body.with-ideas
//   #offer, #offer-command         a command that makes a dot move; #offer-copy copies it
//   #theme                         auto, light, dark: html[data-theme]
//   #notice                        reports that not all changes are shown; hidden if all are
//   #connection                    data-state is connecting, live or lost
//   #auth, #token, #auth-submit    the dialog that asks for a bearer token
//   #keys, #help                   the dialog with the keys
//   body.paused                    while it is paused
//
// Addresses: see address.js.

import * as address from './address.js';
import { API } from './api.js';
import { askToken, Controls } from './controls.js';
import { byID, setText } from './dom.js';
import * as format from './format.js';
import { Motion } from './motion.js';
import { Offer } from './offer.js';
import { Panel } from './panel.js';
import { Picture } from './picture.js';
import { Playback } from './playback.js';
import { Search } from './search.js';
import { matches, noFilter, Recent, sections, shape } from './state.js';
import { Timeline } from './timeline.js';

/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').Events} Events */
/** @typedef {import('./types.js').Event} Event */
/** @typedef {import('./types.js').Filter} Filter */
/** @typedef {import('./types.js').ObjectName} ObjectName */

/** The number of events that are kept for slow motion and pauses. */
const BUFFER = 20000;
/** How long the notice of omitted events stays, in milliseconds. */
const NOTICE = 5000;

/** A time after which nothing of the picture moves any more, in milliseconds. */
const LONG_AGO = 60000;

class Page {
  #api = new API(askToken);
  #picture = new Picture(byID('picture'), byID('stations'));
  #motion = new Motion();
  #playback = new Playback(BUFFER);
  #recent = new Recent();
  #filter = noFilter();
  /** The newest overview, and the one that the picture shows. @type {Overview | undefined} */
  #newest;
  /** @type {Overview | undefined} */
  #shown;
  /** The shape of the sections that are built; undefined before the first. @type {string | undefined} */
  #shape;
  /** The operator's clock minus the browser's, in milliseconds. */
  #skew = 0;
  #frame = 0;
  #slowly = 0;
  #missed = { count: 0, until: 0 };
  #retryAt = 0;
  /** Why there is no stream, in the operator's words. */
  #refusal = '';
  #address = address.parse(location.hash);
  #panel;
  #controls;
  #offer;
  #timeline = new Timeline((at) => this.#seek(at));

  constructor() {
    this.#panel = new Panel(
      this.#api,
      {
        get: (what, query) => this.#api.get(what, query),
        hold: async (request) => this.#overview(await this.#api.post('hold', request)),
        recent: (gear, id) => this.#recent.of(gear, id),
        now: () => (this.#stands ? Date.parse(this.#api.at) : Date.now() + this.#skew),
      },
      (object) => this.#follow(object),
    );
    this.#controls = new Controls({
      pause: (paused) => this.#pause(paused),
      speed: (speed) => {
        this.#playback.speed = speed;
      },
      live: () => this.#skip(),
      filter: (filter) => this.#narrow(filter),
      close: () => this.#close(),
    });
    new Search((text) => this.#api.get('find', { q: text }));
    this.#offer = new Offer((what, query) => this.#api.get(what, query));
  }

  start() {
    this.#respectMotion();
    new ResizeObserver(() => this.#measureBar()).observe(byID('bar'));
    addEventListener('hashchange', () => this.#go());
    byID('panel-close').addEventListener('click', () => this.#close());
    byID('connection').addEventListener('click', () => this.#api.hurry());
    document.addEventListener('visibilitychange', () => this.#wake());
    addEventListener('online', () => this.#api.hurry());
    this.#go();
    const at = address.momentOf(location.search);
    if (at) this.#open(at);
    else this.#stream();
    requestAnimationFrame((now) => this.#tick(now));
  }

  /** The headings stick below the bar. The bar is higher if it wraps. */
  #measureBar() {
    document.documentElement.style.setProperty('--bar', `${byID('bar').offsetHeight}px`);
  }

  #respectMotion() {
    const query = matchMedia('(prefers-reduced-motion: reduce)');
    const apply = () => {
      this.#motion.still = query.matches;
      this.#picture.still = query.matches;
    };
    query.addEventListener('change', apply);
    apply();
  }

  #stream() {
    this.#api.stream(this.#filter, {
      overview: (overview) => this.#overview(overview),
      events: (events) => this.#events(events),
      connection: (state, retryAt, reason) => this.#connection(state, retryAt, reason),
    });
  }

  /** @param {Overview} overview */
  #overview(overview) {
    const first = !this.#newest;
    if (this.#newest && this.#newest.instance !== overview.instance) this.#forget();
    this.#skew = Date.parse(overview.time) - Date.now();
    this.#newest = overview;
    this.#reach(overview.time);
    this.#timeline.show(overview);
    this.#playback.push({ time: Date.parse(overview.time), overview });
    this.#controls.offer(overview);
    if (first) this.#choose();
    this.#panel.update(overview);
  }

  /** Whether the time of a recording stands still. */
  get #stands() {
    return this.#playback.paused && this.#newest?.recording !== undefined;
  }

  /** Lets requests be about the newest moment of a recording that the page knows. @param {string} time */
  #reach(time) {
    if (this.#newest?.recording && !(Date.parse(time) < Date.parse(this.#api.at))) this.#api.at = time;
  }

  /** Goes to another moment of the recording. @param {string} at */
  async #seek(at) {
    this.#api.at = at;
    this.#forget();
    this.#playback.rewind();
    this.#picture.draw(this.#motion, LONG_AGO); // No dot and no write of the other moment stays.
    this.#panel.refresh();
    if (this.#stands) await this.#still(at);
    else this.#stream();
  }

  /** Opens a recording at a moment. The time stands there. @param {string} at */
  async #open(at) {
    this.#api.at = at;
    this.#controls.pause();
    try {
      await this.#still(at);
      this.#connection('live');
    } catch {
      this.#stream(); // The notice then has the reason: the time is wrong, or the operator runs.
    }
  }

  /** Shows a moment of the recording without a stream. @param {string} at */
  async #still(at) {
    const overview = await this.#api.get('overview');
    if (this.#api.at !== at) return;
    this.#overview(overview);
    this.#shown = overview;
  }

  /** While the time of a recording stands, the address has the moment: so it can be shared. */
  #showMoment() {
    if (!this.#newest?.recording) return;
    const search = this.#stands ? address.searchOf(this.#api.at) : '';
    if (search !== location.search) history.replaceState(null, '', location.pathname + search + location.hash);
  }

  /** Discards all events: those of another operator have other numbers. */
  #forget() {
    this.#motion.clear();
    this.#recent.clear();
    this.#playback.clear();
  }

  /** @param {Events} batch */
  #events(batch) {
    if (batch.missed) this.#missed = { count: this.#missed.count + batch.missed, until: Date.now() + NOTICE };
    for (const event of batch.events) {
      this.#playback.push({ time: Date.parse(event.time), event });
      this.#recent.add(event);
      this.#panel.notice(event);
      this.#reach(event.time);
    }
  }

  /** @param {'connecting' | 'live' | 'lost'} state @param {number} [retryAt] @param {string} [reason] */
  #connection(state, retryAt = 0, reason = '') {
    const before = byID('connection').dataset.state;
    byID('connection').dataset.state = state;
    byID('connection').tabIndex = state === 'lost' ? 0 : -1;
    this.#retryAt = retryAt;
    if (state !== 'connecting') this.#refusal = reason;
    document.body.classList.toggle('stale', state === 'lost' || (state === 'connecting' && before === 'lost'));
    if (state === 'live' && before !== 'live') say('Connected.');
    if (state === 'lost' && before === 'live') say('The connection is lost. Trying again.');
    this.#showConnection();
  }

  #showConnection() {
    const node = byID('connection');
    const wait = Math.max(0, Math.ceil((this.#retryAt - Date.now()) / 1000));
    const texts = /** @type {Record<string, string>} */ ({
      live: this.#newest?.recording ? 'Recording' : 'Live',
      connecting: 'Connecting …',
      lost: `Connection lost. Next try in ${wait} s`,
    });
    setText(node, texts[node.dataset.state ?? ''] ?? '');
  }

  /** Draws one frame: all motion of the page is here. @param {number} now */
  #tick(now) {
    const elapsed = Math.min(100, now - (this.#frame || now));
    this.#frame = now;
    this.#playback.advance(elapsed, (item) => {
      if (item.overview) this.#shown = item.overview;
      if (item.event && matches(item.event, this.#filter)) this.#show(item.event);
    });
    this.#showOverview();
    if (!this.#playback.paused) {
      this.#motion.step(elapsed, this.#playback.speed ** 0.6);
      this.#picture.draw(this.#motion, elapsed);
    } else if (this.#picture.moved) {
      this.#picture.draw(this.#motion, 0);
    }
    this.#panel.tick(now);
    if (now - this.#slowly > 250) {
      this.#slowly = now;
      this.#slow();
    }
    requestAnimationFrame((next) => this.#tick(next));
  }

  /** @param {Event} event */
  #show(event) {
    this.#motion.take(event);
    this.#picture.hit(event);
  }

  #showOverview() {
    const overview = this.#shown;
    if (!overview) return;
    this.#shown = undefined;
    const found = sections(overview, this.#filter);
    const now = `${this.#filter.controller};${shape(found)}`;
    if (now !== this.#shape) {
      this.#shape = now;
      this.#motion.arrange(found);
      this.#picture.build(found, this.#filter.controller);
      this.#select();
    }
    this.#picture.update(overview);
    this.#motion.agree(overview);
    setText(byID('instance'), `${overview.instance}, ${overview.version}`);
  }

  /** Updates the texts, four times a second. */
  #slow() {
    this.#showConnection();
    const { behind, lost, paused } = this.#playback;
    const parts = [];
    if (behind >= 1000) parts.push(`${format.duration(Math.round(behind / 100) / 10)} behind`);
    if (lost) parts.push('older events were dropped');
    const runs = this.#newest !== undefined && !this.#newest.recording;
    this.#controls.showBehind(runs ? Math.max(behind, paused ? 1500 : 0) : 0, parts.join(', '));
    this.#showNotice();
    if (!this.#newest) return;
    this.#panel.update(this.#newest);
    this.#showMoment();
    const open = this.#address.view === 'object' ? this.#address.object : undefined;
    if (!this.#newest.recording) this.#offer.update(sections(this.#newest, this.#filter), open, performance.now());
  }

  #showNotice() {
    const texts = this.#refusal ? [`The operator refused the request: ${this.#refusal}`] : [];
    const oneIn = this.#newest?.oneIn ?? 1;
    if (oneIn > 1)
      texts.push(`1 in ${format.count(oneIn)} changes is shown: recording all would cost too much now. The counts include all changes.`);
    if (this.#missed.until > Date.now()) texts.push(`${format.plural(this.#missed.count, 'event')} omitted: there were too many to send.`);
    else this.#missed.count = 0;
    const { dropped = 0, droppedStages = 0, damaged = [] } = this.#newest?.recording ?? {};
    texts.push(...damaged.map((text) => `${text}.`));
    if (dropped + droppedStages) texts.push(`${format.plural(dropped + droppedStages, 'event')} not recorded: the disk was too slow.`);
    if (this.#motion.refused) texts.push('Not all moving objects are drawn: there are too many.');
    this.#motion.refused = 0;
    const node = byID('notice');
    setText(node, texts.join(' '));
    node.hidden = !texts.length;
  }

  /** @param {boolean} paused */
  #pause(paused) {
    this.#playback.paused = paused;
    if (this.#newest?.recording) {
      if (paused) this.#api.stop();
      else this.#stream();
    }
    say(paused ? 'Paused.' : 'Resumed.');
  }

  /** Skips to the newest overview. */
  #skip() {
    const last = this.#playback.skip();
    this.#motion.clear();
    if (last?.overview) this.#shown = last.overview;
  }

  /** @param {Filter} filter */
  #narrow(filter) {
    const before = this.#filter;
    if (JSON.stringify(filter) === JSON.stringify(before)) return;
    this.#filter = filter;
    this.#motion.clear();
    this.#shown = this.#newest;
    if (this.#address.view === 'picture') history.replaceState(null, '', address.ofPicture(filter.controller));
    if (filter.kind === before.kind && filter.namespace === before.namespace) return;
    if (this.#stands) this.#still(this.#api.at).catch(() => this.#stream());
    else this.#stream();
  }

  /** Narrows the picture to one object. @param {ObjectName} object */
  #follow(object) {
    this.#controls.setFilter({ ...this.#filter, kind: '', namespace: object.namespace ?? '', name: object.name });
  }

  /** A hidden page draws no frames. When it is visible again, it skips the events of that time. */
  #wake() {
    if (document.hidden) return;
    this.#api.hurry();
    if (!this.#playback.paused && this.#playback.speed === 1) this.#skip();
  }

  #go() {
    this.#address = address.parse(location.hash);
    this.#choose();
    this.#panel.show(this.#address, this.#newest);
    this.#select();
  }

  /** Shows the controller of the address alone, once its name is among the choices of the filter. */
  #choose() {
    if (this.#address.view !== 'picture' || !this.#newest) return;
    this.#controls.setFilter({ ...this.#filter, controller: this.#address.controller });
  }

  #select() {
    const { gear, id } = this.#address.view === 'gear' ? this.#address : { gear: '', id: '' };
    this.#picture.select(gear, id, this.#address.view === 'object' ? format.keyOf(this.#address.object) : '');
  }

  /** Closes the panel. The focus returns to its gear. */
  #close() {
    if (!this.#panel.isOpen) return;
    const from = this.#address;
    location.hash = address.ofPicture(this.#filter.controller);
    if (from.view === 'gear') this.#picture.focus(from.gear, from.id);
    else byID('picture').focus({ preventScroll: true });
  }
}

/** Announces text to screen readers. @param {string} text */
function say(text) {
  setText(byID('status'), text);
}

new Page().start();
