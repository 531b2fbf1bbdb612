/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The data of the page, without its presentation. The functions are pure.

import { gearOfStage } from './gears.js';
import { keyOf } from './format.js';

/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').Informer} Informer */
/** @typedef {import('./types.js').Controller} Controller */
/** @typedef {import('./types.js').Event} Event */
/** @typedef {import('./types.js').Filter} Filter */
/** @typedef {import('./types.js').ObjectName} ObjectName */

/** A section of the picture: a controller and its informers; or the informers that fill no workqueue. */
/** @typedef {{ id: string, controller?: Controller, informers: Informer[] }} Section */

/** @returns {Filter} */
export function noFilter() {
  return { controller: '', kind: '', namespace: '', name: '' };
}

/** @param {Overview} overview @param {Filter} filter @returns {Section[]} */
export function sections(overview, filter) {
  /** @type {Section[]} */
  const found = [];
  for (const controller of overview.controllers) {
    if (filter.controller && controller.id !== filter.controller) continue;
    if (!inNamespace(controller, filter)) continue;
    const informers = overview.informers.filter((i) => feeds(i, controller) && shows(i, filter));
    // The informer of the synced objects is first, before those of their children.
    informers.sort((a, b) => Number(b.kind === controller.kind) - Number(a.kind === controller.kind));
    if (informers.length || !filter.kind) found.push({ id: controller.id, controller, informers });
  }
  const others = overview.informers.filter((i) => !i.handlers.some((h) => h.controller) && shows(i, filter) && inNamespace(i, filter));
  if (others.length && !filter.controller) found.push({ id: '', informers: others });
  return found;
}

/** @param {Informer} informer @param {Controller} controller */
function feeds(informer, controller) {
  return informer.handlers.some((h) => h.controller === controller.id);
}

/** @param {Informer} informer @param {Filter} filter */
function shows(informer, filter) {
  return !filter.kind || informer.kind === filter.kind;
}

/** @param {{ namespace?: string }} gear @param {Filter} filter */
function inNamespace(gear, filter) {
  return !filter.namespace || !gear.namespace || gear.namespace === filter.namespace;
}

/** Sections with the same shape differ in their numbers only. @param {Section[]} found */
export function shape(found) {
  return found.map((s) => `${s.id}:${s.informers.map((i) => i.id).join(',')}`).join(';');
}

/**
 * Reports whether the picture shows event. The operator narrows the stream by kind and namespace, but older events may be in
 * the buffer.
 * @param {Event} event
 * @param {Filter} filter
 */
export function matches(event, filter) {
  if (filter.controller && event.for && event.source !== filter.controller) return false;
  return concerns(event, filter) || (event.for !== undefined && concerns(event.for, filter));
}

/** @param {ObjectName} object @param {Filter} filter */
function concerns(object, filter) {
  if (filter.kind && object.kind !== filter.kind) return false;
  if (filter.namespace && object.namespace !== filter.namespace) return false;
  return !filter.name || object.name.includes(filter.name);
}

/** @param {Filter} filter */
export function filtersSet(filter) {
  return Object.values(filter).filter(Boolean).length;
}

/** The number of newest events that the panel of a gear shows. */
const RECENT = 40;

/** Recent keeps the newest events of each gear. */
export class Recent {
  /** @type {Map<string, Event[]>} */
  #byGear = new Map();

  /** @param {Event} event */
  add(event) {
    const key = `${gearOfStage[event.stage]} ${event.source}`;
    let events = this.#byGear.get(key);
    if (!events) this.#byGear.set(key, (events = []));
    events.push(event);
    if (events.length > RECENT * 2) events.splice(0, RECENT);
  }

  /** Newest first. @param {string} gear @param {string} id @returns {Event[]} */
  of(gear, id) {
    return (this.#byGear.get(`${gear} ${id}`) ?? []).slice(-RECENT).reverse();
  }

  clear() {
    this.#byGear.clear();
  }
}

/** Reports whether event is part of the life of object. @param {Event} event @param {ObjectName} object */
export function isAbout(event, object) {
  const key = keyOf(object);
  return keyOf(event) === key || (event.for !== undefined && keyOf(event.for) === key);
}
