// What is wrong with a page for those who see little or use the keyboard: checks of our own, a small part of what
// axe-core checks. Names of controls, visible focus, ids, texts beside pictures, and contrast.

export function accessFaults() {
  const seen = (each) => each.checkVisibility({ visibilityProperty: true });
  const nameOf = (each) => (each.ariaLabel || each.alt || each.title || each.textContent.trim()
    || [...(each.labels ?? [])].map((label) => label.textContent.trim()).join(" ")
    || each.getAttribute("placeholder") || "").trim();
  const controls = [...document.querySelectorAll("button, input, select, summary, [role=button], [tabindex='0']")]
    .filter(seen);
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  const said = [
    ...controls.filter((each) => !nameOf(each)).map((each) => `no name: ${each.outerHTML.slice(0, 120)}`),
    ...ids.filter((id, k) => ids.indexOf(id) !== k).map((id) => `twice: #${id}`),
    ...[...document.querySelectorAll("img")].filter((each) => !each.hasAttribute("alt")).map((each) => `no alt: ${each.id}`),
    ...[...document.querySelectorAll("[aria-controls], [aria-labelledby]")].flatMap((each) =>
      [each.getAttribute("aria-controls"), each.getAttribute("aria-labelledby")]
        .filter((id) => id && !document.getElementById(id)).map((id) => `nowhere: #${id}`)),
    ...(document.documentElement.lang ? [] : ["no language"]),
    ...[...document.querySelectorAll("h1, h2, h3, h4")].filter(seen).filter((each) => !each.textContent.trim()).map((each) => `empty: #${each.id}`),
  ];
  for (const each of controls.filter((one) => !one.disabled)) {
    each.focus({ focusVisible: true });
    if (document.activeElement !== each) said.push(`no focus: ${nameOf(each)}`);
    else {
      const style = getComputedStyle(each);
      const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
      const ring = outlined || parseFloat(style.strokeWidth) >= 4; // of a shape in a drawing
      if (!ring) said.push(`no ring: ${nameOf(each)}`);
    }
  }
  return said;
}

export function contrastFaults() {
  const parts = (colour) => (colour.match(/[0-9.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.9) return colour;
    }
    return [255, 255, 255];
  };
  const own = (each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.querySelectorAll("body *")].filter((each) => each.checkVisibility() && own(each)
    && !each.closest(":disabled, svg, .hidden, [aria-disabled=true]"))
    .map((each) => {
      const [a, b] = [light(parts(getComputedStyle(each).color)), light(behind(each))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), each.outerHTML.slice(0, 100)];
    }).filter(([ratio]) => ratio < 4.5);
}
