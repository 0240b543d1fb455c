// Small makers of elements.

import { t } from "./labels.js";

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

export function made(tag, facts = {}, ...children) {
  const element = document.createElement(tag);
  const { on = {}, ...attributes } = facts;
  for (const [name, value] of Object.entries(attributes)) {
    if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  for (const [name, heard] of Object.entries(on)) element.addEventListener(name, heard);
  element.append(...children);
  return element;
}

/** An element of a picture. */
export function svg(tag, facts) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(facts)) element.setAttribute(name, value);
  return element;
}

/** A list to choose from; `choices`: [value, text] each. */
export function choice(label, choices, value, chosen) {
  const select = made("select", { ariaLabel: label, on: { change: () => chosen(select.value) } },
    ...choices.map(([each, text]) => made("option", { value: each }, text)));
  select.value = value;
  return select;
}

export const pill = (given, what, toggled) => made("button", {
  className: "pill", ariaPressed: String(given), title: t(given ? "kept-title" : "drawn-title"),
  ariaLabel: `${what}: ${t(given ? "given" : "open")}`, on: { click: toggled },
}, t(given ? "given" : "open"));

export const remover = (what, removed) => made("button", {
  className: "x", ariaLabel: t("remove-this", { what }), title: t("remove"), on: { click: removed },
}, "×");

export const spoken = (relation) => t(`relation-${relation}`);

/** Replace the rows of a list; the control that had the focus has it again. */
export function refill(list, rows) {
  const place = [...list.querySelectorAll("select, button, input")].indexOf(document.activeElement);
  list.replaceChildren(...rows);
  if (place >= 0) {
    const controls = [...list.querySelectorAll("select, button, input")];
    (controls[place] ?? controls.at(-1))?.focus();
  }
}
