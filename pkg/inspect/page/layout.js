/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The geometry of one section. A gear is a station above the track on which objects pass it.

/** @typedef {{ x: number, y: number, w: number, h: number }} Box */
/** @typedef {{ x: number, y: number }} Point */
/** @typedef {{ points: Point[], at: number[], length: number, stops: Record<string, number> }} Track */
/** @typedef {{ boxes: Record<string, Box>, label: Point, track: Track }} LaneLayout */
/**
 * @typedef {object} Layout
 * @property {boolean} stacked
 * @property {number} width
 * @property {number} height
 * @property {Box} server
 * @property {LaneLayout[]} lanes
 * @property {Record<string, Box>} boxes workqueue and sync
 * @property {Track} [track] from the workqueue through the sync back to the API server
 */

/** Narrower than this, workqueue and sync are below the lanes, not beside them. */
export const STACKED_BELOW = 820;
/** The height of a lane, unless there is room for more; at least, and at most. */
export const ROW = 70;
const ROWS = [64, 160];
/** The height of the way back, below the lanes. */
const BACK = 26;
/** Columns narrower than this, in pixels, give more of their width to kinds. */
const NARROW = 1000;
/** How far below a gear its track runs. */
export const TRACK = 7;
/** The distance of a stop from the right edge of its box. */
const STOP_INSET = 8;
const LANE_GEARS = ['wire', 'queue', 'index', 'handlers'];

/**
 * @param {number} width
 * @param {number} lanes
 * @param {boolean} controlled whether there are workqueue and sync
 * @param {number} row the height of a lane in the wide layout
 * @returns {Layout}
 */
export function layout(width, lanes, controlled, row) {
  return width < STACKED_BELOW ? stacked(width, lanes, controlled) : wide(width, lanes, controlled, row);
}

/** The height of a lane if all lanes fill the height of a section. @param {number} height @param {number} lanes */
export function rowThatFits(height, lanes) {
  return Math.max(ROWS[0], Math.min(ROWS[1], Math.floor((height - BACK) / Math.max(1, lanes))));
}

/**
 * The columns of the wide layout, which the headings share.
 * @param {number} width
 * @returns {{ server: Box, cells: Record<string, { x: number, w: number }> }}
 */
export function columns(width) {
  const server = { x: 0, y: 0, w: 30, h: 0 };
  const gaps = { wire: 28, queue: 26, index: 26, handlers: 26, workqueue: 66, sync: 34 };
  const weights = { wire: width < NARROW ? 1.8 : 1.45, queue: 1, index: 1, handlers: 1, workqueue: 1.55, sync: 1.5 };
  const right = 22;
  const gapSum = Object.values(gaps).reduce((a, b) => a + b, 0);
  const weightSum = Object.values(weights).reduce((a, b) => a + b, 0);
  const unit = (width - server.w - gapSum - right) / weightSum;
  let x = server.w;
  /** @type {Record<string, { x: number, w: number }>} */
  const cells = {};
  for (const gear of /** @type {(keyof typeof gaps)[]} */ (Object.keys(gaps))) {
    x += gaps[gear];
    cells[gear] = { x: Math.round(x), w: Math.round(unit * weights[gear]) };
    x += unit * weights[gear];
  }
  return { server, cells };
}

/**
 * Workqueue and sync are to the right of the lanes.
 * @param {number} width
 * @param {number} lanes
 * @param {boolean} controlled
 * @param {number} row
 * @returns {Layout}
 */
function wide(width, lanes, controlled, row) {
  const tall = Math.round((104 * row) / ROW);
  const { server, cells } = columns(width);
  const body = Math.max(lanes * row, controlled ? tall + 18 : row);
  const height = body + (controlled ? BACK : 6);
  const top = (body - tall) / 2 - 6;
  const boxes = controlled ? boxesOf({ workqueue: { ...cells.workqueue, y: top, h: tall }, sync: { ...cells.sync, y: top, h: tall } }) : {};
  const made = Array.from({ length: lanes }, (_, n) => wideLane(cells, server.w, (body - lanes * row) / 2 + n * row, row, boxes.workqueue));
  return {
    stacked: false,
    width,
    height,
    server: { ...server, h: height },
    lanes: made,
    boxes,
    track: controlled ? wideReturn(boxes, server.w, height - 9) : undefined,
  };
}

