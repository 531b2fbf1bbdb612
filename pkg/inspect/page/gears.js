/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// What the gears are called, and the one idea of each.

/**
 * @typedef {object} Gear
 * @property {string} name as the address and data-gear have it
 * @property {string} title
 * @property {string} idea one sentence: what this gear is there for
 * @property {string} more what to know about it, for the panel
 * @property {'informer' | 'controller'} of
 */

/** In the order in which an object passes them. @type {Gear[]} */
export const gears = [
  {
    name: 'wire',
    title: 'Wire',
    of: 'informer',
    idea: 'One LIST, then one WATCH that stays open: no polling.',
    more:
      'The reflector remembers the last resourceVersion that it has read. When the watch breaks, the next one continues from there; ' +
      'if the API server no longer knows it (410 Gone), everything is listed again.',
  },
  {
    name: 'queue',
    title: 'Delta queue',
    of: 'informer',
    idea: 'What happened, in order, and not yet applied.',
    more:
      'A DeltaFIFO keeps a list of deltas for each object: what happens to an object while it waits joins its list, and one Pop takes ' +
      'all of it. A RealFIFO keeps every delta in the order of its arrival.',
  },
  {
    name: 'index',
    title: 'Index',
    of: 'informer',
    idea: 'A local copy of every object: listers read here, and cost the API server nothing.',
    more: 'The index is updated before any handler is notified. So a handler finds in it the state of its notification, or a newer one: never an older one.',
  },
  {
    name: 'handlers',
    title: 'Handlers',
    of: 'informer',
    idea: 'Turn a change into a key: whose sync does it concern?',
    more:
      'A handler does no work. It finds the key of the object that has to be synced, often the owner of the one that changed, and puts ' +
      'it into a workqueue. Each handler has a backlog of its own, so a slow one delays no other.',
  },
  {
    name: 'workqueue',
    title: 'Workqueue',
    of: 'controller',
    idea: 'Keys, not events: ten changes of one object are one sync.',
    more:
      'A key is in it at most once, and never with two workers at a time. A key that is added while its sync runs is marked dirty, and ' +
      'queued again when the sync ends. A sync that fails comes back after a backoff, which doubles each time.',
  },
  {
    name: 'sync',
    title: 'Sync',
    of: 'controller',
    idea: 'Compares what is with what should be, writes the difference, and forgets why it ran.',
    more:
      'A sync is level driven: it reads the present from the index, whatever the change was that led to it. What it writes comes back ' +
      'over the wire as a change like any other, and leads to one more sync, which finds nothing left to do.',
  },
];

/** @param {string} name */
export function gearNamed(name) {
  return gears.find((gear) => gear.name === name);
}

/** Which gear an event of a stage is shown at. @type {Record<string, string>} */
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
