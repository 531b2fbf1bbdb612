/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The names of the gears, and the one idea of each. On the page a gear is called a station.

/**
 * @typedef {object} Gear
 * @property {string} name the name in addresses and in data-gear
 * @property {string} title
 * @property {string} idea the purpose of this gear, in a sentence or two
 * @property {string} more further facts, for the panel
 * @property {'informer' | 'controller'} of
 */

/** In the order in which an object passes them. @type {Gear[]} */
export const gears = [
  {
    name: 'wire',
    title: 'Wire',
    of: 'informer',
    idea: 'One LIST, then one open WATCH. No polling.',
    more:
      'The reflector keeps the last resourceVersion that it has read. If the watch breaks, the next one continues from there. ' +
      'If that resourceVersion is too old (410 Gone), the reflector relists.',
  },
  {
    name: 'queue',
    title: 'Delta queue',
    of: 'informer',
    idea: 'Changes wait here, in order, until they are applied.',
    more:
      'A DeltaFIFO keeps a list of deltas for each object. A change of a waiting object is appended to its list, and one Pop takes ' +
      'the whole list. A RealFIFO keeps every delta in the order of its arrival.',
  },
  {
    name: 'index',
    title: 'Index',
    of: 'informer',
    idea: 'A local copy of every object. Reads cost the API server nothing.',
    more:
      'Listers read the index. It is updated before any handler is notified. So a handler finds the state of its notification in the ' +
      'index, or a newer one, and never an older one.',
  },
  {
    name: 'handlers',
    title: 'Handlers',
    of: 'informer',
    idea: 'They turn a change into the key of the object to sync.',
    more:
      'A handler does no work. It finds the key of the object to sync, often the owner of the changed object, and adds it to a ' +
      'workqueue. Each handler has its own backlog, so a slow handler delays no other.',
  },
  {
    name: 'workqueue',
    title: 'Workqueue',
    of: 'controller',
    idea: 'Keys, not events. Ten changes of one object are one sync.',
    more:
      'A key is in the workqueue at most once, and at most one worker has it. A key that is added while its sync runs is marked ' +
      'dirty, and requeued when the sync ends. A failed sync is retried after a backoff, which doubles each time.',
  },
  {
    name: 'sync',
    title: 'Sync',
    of: 'controller',
    idea: 'It compares observed and desired, and writes the difference.',
    more:
      'A sync is level driven: it reads the present state from the index, and not the change that caused it. Its writes return over ' +
      'the wire as changes, and cause one more sync, which finds no difference.',
  },
];

/** @param {string} name */
export function gearNamed(name) {
  return gears.find((gear) => gear.name === name);
}

/** The gear that shows the events of a stage. @type {Record<string, string>} */
export const gearOfStage = {
  wire: 'wire',
  queue: 'queue',
  index: 'index',
  dispatch: 'handlers',
  enqueue: 'workqueue',
  sync: 'sync',
  write: 'sync',
  done: 'sync',
};