/**
 * @param {Record<string, { x: number, w: number }>} cells
 * @param {number} start
 * @param {number} y
 * @param {number} row
 * @param {Box | undefined} workqueue
 * @returns {LaneLayout}
 */
function wideLane(cells, start, y, row, workqueue) {
  const tile = Math.min(row - 26, 90);
  const boxes = boxesOf(Object.fromEntries(LANE_GEARS.map((gear) => [gear, { ...cells[gear], y, h: tile }])));
  const trackY = y + tile + TRACK;
  const end = { x: right(boxes.handlers) + 4, y: trackY };
  const points = [{ x: start, y: trackY }, end];
  if (workqueue) {
    const joinY = below(workqueue);
    points.push(...curve(end, { x: workqueue.x - 4, y: joinY }), { x: right(workqueue), y: joinY });
  }
  return { boxes, label: { x: cells.wire.x, y }, track: withStops(points, workqueue ? { ...boxes, workqueue } : boxes) };
}

/**
 * The track from the workqueue through the sync, down, and left to the API server.
 * @param {Record<string, Box>} boxes
 * @param {number} start
 * @param {number} back
 * @returns {Track}
 */
function wideReturn(boxes, start, back) {
  const y = below(boxes.workqueue);
  const turn = right(boxes.sync) + 14;
  const bend = Math.min(10, (back - y) / 2);
  const track = withStops(
    [
      { x: right(boxes.workqueue) - STOP_INSET, y },
      { x: turn - bend, y },
      ...arc({ x: turn - bend, y }, { x: turn, y }, { x: turn, y: y + bend }),
      ...arc({ x: turn, y: back - bend }, { x: turn, y: back }, { x: turn - bend, y: back }),
      { x: start + 2, y: back },
    ],
    { sync: boxes.sync },
  );
  Object.assign(track.stops, { workqueue: 0, server: track.length });
  return track;
}

/**
 * Workqueue and sync are below the lanes. The tracks run along the right edge.
 * @param {number} width
 * @param {number} lanes
 * @param {boolean} controlled
 * @returns {Layout}
 */
function stacked(width, lanes, controlled) {
  const row = 84;
  const tall = 100;
  const server = { x: 0, y: 0, w: 20, h: 0 };
  const left = server.w + 14;
  const edge = width - 7;
  const y = lanes * row + 4;
  const half = (edge - 12 - left - 24) / 2;
  const boxes = controlled
    ? boxesOf({ workqueue: { x: left + half + 24, y, w: half, h: tall }, sync: { x: left, y, w: half, h: tall } })
    : {};
  const height = controlled ? below(boxes.sync) + 24 : y;
  const made = Array.from({ length: lanes }, (_, n) => stackedLane(left, edge, n * row, boxes.workqueue));
  return {
    stacked: true,
    width,
    height,
    server: { ...server, h: height },
    lanes: made,
    boxes,
    track: controlled ? stackedReturn(boxes, server.w) : undefined,
  };
}

/** @param {number} left @param {number} edge @param {number} y @param {Box | undefined} workqueue @returns {LaneLayout} */
function stackedLane(left, edge, y, workqueue) {
  const tile = 42;
  const gap = 8;
  const w = (edge - 12 - left - 3 * gap) / 4;
  const boxes = boxesOf(Object.fromEntries(LANE_GEARS.map((gear, i) => [gear, { x: left + i * (w + gap), y: y + 22, w, h: tile }])));
  const trackY = below(boxes.wire);
  const points = [
    { x: left - 14, y: trackY },
    { x: workqueue ? edge - 8 : right(boxes.handlers) + 4, y: trackY },
  ];
  if (workqueue) {
    const joinY = below(workqueue);
    points.push(
      ...arc({ x: edge - 8, y: trackY }, { x: edge, y: trackY }, { x: edge, y: trackY + 8 }),
      ...arc({ x: edge, y: joinY - 8 }, { x: edge, y: joinY }, { x: edge - 8, y: joinY }),
      { x: workqueue.x + 4, y: joinY },
    );
  }
  const track = withStops(points, boxes);
  if (workqueue) track.stops.workqueue = track.length;
  return { boxes, label: { x: left, y }, track };
}

