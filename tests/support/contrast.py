"""The contrast of text with what is behind it, by the formula of WCAG 2."""

from support.webdriver import Browser

_SCRIPT = """
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const [x, y, z] = [r, g, b].map((v) => linear(v / 255));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const behind = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const [r, g, b, a = 1] = parts(getComputedStyle(at).backgroundColor);
    if (a > 0) return [r, g, b];
  }
  return [255, 255, 255];
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
for (let text = walker.nextNode(); text; text = walker.nextNode()) {
  const node = text.parentElement;
  if (!text.data.trim() || node.closest('noscript, script, [hidden]')) continue;
  const [a, b] = [light(parts(getComputedStyle(node).color)), light(behind(node))];
  found.push((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
}
return found;
"""


def contrasts(page: Browser) -> list[float]:
    """Return the contrast of every text that a page shows, 1 to 21."""
    found: list[float] = page.run(_SCRIPT)
    return found
