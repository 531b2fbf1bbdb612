/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// The picture: a section per controller. Its informers are lanes, which merge into its workqueue.
// Gears are buttons, tracks and dots are SVG. A single controller is as large as the window allows.

import * as address from './address.js';
import { el, setAttr, setText, svg } from './dom.js';
import * as format from './format.js';
import { gearOfStage, gears } from './gears.js';
import { aboutController, gearView, showControllerGear, showInformerGear } from './gearview.js';
import { columns, layout, pathOf, pointAt, ROW, rowThatFits, STACKED_BELOW, TRACK } from './layout.js';
import { between } from './motion.js';

/** @typedef {import('./types.js').Overview} Overview */
/** @typedef {import('./types.js').Event} Event */
/** @typedef {import('./state.js').Section} Section */
/** @typedef {import('./layout.js').Layout} Layout */
/** @typedef {import('./motion.js').Dot} Dot */
/** @typedef {import('./motion.js').Motion} Motion */
/** @typedef {import('./gearview.js').GearView} GearView */
/** @typedef {{ node: SVGAElement, label: SVGTextElement, title: SVGTitleElement, object?: import('./types.js').ObjectName }} DotNode */
/**
 * @typedef {object} SectionView
 * @property {string} id
 * @property {HTMLElement} root
 * @property {HTMLElement} stage
 * @property {HTMLElement} about
 * @property {SVGSVGElement} back
 * @property {SVGSVGElement} front
 * @property {SVGTextElement} wrote
 * @property {number} wroteFor how long the last write has been shown, in milliseconds
 * @property {{ informer: string, label: HTMLElement, gears: GearView[] }[]} lanes
 * @property {GearView[]} gears workqueue and sync
 * @property {Layout} [layout]
 * @property {number} crowd dots in it, as of the last frame
 * @property {{ x: number, y: number, half: number }[]} labels the labels in this frame
 */

/** A gear turns by this for one event, and has at most this to turn yet, in degrees. */
const TOOTH = 45;
const MOST_OWED = 180;
/** Without animation it is lit instead, for this many milliseconds. */
const LIT = 900;
/** Dots have labels if a section has at most this many, and if there is room. */
const LABELLED = 4;
/** The distance of dots in a pile. */
const PITCH = 9;
/** Half the width of a long label. */
const LABEL = 80;
/** Gears narrower than this have room for two words. */
const TIGHT = 130;
/** A single controller with rows of this height has larger texts. */
const LARGE = 84;
/** How long the last write is named, in milliseconds. */
const WROTE = 6000;

export class Picture {
  #root;
  #stations;
  /** @type {Map<string, SectionView>} */
  #sections = new Map();
  /** @type {Map<string, GearView[]>} */
  #gears = new Map();
  /** @type {Map<Dot, DotNode>} */
  #nodes = new Map();
  #width = 0;
  /** The height of a lane. */
  #row = ROW;
  /** @type {Set<GearView>} */
  #turning = new Set();
  /** The key of the object whose life is open. */
  #chosen = '';
  still = false;
  /** Whether the layout has changed since dots were drawn. */
  moved = false;