/** @param {Record<string, Box>} boxes @param {number} start @returns {Track} */
function stackedReturn(boxes, start) {
  const y = below(boxes.workqueue);
  const from = boxes.workqueue.x + 4;
  const track = withStops(
    [
      { x: from, y },
      { x: start + 2, y },
    ],
    {},
  );
  track.stops = { workqueue: 0, sync: from - (boxes.sync.x + STOP_INSET), server: track.length };
  return track;
}

/** @param {Record<string, Box>} boxes @returns {Record<string, Box>} */
function boxesOf(boxes) {
  return boxes;
}

/** The height of the track of a gear. @param {Box} box */
function below(box) {
  return box.y + box.h + TRACK;
}

/** @param {Box} box */
function right(box) {
  return box.x + box.w;
}

/** An S from a to b. @param {Point} a @param {Point} b @returns {Point[]} */
function curve(a, b) {
  const points = [];
  for (let i = 1; i <= 16; i++) {
    const t = i / 16;
    const s = t * t * (3 - 2 * t);
    points.push({ x: a.x + (b.x - a.x) * t, y: a.y + (b.y - a.y) * s });
  }
  return points;
}

/** A bend from a around c to b. @param {Point} a @param {Point} c @param {Point} b @returns {Point[]} */
function arc(a, c, b) {
  const points = [a];
  for (let i = 1; i <= 8; i++) {
    const t = i / 8;
    const u = 1 - t;
    points.push({ x: u * u * a.x + 2 * u * t * c.x + t * t * b.x, y: u * u * a.y + 2 * u * t * c.y + t * t * b.y });
  }
  return points;
}

/** Measures a track, and the stop of each box on it. @param {Point[]} points @param {Record<string, Box>} boxes @returns {Track} */
function withStops(points, boxes) {
  const at = [0];
  for (let i = 1; i < points.length; i++) {
    at.push(at[i - 1] + Math.hypot(points[i].x - points[i - 1].x, points[i].y - points[i - 1].y));
  }
  /** @type {Track} */
  const track = { points, at, length: at[at.length - 1], stops: {} };
  for (const [name, box] of Object.entries(boxes)) track.stops[name] = whereX(track, right(box) - STOP_INSET);
  return track;
}

/** The first distance on the track at which it reaches x. @param {Track} track @param {number} x */
function whereX(track, x) {
  for (let i = 1; i < track.points.length; i++) {
    const a = track.points[i - 1];
    const b = track.points[i];
    if (b.x >= x && b.x > a.x) return track.at[i - 1] + ((x - a.x) / (b.x - a.x)) * (track.at[i] - track.at[i - 1]);
  }
  return track.length;
}

/** @param {Track} track @param {number} distance @param {Point} into is filled in, and returned @returns {Point} */
export function pointAt(track, distance, into) {
  const { points, at } = track;
  let i = 1;
  while (i < at.length - 1 && at[i] < distance) i++;
  const span = at[i] - at[i - 1];
  const t = span ? Math.min(1, Math.max(0, (distance - at[i - 1]) / span)) : 0;
  into.x = points[i - 1].x + (points[i].x - points[i - 1].x) * t;
  into.y = points[i - 1].y + (points[i].y - points[i - 1].y) * t;
  return into;
}

/** The "d" of an SVG path. @param {Track} track @param {number} [from] */
export function pathOf(track, from = 0) {
  const start = pointAt(track, from, { x: 0, y: 0 });
  const rest = track.points.filter((_, i) => track.at[i] > from);
  return `M${[start, ...rest].map((p) => `${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join('L')}`;
}
