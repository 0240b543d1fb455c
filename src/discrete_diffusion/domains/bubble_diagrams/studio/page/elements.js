// Small makers of elements.

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

/** A list to choose from; `choices`: [value, text] each. */
export function choice(label, choices, value, chosen) {
  const select = made("select", { ariaLabel: label, on: { change: () => chosen(select.value) } },
    ...choices.map(([each, text]) => made("option", { value: each }, text)));
  select.value = value;
  return select;
}

export const pill = (given, what, toggled) => made("button", {
  className: "pill", ariaPressed: String(given), title: given ? "kept by completions" : "drawn anew by completions",
  ariaLabel: `${what}: ${given ? "given" : "open"}`, on: { click: toggled },
}, given ? "given" : "open");

export const remover = (what, removed) => made("button", {
  className: "x", ariaLabel: `Remove ${what}`, title: "Remove", on: { click: removed },
}, "×");

export const spoken = (relation) => ({ "no-edge": "not related to" })[relation] ?? relation.replaceAll("-", " ");

/** Replace the rows of a list; the control that had the focus has it again. */
export function refill(list, rows) {
  const place = [...list.querySelectorAll("select, button, input")].indexOf(document.activeElement);
  list.replaceChildren(...rows);
  if (place >= 0) {
    const controls = [...list.querySelectorAll("select, button, input")];
    (controls[place] ?? controls.at(-1))?.focus();
  }
}