  /** @param {HTMLElement} root @param {HTMLElement} stations the headings, and the idea of each station */
  constructor(root, stations) {
    this.#root = root;
    this.#stations = stations;
    for (const gear of gears) {
      const item = el('li', { 'data-station': gear.name }, el('b', {}, gear.title), el('span', { class: 'idea' }, gear.idea));
      item.style.gridColumn = String(2 * stations.childElementCount + 2);
      stations.append(item);
    }
    root.addEventListener('keydown', (e) => this.#arrow(e));
    root.addEventListener('focusin', (e) => this.#rove(e));
    // The room for a single controller depends on the window, and on the height of all that is above.
    const observer = new ResizeObserver(() => this.#resize());
    for (const node of [root, stations, ...document.querySelectorAll('#bar, #guide')]) observer.observe(node);
    addEventListener('resize', () => this.#resize());
  }

  /** Builds the sections. @param {Section[]} sections @param {string} chosen the ID of a single controller; '' for all */
  build(sections, chosen) {
    this.#root.replaceChildren();
    this.#sections.clear();
    this.#gears.clear();
    this.#nodes.clear();
    this.#turning.clear();
    for (const section of sections) {
      const view = this.#section(section, sections.length > 1 ? link(section.id) : chosen && linkBack());
      this.#sections.set(section.id, view);
      this.#root.append(view.root);
    }
    if (!sections.length) this.#root.append(el('p', { class: 'empty' }, 'No controller and no informer matches the filter.'));
    this.#place();
  }

  /** @param {Section} section @param {Node | string} zoom a link that changes its size; or '' @returns {SectionView} */
  #section(section, zoom) {
    const name = section.controller?.id ?? 'Informers without a controller';
    const about = el('p', { class: 'section-about' });
    const back = svg('svg', { class: 'tracks', 'aria-hidden': 'true' });
    const front = svg('svg', { class: 'dots', 'aria-hidden': 'true' });
    const wrote = svg('text', { class: 'wrote' });
    const stage = el(
      'div',
      { class: 'stage', role: 'group', 'aria-label': `The stations of ${name}. Arrow keys move between them.` },
      back,
    );
    const lanes = section.informers.map((informer) => {
      const label = el('div', { class: 'lane-label' }, el('b', {}, informer.kind), el('span', {}, informer.id));
      const views = gears.filter((g) => g.of === 'informer').map((g) => this.#gear(g.name, informer.id, informer.kind));
      stage.append(label, ...views.map((v) => v.button));
      return { informer: informer.id, label, gears: views };
    });
    const own = section.controller ? gears.filter((g) => g.of === 'controller').map((g) => this.#gear(g.name, section.id, section.id)) : [];
    stage.append(...own.map((v) => v.button), front);
    const first = stage.querySelector('button');
    if (first) first.tabIndex = 0;
    const heading = el('h2', {}, name, section.controller && el('small', {}, section.controller.kind));
    if (!section.controller) setText(about, 'No handler of these informers adds keys to a workqueue.');
    const header = el('header', {}, heading, section.controller && zoom, about);
    const root = el('section', { class: 'controller', 'data-section': section.id }, header, stage);
    return { id: section.id, root, stage, about, back, front, wrote, wroteFor: WROTE, lanes, gears: own, crowd: 0, labels: [] };
  }

  /** @param {string} gear @param {string} id @param {string} of @returns {GearView} */
  #gear(gear, id, of) {
    const view = gearView(gear, id, of);
    const key = `${gear} ${id}`;
    this.#gears.set(key, [...(this.#gears.get(key) ?? []), view]);
    return view;
  }

  #resize() {
    const width = this.#root.clientWidth;
    if (Math.abs(width - this.#width) < 1 && this.#rowThatFits() === this.#row) return;
    this.#width = width;
    this.#place();
  }

  /** The section of the one controller that is shown, if it is one. */
  #single() {
    const [view, ...others] = this.#sections.values();
    return view?.gears.length && !others.length ? view : undefined;
  }

  #rowThatFits() {
    const view = this.#single();
    if (!view || this.#width < STACKED_BELOW) return ROW;
    // Everything except the stage keeps its height.
    return rowThatFits(innerHeight - (document.body.offsetHeight - view.stage.offsetHeight), view.lanes.length);
  }

  /** Computes the geometry of all sections. */
  #place() {
    if (!this.#width) return;
    this.moved = true;
    this.#row = this.#rowThatFits();
    for (const view of this.#sections.values()) this.#placeSection(view);
    const stacked = this.#width < STACKED_BELOW;
    const { cells } = columns(this.#width);
    this.#root.classList.toggle('stacked', stacked);
    this.#root.classList.toggle('tight', !stacked && cells.queue.w < TIGHT);
    this.#root.classList.toggle('large', !stacked && this.#row >= LARGE);
    this.#stations.classList.toggle('stacked', stacked);
    let end = 0;
    const tracks = gears.map(({ name }) => {
      const gap = cells[name].x - end;
      end = cells[name].x + cells[name].w;
      return `${gap}px ${cells[name].w}px`;
    });
    this.#stations.style.gridTemplateColumns = tracks.join(' ');
  }

  /** @param {SectionView} view */
  #placeSection(view) {
    const at = layout(this.#width, view.lanes.length, view.gears.length > 0, this.#row);
    view.layout = at;
    view.stage.style.height = `${at.height}px`;
    for (const part of [view.back, view.front]) {
      setAttr(part, 'width', at.width);
      setAttr(part, 'height', at.height);
    }
    view.lanes.forEach((lane, n) => {
      lane.label.style.left = `${at.lanes[n].label.x}px`;
      lane.label.style.top = `${at.lanes[n].label.y}px`;
      for (const gear of lane.gears) put(gear.button, at.lanes[n].boxes[gear.gear]);
    });
    for (const gear of view.gears) put(gear.button, at.boxes[gear.gear]);
    drawTracks(view, at);
  }

  /** Shows the numbers. @param {Overview} overview */
  update(overview) {
    const informers = new Map(overview.informers.map((i) => [i.id, i]));
    const controllers = new Map(overview.controllers.map((c) => [c.id, c]));
    const now = Date.parse(overview.time);
    for (const view of this.#sections.values()) {
      for (const lane of view.lanes) {
        const informer = informers.get(lane.informer);
        if (informer) for (const gear of lane.gears) showInformerGear(gear, informer, now);
      }
      const controller = controllers.get(view.id);
      if (!controller) continue;
      for (const gear of view.gears) showControllerGear(gear, controller, now);
      setText(view.about, aboutController(controller));
    }
  }

  /** Turns the gear that an event has passed. @param {Event} event */
  hit(event) {
    const views = this.#gears.get(`${gearOfStage[event.stage]} ${event.source}`);
    if (views) {
      for (const view of views) {
        view.owed = Math.min(MOST_OWED, view.owed + TOOTH);
        this.#turning.add(view);
      }
    }
    if (event.stage !== 'write') return;
    const section = this.#sections.get(event.source);
    if (!section) return;
    section.wrote.textContent = `${event.verb ?? 'write'} ${format.shorten(format.path(event), 44)}`;
    section.wroteFor = 0;
  }

  /** Draws a frame. @param {Motion} motion @param {number} elapsed */
  draw(motion, elapsed) {
    this.moved = false;
    this.#turn(elapsed);
    for (const view of this.#sections.values()) {
      view.crowd = 0;
      view.labels.length = 0;
      if (view.wroteFor < WROTE) {
        view.wroteFor += elapsed;
        view.wrote.classList.toggle('old', view.wroteFor >= WROTE);
      }
    }
    for (const dot of motion.dots) {
      const section = this.#sections.get(dot.section);
      if (section) section.crowd++;
    }
    for (const [dot, { node }] of this.#nodes) {
      if (motion.dots.has(dot)) continue;
      node.remove();
      this.#nodes.delete(dot);
    }
    for (const dot of motion.dots) this.#drawDot(dot, motion.isHidden(dot));
  }

  /** @param {number} elapsed */
  #turn(elapsed) {
    for (const view of this.#turning) {
      const step = Math.min(view.owed, this.still ? (TOOTH * elapsed) / LIT : Math.max(0.06 * elapsed, view.owed * 0.006 * elapsed));
      view.owed -= step;
      view.angle = (view.angle + step) % 360;
      if (this.still) view.button.classList.toggle('lit', view.owed > 0.5);
      else view.cog.style.transform = `rotate(${view.angle.toFixed(1)}deg)`;
      if (view.owed < 0.5) this.#turning.delete(view);
    }
  }

  /** @param {Dot} dot @param {boolean} hidden */
  #drawDot(dot, hidden) {
    const section = this.#sections.get(dot.section);
    if (!section?.layout) return;
    const made = this.#nodes.get(dot) ?? this.#dotNode(dot, section);
    if (made.object !== dot.object) nameDot(made, dot);
    const { node } = made;
    const n = dot.lane ? section.lanes.findIndex((l) => l.informer === dot.lane) : -1;
    const track = dot.lane ? section.layout.lanes[n]?.track : section.layout.track;
    if (!track) return;
    const from = track.stops[dot.from] ?? 0;
    const to = track.stops[dot.to] ?? 0;
    const box = dot.lane ? section.layout.lanes[n].boxes[dot.to] : section.layout.boxes[dot.to];
    const room = box ? Math.max(1, Math.floor((box.w - 16) / PITCH)) : 1;
    const rows = dot.lane ? 1 : 2;
    const slot = Math.max(0, Math.min(dot.slot, room * rows - 1));
    pointAt(track, between(dot, from, to), spot);
    // Stops are on level parts of a track. A pile grows against the way of the dots.
    spot.x += (slot % room) * (section.layout.stacked && !dot.lane ? PITCH : -PITCH);
    spot.y += Math.floor(slot / room) * PITCH;
    node.setAttribute('transform', `translate(${spot.x.toFixed(1)} ${spot.y.toFixed(1)})`);
    setAttr(node, 'opacity', dot.fade < 1 ? Math.max(0, dot.fade).toFixed(2) : hidden ? '0' : undefined);
    const labelled = !hidden && labelFits(section, dot);
    setAttr(
      node,
      'class',
      `dot dot-${dot.tone}${labelled ? ' dot-labelled' : ''}${this.#chosen && format.keyOf(dot.object) === this.#chosen ? ' dot-chosen' : ''}`,
    );
    const edge = spot.x < LABEL ? 'start' : spot.x > section.layout.width - LABEL ? 'end' : 'middle';
    setAttr(node, 'text-anchor', edge);
  }

  /** @param {Dot} dot @param {SectionView} section @returns {DotNode} */
  #dotNode(dot, section) {
    const label = svg('text', { y: 15 });
    const title = svg('title');
    const node = svg(
      'a',
      { tabindex: '-1' },
      svg('circle', { r: 11, class: 'touch' }),
      svg('circle', { r: 4.5, class: 'bead' }),
      label,
      title,
    );
    section.front.append(node);
    const made = { node, label, title };
    this.#nodes.set(dot, made);
    return made;
  }

  /**
   * Marks the gear whose panel is open, or the dots of the object.
   * @param {string} gear
   * @param {string} id
   * @param {string} object its key
   */
  select(gear, id, object) {
    this.#chosen = object;
    for (const views of this.#gears.values()) {
      for (const view of views) setAttr(view.button, 'aria-expanded', view.gear === gear && view.id === id ? 'true' : undefined);
    }
  }

  /** @param {string} gear @param {string} id */
  focus(gear, id) {
    this.#gears.get(`${gear} ${id}`)?.[0].button.focus();
  }

  /** In each section one gear can be reached with Tab: the one that was there last. @param {FocusEvent} e */
  #rove(e) {
    const button = /** @type {HTMLElement} */ (e.target).closest('button.gear');
    if (!(button instanceof HTMLElement)) return;
    for (const other of button.closest('.stage')?.querySelectorAll('button.gear') ?? []) {
      /** @type {HTMLElement} */ (other).tabIndex = other === button ? 0 : -1;
    }
  }

  /** @param {KeyboardEvent} e */
  #arrow(e) {
    const way = /** @type {Record<string, [number, number]>} */ ({
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    })[e.key];
    const from = document.activeElement;
    if (!way || e.altKey || e.ctrlKey || e.metaKey || !from?.matches('button.gear')) return;
    e.preventDefault();
    /** @type {HTMLElement | undefined} */ (nearest(from, [...this.#root.querySelectorAll('button.gear')], way))?.focus();
  }
}

const spot = { x: 0, y: 0 };

/** @param {string} controller */
function link(controller) {
  return el('a', { class: 'zoom', href: address.ofPicture(controller) }, 'Show ', el('span', { class: 'vh' }, controller), ' large');
}

function linkBack() {
  return el('a', { class: 'zoom', href: address.ofPicture('') }, 'Show all controllers');
}

/** Names the object of a dot. In the workqueue a change becomes a key. @param {DotNode} made @param {Dot} dot */
function nameDot(made, dot) {
  made.object = dot.object;
  made.node.setAttribute('href', address.ofObject(dot.object));
  setText(made.label, format.shorten(dot.object.name, 26));
  setText(made.title, format.title(dot.object));
}

/** Reports whether there is room for the label of the dot at spot, and reserves it. @param {SectionView} section @param {Dot} dot */
function labelFits(section, dot) {
  if (section.crowd > LABELLED || section.layout?.stacked) return false;
  const half = Math.min(26, dot.object.name.length) * 3;
  const { x, y } = spot;
  if (section.labels.some((l) => Math.abs(l.y - y) < 14 && Math.abs(l.x - x) < l.half + half)) return false;
  section.labels.push({ x, y, half });
  return true;
}

/** The closest of others in the direction of way. @param {Element} from @param {Element[]} others @param {[number, number]} way */
function nearest(from, others, way) {
  const a = center(from);
  let best;
  let least = Infinity;
  for (const other of others) {
    const b = center(other);
    const ahead = (b.x - a.x) * way[0] + (b.y - a.y) * way[1];
    const aside = Math.abs((b.x - a.x) * way[1]) + Math.abs((b.y - a.y) * way[0]);
    if (other === from || ahead < 4 || (way[1] === 0 && aside > ahead * 1.5 + 60)) continue;
    const distance = ahead + aside * 2;
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
}

/** @param {Element} node */
function center(node) {
  const box = node.getBoundingClientRect();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

/** @param {HTMLElement} node @param {import('./layout.js').Box} box */
function put(node, box) {
  node.style.left = `${box.x.toFixed(1)}px`;
  node.style.top = `${box.y.toFixed(1)}px`;
  node.style.width = `${box.w.toFixed(1)}px`;
  node.style.height = `${box.h.toFixed(1)}px`;
}

/** @param {SectionView} view @param {Layout} at */
function drawTracks(view, at) {
  const { server } = at;
  const label = svg(
    'text',
    { class: 'server-label', transform: `translate(${server.w / 2} ${at.height / 2}) rotate(-90)` },
    at.height < 90 ? 'API' : 'API server',
  );
  /** @type {SVGElement[]} */
  const parts = [svg('rect', { class: 'server', x: 0.5, y: 0.5, width: server.w - 1, height: at.height - 1, rx: 6 }), label];
  for (const [n, lane] of at.lanes.entries()) {
    parts.push(svg('path', { class: 'track', d: pathOf(lane.track), 'data-lane': view.lanes[n].informer }));
    for (const box of Object.values(lane.boxes)) {
      parts.push(platform(box, box.y + box.h + TRACK));
      if (!at.stacked) parts.push(chevron(box.x - 10, box.y + box.h + TRACK));
    }
  }
  const track = at.track;
  if (track) {
    parts.push(svg('path', { class: 'track', d: pathOf(track) }));
    for (const box of Object.values(at.boxes)) parts.push(platform(box, box.y + box.h + TRACK));
    if (!at.stacked) parts.push(chevron(at.boxes.sync.x - 10, track.points[0].y));
    const end = track.points[track.points.length - 1];
    parts.push(svg('path', { class: 'arrow', d: `M${end.x + 7} ${end.y - 5}L${end.x} ${end.y}L${end.x + 7} ${end.y + 5}` }));
    setAttr(view.wrote, 'x', at.stacked ? server.w + 14 : at.boxes.sync.x);
    setAttr(view.wrote, 'y', at.stacked ? end.y + 18 : end.y - 6);
    setAttr(view.wrote, 'text-anchor', at.stacked ? 'start' : 'end');
    parts.push(view.wrote);
  }
  view.back.replaceChildren(...parts);
}

/** Shows the direction of a track, also if nothing moves on it. @param {number} x @param {number} y */
function chevron(x, y) {
  return svg('path', { class: 'arrow', d: `M${x - 3} ${y - 4}L${x + 2} ${y}L${x - 3} ${y + 4}` });
}

/** The part of a track at which dots stop. @param {import('./layout.js').Box} box @param {number} y */
function platform(box, y) {
  return svg('line', { class: 'platform', x1: box.x + 4, x2: box.x + box.w - 4, y1: y, y2: y });
}
