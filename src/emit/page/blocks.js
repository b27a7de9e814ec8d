// SPDX-License-Identifier: Apache-2.0
// The graph on the page: a row for every block, forward on the left and downwards, backward on the right and upwards.
// A block opens into its operators. What passes over rows runs in lanes next to the boxes.
'use strict';
// `D` is the data of the page; `ops` says for every operator its block, side (0 forward, 1 backward), class, bytes and
// operands. `tell` shows and hides what belongs to an operator or a block; `choose` is called for a clicked operator.
function blocksGraph(element, blocks, ops, words) {
  const PITCH = 34;
  const HEIGHT = 25;
  const GUTTER = 20;
  const PORT = 6;
  const ROUND = 5;
  const SIDES = ['forward', 'backward'];
  const place = { left: 0, middle: 1, right: 2, straight: -1 };
  const svgSpace = 'http://www.w3.org/2000/svg';

  const members = blocks.map(() => [[], []]);
  ops.forEach((op, v) => members[op.block][op.side].push(v));
  const opens = members.map((sides) => sides.some((side) => side.length > 1));
  const opened = new Set();
  let boxes = [];
  let links = [];
  let current = -1;  // the operator that runs at the moment shown
  let tabStop = '';  // the box that Tab reaches; arrow keys move it

  // ---- what there is to draw ----
  function layBoxes() {
    boxes = [];
    let row = 0;
    const add = (box) => boxes.push(box);
    members.forEach(function (sides, b) {
      if (!opened.has(b)) {
        sides.forEach((inside, side) => {
          if (inside.length > 0) { add({ key: 'b' + b + SIDES[side], block: b, side, row, ops: inside, name: blocks[b] }); }
        });
        row++;
        return;
      }
      const rows = Math.max(sides[0].length, sides[1].length);
      add({ key: 'b' + b + 'forward', block: b, side: 0, row, rows, ops: [], name: blocks[b], title: true });
      row++;
      sides[0].forEach((v, i) => add({ key: 'o' + v, block: b, side: 0, row: row + i, ops: [v], name: ops[v].name }));
      // Backward runs upwards: the last operator stands at the top.
      sides[1].forEach((v, i) => add({ key: 'o' + v, block: b, side: 1, row: row + rows - 1 - i, ops: [v], name: ops[v].name }));
      row += rows;
    });
    const order = [0, 0];
    const byRow = boxes.filter((box) => !box.title).sort((a, b) => a.row - b.row);
    byRow.forEach((box) => { box.order = order[box.side]++; });
    return row;
  }

  function layLinks() {
    const boxOf = new Int32Array(ops.length);
    boxes.forEach((box, i) => box.ops.forEach((v) => { boxOf[v] = i; }));
    const found = new Map();
    ops.forEach(function (op, v) {
      for (const u of op.from) {
        const from = boxOf[u];
        const to = boxOf[v];
        if (from === to) { continue; }
        const key = from * boxes.length + to;
        if (!found.has(key)) { found.set(key, { from, to, kinds: new Set() }); }
        found.get(key).kinds.add(ops[u].side === 0 && op.side === 1 ? ops[u].what : '');
      }
    });
    links = [...found.values()];
    for (const link of links) {
      const from = boxes[link.from];
      const to = boxes[link.to];
      if (from.side !== to.side) {
        link.place = from.row === to.row ? place.straight : place.middle;
      } else {
        const next = to.order - from.order === (from.side === 0 ? 1 : -1);
        link.place = next ? place.straight : from.side === 0 ? place.left : place.right;
      }
    }
  }

  // Links that leave a box share a lane, or those that reach one: whichever there are more of. Short ones run next to
  // the boxes. Gives the number of lanes.
  function layLanes(at) {
    const here = links.filter((link) => link.place === at);
    const outs = new Map();
    const ins = new Map();
    for (const { from, to } of here) {
      outs.set(from, (outs.get(from) || 0) + 1);
      ins.set(to, (ins.get(to) || 0) + 1);
    }
    const spans = new Map();
    for (const link of here) {
      const owner = ins.get(link.to) > outs.get(link.from) ? 'to' + link.to : 'from' + link.from;
      const rows = [boxes[link.from].row, boxes[link.to].row];
      if (!spans.has(owner)) { spans.set(owner, { low: rows[0], high: rows[0], links: [] }); }
      const span = spans.get(owner);
      span.low = Math.min(span.low, ...rows);
      span.high = Math.max(span.high, ...rows);
      span.links.push(link);
    }
    const lanes = [];
    for (const span of [...spans.values()].sort((a, b) => a.high - a.low - (b.high - b.low) || a.low - b.low)) {
      let lane = lanes.findIndex((taken) => !taken.some((other) => other.low < span.high && span.low < other.high));
      if (lane < 0) { lane = lanes.push([]) - 1; }
      lanes[lane].push(span);
      for (const link of span.links) { link.lane = lane; }
    }
    return lanes.length;
  }

  // ---- boxes ----
  function make(tag, className, text) {
    const e = document.createElement(tag);
    e.className = className;
    if (text !== undefined) { e.textContent = text; }
    return e;
  }
  // The colours of a box's operators, each as wide as its share of them.
  function shares(inside) {
    const counts = new Map();
    for (const v of inside) { counts.set(ops[v].what, (counts.get(ops[v].what) || 0) + 1); }
    let done = 0;
    const parts = [...counts].sort((a, b) => a[0] - b[0]).map(function ([what, n]) {
      const from = done;
      done += (100 * n) / inside.length;
      return 'var(--c' + what + ') ' + from.toFixed(2) + '% ' + done.toFixed(2) + '%';
    });
    return 'linear-gradient(to right,' + parts.join(',') + ')';
  }
  const isBlock = (box) => box.title === true || (opens[box.block] && !opened.has(box.block));
  function put(box, geometry) {
    const b = document.createElement('button');
    const block = isBlock(box);
    b.type = 'button';
    b.className = 'box' + (box.title ? ' title' : '') + (block ? ' block' : '');
    b.dataset.key = box.key;
    b.tabIndex = -1;
    b.style.left = (box.side === 0 ? geometry.start : geometry.back) + 'px';
    b.style.top = box.row * PITCH + 'px';
    b.style.width = (box.title ? geometry.back + geometry.wide - geometry.start : geometry.wide) + 'px';
    b.style.height = HEIGHT + 'px';
    const inside = box.title ? [...members[box.block][0], ...members[box.block][1]] : box.ops;
    b.append(make('span', 'name', box.name));
    if (geometry.wide > 150) { b.append(make('span', 'size', words.size(inside, geometry.wide < 190))); }
    b.style.backgroundImage = shares(inside);
    b.setAttribute('aria-label', box.name + ', ' + (box.title ? 'open block' : SIDES[box.side]) + ', ' + words.size(inside, false));
    if (block) { b.setAttribute('aria-expanded', String(box.title === true)); }
    box.element = b;
    b.addEventListener('click', function () {
      if (!block) { words.choose(box.ops[0]); return; }
      if (!opened.delete(box.block)) { opened.add(box.block); }
      tabStop = 'b' + box.block + (box.side === 0 || opened.has(box.block) ? 'forward' : 'backward');
      draw();
      focusOn(tabStop);
      words.hide();
    });
    b.addEventListener('mousemove', function (event) {
      point(box);
      if (block) { words.tellBlock(event, box.name, inside, box.title ? '' : SIDES[box.side]); } else { words.tellOp(event, box.ops[0]); }
    });
    b.addEventListener('mouseleave', function () { point(null); words.hide(); });
    b.addEventListener('focus', function () { tabStop = box.key; setTabStop(); if (b.matches(':focus-visible')) { point(box); } });
    b.addEventListener('blur', () => point(null));
    return b;
  }

  // ---- links ----
  const toward = (from, to, by) => (to > from ? from + Math.min(by, (to - from) / 2) : from - Math.min(by, (from - to) / 2));
  // Straight pieces with round corners.
  function path(points) {
    let d = 'M' + points[0].join(' ');
    for (let i = 1; i < points.length - 1; i++) {
      const [before, here, after] = [points[i - 1], points[i], points[i + 1]];
      const into = [toward(here[0], before[0], ROUND), toward(here[1], before[1], ROUND)];
      const out = [toward(here[0], after[0], ROUND), toward(here[1], after[1], ROUND)];
      d += 'L' + into.join(' ') + 'Q' + here.join(' ') + ' ' + out.join(' ');
    }
    return d + 'L' + points[points.length - 1].join(' ');
  }
  function pointsOf(link, geometry) {
    const from = boxes[link.from];
    const to = boxes[link.to];
    const left = (box) => (box.side === 0 ? geometry.start : geometry.back);
    const middle = (box) => box.row * PITCH + HEIGHT / 2;
    if (link.place === place.straight && from.side !== to.side) {
      const forwards = from.side === 0;
      return [[left(from) + (forwards ? geometry.wide : 0), middle(from)], [left(to) + (forwards ? 0 : geometry.wide), middle(to)]];
    }
    const way = to.row > from.row ? 1 : -1;
    if (link.place === place.straight) {
      const x = left(from) + geometry.wide / 2;
      return [[x, middle(from) + (way * HEIGHT) / 2], [x, middle(to) - (way * HEIGHT) / 2]];
    }
    const x = geometry.lane(link.place, link.lane);
    const edge = (box) => left(box) + (x > left(box) ? geometry.wide : 0);
    return [[edge(from), middle(from) + way * PORT], [x, middle(from) + way * PORT], [x, middle(to) - way * PORT], [edge(to), middle(to) - way * PORT]];
  }
  function putLink(link, geometry) {
    const points = pointsOf(link, geometry);
    const group = document.createElementNS(svgSpace, 'g');
    const saved = boxes[link.from].side === 0 && boxes[link.to].side === 1;
    const kind = link.kinds.has(words.again) ? ' again' : link.kinds.has(words.kept) ? ' kept' : '';
    group.setAttribute('class', 'link' + (saved ? ' saved' + kind : ''));
    const [end, before] = [points[points.length - 1], points[points.length - 2]];
    const [dx, dy] = [Math.sign(end[0] - before[0]), Math.sign(end[1] - before[1])];
    const base = [end[0] - 6 * dx, end[1] - 6 * dy];
    const line = document.createElementNS(svgSpace, 'path');
    line.setAttribute('class', 'line');
    line.setAttribute('d', path([...points.slice(0, -1), base]));
    const head = document.createElementNS(svgSpace, 'path');
    head.setAttribute('class', 'head');
    head.setAttribute('d', 'M' + end.join(' ') + 'L' + [base[0] - 3 * dy, base[1] - 3 * dx].join(' ') + 'L' + [base[0] + 3 * dy, base[1] + 3 * dx].join(' ') + 'Z');
    group.append(line, head);
    link.element = group;
    return group;
  }

  // ---- the picture ----
  function draw() {
    const w = element.clientWidth;
    const rows = layBoxes();
    layLinks();
    const counts = [place.left, place.middle, place.right].map(layLanes);
    // Many lanes lie closer together, so that boxes keep their width.
    const step = counts.map((n) => Math.max(1.5, Math.min(9, (w * 0.11) / Math.max(1, n))));
    const room = counts.map((n, i) => (n > 0 ? GUTTER / 2 + step[i] * n : 0));
    const between = 2 * GUTTER + step[1] * Math.max(0, counts[1] - 1);
    const wide = (w - room[0] - room[2] - between - 2) / 2;
    const geometry = {
      wide,
      start: room[0] + 1,
      back: room[0] + 1 + wide + between,
      lane(at, lane) {
        return at === place.left ? room[0] - GUTTER / 2 - step[0] * lane
          : at === place.middle ? room[0] + 1 + wide + GUTTER + step[1] * lane
          : room[0] + 1 + 2 * wide + between + GUTTER / 2 + step[2] * lane;
      },
    };
    const svg = document.createElementNS(svgSpace, 'svg');
    svg.setAttribute('aria-hidden', 'true');
    svg.append(...links.map((link) => putLink(link, geometry)));
    const frames = boxes.filter((box) => box.title).map(function (box) {
      const frame = make('div', 'frame');
      frame.style.left = geometry.start - 5 + 'px';
      frame.style.top = box.row * PITCH - 4 + 'px';
      frame.style.width = geometry.back + wide - geometry.start + 10 + 'px';
      frame.style.height = (box.rows + 1) * PITCH - 1 + 'px';
      return frame;
    });
    element.style.height = rows * PITCH + 'px';
    element.replaceChildren(...frames, svg, ...boxes.map((box) => put(box, geometry)));
    setTabStop();
    show(current);
  }

  // What a box reads and what reads it.
  function point(box) {
    element.classList.toggle('pointed', box !== null && !box.title);
    for (const other of boxes) { other.element.classList.remove('near'); }
    const at = box === null ? -1 : boxes.indexOf(box);
    if (at >= 0) { box.element.classList.add('near'); }
    for (const link of links) {
      const mine = at >= 0 && (link.from === at || link.to === at);
      link.element.classList.toggle('on', mine);
      if (mine) { boxes[link.from].element.classList.add('near'); boxes[link.to].element.classList.add('near'); }
    }
  }

  function show(op) {
    current = op;
    for (const box of boxes) { box.element.classList.toggle('running', box.ops.includes(op)); }
  }

  // ---- keys ----
  function setTabStop() {
    const stop = boxes.find((box) => box.key === tabStop) || boxes[0];
    for (const box of boxes) { box.element.tabIndex = box === stop ? 0 : -1; }
  }
  function focusOn(key) {
    const box = boxes.find((b) => b.key === key) || boxes[0];
    box.element.focus();
  }
  element.addEventListener('keydown', function (event) {
    const at = boxes.find((box) => box.element === document.activeElement);
    if (at === undefined) { return; }
    const column = (side) => boxes.filter((box) => box.title || box.side === side).sort((a, b) => a.row - b.row);
    const mine = column(at.side);
    const other = column(event.key === 'ArrowRight' ? 1 : 0).sort((a, b) => Math.abs(a.row - at.row) - Math.abs(b.row - at.row));
    const next = {
      ArrowDown: mine[mine.indexOf(at) + 1], ArrowUp: mine[mine.indexOf(at) - 1], ArrowRight: other[0], ArrowLeft: other[0],
      Home: mine[0], End: mine[mine.length - 1],
    }[event.key];
    if (next !== undefined) {
      next.element.focus();
      event.preventDefault();
    }
  });

  draw();
  return { draw, show };
}
