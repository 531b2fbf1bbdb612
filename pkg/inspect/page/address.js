/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Addresses are URL fragments. They can be shared and reloaded, and the browser's Back button works.
//
//   ?at=2026-11-25T08:09:00Z#/...          with any of them: a recording at this moment, where its time stands
//   #/                                     the picture, of all controllers
//   #/controller/mycronjob                 the picture, of one controller
//   #/gear/queue/jobs.batch                the content of a gear
//   #/gear/index/jobs.batch?by=namespace   an index by one of its indexers
//   #/object/Job/default/x                 the life of an object ("-" for no namespace)
//   #/object/Job/default/x?seq=123         one event in it
//   #/object/Job/default/x?rv=4711         the change that led to this resourceVersion

/** @typedef {import('./types.js').ObjectName} ObjectName */
/**
 * @typedef {{ view: 'picture', controller: string }
 *   | { view: 'gear', gear: string, id: string, by: string }
 *   | { view: 'object', object: ObjectName, seq: number, rv: string }} Address
 */

/** @param {string} hash @returns {Address} */
export function parse(hash) {
  const [way, query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const parts = way.split('/').map(decode);
  const params = new URLSearchParams(query);
  if (parts[0] === 'gear' && parts.length === 3 && parts[1] && parts[2]) {
    return { view: 'gear', gear: parts[1], id: parts[2], by: params.get('by') ?? '' };
  }
  if (parts[0] === 'object' && parts.length === 4 && parts[1] && parts[3]) {
    const object = { kind: parts[1], namespace: parts[2] === '-' ? '' : parts[2], name: parts[3] };
    return { view: 'object', object, seq: Number(params.get('seq') ?? 0) || 0, rv: params.get('rv') ?? '' };
  }
  return { view: 'picture', controller: parts[0] === 'controller' && parts.length === 2 ? parts[1] : '' };
}

/** The moment of a recording in the query of an address; '' for none. @param {string} search */
export function momentOf(search) {
  return new URLSearchParams(search).get('at') ?? '';
}

/** @param {string} at a time without an offset, such as 2026-11-25T08:09:00Z */
export function searchOf(at) {
  return `?at=${at}`;
}

/** @param {string} s */
function decode(s) {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

/** @param {string} controller its ID; '' for all */
export function ofPicture(controller) {
  return controller ? `#/controller/${encodeURIComponent(controller)}` : '#/';
}

/** @param {string} gear @param {string} id @param {string} [by] */
export function ofGear(gear, id, by = '') {
  const query = by ? `?by=${encodeURIComponent(by)}` : '';
  return `#/gear/${gear}/${encodeURIComponent(id)}${query}`;
}

/** @param {ObjectName} o @param {{ seq?: number, rv?: string }} [at] */
export function ofObject(o, at = {}) {
  let query = '';
  if (at.seq) query = `?seq=${at.seq}`;
  else if (at.rv) query = `?rv=${encodeURIComponent(at.rv)}`;
  return `#/object/${encodeURIComponent(o.kind)}/${encodeURIComponent(o.namespace || '-')}/${encodeURIComponent(o.name)}${query}`;
}
