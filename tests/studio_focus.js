// What axe-core does not look at: controls that cannot be focused, or show no ring of 2 pixels when they are.

const seen = (each) => each.checkVisibility({ visibilityProperty: true }) && !each.disabled;
const ringless = [];
const root = document.querySelector("dialog:modal") ?? document; // what is behind cannot be focused
for (const each of root.querySelectorAll("button, input, select, summary, [role=button], [tabindex='0']")) {
  if (!seen(each)) continue;
  each.blur(); // one that has the focus already would not show it
  each.focus({ focusVisible: true });
  const style = getComputedStyle(each);
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const drawn = parseFloat(style.strokeWidth) >= 4; // of a shape in a drawing
  if (document.activeElement !== each || !(outlined || drawn)) ringless.push(each.outerHTML.slice(0, 120));
}
return ringless;
