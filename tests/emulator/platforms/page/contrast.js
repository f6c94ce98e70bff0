// The texts on the page that have too little contrast with what is behind them (WCAG 2.1, 1.4.3), with their ratio.
(() => {
  const parse = (text) => {
    const [r, g, b, alpha] = text.match(/[\d.]+/g).map(Number);
    return {channels: [r, g, b], alpha: alpha ?? 1};
  };
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ({channels}) => channels.reduce((sum, value, index) => sum + linear(value / 255) * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.alpha > 0.9) return colour;
    }
    return {channels: [255, 255, 255]};
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!hasText || !node.offsetWidth || node.closest(":disabled, .spoiler, script, option")) continue;
    const [more, less] = [light(parse(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
    const ratio = (more + 0.05) / (less + 0.05);
    if (ratio < 4.5) poor.push(`${node.className} ${node.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return poor;
})()
