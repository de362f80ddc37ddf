// Small tools for the document. Text that stays the same is left alone, so that screen readers and selections are too.

/** Makes an element with these properties and children. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  const { dataset, ...others } = properties;
  Object.assign(made, others);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}

export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function setAttribute(target, name, value) {
  if (target.getAttribute(name) !== value) target.setAttribute(name, value);
}

/** The first part of a seat's id: the second is the evening. */
export function seatName(seatId) {
  return seatId.split('/')[0];
}

/**
 * Makes a list show these items, which have ids and never change their order: newest first. Items that are there are kept,
 * so that a live region reads only what is new.
 */
export function showNewest(list, items, make) {
  const ids = new Set(items.map(({ id }) => String(id)));
  const shown = new Set();
  for (const child of list.querySelectorAll(':scope > li')) {
    if (ids.has(child.dataset.id)) shown.add(child.dataset.id);
    else child.remove();
  }
  for (const item of [...items].reverse()) {
    if (shown.has(String(item.id))) continue;
    const made = make(item);
    made.dataset.id = String(item.id);
    list.prepend(made);
  }
}
