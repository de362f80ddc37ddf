// Runs inside the page, so it is plain JavaScript. Colours of the page are opaque or fully transparent.
globalThis.findPoorTexts = (least) => {
  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (color) => {
    const [red = 0, green = 0, blue = 0] = channels(color).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const groundOf = (start) => {
    for (let at = start; at; at = at.parentElement) {
      const { backgroundColor } = getComputedStyle(at);
      if (channels(backgroundColor)[3] !== 0) return backgroundColor;
    }
    return 'rgb(255, 255, 255)';
  };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const text = [...element.childNodes]
      .filter((node) => node.nodeType === Node.TEXT_NODE)
      .map((node) => node.textContent?.trim() ?? '')
      .join(' ')
      .trim();
    const style = getComputedStyle(element);
    if (
      text === '' ||
      style.visibility === 'hidden' ||
      element.closest('[hidden], noscript, svg')
    ) {
      continue;
    }
    const [color, ground] = [style.color, groundOf(element)];
    const [light = 0, dark = 0] = [luminance(color), luminance(ground)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < least) poor.push({ text, color, ground, ratio });
  }
  return poor;
};
