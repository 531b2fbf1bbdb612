/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The types of the API, as types.go declares them. This module has no code.

/** @typedef {{ kind: string, namespace?: string, name: string }} ObjectName */
/** @typedef {{ since: string, until: string, delay?: number, kept: number }} Hold */
/** @typedef {{ controller?: string, name: string, pending: number, synced: boolean }} Handler */
/**
 * @typedef {object} Informer
 * @property {string} id
 * @property {string} resource
 * @property {string} kind
 * @property {string} [namespace]
 * @property {string} queue
 * @property {boolean} watching
 * @property {boolean} synced
 * @property {string} [failing]
 * @property {string} [error]
 * @property {number} failures
 * @property {string} resourceVersion
 * @property {number} arrived
 * @property {number} queued
 * @property {number} applied
 * @property {number} objects
 * @property {number} lag
 * @property {Handler[]} handlers
 * @property {Hold} [wireHeld]
 * @property {Hold} [queueHeld]
 */
/**
 * @typedef {object} Controller
 * @property {string} id
 * @property {string} name
 * @property {string} kind
 * @property {string} [namespace]
 * @property {number} workers
 * @property {number} added
 * @property {number} syncs
 * @property {number} failed
 * @property {number} panics
 * @property {number} waiting
 * @property {number} processing
 * @property {number} timers
 * @property {number} retrying
 * @property {Hold} [syncHeld]
 */
/**
 * @typedef {object} Overview
 * @property {string} version
 * @property {string} instance
 * @property {string} time
 * @property {string} started
 * @property {number} oneIn
 * @property {boolean} breakpoints
 * @property {{ from: string, to: string, dropped: number, droppedStages: number, damaged?: string[] }} [recording] only if the operator does not run
 * @property {Informer[]} informers
 * @property {Controller[]} controllers
 */
/** @typedef {{ path: string, old?: string, new?: string }} Change */
/**
 * @typedef {object} CauseOnly
 * @property {string} time
 * @property {string} verb
 * @property {string} [resourceVersion]
 * @property {string[]} [fields]
 * @property {string} line
 */
/** @typedef {ObjectName & CauseOnly} Cause */
/**
 * @typedef {object} EventOnly
 * @property {number} seq
 * @property {string} time
 * @property {string} stage
 * @property {string} source
 * @property {ObjectName} [for]
 * @property {string} [resourceVersion]
 * @property {string} [verb]
 * @property {boolean} [missed]
 * @property {Change[]} [changes]
 * @property {{ manager: string, time: string }} [writer]
 * @property {Cause[]} [causes]
 * @property {number} [moreCauses]
 * @property {number} [duration]
 * @property {number} [after]
 * @property {string} [error]
 * @property {number} [repeats]
 * @property {string} line
 */
/** @typedef {ObjectName & EventOnly} Event */
/** @typedef {{ events: Event[], missed?: number }} Events */
/** @typedef {{ verb: string, resourceVersion: string, since: string }} Delta */
/** @typedef {ObjectName & { deltas: Delta[] }} Deltas */
/** @typedef {{ held?: Hold, queued: number, objects: Deltas[], more?: number, passed: Event[] }} Queue */
/** @typedef {ObjectName & { resourceVersion: string, created: string }} Indexed */
/** @typedef {{ value: string, objects: Indexed[], more?: number }} Group */
/** @typedef {{ objects: number, indexers: string[], by: string, groups: Group[], more?: number }} Index */
/** @typedef {ObjectName & { since: string, causes?: Cause[], moreCauses?: number, again?: boolean }} Entry */
/** @typedef {ObjectName & { at: string, retries?: number }} Timer */
/** @typedef {{ waiting: Entry[], processing: Entry[], timers: Timer[], more?: number }} Workqueue */
/** @typedef {ObjectName & { resource: string, exists: boolean, events: Event[], forgotten?: boolean, gaps?: boolean }} Life */
/** @typedef {{ gear: string, id: string, action: string, delay?: number }} HoldRequest */
/** @typedef {{ objects: ObjectName[], more?: number }} Found */
/** @typedef {{ controller: string, kind: string, namespace: string, name: string }} Filter */

export {};
