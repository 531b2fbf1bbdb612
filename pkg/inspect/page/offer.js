/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The offer: a command that makes a dot move. It changes an annotation of an object, or creates the first one.

import * as address from './address.js';
import { byID, el, setText } from './dom.js';
import * as format from './format.js';

/** @typedef {import('./types.js').Informer} Informer */
/** @typedef {import('./types.js').ObjectName} ObjectName */
/** @typedef {import('./state.js').Section} Section */

/** The shortest time between two requests, in milliseconds. */
const REFRESH = 2000;
/** How long the button says that it has copied, in milliseconds. */
const COPIED = 2000;

/** The first example of each kind, in artifacts/examples. @type {Record<string, string>} */
const examples = {
  ApiExampleA: 'apiexamplea.yaml',
  Application: 'application.yaml',
  ECSInstance: 'ecsinstance.yaml',
  MyCronJob: 'mycronjob.yaml',
  RedisCluster: 'rediscluster.yaml',
};

export class Offer {
  #root = byID('offer');
  #text = byID('offer-text');
  #command = byID('offer-command');
  #copy = byID('offer-copy');
  #get;
  #asked = -REFRESH;
  /** What the offer depends on, as of the last request. */
  #seen = '';

  /** @param {<T>(what: string, query: Record<string, string>) => Promise<T>} get */
  constructor(get) {
    this.#get = get;
    this.#copy.addEventListener('click', () => this.#copyCommand());
  }

  /**
   * Offers to change the object whose life is open, if a controller syncs its kind; else the first object of a section.
   * @param {Section[]} sections
   * @param {ObjectName | undefined} open
   * @param {number} now
   */
  async update(sections, open, now) {
    const synced = sections.flatMap(({ controller, informers }) => informers.filter((i) => i.kind === controller?.kind));
    const informer = synced.find((i) => i.kind === open?.kind) ?? synced.find((i) => i.objects > 0) ?? synced[0];
    const chosen = informer?.kind === open?.kind ? open : undefined;
    const seen = informer ? `${informer.id} ${informer.objects} ${chosen && format.keyOf(chosen)}` : '';
    if (seen === this.#seen || now - this.#asked < REFRESH) return;
    [this.#seen, this.#asked] = [seen, now];
    const object = chosen ?? (informer?.objects && (await this.#first(informer)));
    if (seen === this.#seen) this.#show(informer, object || undefined);
  }

  /** @param {Informer} informer @returns {Promise<ObjectName | undefined>} */
  async #first(informer) {
    try {
      /** @type {import('./types.js').Index} */
      const { groups } = await this.#get('index', { informer: informer.id, by: '' });
      return groups[0]?.objects[0];
    } catch {
      this.#seen = ''; // The next update asks again.
      return undefined;
    }
  }

  /** @param {Informer | undefined} informer @param {ObjectName | undefined} object */
  #show(informer, object) {
    const example = examples[informer?.kind ?? ''];
    this.#root.hidden = !informer || !(object || (!informer.objects && example));
    if (this.#root.hidden || !informer) return;
    if (object) this.#text.replaceChildren('To see a dot move, change ', el('a', { href: address.ofObject(object) }, object.name), ':');
    else setText(this.#text, `To see a dot move, create the first ${informer.kind}:`);
    setText(this.#command, object ? annotate(informer.resource, object) : `kubectl apply -f artifacts/examples/${example}`);
  }

  async #copyCommand() {
    let result = 'Copied';
    try {
      await navigator.clipboard.writeText(this.#command.textContent ?? '');
    } catch {
      // Without access to the clipboard, the reader copies the selection.
      getSelection()?.selectAllChildren(this.#command);
      result = 'Selected';
    }
    setText(this.#copy, result);
    setText(byID('status'), `${result}.`);
    setTimeout(() => setText(this.#copy, 'Copy'), COPIED);
  }
}

/** @param {string} resource @param {ObjectName} object */
function annotate(resource, { namespace, name }) {
  return `kubectl annotate --overwrite ${namespace ? `-n ${namespace} ` : ''}${resource} ${name} touched=$(date +%s)`;
}
