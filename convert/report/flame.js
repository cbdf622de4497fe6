// The flame graphs of the page, by line and by operator, of which one is shown: a click on a frame, or Enter after arrow keys,
// gives it the whole width.
'use strict';
const flames = ['flame', 'operators'].map((id) => document.getElementById(id)).filter((section) => section);
flames.forEach((section, i) => {
  const svg = section.querySelector('svg.chart'), title = section.querySelector('h2').textContent;
  if (flames.length > 1) {
    const other = document.createElement('button');
    other.type = 'button';
    other.className = 'show';
    other.textContent = i ? 'by line' : 'by operator';
    other.addEventListener('click', () => {
      section.hidden = true;
      flames[1 - i].hidden = false;
      flames[1 - i].querySelector('button').focus();
    });
    section.querySelector('h2').append(' ', other);
    section.hidden = i > 0;
  }
  const wide = svg.viewBox.baseVal.width;
  const frames = [...svg.querySelectorAll('g.frame')].map((g) => ({
    g, rect: g.querySelector('rect'), text: g.querySelector('text'), name: g.dataset.name,
    x: +g.dataset.x, w: +g.dataset.w, depth: +g.dataset.d,
  }));
  const near = 1e-6; // places are rounded
  const within = (inner, outer) => inner.x >= outer.x - near && inner.x + inner.w <= outer.x + outer.w + near;
  let at = frames[0];

  const cut = (text, most) => {
    const tail = (most - 1) >> 1;
    if (text.length <= most) return text;
    return most < 4 ? '' : text.slice(0, most - 1 - tail) + '…' + text.slice(text.length - tail);
  };

  // zoom gives a frame the whole width, and what is around it, too; null all frames their own.
  function zoom(to) {
    const from = to ? to.x : 0, whole = to ? to.w : 1;
    for (const f of frames) {
      const around = to && f.depth < to.depth && within(to, f);
      const shown = !to || around || f.depth >= to.depth && within(f, to);
      f.g.setAttribute('display', shown ? 'inline' : 'none');
      if (!shown) continue;
      const x = around ? 0 : (f.x - from) / whole * wide, width = around ? wide : f.w / whole * wide;
      f.rect.setAttribute('x', x);
      f.rect.setAttribute('width', Math.max(width - 0.6, 0.4));
      f.g.setAttribute('opacity', around ? 0.6 : 1);
      f.text.setAttribute('x', x + 3);
      f.text.textContent = cut(f.name, Math.floor((width - 8) / 6.8));
    }
  }

  // mark says which frame the keys are at.
  function mark(f) {
    if (!f) return;
    at.rect.classList.remove('at');
    at = f;
    at.rect.classList.add('at');
    svg.setAttribute('aria-label', at.rect.textContent.trim() + '. Arrow keys, Enter zooms, Escape shows all.');
  }
  const beside = (by) => {
    const row = frames.filter((f) => f.depth === at.depth).sort((a, b) => a.x - b.x);
    return row[row.indexOf(at) + by];
  };
  const keys = {
    ArrowUp: () => mark(frames.find((f) => f.depth === at.depth - 1 && within(at, f))),
    ArrowDown: () => mark(frames.find((f) => f.depth === at.depth + 1 && within(f, at))),
    ArrowLeft: () => mark(beside(-1)), ArrowRight: () => mark(beside(1)),
    Enter: () => zoom(at), Escape: () => zoom(null),
  };
  section.querySelector('.note').append(' A click on a frame gives it the whole width.');
  svg.setAttribute('tabindex', '0');
  svg.setAttribute('role', 'application');
  svg.setAttribute('aria-label', title + ': arrow keys go to frames, Enter zooms, Escape shows all.');
  svg.classList.add('leads');
  svg.addEventListener('keydown', (e) => {
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });
  frames.forEach((f) => f.g.addEventListener('click', () => {
    mark(f);
    zoom(f);
  }));
});
