// SPDX-License-Identifier: Apache-2.0
// The page's behaviour. Every text from the data goes in as textContent: names may hold anything.
'use strict';
(function () {
  // ---- data: arrays by position, as emit_page.c writes them ----
  const D = JSON.parse(document.getElementById('data').textContent);
  const OP = { name: 0, kind: 1, cost: 2, workspace: 3, runs: 4, extra: 5, freed: 6, what: 7, from: 8, module: 9, source: 10, block: 11, bytes: 12 };
  const LIFE = { tensor: 0, op: 1, what: 2, first: 3, last: 4, bytes: 5, offset: 6, handed: 7 };
  const RE = { op: 0, moment: 1, tensor: 2, freed: 3, goneFirst: 4, goneLast: 5, fullest: 6, held: 7, forOp: 8, forMoment: 9 };
  const MOVE = { tensor: 0, out: 1, bytes: 2, issued: 3, begin: 4, end: 5, stall: 6, moment: 7 };
  const CLASS = { fixed: 0, input: 1, kept: 2, passing: 3, again: 4, gradient: 5, workspace: 6, back: 7 };
  const KINDS = ['forward', 'loss', 'backward', 'update'];
  const nMoments = D.moments.length;
  const nClasses = D.classes.length;

  // ---- numbers for people ----
  function scaled(value, units, base) {
    let step = 0;
    while (Math.abs(value) >= 999.5 && step < units.length - 1) { value /= base; step++; }
    const digits = step === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return value.toFixed(digits) + ' ' + units[step];
  }
  const bytes = (b) => scaled(b, ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'], 1000);
  function cost(c) {
    if (D.unit === 'flops') { return scaled(c, ['MACs', 'kMACs', 'MMACs', 'GMACs', 'TMACs', 'PMACs', 'EMACs'], 1000); }
    return scaled(c, D.unit === 'ns' ? ['ns', 'µs', 'ms', 's'] : ['µs', 'ms', 's'], 1000);
  }
  function percent(f) {
    const p = 100 * f;
    if (p > 0 && p < 0.00005) { return '< 0.0001 %'; }
    return p.toFixed(p === 0 || Math.abs(p) >= 10 ? 1 : Math.abs(p) >= 0.1 ? 2 : 4) + ' %';
  }
  const count = (n, one, many) => n.toLocaleString('en') + ' ' + (n === 1 ? one : many);
  const ordinal = (n) => n + (n % 100 >= 11 && n % 100 <= 13 ? 'th' : ['th', 'st', 'nd', 'rd'][n % 10] || 'th');

  // ---- elements ----
  const $ = (id) => document.getElementById(id);
  function make(tag, className, text) {
    const e = document.createElement(tag);
    if (className) { e.className = className; }
    if (text !== undefined) { e.textContent = text; }
    return e;
  }
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  let color = {};
  function readColors() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue('--' + name).trim();
    color = { ink: get('ink'), soft: get('soft'), faint: get('faint'), panel: get('panel'), warn: get('warn'), edge: get('edge'), classes: [] };
    for (let c = 0; c < nClasses; c++) { color.classes.push(get('c' + c)); }
  }
  readColors();

  // A canvas as large as its element, in device pixels; gives a context in CSS pixels.
  function prepare(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const w = canvas.clientWidth;
    const h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, w, h);
    return { context, w, h };
  }

  // One call per frame, however often it is asked for.
  function once(fn) {
    let asked = false;
    return function () {
      if (!asked) {
        asked = true;
        requestAnimationFrame(function () { asked = false; fn(); });
      }
    };
  }

  const tip = $('tip');
  function showTip(event, title, lines) {
    tip.replaceChildren(make('b', '', title), ...lines.map((line) => make('span', '', line)));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = event.clientX + 16 + box.width > window.innerWidth;
    const below = event.clientY + 16 + box.height > window.innerHeight;
    tip.style.left = Math.max(4, right ? event.clientX - box.width - 12 : event.clientX + 16) + 'px';
    tip.style.top = Math.max(4, below ? event.clientY - box.height - 12 : event.clientY + 16) + 'px';
  }
  function hideTip() { tip.hidden = true; }

  // A list of which only the rows in sight exist.
  function virtualList(box, rowHeight, fill) {
    const inside = make('div');
    inside.style.position = 'relative';
    box.replaceChildren(inside);
    let n = 0;
    const draw = once(function () {
      const first = Math.max(0, Math.floor(box.scrollTop / rowHeight) - 4);
      const last = Math.min(n, Math.ceil((box.scrollTop + box.clientHeight) / rowHeight) + 4);
      const rows = [];
      for (let i = first; i < last; i++) {
        const row = make('div', 'row');
        row.style.top = i * rowHeight + 'px';
        row.style.height = rowHeight + 'px';
        fill(row, i);
        rows.push(row);
      }
      inside.replaceChildren(...rows);
    });
    box.addEventListener('scroll', draw, { passive: true });
    window.addEventListener('resize', draw);
    return function (rows) {
      n = rows;
      inside.style.height = n * rowHeight + 'px';
      box.scrollTop = 0;
      draw();
    };
  }

  function swatch(what) {
    const i = make('i');
    i.style.background = 'var(--c' + what + ')';
    return i;
  }
  // With the part of the model that it belongs to: "layers.3.mlp: addmm_12".
  const label = (op, name) => (D.ops[op][OP.module] ? D.ops[op][OP.module] + ': ' : '') + name;
  const opName = (op) => label(op, D.ops[op][OP.name]);
  function lifeName(life) {
    return life[LIFE.tensor] >= 0 ? label(life[LIFE.op], D.tensors[life[LIFE.tensor]]) : 'workspace of ' + opName(life[LIFE.op]);
  }

  // ---- derived: bytes of every class at every moment ----
  const stack = [];
  for (let c = 0; c < nClasses; c++) { stack.push(new Float64Array(nMoments + 2)); }
  stack[CLASS.fixed][0] = D.fixed;
  stack[CLASS.input][0] = D.inputs;
  for (const life of D.lives) {
    const first = life[LIFE.first] + life[LIFE.handed];
    if (first <= life[LIFE.last]) {
      stack[life[LIFE.what]][first] += life[LIFE.bytes];
      stack[life[LIFE.what]][life[LIFE.last] + 1] -= life[LIFE.bytes];
    }
  }
  for (const of of stack) {
    for (let m = 1; m < of.length; m++) { of[m] += of[m - 1]; }
  }
  const present = stack.map((of) => of.subarray(0, nMoments).some((b) => b > 0));

  // ---- summary ----
  const overhead = D.baselineCost > 0 ? D.cost / D.baselineCost - 1 : 0;
  const againOps = D.ops.map((op, i) => i).filter((i) => D.ops[i][OP.runs] > 1);
  (function summary() {
    const saved = D.baselinePeak > 0 ? 1 - D.peak / D.baselinePeak : 0;
    let text = 'One training step in ' + bytes(D.peak);
    text += saved > 0.0005 ? ', ' + percent(saved) + ' less than the ' + bytes(D.baselinePeak) + ' it takes to keep everything' : '';
    text += againOps.length > 0
      ? ': ' + count(againOps.length, 'operator', 'operators') + ' of ' + D.ops.length.toLocaleString('en') +
        ' run again when their result is needed once more, which adds ' + percent(overhead) + ' to the computation.'
      : ', with nothing computed twice.';
    $('verdict').textContent = text;
    const covers = { any: 'for any schedule', order: 'for any in this order', frontier: 'for any that advances by stages' };
    const cards = [
      ['Peak', bytes(D.peak), 'in ' + opName(D.moments[D.peakMoment][0])],
      ['Budget', D.budget >= 0 ? bytes(D.budget) : 'none', D.budget >= 0 && D.baselinePeak > 0 ? percent(D.budget / D.baselinePeak) + ' of the peak without' : ''],
      ['Without rematerialization', bytes(D.baselinePeak), 'peak in ' + opName(D.baselinePeakOp)],
      [D.transfers.length > 0 ? 'Extra time' : 'Extra computation', percent(overhead), cost(D.cost - D.baselineCost) + ' more than ' + cost(D.baselineCost)],
      ['Proven least', D.bound !== null && D.baselineCost > 0 ? percent(Math.max(0, D.bound / D.baselineCost - 1)) : 'unknown',
        D.bound !== null ? (D.optimal ? 'reached: the least ' : 'at least, ') + (covers[D.boundCovers] || '') : 'no bound was proven'],
      ['Computed again', againOps.length.toLocaleString('en'), count(D.recomputes.length, 'more run', 'more runs') + ', by ' + (D.strategy || 'unknown')],
    ];
    for (const [term, value, note] of cards) {
      const card = make('div');
      const dd = make('dd', '', value);
      const small = make('small', '', note);
      small.title = note;  // long names are cut
      dd.append(small);
      card.append(make('dt', '', term), dd);
      $('cards').append(card);
    }
    for (let c = 0; c < nClasses; c++) {
      if (present[c]) {
        const li = make('li', '', D.classes[c]);
        li.prepend(swatch(c));
        $('legend').append(li);
      }
    }
    const line = make('li', '', 'without rematerialization');
    line.prepend(make('i', 'line'));
    $('legend').append(line);
    if (D.budget >= 0) {
      const budget = make('li', '', 'budget');
      budget.prepend(make('i', 'line dashed'));
      $('legend').append(budget);
    }
  })();

  // ---- other ways to run the step ----
  (function ways() {
    if (D.ways.length === 0) { return; }
    const all = D.ways.map(([name, note, peak, spent]) => ({ name, note, peak, spent, chosen: false }));
    all.push({ name: D.chosen || 'this schedule', note: 'shown on this page', peak: D.peak, spent: D.cost, chosen: true });
    const most = { peak: Math.max(1, ...all.map((w) => w.peak)), spent: Math.max(1, ...all.map((w) => w.spent - D.baselineCost)) };
    for (const way of all) {
      const row = make('tr', way.chosen ? 'chosen' : '');
      const meter = function (className, part, text) {
        const cell = make('td');
        const box = make('span', 'meter ' + className);
        const b = make('b');
        b.style.width = 100 * Math.max(0, part) + '%';
        box.append(b);
        cell.append(box, text);
        return cell;
      };
      const extra = way.spent - D.baselineCost;
      row.append(make('td', '', way.name), meter('', way.peak / most.peak, bytes(way.peak)),
        meter('cost', extra / most.spent, percent(D.baselineCost > 0 ? extra / D.baselineCost : 0)), make('td', '', way.note));
      $('ways-rows').append(row);
    }
    $('ways').hidden = false;
  })();

  // ---- timeline ----
  let current = D.peakMoment;
  let held = false;
  const rows = [];
  for (let m = 0; m <= nMoments; m++) {
    const at = Math.min(m, nMoments - 1);
    rows.push([m, D.moments[at][2], m < D.baseline.length ? D.baseline[m] : m === D.baseline.length ? D.baseline[m - 1] : null]);
  }
  for (let m = nMoments + 1; m <= D.baseline.length; m++) { rows.push([m, null, D.baseline[Math.min(m, D.baseline.length - 1)]]); }
  const highest = Math.max(D.peak, D.baselinePeak, D.budget >= 0 && D.budget < 1.3 * Math.max(D.peak, D.baselinePeak) ? D.budget : 0);

  function drawStacks(context, area, g) {
    // One bar a pixel, of the fullest moment in it.
    const [low, high] = g.xAxisRange();
    const bottom = g.toDomYCoord(0);
    for (let px = 0; px < area.w; px++) {
      const from = Math.floor(low + (px / area.w) * (high - low));
      const to = Math.max(from + 1, Math.ceil(low + ((px + 1) / area.w) * (high - low)));
      let fullest = -1;
      for (let m = Math.max(0, from); m < to && m < nMoments; m++) {
        if (fullest < 0 || D.moments[m][2] > D.moments[fullest][2]) { fullest = m; }
      }
      let base = 0;
      for (let c = 0; c < nClasses && fullest >= 0; c++) {
        const b = stack[c][fullest];
        if (b > 0) {
          const y0 = bottom - (bottom - g.toDomYCoord(base + b));
          const y1 = g.toDomYCoord(base);
          context.fillStyle = color.classes[c];
          context.fillRect(area.x + px, y0, 1.02, y1 - y0);
          base += b;
        }
      }
    }
    const line = function (x0, y0, x1, y1, style, dash) {
      context.strokeStyle = style;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
      context.setLineDash([]);
    };
    context.lineWidth = 1;
    if (D.turn >= 0) {
      const x = Math.round(g.toDomXCoord(D.turn)) + 0.5;
      if (x > area.x && x < area.x + area.w) {
        line(x, area.y, x, area.y + area.h, color.soft, [2, 4]);
        context.fillStyle = color.soft;
        context.font = '12px system-ui, sans-serif';
        context.textAlign = 'right';
        context.fillText('forward', x - 7, area.y + 12);
        context.textAlign = 'left';
        context.fillText('backward', x + 7, area.y + 12);
      }
    }
    if (D.budget >= 0 && D.budget <= highest) {
      context.lineWidth = 1.6;
      const y = Math.round(g.toDomYCoord(D.budget)) + 0.5;
      line(area.x, y, area.x + area.w, y, color.warn, [7, 5]);
    }
  }

  const left = 64;
  const cursor = make('div', 'cursor');
  document.querySelector('.plots').append(cursor);
  let g = null;  // Dygraphs calls back while it is being made
  g = new Dygraph($('timeline'), rows, {
    labels: ['operators run', 'schedule', 'without'],
    colors: ['transparent', color.ink],
    stepPlot: true,
    strokeWidth: 1.3,
    legend: 'never',
    highlightCircleSize: 0,
    drawAxesAtZero: false,
    dateWindow: [0, Math.max(nMoments, D.baseline.length)],
    valueRange: [0, highest * 1.08 || 1],
    xRangePad: 0,
    showRangeSelector: true,
    rangeSelectorHeight: 30,
    rangeSelectorPlotStrokeColor: '',
    rangeSelectorPlotFillColor: color.classes[CLASS.kept],
    rangeSelectorPlotFillGradientColor: color.classes[CLASS.kept],
    rangeSelectorForegroundStrokeColor: color.soft,
    rangeSelectorBackgroundStrokeColor: color.faint,
    axisLineColor: color.soft,
    gridLineColor: color.faint,
    rightGap: 8,
    axes: {
      y: { axisLabelWidth: left, axisLabelFormatter: (v) => (v === 0 ? '0' : bytes(v).replace(/\.0+ /, ' ')), pixelsPerLabel: 44, drawGrid: true },
      x: { axisLabelFormatter: (v) => (Number.isInteger(v) ? v.toLocaleString('en') : ''), pixelsPerLabel: 90, drawGrid: false },
    },
    underlayCallback: drawStacks,
    // Dragging over a stretch zooms in on it; with a range selector Dygraphs would pan.
    interactionModel: Dygraph.defaultInteractionModel,
    drawCallback: function () { drawArena(); placeCursor(); },
  });

  function placeCursor() {
    if (g === null) { return; }
    const area = g.getArea();
    const x = g.toDomXCoord(current + 0.5);
    cursor.hidden = x < area.x || x > area.x + area.w;
    cursor.style.left = x + 'px';
    cursor.style.bottom = '24px';
  }

  function momentAt(event, element) {
    const box = element.getBoundingClientRect();
    const m = Math.floor(g.toDataXCoord(event.clientX - box.left));
    return Math.max(0, Math.min(nMoments - 1, m));
  }

  // ---- what is there at the moment ----
  let live = [];
  const fillLive = virtualList($('live'), 26, function (row, i) {
    const life = live[i];
    const name = make('span', 'name', lifeName(life));
    name.title = name.textContent;
    name.prepend(swatch(life[LIFE.what]));
    row.append(name, make('span', 'size', bytes(life[LIFE.bytes])));
  });
  const showMoment = once(function () {
    const [op, execution, used] = D.moments[current];
    $('moment-when').textContent = (held ? 'Held at ' : current === D.peakMoment ? 'The peak, ' : '') + 'operator ' +
      (current + 1).toLocaleString('en') + ' of ' + nMoments.toLocaleString('en');
    $('moment-op').textContent = opName(op);
    $('moment-what').textContent = (D.ops[op][OP.source] ? D.ops[op][OP.source] + ': ' : '') + KINDS[D.ops[op][OP.kind]] + (execution > 0 ? ', ' + ordinal(execution + 1) + ' time' : '') +
      ', ' + cost(D.ops[op][OP.cost]) + '. ' + bytes(used) + ' in use' +
      (D.budget >= 0 && D.budget >= used ? ', ' + bytes(D.budget - used) + ' below the budget.' : '.');
    const parts = [];
    for (let c = 0; c < nClasses; c++) {
      const b = stack[c][current];
      if (b > 0) {
        const part = make('span');
        part.style.width = (100 * b) / (used || 1) + '%';
        part.style.background = 'var(--c' + c + ')';
        part.title = D.classes[c] + ': ' + bytes(b);
        parts.push(part);
      }
    }
    $('moment-bar').replaceChildren(...parts);
    live = D.lives.filter((life) => life[LIFE.first] + life[LIFE.handed] <= current && life[LIFE.last] >= current);
    live.sort((a, b) => b[LIFE.bytes] - a[LIFE.bytes]);
    const always = D.fixed + D.inputs;
    $('moment-count').textContent = count(live.length, 'buffer', 'buffers') + (always > 0 ? ', besides ' + bytes(always) + ' that stay all the time' : '');
    fillLive(live.length);
  });
  function setMoment(m) {
    if (m !== current) {
      current = m;
      showMoment();
      placeCursor();
      showInGraph();
    }
  }
  function hold(m) {
    held = false;
    setMoment(m);
    held = true;
    showMoment();
  }

  const timeline = $('timeline');
  timeline.addEventListener('mousemove', function (event) {
    const m = momentAt(event, timeline);
    if (!held) { setMoment(m); }
    const [op, execution, used] = D.moments[m];
    showTip(event, opName(op), [
      ...(D.ops[op][OP.source] ? [D.ops[op][OP.source]] : []),
      KINDS[D.ops[op][OP.kind]] + (execution > 0 ? ', computed again' : ''),
      bytes(used) + ' in use',
    ]);
  });
  timeline.addEventListener('mouseleave', hideTip);
  let pressedAt = 0;
  timeline.addEventListener('mousedown', (event) => { pressedAt = event.clientX; });
  timeline.addEventListener('click', function (event) {
    if (Math.abs(event.clientX - pressedAt) < 4) {
      if (held) { held = false; setMoment(momentAt(event, timeline)); showMoment(); } else { hold(momentAt(event, timeline)); }
    }
  });
  timeline.addEventListener('keydown', function (event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (step) {
      hold(Math.max(0, Math.min(nMoments - 1, current + step)));
      event.preventDefault();
    } else if (event.key === 'Escape') {
      held = false;
      showMoment();
    }
  });

  // ---- arena ----
  function drawArena() {
    if (g === null) { return; }
    const { context, h } = prepare($('arena'));
    const area = g.getArea();
    const [low, high] = g.xAxisRange();
    const x = (m) => area.x + ((m - low) / (high - low)) * area.w;
    const y = (a) => h - 1 - (a / (D.arena || 1)) * (h - 6);
    context.save();
    context.beginPath();
    context.rect(area.x, 0, area.w, h);
    context.clip();
    const gap = D.lives.length < 1500 ? 0.6 : 0;
    for (const life of D.lives) {
      const from = life[LIFE.first] + life[LIFE.handed];
      if (from > life[LIFE.last] || life[LIFE.last] + 1 < low || from > high) { continue; }
      const x0 = x(from);
      const y1 = y(life[LIFE.offset] + life[LIFE.bytes]);
      context.fillStyle = color.classes[life[LIFE.what]];
      context.fillRect(x0, y1, Math.max(0.7, x(life[LIFE.last] + 1) - x0 - gap), Math.max(0.6, y(life[LIFE.offset]) - y1 - gap));
    }
    context.restore();
    context.fillStyle = color.soft;
    context.font = '12px system-ui, sans-serif';
    context.textAlign = 'right';
    context.fillText('0', area.x - 6, h - 2);
    context.fillText(bytes(D.arena), area.x - 6, 14);
    context.strokeStyle = color.soft;
    context.lineWidth = 0.6;
    context.strokeRect(area.x, 0, 0.01, h);
  }

  const arena = $('arena');
  arena.addEventListener('mousemove', function (event) {
    const box = arena.getBoundingClientRect();
    const m = momentAt(event, arena);
    const address = ((box.height - 1 - (event.clientY - box.top)) / (box.height - 6)) * D.arena;
    if (!held) { setMoment(m); }
    const life = D.lives.find((l) => l[LIFE.first] + l[LIFE.handed] <= m && l[LIFE.last] >= m &&
      l[LIFE.offset] <= address && l[LIFE.offset] + l[LIFE.bytes] > address);
    if (life) {
      showTip(event, lifeName(life), [
        bytes(life[LIFE.bytes]) + ', ' + D.classes[life[LIFE.what]],
        'at ' + bytes(life[LIFE.offset]) + ', for ' + count(life[LIFE.last] - life[LIFE.first] + 1, 'operator', 'operators'),
      ]);
    } else {
      hideTip();
    }
  });
  arena.addEventListener('mouseleave', hideTip);
  arena.addEventListener('click', function (event) {
    if (held) { held = false; showMoment(); } else { hold(momentAt(event, arena)); }
  });
  $('arena-note').textContent = 'One block of ' + bytes(D.arena) + (D.arena > D.arenaBound
    ? ', ' + percent(D.arena / D.arenaBound - 1) + ' more than is in use in it at the fullest moment.'
    : ', all of it in use at the fullest moment.');

  // ---- moved: three lanes over time, and what stands still for which copy ----
  if (D.transfers.length > 0) {
    $('moved').hidden = false;
    const canvas = $('lanes');
    const lanes = ['compute', 'out', 'back'];
    const left = 64;
    const waiting = D.transfers.filter((x) => x[MOVE.stall] > 0).sort((a, b) => b[MOVE.stall] - a[MOVE.stall]);
    const runEnd = (m) => D.begins[m] + D.ops[D.moments[m][0]][OP.cost];
    const laneColors = () => [color.classes[CLASS.kept], color.classes[CLASS.passing], color.classes[CLASS.back]];
    const moveName = (x) => D.tensors[x[MOVE.tensor]];
    const reader = (x) => (x[MOVE.moment] < nMoments ? opName(D.moments[x[MOVE.moment]][0]) : 'the end of the step');
    for (const [text, what] of [['computed', CLASS.kept], ['computed again', CLASS.again], ['to the second memory', CLASS.passing], ['back', CLASS.back]]) {
      const li = make('li', '', text);
      li.prepend(swatch(what));
      $('moved-legend').append(li);
    }
    const still = make('li', '', 'stands still');
    const mark = make('i');
    mark.style.background = 'var(--warn)';
    still.prepend(mark);
    $('moved-legend').append(still);
    const drawLanes = once(function () {
      const { context, w, h } = prepare(canvas);
      const high = h / 3;
      const x = (t) => left + (w - left) * t / D.cost;
      const box = function (lane, begin, end, fill) {
        context.fillStyle = fill;
        context.fillRect(x(begin), lane * high + 5, Math.max(0.6, x(end) - x(begin) - (lane > 0 && x(end) - x(begin) > 3 ? 0.6 : 0)), high - 10);
      };
      context.font = '12px sans-serif';
      context.textBaseline = 'middle';
      lanes.forEach(function (name, lane) {
        context.fillStyle = color.soft;
        context.fillText(name, 0, (lane + 0.5) * high);
      });
      const fills = laneColors();
      for (let m = 0; m < nMoments; m++) {
        box(0, D.begins[m], runEnd(m), D.moments[m][1] > 0 ? color.classes[CLASS.again] : fills[0]);
      }
      for (const move of D.transfers) { box(move[MOVE.out] ? 1 : 2, move[MOVE.begin], move[MOVE.end], fills[move[MOVE.out] ? 1 : 2]); }
      context.strokeStyle = color.warn;
      for (const move of waiting) {
        const at = x(move[MOVE.end]);
        context.globalAlpha = 0.35;
        box(0, move[MOVE.end] - move[MOVE.stall], move[MOVE.end], color.warn);
        context.globalAlpha = 1;
        context.beginPath();
        context.moveTo(at, (move[MOVE.out] ? 1 : 2) * high + 5);
        context.lineTo(at, high - 5);
        context.stroke();
      }
    });
    const found = function (event) {
      const box = canvas.getBoundingClientRect();
      const lane = Math.floor(3 * (event.clientY - box.top) / box.height);
      const time = (event.clientX - box.left - left) / (box.width - left) * D.cost;
      const near = 2 * D.cost / (box.width - left);
      if (lane < 1) { return null; }
      return D.transfers.find((x) => (x[MOVE.out] ? 1 : 2) === lane && time >= x[MOVE.begin] - near && time <= x[MOVE.end] + near) || null;
    };
    const story = function (x) {
      const lines = [bytes(x[MOVE.bytes]) + (x[MOVE.out] ? ' out' : ' back') + ' in ' + cost(x[MOVE.end] - x[MOVE.begin])];
      if (x[MOVE.begin] > x[MOVE.issued]) { lines.push('begins ' + cost(x[MOVE.begin] - x[MOVE.issued]) + ' late: the link is busy with others'); }
      lines.push(x[MOVE.stall] > 0 ? reader(x) + ' waits ' + cost(x[MOVE.stall]) + (x[MOVE.out] ? ' for its room' : ' for it') : 'nothing waits for it');
      return lines;
    };
    canvas.addEventListener('mousemove', function (event) {
      const x = found(event);
      if (x === null) { hideTip(); } else { showTip(event, moveName(x), story(x)); }
    });
    canvas.addEventListener('mouseleave', hideTip);
    canvas.addEventListener('click', function (event) {
      const x = found(event);
      if (x !== null && x[MOVE.moment] < nMoments) {
        hold(x[MOVE.moment]);
        $('memory').scrollIntoView({ behavior: 'smooth' });
      }
    });
    window.addEventListener('resize', drawLanes);
    dark.addEventListener('change', drawLanes);
    const sum = (out) => D.transfers.filter((x) => x[MOVE.out] === out).reduce((a, x) => a + x[MOVE.bytes], 0);
    const busy = (out) => D.transfers.filter((x) => x[MOVE.out] === out).reduce((a, x) => a + x[MOVE.end] - x[MOVE.begin], 0);
    $('moved-note').textContent = bytes(sum(1)) + ' out and ' + bytes(sum(0)) + ' back; the links are busy for ' + percent(busy(1) / D.cost) +
      ' and ' + percent(busy(0) / D.cost) + ' of the step, and computation stands still for ' + cost(D.stalled) + ', ' + percent(D.stalled / D.cost) + ' of it.';
    virtualList($('waits'), 28, function (row, i) {
      const x = waiting[i];
      row.append(make('span', 'name', moveName(x)), make('span', 'why', story(x).join('; ')));
      row.addEventListener('click', function () {
        if (x[MOVE.moment] < nMoments) {
          hold(x[MOVE.moment]);
          $('memory').scrollIntoView({ behavior: 'smooth' });
        }
      });
    })(waiting.length);
    drawLanes();
  }

  // ---- computed again ----
  const events = new Map();
  for (const r of D.recomputes) {
    if (!events.has(r[RE.op])) { events.set(r[RE.op], []); }
    events.get(r[RE.op]).push(r);
  }
  function why(r) {
    let text = r[RE.forOp] >= 0 ? 'for ' + opName(r[RE.forOp]) : 'read by nothing afterwards';
    if (r[RE.fullest] >= 0) {
      const at = opName(D.moments[r[RE.fullest]][0]);
      text += D.budget >= 0 && r[RE.held] > D.budget
        ? '; held, ' + at + ' would exceed the budget by ' + bytes(r[RE.held] - D.budget)
        : '; held, memory would reach ' + bytes(r[RE.held]) + ' in ' + at + (D.budget >= 0 ? ', which fits' : '');
    }
    return text;
  }
  // Operators of a model are grouped by its blocks: module paths up to the first number, or their first name.
  function blockOf(op) {
    const parts = D.ops[op][OP.module].split('.');
    const number = parts.findIndex((part) => /^[0-9]+$/.test(part));
    return parts.slice(0, number < 0 ? 1 : number + 1).join('.');
  }
  const grouped = againOps.some((op) => D.ops[op][OP.module] !== '');
  const opened = new Set();
  function partsOf(group) {
    return group.ops.length === 1 ? '' : count(group.ops.length, 'operator', 'operators') + ': ' +
      [...new Set(group.ops.map((op) => D.ops[op][OP.module].slice(group.name.length + 1)).filter((part) => part !== ''))].join(', ');
  }
  let ranked = [];  // operators, and groups of them
  const most = { cost: 1, bytes: 1 };
  const fillAgain = virtualList($('again-list'), 34, function (row, i) {
    const group = typeof ranked[i] === 'object' ? ranked[i] : null;
    const op = group === null ? ranked[i] : -1;
    const mine = group === null ? events.get(op) : [];
    const inside = group === null && grouped;
    const name = make('span', 'name', group !== null ? group.name || 'the model itself' : opName(op));
    if (inside && blockOf(op) !== '' && name.textContent.startsWith(blockOf(op) + '.')) {
      name.textContent = name.textContent.slice(blockOf(op).length + 1);
    }
    name.title = group !== null ? name.textContent : opName(op);
    const meter = function (className, part, text) {
      const box = make('span', 'meter ' + className);
      const b = make('b');
      b.style.width = Math.max(1, 100 * part) + '%';
      box.append(b, make('span', '', text));
      return box;
    };
    const extra = group !== null ? group.extra : D.ops[op][OP.extra];
    const freed = group !== null ? group.freed : D.ops[op][OP.freed];
    const reason = make('span', 'why', group !== null ? partsOf(group)
      : (D.ops[op][OP.source] ? D.ops[op][OP.source] + ': ' : '') + why(mine.reduce((a, b) => (b[RE.held] > a[RE.held] ? b : a))));
    reason.title = reason.textContent;
    row.append(name,
      meter('cost', extra / most.cost, percent(D.baselineCost > 0 ? extra / D.baselineCost : 0) + (mine.length > 1 ? ' in ' + mine.length + ' runs' : '')),
      meter('bytes', freed / most.bytes, bytes(freed)), reason);
    if (group !== null) {
      row.classList.add('group');
      row.setAttribute('aria-expanded', String(opened.has(group.name)));
      row.addEventListener('click', function () {
        if (!opened.delete(group.name)) { opened.add(group.name); }
        const place = $('again-list').scrollTop;
        rank(order);
        $('again-list').scrollTop = place;
      });
      return;
    }
    row.classList.toggle('inside', inside);
    row.addEventListener('click', function () {
      hold(mine[0][RE.moment]);
      $('memory').scrollIntoView({ behavior: 'smooth' });
    });
  });
  let order = OP.extra;
  function rank(field) {
    order = field;
    ranked = againOps.slice().sort((a, b) => D.ops[b][field] - D.ops[a][field] || a - b);
    most.cost = Math.max(1, ...againOps.map((i) => D.ops[i][OP.extra]));
    most.bytes = Math.max(1, ...againOps.map((i) => D.ops[i][OP.freed]));
    if (grouped) {
      const groups = new Map();
      for (const op of ranked) {
        const name = blockOf(op);
        if (!groups.has(name)) { groups.set(name, { name, ops: [], extra: 0, freed: 0 }); }
        const group = groups.get(name);
        group.ops.push(op);
        group.extra += D.ops[op][OP.extra];
        group.freed += D.ops[op][OP.freed];
      }
      const by = field === OP.extra ? 'extra' : 'freed';
      const sorted = [...groups.values()].sort((a, b) => b[by] - a[by] || a.ops[0] - b.ops[0]);
      most.cost = Math.max(1, ...sorted.map((g) => g.extra));
      most.bytes = Math.max(1, ...sorted.map((g) => g.freed));
      ranked = sorted.flatMap((g) => (opened.has(g.name) ? [g, ...g.ops] : [g]));
    }
    $('again-list').style.height = Math.min(360, 34 * ranked.length + 2) + 'px';
    $('by-cost').setAttribute('aria-pressed', String(field === OP.extra));
    $('by-bytes').setAttribute('aria-pressed', String(field === OP.freed));
    fillAgain(ranked.length);
  }
  $('by-cost').addEventListener('click', () => rank(OP.extra));
  $('by-bytes').addEventListener('click', () => rank(OP.freed));
  $('again-note').textContent = againOps.length > 0
    ? (grouped ? 'By part of the model; click one for its operators. ' : '') + 'Operator; its share of the computation; memory that was free meanwhile; what it ran again for, and what holding its result would have meant, all else the same.'
    : 'Nothing is.';
  rank(OP.extra);

  // ---- graph ----
  const SIDE = (op) => (op[OP.kind] >= 2 ? 1 : 0);
  const graph = blocksGraph($('graph'), D.blocks, D.ops.map((op) => ({
    name: op[OP.name], block: op[OP.block], side: SIDE(op), what: op[OP.what], from: op[OP.from],
  })), {
    kept: CLASS.kept,
    again: CLASS.again,
    size(inside, short) {
      const made = bytes(inside.reduce((sum, v) => sum + D.ops[v][OP.bytes], 0));
      return (inside.length > 1 && !short ? inside.length.toLocaleString('en') + ' ops, ' : '') + made;
    },
    tellOp(event, v) {
      const op = D.ops[v];
      const fate = op[OP.what] === CLASS.kept ? 'kept for backward' : op[OP.what] === CLASS.again ? 'computed again' : 'freed before backward';
      const lines = [(op[OP.source] ? op[OP.source] + ': ' : '') + KINDS[op[OP.kind]] + (SIDE(op) === 1 ? '' : ', ' + fate),
        bytes(op[OP.bytes]) + ' of outputs, ' + cost(op[OP.cost]) + (op[OP.workspace] > 0 ? ', workspace ' + bytes(op[OP.workspace]) : '')];
      if (op[OP.runs] > 1) {
        lines.push('runs ' + op[OP.runs] + ' times', why(events.get(v)[0]));
      }
      showTip(event, opName(v), lines);
    },
    tellBlock(event, name, inside, side) {
      const total = (field) => inside.reduce((sum, v) => sum + D.ops[v][field], 0);
      const again = inside.filter((v) => D.ops[v][OP.runs] > 1);
      const kept = inside.filter((v) => D.ops[v][OP.what] === CLASS.kept);
      showTip(event, name, [
        count(inside.length, 'operator', 'operators') + (side ? ', ' + side : ''),
        bytes(total(OP.bytes)) + ' of outputs, ' + cost(total(OP.cost)),
        ...(kept.length > 0 ? [kept.length + ' kept for backward'] : []),
        ...(again.length > 0 ? [again.length + ' computed again, ' + cost(total(OP.extra)) + ' more'] : []),
      ]);
    },
    hide: hideTip,
    choose(v) {
      hold(D.moments.findIndex(([op]) => op === v));
      $('memory').scrollIntoView({ behavior: 'smooth' });
    },
  });
  const showInGraph = once(() => graph.show(D.moments[current][0]));
  for (const c of [CLASS.kept, CLASS.passing, CLASS.again, CLASS.gradient]) {
    const li = make('li', '', { 2: 'kept for backward', 3: 'freed before backward', 4: 'computed again', 5: 'backward' }[c]);
    li.prepend(swatch(c));
    $('graph-legend').append(li);
  }

  // ---- how to use it ----
  (function recipes() {
    const quote = (name) => (/^[A-Za-z0-9_.,\/:=+-]+$/.test(name) ? name : "'" + name.replace(/'/g, "'\\''") + "'");
    const graphFile = D.graphFile && /\.json$/.test(D.graphFile) ? quote(D.graphFile) : 'graph.json';
    const schedule = D.scheduleFile && D.scheduleFile !== '-' ? quote(D.scheduleFile) : 'schedule.json';
    const list = [
      ['Check it', 'checkmate verify ' + graphFile + ' ' + schedule, 'Replays every step with code that shares nothing with the solvers.'],
      ['Say it in the terminal', 'checkmate explain ' + graphFile + ' ' + schedule, 'What is kept, what is computed again and why, where the peak is.'],
      ['Draw a figure', 'checkmate report ' + graphFile + ' ' + schedule + ' --figure memory -o memory.svg', 'Also arena, matrices, transfers, graph; as .svg, .pdf or .png.'],
      ['Follow it from a program', 'ckm_schedule *s;\nckm_schedule_read("' + (D.scheduleFile || 'schedule.json').replace(/["\\]/g, '\\$&') + '", &s, &err);\nfor (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {\n    ckm_step step = ckm_schedule_get_step(s, i);  /* compute or free */\n}', 'The file is JSON: a list of ["compute", operator] and ["free", tensor], by position in the graph file.'],
    ];
    for (const [title, text, note] of D.recipes.length > 0 ? D.recipes : list) {
      const box = make('div');
      box.append(make('h3', '', title), make('pre', '', text), make('p', '', note));
      $('recipes').append(box);
    }
  })();

  // ---- light and dark, sizes ----
  function redraw() {
    readColors();
    g.updateOptions({
      colors: ['transparent', color.ink], axisLineColor: color.soft, gridLineColor: color.faint,
      rangeSelectorPlotFillColor: color.classes[CLASS.kept], rangeSelectorPlotFillGradientColor: color.classes[CLASS.kept],
    });
  }
  dark.addEventListener('change', redraw);
  window.addEventListener('resize', once(function () { g.resize(); drawArena(); placeCursor(); graph.draw(); }));
  drawArena();
  placeCursor();
  showMoment();
  showInGraph();
  document.documentElement.dataset.ready = 'true';
})();
