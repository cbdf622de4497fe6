// The timeline of the page: it reads the JSON that timelinedata.go describes (pageData), draws it on a canvas, and moves
// by mouse, finger and keys. Everything that comes from a traced program goes into canvas text or textContent, never
// into markup. Order: data, looking things up, the view, drawing, what is selected, sums, input, the start.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('timeline-data').textContent);
  const $ = (id) => document.getElementById('tl-' + id);
  const section = document.getElementById('timeline'), canvas = $('canvas'), frame = $('frame'), tip = $('tip');
  const ctx = canvas.getContext('2d');

  // ---- Data -----------------------------------------------------------------------------------------------------

  const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

  // decode reads a list of slices: five unsigned LEB128 numbers each. Numbers are larger than 32 bits.
  function decode(base64, into) {
    const bytes = bytesOf(base64);
    let at = 0, start = 0, link = 0;
    const next = () => {
      let n = 0, place = 1;
      for (; bytes[at] > 127; place *= 128) n += (bytes[at++] - 128) * place;
      return n + bytes[at++] * place;
    };
    while (at < bytes.length) {
      start += next();
      const s = {start, end: start + next(), name: next(), detail: next(), link: 0};
      const z = next() - 1;
      if (z >= 0) s.link = link += z % 2 ? -(z + 1) / 2 : z / 2;
      into.push(s);
    }
  }

  // A row has columns of all its slices, by start. reach is the largest end up to there, so that it can be searched.
  function rowOf(about, texts) {
    const list = [];
    for (const text of texts) if (text) decode(text, list);
    const order = (a, b) => a.start - b.start || a.end - b.end || a.name - b.name || a.link - b.link;
    list.sort(order); // a slice that is in several windows is there once
    const own = list.filter((s, i) => i === 0 || order(s, list[i - 1]));
    const row = {...about, n: own.length};
    for (const key of ['start', 'end']) row[key] = Float64Array.from(own, (s) => s[key]);
    for (const key of ['name', 'detail', 'link']) row[key] = Uint32Array.from(own, (s) => s[key]);
    row.reach = row.end.slice();
    for (let i = 1; i < row.n; i++) row.reach[i] = Math.max(row.reach[i], row.reach[i - 1]);
    return row;
  }

  const windowsOf = (row) => row.base ? data.base : data.windows;
  const rows = data.rows.map((about, index) => rowOf({...about, index}, windowsOf(about).map((w) => w.rows[index])));
  const binRows = data.bins.map((b) => ({...b, kind: 'bins', bytes: bytesOf(b.bins)}));
  const steps = rowOf({kind: 'steps', title: 'steps', process: -1}, [data.steps]);

  // above is the first index whose value is larger than a number, in a column that grows.
  function above(column, value, from = 0) {
    let low = from, high = column.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (column[middle] > value) high = middle; else low = middle + 1;
    }
    return low;
  }

  // partners are the slices that have the link of a slice: a call and its GPU work.
  let links = null;
  function partners(s) {
    const link = s.row.link ? s.row.link[s.i] : 0;
    if (!link) return [];
    if (!links) {
      links = new Map();
      for (const row of rows) {
        for (let i = 0; i < row.n; i++) {
          if (!row.link[i]) continue;
          if (!links.has(row.link[i])) links.set(row.link[i], []);
          links.get(row.link[i]).push({row, i});
        }
      }
    }
    const isWork = (row) => row.kind === 'work';
    return links.get(link).filter((o) => isWork(o.row) !== isWork(s.row) && o.row.base === s.row.base);
  }

  const stepName = (i) => data.step_names[steps.name[i]] + (steps.detail[i] ? ' ' + (steps.detail[i] - 1) : '');
  const nameOf = (s) => s.row === steps ? stepName(s.i) : data.names[s.row.name[s.i]][0];
  const fullOf = (s) => s.row === steps ? nameOf(s) : data.names[s.row.name[s.i]][1] || nameOf(s);
  const detailOf = (s) => s.row === steps ? '' : data.details[s.row.detail[s.i]];
  const startOf = (s) => s.row.start[s.i], endOf = (s) => s.row.end[s.i];

  // keptOf are the parts of a time that were kept call by call.
  function keptOf(windows, from, to) {
    const list = [];
    for (const w of windows) {
      const part = {from: Math.max(w.from, from), to: Math.min(w.to, to)}, last = list[list.length - 1];
      if (part.from >= part.to) continue;
      if (last && last.to === part.from) last.to = part.to; else list.push(part);
    }
    return list;
  }

  // Where an earlier run stands beside this one, changed has the kernels of the step whose time is not the same: 'bad'
  // for longer, 'good' for shorter than in the earlier run, 'line' for those of one run alone.
  const changed = new Map();
  function compare(step) {
    const sums = [new Map(), new Map()], length = step.to - step.from;
    const of = (row) => row.base ? data.base_to : step.to;
    for (const row of rows) {
      if (row.kind !== 'work') continue;
      overlaps(row, step.from, of(row), (i, ns) => add(sums[row.base ? 1 : 0], nameOf({row, i}), ns));
    }
    for (const name of new Set([...sums[0].keys(), ...sums[1].keys()])) {
      const now = sums[0].get(name) || 0, before = sums[1].get(name) || 0, apart = Math.abs(now - before);
      if (apart < 0.1 * Math.max(now, before) || apart < 0.002 * length) continue;
      changed.set(name, !now || !before ? 'line' : now > before ? 'bad' : 'good');
    }
  }

  // ---- Words ----------------------------------------------------------------------------------------------------

  const units = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
  function duration(ns) {
    const [unit, name] = units.find(([u]) => ns >= u) || units[3];
    const v = ns / unit;
    return (unit === 1 ? Math.round(v) : v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0)) + ' ' + name;
  }
  const moment = (ns) => (ns / 1e9).toFixed(6) + ' s';
  const percent = (part) => (100 * part).toFixed(1) + ' %';
  const cut = (text, most) => {
    if (text.length <= most) return text;
    const tail = (most - 1) >> 1;
    return most < 2 ? '' : text.slice(0, most - 1 - tail) + '…' + text.slice(text.length - tail);
  };
  const whereOf = (row) => row === steps ? 'steps' :
    [data.processes.length > 1 ? data.processes[row.process] : '', row.of].filter(Boolean).join(', ');

  // ---- The view -------------------------------------------------------------------------------------------------

  const whole = Math.max(data.to, 1);
  const shortest = 20; // ns
  let view = {from: 0, to: whole};
  let selected = null, marked = null, range = null, hovered = null, found = null; // found: what a search has found
  const folded = new Set();
  if (data.processes.length > 4) data.processes.forEach((_, i) => i && folded.add(i));
  if (data.base) {
    for (const row of [rows.find((r) => !r.base), rows.find((r) => r.base)]) if (row) folded.delete(row.process);
  }

  let width = 0, height = 0, gutter = 150, lines = [], total = 0;
  const top = 46; // of the overview and the axis
  const heights = {bins: 30, steps: 15, head: 20, range: 15, line: 15, call: 16, state: 9, work: 22};

  // layOut puts the rows below each other. Rows without slices are left out.
  function layOut() {
    lines = [];
    let y = top;
    const put = (row, gap) => {
      lines.push({row, y, h: heights[row.kind]});
      y += heights[row.kind] + gap;
    };
    if (steps.n) put(steps, 4);
    data.processes.forEach((title, process) => {
      if (data.processes.length > 1) put({kind: 'head', title, process}, 1);
      binRows.filter((b) => b.process === process).forEach((b) => put(b, 3));
      if (!folded.has(process)) {
        rows.filter((r) => r.process === process && r.n).forEach((r) => put(r, r.kind === 'work' ? 3 : 2));
      }
      y += 4;
    });
    total = y;
    const most = Math.max(240, Math.min(0.8 * window.innerHeight, 760));
    frame.style.height = Math.min(total + 2, most) + 'px';
    $('space').style.height = total + 'px';
    resize();
  }

  function resize() {
    const scale = window.devicePixelRatio || 1;
    width = frame.clientWidth;
    height = frame.clientHeight;
    gutter = width < 600 ? 84 : 150;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    draw();
  }

  const perPixel = () => (view.to - view.from) / (width - gutter);
  const xOf = (t) => gutter + (t - view.from) / perPixel();
  const timeOf = (x) => view.from + (x - gutter) * perPixel();

  function look(from, to) {
    const length = Math.min(Math.max(to - from, shortest), whole * 1.04);
    from = Math.min(Math.max((from + to - length) / 2, -0.02 * whole), 1.02 * whole - length);
    view = {from, to: from + length};
    hovered = null;
    tip.hidden = true;
    keep();
    draw();
  }
  const zoom = (factor, at = (view.from + view.to) / 2) =>
    look(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const pan = (part) => look(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));

  // reveal shows a process, and scrolls to a row.
  function reveal(row) {
    if (folded.delete(row.process)) layOut();
    const line = lines.find((l) => l.row === row);
    if (!line) return;
    if (line.y < frame.scrollTop + top) frame.scrollTop = line.y - top - 24;
    if (line.y + line.h > frame.scrollTop + height) frame.scrollTop = line.y + line.h - height + 24;
  }

  // The fragment of the address has the view: #t=FROM,TO&s=ROW,START&m=FROM,TO, in ns.
  let later = 0, own = '';
  function keep() {
    clearTimeout(later);
    later = setTimeout(() => {
      const of = (x) => Math.round(x.from) + ',' + Math.round(x.to);
      own = '#t=' + of(view);
      if (selected && selected.row !== steps) own += `&s=${selected.row.index},${startOf(selected)}`;
      if (marked) own += '&m=' + of(marked);
      history.replaceState(null, '', own);
    }, 250);
  }

  function follow() {
    if (location.hash === own) return;
    const of = new URLSearchParams(location.hash.slice(1));
    const pair = (key) => (of.get(key) || '').split(',').map(Number);
    const [from, to] = pair('t'), [index, start] = pair('s'), [since, until] = pair('m');
    if (of.has('m') && until >= since) marked = {from: since, to: until};
    if (of.has('s') && rows[index]) {
      const i = above(rows[index].start, start) - 1;
      if (i >= 0 && rows[index].start[i] === start) select({row: rows[index], i});
    }
    if (of.has('t') && to > from) {
      look(from, to);
      section.scrollIntoView();
    }
  }

  // show goes to a time, marks it, and selects what a process did in it. Of many processes it shows that one and its
  // neighbours.
  function show(from, to, pid) {
    marked = {from, to};
    const process = data.pids.indexOf(pid);
    if (process >= 0 && data.processes.length > 4) {
      data.processes.forEach((_, i) => Math.abs(i - process) > 1 ? folded.add(i) : folded.delete(i));
      layOut();
    }
    let at = null, most = 0;
    for (const row of rows) {
      if (row.kind === 'range' || row.base || process >= 0 && row.process !== process) continue;
      overlaps(row, from, Math.max(to, from + 1), (i, ns) => { // what has most of the time, and least else
        const fits = ns - Math.max(row.end[i] - row.start[i] - (to - from), 0);
        if (fits > most) [at, most] = [{row, i}, fits];
      });
    }
    select(at);
    if (!keptOf(data.windows, from, Math.max(to, from + 1)).length) {
      $('details').append(element('p', `Call by call, this page has nothing of ${moment(from)}: a larger one may have it ` +
        '(cudatrace report --max-bytes all).'));
    }
    const line = lines.find((l) => process >= 0 && l.row.process === process);
    if (line) frame.scrollTop = line.y - height / 3;
    if (at) reveal(at.row);
    const around = Math.max((to - from) / 2, whole > 1e6 ? 5e4 : whole / 20);
    look(from - around, to + around);
    section.scrollIntoView({block: 'start'});
    canvas.focus({preventScroll: true});
  }

  // ---- Drawing --------------------------------------------------------------------------------------------------

  let colours = {};
  const classes = {compute: 'compute', both: 'both', comm: 'comm', copy: 'copy', set: 'set', call: 'call', wait: 'wait',
    py: 'py', range: 'rule', idle: 'ink2'};
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ['bg', 'ink', 'ink2', 'rule', 'track', 'bad', 'good', 'line', ...Object.values(classes)]) {
      colours[name] = style.getPropertyValue('--' + name).trim();
    }
    draw();
  }

  let asked = false;
  function draw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      paint();
    });
  }

  function paint() {
    const scroll = frame.scrollTop;
    ctx.globalAlpha = 1;
    ctx.fillStyle = colours.bg;
    ctx.fillRect(0, 0, width, height);
    ctx.textBaseline = 'middle';
    for (const {row, y: place, h} of lines) {
      const y = place - scroll;
      if (y > height || y + h < top) continue;
      if (row.kind === 'head') {
        label((folded.has(row.process) ? '▸ ' : '▾ ') + row.title, 0, y + h / 2, width, 'bold');
        continue;
      }
      ctx.fillStyle = colours.track;
      ctx.fillRect(gutter, y, width - gutter, h);
      if (row.kind === 'bins') drawBins(row, y, h);
      else drawSlices(row, y, h);
      ctx.fillStyle = colours.bg;
      ctx.fillRect(0, y, gutter, h);
      const onGPU = row.kind === 'work' || row.kind === 'bins';
      if (h > 9) label(row.title, 2, y + h / 2, gutter - 8, '', onGPU ? 'ink' : 'ink2');
    }
    if (marked) band(marked, colours.bad, 0.1, true);
    if (range) band(range, colours.line, 0.18, true);
    drawArrows(scroll);
    for (const s of [hovered, selected]) outline(s, scroll);
    drawHead();
  }

  function label(text, x, y, room, weight, colour = 'ink') {
    ctx.font = `${weight} 11px system-ui, sans-serif`;
    ctx.fillStyle = colours[colour];
    ctx.fillText(cut(text, Math.floor(room / 6)), x, y, room);
  }

  // drawSlices draws the slices of a row that are in view. Those within one pixel are one: the rest of them is skipped
  // by searching, so that the time this takes depends on the pixels.
  function drawSlices(row, y, h) {
    hatch(row, y, h);
    const step = perPixel(), ofSteps = row === steps;
    ctx.font = '11px system-ui, sans-serif';
    let box = null; // what is drawn next: neighbours of one colour are drawn at once
    const flush = () => {
      if (!box) return;
      ctx.globalAlpha = box.alpha;
      ctx.fillStyle = colours[classes[box.of]];
      ctx.fillRect(box.x, y, box.end - box.x, h);
      if (box.mark) {
        ctx.fillStyle = colours[box.mark];
        ctx.fillRect(box.x, y + h - 5, box.end - box.x, 5);
      }
      box = null;
    };
    for (let i = above(row.reach, view.from); i < row.n && row.start[i] < view.to;) {
      let x = Math.max(xOf(row.start[i]), gutter), end = Math.min(xOf(row.end[i]), width);
      let next = i + 1, hit = !found || ofSteps || found.has[row.name[i]];
      if (end - x < 1) {
        next = Math.max(above(row.start, row.start[i] + step, i), i + 1);
        if (next - 1 > i && row.end[next - 1] > row.start[i] + step) next--; // it goes on
        for (let k = i + 1; !hit && k < next; k++) hit = found.has[row.name[k]];
        x = Math.floor(x);
        end = x + 1;
      } else if (end - x > 3) {
        end -= 0.5; // between neighbours
      }
      const of = ofSteps ? 'set' : data.names[row.name[i]][2];
      const alpha = (hit ? 1 : 0.22) * (ofSteps && i % 2 || of === 'idle' ? 0.55 : 1);
      const mark = row.kind === 'work' && changed.size ? changed.get(nameOf({row, i})) : undefined;
      if (box && box.of === of && box.alpha === alpha && box.mark === mark && x <= box.end) {
        box.end = Math.max(box.end, end);
      } else {
        flush();
        box = {x, end, of, alpha, mark};
      }
      if (end - x > 32 && h > 9) {
        flush();
        ctx.globalAlpha = hit ? 1 : 0.4;
        ctx.fillStyle = of === 'range' || of === 'idle' || of === 'set' ? colours.ink : '#fff';
        ctx.fillText(cut(nameOf({row, i}), Math.floor((end - x - 6) / 5.8)), x + 3, y + h / 2 + 0.5, end - x - 5);
      }
      i = next;
    }
    flush();
    ctx.globalAlpha = 1;
  }

  // hatch marks the times that were not kept.
  function hatch(row, y, h) {
    if (row === steps) return;
    let from = view.from;
    ctx.fillStyle = colours.bg;
    ctx.globalAlpha = 0.65;
    for (const w of [...windowsOf(row), {from: Infinity, to: Infinity}]) {
      if (w.to < view.from) continue;
      const x = Math.max(xOf(from), gutter), end = Math.min(xOf(w.from), width);
      if (end > x) ctx.fillRect(x, y, end - x, h);
      from = w.to;
      if (from > view.to) break;
    }
    ctx.globalAlpha = 1;
  }

  const binKinds = ['compute', 'both', 'comm', 'copy'];

  // drawBins draws how busy a GPU was: a column for each pixel, of the bins that are in it.
  function drawBins(row, y, h) {
    const n = row.bytes.length / 4, step = perPixel();
    const first = Math.max(xOf(row.from), gutter), end = Math.min(xOf(row.to), width);
    const wide = Math.max(1, Math.floor(row.width / step));
    for (let x = Math.floor(first); x < end; x += wide) {
      const a = Math.max(Math.floor((timeOf(x) - row.from) / row.width), 0);
      const b = Math.min(Math.max(Math.ceil((timeOf(x + wide) - row.from) / row.width), a + 1), n);
      let bottom = y + h;
      for (let k = 0; k < 4; k++) {
        let sum = 0;
        for (let i = a; i < b; i++) sum += row.bytes[4 * i + k];
        const tall = sum / Math.max(b - a, 1) / 255 * h;
        if (tall < 0.2) continue;
        ctx.fillStyle = colours[binKinds[k]];
        ctx.fillRect(x, bottom - tall, Math.min(wide, end - x), tall);
        bottom -= tall;
      }
    }
  }

  function band(of, colour, alpha, edges) {
    const x = Math.max(xOf(of.from), gutter), end = Math.min(Math.max(xOf(of.to), x + 1), width);
    if (end < gutter || x > width) return;
    ctx.fillStyle = colour;
    ctx.globalAlpha = alpha;
    ctx.fillRect(x, top, end - x, height - top);
    ctx.globalAlpha = 1;
    if (!edges) return;
    ctx.fillRect(x, top, 1, height - top);
    ctx.fillRect(end - 1, top, 1, height - top);
  }

  function boxOf(s, scroll) {
    const line = s && lines.find((l) => l.row === s.row);
    if (!line) return null;
    const x = Math.max(xOf(startOf(s)), gutter), end = Math.min(xOf(endOf(s)), width);
    return end < gutter || x > width ? null : {x, end: Math.max(end, x + 2), y: line.y - scroll, h: line.h};
  }

  function outline(s, scroll) {
    const box = boxOf(s, scroll);
    if (!box || box.y + box.h < top) return;
    ctx.strokeStyle = colours.ink;
    ctx.lineWidth = s === selected ? 2 : 1;
    ctx.strokeRect(box.x, box.y, box.end - box.x, box.h);
  }

  // drawArrows leads from the selected call to its GPU work, or back.
  function drawArrows(scroll) {
    const all = selected ? partners(selected) : [];
    for (const other of all.slice(0, 200)) {
      const box = boxOf(other, scroll);
      if (box && box.end - box.x > 4) outline(other, scroll);
      const [call, work] = selected.row.kind === 'work' ? [other, selected] : [selected, other];
      const a = lines.find((l) => l.row === call.row), b = lines.find((l) => l.row === work.row);
      if (!a || !b) continue;
      const x1 = xOf(startOf(call)), x2 = xOf(startOf(work)), y1 = a.y + a.h - scroll, y2 = b.y - scroll;
      if (Math.max(x1, x2) < gutter || Math.min(x1, x2) > width) continue;
      ctx.save();
      ctx.beginPath();
      ctx.rect(gutter, top, width - gutter, height - top);
      ctx.clip();
      ctx.strokeStyle = ctx.fillStyle = colours.ink;
      ctx.lineWidth = 1.3;
      ctx.beginPath();
      ctx.moveTo(x1, y1);
      ctx.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2 - 5);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x2, y2);
      ctx.lineTo(x2 - 3.5, y2 - 6);
      ctx.lineTo(x2 + 3.5, y2 - 6);
      ctx.fill();
      ctx.restore();
    }
  }

  // drawHead draws the overview of the run, with the view in it, and the axis.
  function drawHead() {
    ctx.fillStyle = colours.bg;
    ctx.fillRect(0, 0, width, top - 2);
    const at = (t) => gutter + (t / whole) * (width - gutter);
    label('whole run', 2, 11, gutter - 8, '', 'ink2');
    ctx.fillStyle = colours.track;
    ctx.fillRect(gutter, 2, width - gutter, 18);
    const saved = view;
    view = {from: 0, to: whole};
    if (binRows.length) drawBins(binRows[0], 2, 18);
    view = saved;
    ctx.fillStyle = colours.line;
    for (const w of data.windows) ctx.fillRect(at(w.from), 20, Math.max(at(w.to) - at(w.from), 1.5), 3);
    ctx.strokeStyle = colours.bad;
    ctx.lineWidth = 1.5;
    const x = Math.max(at(view.from), gutter);
    ctx.strokeRect(x, 1.5, Math.max(Math.min(at(view.to), width) - x - 1, 2), 19);
    drawAxis();
  }

  function drawAxis() {
    const about = (view.to - view.from) / Math.max((width - gutter) / 110, 4);
    const unit = 10 ** Math.floor(Math.log10(about));
    const step = [1, 2, 5, 10].find((m) => m * unit >= about) * unit;
    const hundred = Math.max(step * 100, 1000); // moment has microseconds
    const base = view.from > 10 * hundred ? Math.floor(view.from / hundred) * hundred : 0; // ticks count from it
    if (base > 0) label(base / 1e9 + ' s +', 2, top - 12, gutter - 8, '', 'ink2');
    ctx.textAlign = 'center';
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      const x = xOf(t);
      if (x < gutter) continue;
      ctx.fillStyle = colours.rule;
      ctx.fillRect(x, top - 6, 1, 4);
      const [of, name] = units.find(([u]) => step >= u) || units[3];
      label(`${Math.round((t - base) / of).toLocaleString('en')} ${name}`, x, top - 12, 100, '', 'ink2');
    }
    ctx.textAlign = 'left';
  }

  // ---- What is selected, and what a search finds ----------------------------------------------------------------

  const element = (tag, text, of = {}) => Object.assign(document.createElement(tag), {textContent: text}, of);

  function select(s) {
    selected = s;
    const box = $('details');
    box.replaceChildren();
    if (s) {
      box.append(element('h3', fullOf(s)));
      box.append(element('p', `${duration(endOf(s) - startOf(s))}, from ${moment(startOf(s))} on, ${whereOf(s.row)}`));
      for (const line of detailOf(s).split('\n').filter(Boolean)) box.append(element('p', line));
      const others = partners(s), buttons = element('p', '');
      buttons.append(button('zoom to it', () => look(...around(s))));
      others.slice(0, 3).forEach((o) => {
        const what = s.row.kind === 'work' ? 'its call' : 'its GPU work';
        buttons.append(button(`${what}: ${cut(nameOf(o), 60)}, ${duration(endOf(o) - startOf(o))}`, () => go(o)));
      });
      if (others.length > 3) buttons.append(` and ${others.length - 3} more`);
      box.append(buttons);
      reveal(s.row);
    }
    keep();
    draw();
  }
  const button = (text, does) => Object.assign(element('button', text, {type: 'button'}), {onclick: does});
  const around = (s) => {
    const length = Math.max(endOf(s) - startOf(s), 1000);
    return [startOf(s) - length, endOf(s) + length];
  };

  // go selects a slice and brings it into view, with the zoom that is, unless it would be too small or too large.
  function go(s) {
    select(s);
    const length = view.to - view.from, own = endOf(s) - startOf(s);
    if (own * 400 < length || own > length) look(startOf(s) - 4 * own - 1000, endOf(s) + 4 * own + 1000);
    else if (startOf(s) < view.from || endOf(s) > view.to) look(startOf(s) - length / 3, startOf(s) + length * 2 / 3);
  }

  function search(text) {
    found = null;
    if (text) {
      text = text.toLowerCase();
      const has = data.names.map((n) => n[0].toLowerCase().includes(text) || n[1].toLowerCase().includes(text));
      const list = [];
      for (const row of rows) for (let i = 0; i < row.n; i++) if (has[row.name[i]]) list.push({row, i});
      list.sort((a, b) => startOf(a) - startOf(b));
      found = {has, list, at: -1};
    }
    said();
    draw();
  }
  function step(by) {
    if (!found || !found.list.length) return;
    const n = found.list.length;
    if (found.at < 0) { // from the view on
      const next = found.list.findIndex((s) => startOf(s) >= view.from);
      found.at = (next < 0 ? n : next) - (by > 0 ? 1 : 0);
    }
    found.at = (found.at + by + n) % n;
    go(found.list[found.at]);
    said();
  }
  function said() {
    $('count').textContent = !found ? '' : !found.list.length ? 'not found' :
      found.at < 0 ? `${found.list.length.toLocaleString('en')} found` : `${found.at + 1} of ${found.list.length}`;
  }

  // longest is the longest slice of a name, nil for none.
  function longest(name) {
    const is = data.names.map((n) => n[0] === name || n[1] === name);
    let best = null;
    for (const row of rows) {
      for (let i = 0; i < row.n && !row.base; i++) {
        if (is[row.name[i]] && (!best || row.end[i] - row.start[i] > endOf(best) - startOf(best))) best = {row, i};
      }
    }
    return best;
  }

  // ---- Sums of a range ------------------------------------------------------------------------------------------

  const add = (map, key, ns) => map.set(key, (map.get(key) || 0) + ns);
  const largest = (map, most) => [...map].filter(([, ns]) => ns > 0).sort((a, b) => b[1] - a[1]).slice(0, most);

  // overlaps calls back for the slices of a row between two times, with the time that they have there.
  function overlaps(row, from, to, each) {
    for (let i = above(row.reach, from); i < row.n && row.start[i] < to; i++) {
      const ns = Math.min(row.end[i], to) - Math.max(row.start[i], from);
      if (ns > 0) each(i, ns);
    }
  }

  // sumsOf sums what a GPU of a process did: busy time, kernels, and idle time by what the launching thread did.
  function sumsOf(process, gpu, parts) {
    const own = rows.filter((r) => r.process === process && r.kind === 'work' && r.gpu === gpu && r.n);
    const sums = {busy: 0, kernels: new Map(), idle: new Map(), pieces: new Set()};
    for (const part of parts) sumPart(own, part, sums);
    return sums;
  }
  function sumPart(own, {from, to}, sums) {
    const work = [], {kernels, idle} = sums;
    for (const row of own) {
      overlaps(row, from, to, (i, ns) => {
        work.push({row, i});
        add(kernels, nameOf({row, i}), ns);
      });
    }
    work.sort((a, b) => startOf(a) - startOf(b));
    let until = from;
    for (const s of work) {
      sums.pieces.add(s.row.index + ',' + s.i);
      if (startOf(s) > until) owners(until, s, idle);
      sums.busy += Math.max(Math.min(endOf(s), to) - Math.max(startOf(s), until), 0);
      until = Math.max(until, endOf(s));
    }
    if (until < to) add(idle, 'before work that is not in the range', to - until);
  }

  // owners divides the gap before a piece of work: until its call had returned, by what the calling thread did; then
  // its start.
  function owners(from, s, idle) {
    const to = startOf(s), call = partners(s)[0];
    if (!call) return add(idle, '(call not known)', to - from);
    const late = Math.min(Math.max(endOf(call), from), to);
    let rest = late - from;
    const of = call.row;
    const ofThread = (kind) => rows.filter((r) => r.kind === kind && r.id === of.id && r.process === of.process);
    const calls = ofThread('call').slice(0, 1);
    for (const row of calls) {
      overlaps(row, from, late, (i, ns) => {
        add(idle, nameOf({row, i}), ns);
        rest -= ns;
      });
    }
    for (const row of ofThread('state')) {
      overlaps(row, from, late, (i, ns) => {
        const inCalls = (c, part) => { ns -= part; }; // whose time they are
        for (const o of calls) overlaps(o, Math.max(row.start[i], from), Math.min(row.end[i], late), inCalls);
        add(idle, nameOf({row, i}), ns);
        rest -= ns;
      });
    }
    if (rest > 0) add(idle, '(outside of CUDA calls)', rest);
    const queued = endOf(call) <= from;
    add(idle, queued ? '(queued: waits for other work, or starts)' : '(start of work on an idle GPU)', to - late);
  }

  function sum() {
    const box = $('sums');
    box.replaceChildren();
    if (!range) return;
    const length = range.to - range.from;
    box.append(element('h3', `${duration(length)}, from ${moment(range.from)} on`));
    const partsOf = (windows) => keptOf(windows, Math.max(range.from, 0), Math.min(range.to, whole));
    const lengthOf = (parts) => parts.reduce((all, p) => all + p.to - p.from, 0);
    const is = lengthOf(partsOf(data.windows));
    if (is < Math.min(range.to, whole) - Math.max(range.from, 0)) {
      box.append(element('p', `Of this time ${duration(is)} are kept call by call: the sums are of these.`));
    }
    const table = element('table', ''), head = element('tr', '');
    ['', 'busy', 'kernels and copies with most time', 'idle, by what the launching thread did'].forEach((text) =>
      head.append(element('th', text, {scope: 'col'})));
    table.append(head);
    const cell = (row, list) => {
      const td = element('td', '');
      list.forEach(([name, ns]) => td.append(element('div', `${duration(ns)}  ${cut(name, 60)}`)));
      row.append(td);
    };
    const gpus = new Map(rows.filter((r) => r.kind === 'work' && r.n).map((r) => [r.process + ',' + r.gpu, r]));
    for (const first of [...gpus.values()].slice(0, 16)) {
      const {process, gpu} = first, parts = partsOf(windowsOf(first)), of = lengthOf(parts);
      const s = sumsOf(process, gpu, parts), row = element('tr', '');
      const name = data.processes.length > 1 ? data.processes[process] + ', ' : '';
      row.append(element('th', `${name}GPU ${gpu}`, {scope: 'row'}));
      const pieces = s.pieces.size.toLocaleString('en');
      row.append(element('td', of ? `${percent(s.busy / of)}, ${duration(s.busy)}, ${pieces} ×` : 'not kept'));
      cell(row, largest(s.kernels, 5));
      cell(row, largest(s.idle, 5));
      table.append(row);
    }
    box.append(table, button('close', () => {
      range = null;
      sum();
      draw();
    }));
  }

  // ---- Input ----------------------------------------------------------------------------------------------------

  // under is the slice at a place of the canvas, at most three pixels away.
  function under(x, y) {
    if (x < gutter || y < top) return null;
    const line = lines.find((l) => y + frame.scrollTop >= l.y && y + frame.scrollTop <= l.y + l.h);
    if (!line || !line.row.start) return null;
    const row = line.row, t = timeOf(x), near = 3 * perPixel();
    let best = null, apart = near;
    for (let i = above(row.reach, t - near); i < row.n && row.start[i] <= t + near; i++) {
      const d = Math.max(row.start[i] - t, t - row.end[i], 0);
      if (d < apart || d === 0) [best, apart] = [{row, i}, d];
      if (i > 0 && row.start[i] > t) break;
    }
    return best;
  }

  function hover(e) {
    const s = under(e.offsetX, e.offsetY);
    if ((s && s.row) !== (hovered && hovered.row) || (s && s.i) !== (hovered && hovered.i)) {
      hovered = s;
      draw();
    }
    tip.hidden = !s;
    if (!s) return;
    const what = `${duration(endOf(s) - startOf(s))}, ${whereOf(s.row)}`;
    tip.replaceChildren(element('b', cut(nameOf(s), 200)), element('div', what));
    const call = s.row.kind === 'work' ? partners(s)[0] : null;
    for (const line of detailOf(s).split('\n').slice(0, 4)) if (line) tip.append(element('div', cut(line, 160)));
    if (call) tip.append(element('div', `launched by ${nameOf(call)}, ${duration(startOf(s) - startOf(call))} before`));
    const room = frame.clientWidth - tip.offsetWidth - 4;
    tip.style.left = Math.max(0, Math.min(e.offsetX + 14, room)) + 'px';
    tip.style.top = Math.min(e.offsetY + 16, Math.max(0, height - tip.offsetHeight - 4)) + frame.offsetTop + 'px';
  }

  // Pointers: one drags the view, with Shift it selects a range, in the overview it moves the view; two zoom.
  const pointers = new Map();
  let drag = null;
  canvas.addEventListener('pointerdown', (e) => {
    canvas.focus({preventScroll: true});
    canvas.setPointerCapture(e.pointerId);
    pointers.set(e.pointerId, e.offsetX);
    const kind = e.offsetY < 24 && e.offsetX > gutter ? 'overview' : e.shiftKey ? 'range' : 'view';
    drag = {kind, x: e.offsetX, y: e.clientY, view, scroll: frame.scrollTop, moved: false};
    if (kind === 'overview') overview(e.offsetX);
  });
  canvas.addEventListener('pointermove', (e) => {
    if (!drag) return hover(e);
    const before = [...pointers.values()];
    pointers.set(e.pointerId, e.offsetX);
    const now = [...pointers.values()];
    if (now.length === 2) {
      drag.moved = true;
      const apart = (list) => Math.max(Math.abs(list[0] - list[1]), 10);
      return zoom(apart(before) / apart(now), timeOf((now[0] + now[1]) / 2));
    }
    if (Math.abs(e.offsetX - drag.x) + Math.abs(e.clientY - drag.y) > 4) drag.moved = true;
    if (drag.kind === 'overview') return overview(e.offsetX);
    if (!drag.moved) return;
    if (drag.kind === 'range') {
      const ends = [timeOf(Math.max(drag.x, gutter)), timeOf(Math.max(e.offsetX, gutter))].sort((a, b) => a - b);
      range = {from: ends[0], to: ends[1]};
      return draw();
    }
    const by = (drag.x - e.offsetX) * (drag.view.to - drag.view.from) / (width - gutter);
    if (e.pointerType !== 'touch') frame.scrollTop = drag.scroll + drag.y - e.clientY;
    look(drag.view.from + by, drag.view.to + by);
  });
  const up = (e) => {
    pointers.delete(e.pointerId);
    if (drag && drag.kind === 'range') sum();
    if (drag && !drag.moved && e.type === 'pointerup' && drag.kind === 'view') click(e);
    if (!pointers.size) drag = null;
    for (const x of pointers.values()) Object.assign(drag, {x, view}); // the other finger goes on from here
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', () => {
    hovered = null;
    tip.hidden = true;
    draw();
  });
  const overview = (x) => {
    const at = (x - gutter) / (width - gutter) * whole, half = (view.to - view.from) / 2;
    look(at - half, at + half);
  };
  function click(e) {
    const line = lines.find((l) => e.offsetY + frame.scrollTop >= l.y && e.offsetY + frame.scrollTop <= l.y + l.h);
    if (e.offsetY >= top && line && line.row.kind === 'head') return fold(line.row.process);
    select(under(e.offsetX, e.offsetY));
  }
  function fold(process) {
    if (!folded.delete(process)) folded.add(process);
    layOut();
  }
  canvas.addEventListener('dblclick', (e) => {
    const s = under(e.offsetX, e.offsetY);
    if (s) look(...around(s)); else zoom(0.4, timeOf(e.offsetX));
  });

  // The wheel zooms once the timeline has the focus, or with Ctrl: else it scrolls the page, as everywhere.
  canvas.addEventListener('wheel', (e) => {
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey) {
      e.preventDefault();
      pan((e.deltaX || e.deltaY) / (width - gutter));
    } else if (e.ctrlKey || e.metaKey || document.activeElement === canvas) {
      e.preventDefault();
      zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * 0.004), timeOf(Math.max(e.offsetX, gutter)));
    }
  }, {passive: false});

  // beside selects the slice before or after the selected one, or the one above or below it.
  function beside(x, y) {
    if (!selected) {
      const first = lines.find((l) => l.row.start && l.row !== steps);
      const i = first ? above(first.row.reach, view.from) : -1;
      if (first && i < first.row.n) select({row: first.row, i});
      return;
    }
    if (x) {
      const i = selected.i + x;
      if (i >= 0 && i < selected.row.n) go({row: selected.row, i});
      return;
    }
    const list = lines.filter((l) => l.row.start && l.row.n), at = list.findIndex((l) => l.row === selected.row) + y;
    if (!list[at]) return;
    const i = Math.min(above(list[at].row.reach, startOf(selected)), list[at].row.n - 1);
    go({row: list[at].row, i});
  }

  const keys = {
    w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.15), d: () => pan(0.15), '+': () => zoom(0.7),
    '-': () => zoom(1 / 0.7), 0: () => look(0, whole), Home: () => look(0, whole), ArrowLeft: () => beside(-1, 0),
    ArrowRight: () => beside(1, 0), ArrowUp: () => beside(0, -1), ArrowDown: () => beside(0, 1),
    Enter: () => selected && look(...around(selected)), l: () => selected && partners(selected).slice(0, 1).forEach(go),
    n: () => step(1), p: () => step(-1), '/': () => $('search').focus(),
    f: () => selected && selected.row.process >= 0 && fold(selected.row.process),
    r: () => {
      range = {...view};
      sum();
    },
    Escape: () => {
      range = marked = null;
      sum();
      select(null);
    },
  };
  canvas.addEventListener('keydown', (e) => {
    const does = keys[e.key] || keys[e.key.toLowerCase()];
    if (!does || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    does();
  });
  $('search').addEventListener('input', (e) => search(e.target.value));
  $('search').addEventListener('keydown', (e) => {
    if (e.key === 'Enter') step(e.shiftKey ? -1 : 1);
    if (e.key === 'Escape') {
      e.target.value = '';
      search('');
      canvas.focus({preventScroll: true});
    }
  });
  for (const [id, does] of [['prev', () => step(-1)], ['next', () => step(1)], ['in', keys.w], ['out', keys.s],
    ['left-move', keys.a], ['right-move', keys.d], ['all', keys[0]]]) $(id).onclick = does;

  // ---- The start ------------------------------------------------------------------------------------------------

  // What the page shows elsewhere leads here: data-t has a time and a process, data-find a name.
  function lead(of, does, what) {
    if (of instanceof SVGElement) {
      of.setAttribute('tabindex', '0');
      of.setAttribute('role', 'button');
      of.setAttribute('aria-label', 'show in the timeline: ' + what);
      of.classList.add('leads');
      of.addEventListener('click', does);
      of.addEventListener('keydown', (e) => {
        if (e.key === 'Enter' || e.key === ' ') {
          e.preventDefault();
          does();
        }
      });
    } else {
      const b = button('show', does);
      b.className = 'show';
      b.setAttribute('aria-label', 'show in the timeline: ' + what);
      (of.tagName === 'TR' ? of.cells[0] : of).append(' ', b);
    }
  }
  for (const of of document.querySelectorAll('[data-t]')) {
    const [from, to, pid] = of.dataset.t.split(',').map(Number);
    lead(of, () => show(from, to, pid), of.dataset.what || moment(from));
  }
  // The map of steps and ranks: a click, or Enter after arrow keys, leads to that step of that rank.
  function leadFromMap(map, svg) {
    const cell = document.createElementNS(svg.namespaceURI, 'rect');
    let column = 0, row = 0;
    const at = (x, y) => {
      column = Math.max(0, Math.min(x, map.steps.length - 1));
      row = Math.max(0, Math.min(y, map.pids.length - 1));
      const {left, top, width, height} = map, place = {x: left + column * width, y: top + row * height, width, height};
      for (const [name, value] of Object.entries(place)) cell.setAttribute(name, value);
      svg.append(cell);
      const name = data.processes[data.pids.indexOf(map.pids[row])] || '';
      svg.setAttribute('aria-label', `Steps and ranks: ${moment(map.steps[column][0])}, ${name}. Enter shows it.`);
    };
    const go = () => show(map.steps[column][0], map.steps[column][1], map.pids[row]);
    document.querySelector('#ranks .note').append(' A click on a step shows it in the timeline.');
    cell.setAttribute('class', 'shown');
    svg.setAttribute('tabindex', '0');
    svg.setAttribute('role', 'application');
    svg.setAttribute('aria-label', 'Steps and ranks: arrow keys choose a step of a rank, Enter shows it.');
    svg.classList.add('leads');
    svg.addEventListener('click', (e) => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = ((e.clientX - box.left) * scale - map.left) / map.width;
      const y = ((e.clientY - box.top) * scale - map.top) / map.height;
      if (x < 0 || y < 0 || x >= map.steps.length || y >= map.pids.length) return;
      at(Math.floor(x), Math.floor(y));
      go();
    });
    svg.addEventListener('keydown', (e) => {
      const by = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[e.key];
      if (by) at(column + by[0], row + by[1]);
      if (e.key === 'Enter') go();
      if (by || e.key === 'Enter') e.preventDefault();
    });
  }
  const map = document.querySelector('#ranks svg.chart');
  if (data.map && map) leadFromMap(data.map, map);

  const known = new Set();
  for (const row of rows.filter((r) => !r.base)) {
    for (const name of row.name) known.add(data.names[name][0]).add(data.names[name][1]);
  }
  for (const of of document.querySelectorAll('[data-find]')) {
    const name = of.dataset.find;
    if (!known.has(name)) continue;
    lead(of, () => {
      const s = longest(name);
      $('search').value = name;
      search(name);
      found.at = found.list.findIndex((o) => o.row === s.row && o.i === s.i);
      said();
      select(s);
      look(...around(s));
      section.scrollIntoView({block: 'start'});
      canvas.focus({preventScroll: true});
    }, name);
  }
  data.moments.forEach((m, value) =>
    $('moments').append(element('option', m.title + (m.kept ? '' : ' (whole run only)'), {value})));
  $('moments').addEventListener('change', (e) => {
    const m = data.moments[e.target.value];
    if (m) show(m.from, m.to, m.process >= 0 ? data.pids[m.process] : -1);
  });
  if (data.left.length) $('left').textContent = 'Not in this page, for its size: ' + data.left.join('; ') + '.';

  if (data.base && data.moments.length) {
    compare(data.moments[0]);
    $('base').textContent = 'The typical step of the earlier run (base) stands below that of this one, moved to the ' +
      'same beginning. A line under a kernel: red, it takes longer in this step than in the earlier one; green, ' +
      'shorter; violet, only one of them has it.';
  }
  section.hidden = false;
  frame.addEventListener('scroll', draw);
  window.addEventListener('resize', layOut);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', readColours);
  readColours();
  layOut();
  const first = data.moments[0];
  if (first && first.kept) look(first.from - (first.to - first.from) / 8, first.to + (first.to - first.from) / 8);
  clearTimeout(later); // nobody has moved it yet
  window.addEventListener('hashchange', follow);
  follow();
})();
