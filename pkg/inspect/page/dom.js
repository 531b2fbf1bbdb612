/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Functions that make and change elements. Text is always set as text: users choose names.

const SVG = 'http://www.w3.org/2000/svg';

/** @typedef {Record<string, string | number | boolean | undefined | null | ((e: any) => void)>} Props */
/** @typedef {Node | string | null | undefined | false} Child */

/**
 * Makes an element. "class" and other strings become attributes, functions become listeners ("onclick").
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  setProps(node, props);
  node.append(.../** @type {(Node | string)[]} */ (children.filter(Boolean)));
  return node;
}

/**
 * Makes an SVG element.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  setProps(node, props);
  node.append(.../** @type {(Node | string)[]} */ (children.filter(Boolean)));
  return node;
}

/** @param {Element} node @param {Props} props */
function setProps(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') node.addEventListener(name.slice(2), value);
    else setAttr(node, name, value);
  }
}

/** @param {Element} node @param {string} name @param {string | number | boolean | undefined | null} value */
export function setAttr(node, name, value) {
  if (value === undefined || value === null || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** Sets the text if it differs: equal text would cost a layout. @param {Node} node @param {string} text */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {string} id */
export function byID(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`The page has no #${id}.`);
  return node;
}

/** @type {WeakMap<Element, Map<string, Element>>} */
const listed = new WeakMap();

/**
 * Gives parent one child per item, in order. An item keeps its element while its key is the same. So focus and
 * selection stay.
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => Element} create
 * @param {(node: any, item: T) => void} [update]
 */
export function list(parent, items, keyOf, create, update) {
  const before = listed.get(parent) ?? new Map();
  const after = new Map(items.map((item) => [keyOf(item), before.get(keyOf(item))]));
  // Elements without an item are removed first. So the others are in place, and do not move.
  for (const [key, node] of before) {
    if (!after.has(key)) node.remove();
  }
  let next = parent.firstElementChild;
  const seen = new Set();
  for (const item of items) {
    const key = keyOf(item);
    if (seen.has(key)) continue;
    seen.add(key);
    const node = after.get(key) ?? create(item);
    after.set(key, node);
    update?.(node, item);
    if (node === next) next = node.nextElementSibling;
    else parent.insertBefore(node, next);
  }
  listed.set(parent, after);
}
