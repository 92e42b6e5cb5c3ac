// The pictures of the page: each draws one moment of a simulation on a canvas.
"use strict";

const Pictures = (() => {
  const NAMES = ["paper", "panel", "ink", "quiet", "rule", "accent", "away", "held", "dead", "hit", "miss",
    "best", "floor", "row", "t0", "t1", "t2", "t3", "t4"];
  let colour = {};

  // The colours of the style sheet, read again when the scheme changes.
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    colour = Object.fromEntries(NAMES.map((n) => [n, rgb(style.getPropertyValue(`--${n}`).trim())]));
  }

  const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
  const css = (c, alpha = 1) => `rgb(${c[0]} ${c[1]} ${c[2]} / ${alpha})`;
  const mix = (a, b, share) => a.map((x, k) => Math.round(x + (b[k] - x) * share));
  const word = (c) => (255 << 24) | (c[2] << 16) | (c[1] << 8) | c[0];

  // The colour of a share of the time, from the first to the last step.
  function ramp(share) {
    const at = Math.min(Math.max(share, 0), 1) * 4, k = Math.min(Math.floor(at), 3);
    return mix(colour[`t${k}`], colour[`t${k + 1}`], at - k);
  }

  // A canvas as large as it is shown, in CSS pixels; `used` says how much of the height is needed.
  function fit(canvas, used) {
    if (used) {
      canvas.style.height = "";
      canvas.style.height = `${Math.ceil(used(canvas.clientWidth, canvas.clientHeight))}px`;
    }
    const w = canvas.clientWidth, h = canvas.clientHeight, dense = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(w * dense));
    canvas.height = Math.max(1, Math.round(h * dense));
    const pen = canvas.getContext("2d");
    pen.scale(dense, dense);
    pen.font = "11px system-ui, sans-serif";
    return { pen, w, h };
  }

  // Extents of any rank as rows and columns: leading axes go to the rows, one axis is wrapped.
  function flat(shape, wrap) {
    if (shape.length === 1) {
      const cols = Math.min(shape[0], wrap);
      return { rows: Math.ceil(shape[0] / cols), cols, size: shape[0] };
    }
    const cols = shape.length ? shape[shape.length - 1] : 1;
    const size = shape.reduce((a, b) => a * b, 1);
    return { rows: Math.ceil(size / Math.max(cols, 1)), cols, size };
  }

  // Cells from one number each: a small bitmap, enlarged, with gaps between where there is room.
  function cells(pen, x, y, scale, rows, cols, pixels) {
    const small = new OffscreenCanvas(cols, rows);
    small.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), cols, rows), 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, x, y, cols * scale, rows * scale);
    if (scale < 5) return;
    pen.strokeStyle = css(colour.paper);
    pen.lineWidth = scale > 9 ? 1 : 0.5;
    pen.beginPath();
    for (let r = 1; r < rows; r++) line(pen, x, y + r * scale, x + cols * scale, y + r * scale);
    for (let c = 1; c < cols; c++) line(pen, x + c * scale, y, x + c * scale, y + rows * scale);
    pen.stroke();
  }

  function line(pen, x0, y0, x1, y1) {
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
  }

  // ---- outputs, coloured by when they are computed -----------------------------------------------

  function order(canvas, s, t) {
    const { rows, cols, size } = flat(s.variant.shape, 32);
    const { pen, w, h } = fit(canvas, (w, h) => Math.min(h, ((w - 2) / cols) * rows + 2));
    const scale = Math.min((w - 2) / cols, (h - 2) / rows);
    const x = 1, y = 1, last = Math.max(size - 1, 1);
    const pixels = new Uint32Array(rows * cols);
    for (let id = 0; id < size; id++) {
      const tone = ramp(s.when[id] / last);
      pixels[id] = word(s.when[id] <= t ? tone : mix(tone, colour.paper, 0.8));
    }
    cells(pen, x, y, scale, rows, cols, pixels);
    const centre = (step) => {
      const id = s.ids[step];
      return [x + ((id % cols) + 0.5) * scale, y + (Math.floor(id / cols) + 0.5) * scale];
    };
    // Borders of planes, which lie below each other, and of blocks in them.
    const shape = s.variant.shape, tall = shape.length > 2 ? shape[shape.length - 2] : rows;
    pen.strokeStyle = css(colour.ink, 0.55);
    pen.lineWidth = 1;
    pen.beginPath();
    const across = (r) => line(pen, x, y + r * scale, x + cols * scale, y + r * scale);
    for (let top = 0; top < rows; top += tall) {
      if (top) across(top);
      if (s.block) for (let r = top + s.block[0]; r < top + tall; r += s.block[0]) across(r);
    }
    if (s.block) for (let c = s.block[1]; c < cols; c += s.block[1]) line(pen, x + c * scale, y, x + c * scale, y + rows * scale);
    pen.stroke();
    // The path: a line from element to element, and a thin one where it jumps.
    if (scale >= 3) {
      pen.lineJoin = "round";
      for (const jumps of [true, false]) {
        pen.strokeStyle = css(colour.panel, jumps ? 0.45 : 0.9);
        pen.lineWidth = jumps ? 0.6 : Math.min(1.8, Math.max(0.9, scale / 9));
        pen.beginPath();
        for (let step = 1; step <= t; step++) {
          const at = centre(step), before = centre(step - 1);
          if (Math.max(Math.abs(at[0] - before[0]), Math.abs(at[1] - before[1])) > 1.5 * scale === jumps) line(pen, ...before, ...at);
        }
        pen.stroke();
      }
    }
    const [cx, cy] = centre(t);
    pen.strokeStyle = css(colour.ink);
    pen.lineWidth = 2;
    const half = Math.max(scale / 2, 3);
    pen.strokeRect(cx - half, cy - half, 2 * half, 2 * half);
  }

  // ---- memory: what is in the cache now, or how often it was brought in -----------------------------

  function layout(arrays, w, h) {
    const wrap = Math.max(16, ...arrays.map((a) => (a.shape.length > 1 ? a.shape[a.shape.length - 1] : 0)));
    const flats = arrays.map((a) => ({ ...a, ...flat(a.shape, wrap) }));
    const title = 16, gap = 16;
    let best = null;
    for (let each = 1; each <= flats.length; each++) {
      const bands = [];
      for (let k = 0; k < flats.length; k += each) bands.push(flats.slice(k, k + each));
      const wide = Math.max(...bands.map((b) => b.reduce((n, a) => n + a.cols, 0)));
      const tall = bands.reduce((n, b) => n + Math.max(...b.map((a) => a.rows)), 0);
      const scale = Math.min((w - 2 - gap * (each - 1)) / wide, (h - 2 - title * bands.length) / tall, 26);
      if (!best || scale > best.scale) best = { scale, bands };
    }
    let y = 0;
    const placed = [];
    for (const band of best.bands) {
      let x = 1;
      for (const a of band) {
        placed.push({ ...a, x, y: y + title, label: y + 11 });
        x += a.cols * best.scale + gap;
      }
      y += title + Math.max(...band.map((a) => a.rows)) * best.scale;
    }
    return { scale: best.scale, placed, height: y + 2 };
  }

  function memory(canvas, s, t, loads) {
    const { pen, w, h } = fit(canvas, (w, h) => layout(s.variant.arrays, w, h).height);
    const { scale, placed } = layout(s.variant.arrays, w, h);
    const now = s.content(t), width = s.lineWidth;
    const most = loads ? Math.max(1, ...s.loadsAtEnd) : 0;
    const touched = new Map(), fresh = new Set();
    for (let k = s.found.begin[t]; k < s.found.begin[t + 1]; k++) {
      const address = s.found.addresses[k], miss = s.result.log.missed[k];
      if (miss) fresh.add(s.result.lines[k]);
      touched.set(address, miss || (touched.get(address) || 0));
    }
    const tone = {
      away: word(colour.away), held: word(colour.held), dead: word(colour.dead), hit: word(colour.hit),
      miss: word(colour.miss), fresh: word(mix(colour.miss, colour.paper, 0.45)),
    };
    for (const a of placed) {
      const pixels = new Uint32Array(a.rows * a.cols);
      for (let k = 0; k < a.size; k++) {
        const address = a.base + k, at = Math.floor(address / width);
        if (address >= s.variant.span) continue;
        if (loads) {
          const n = now.loads[at];
          pixels[k] = n ? word(mix(mix(colour.miss, colour.paper, 0.72), colour.miss, most > 1 ? (n - 1) / (most - 1) : 0)) : tone.away;
        } else if (touched.has(address)) pixels[k] = fresh.has(at) ? tone.miss : tone.hit;
        else if (fresh.has(at)) pixels[k] = tone.fresh;
        else pixels[k] = now.held[at] ? (s.lastUse[now.held[at] - 1] > t ? tone.held : tone.dead) : tone.away;
      }
      cells(pen, a.x, a.y, scale, a.rows, a.cols, pixels);
      pen.fillStyle = css(colour.quiet);
      pen.fillText(`${a.name}  ${a.shape.join(" × ")}`, a.x, a.label);
    }
    return most;
  }

  // ---- addresses over time ---------------------------------------------------------------------------

  // The diagram without its cursor, kept until something changes: states as pixels, the greatest wins.
  function diagramPixels(s, w, h) {
    const state = new Uint8Array(w * h), steps = s.found.steps, span = s.variant.span, width = s.lineWidth;
    const fill = (from, to, address, count, value) => {
      const x0 = Math.floor((from / steps) * w), x1 = Math.max(x0 + 1, Math.floor((to / steps) * w));
      const top = h - Math.floor((Math.min(address + count, span) / span) * h);
      const bottom = Math.max(top + 1, h - Math.floor((address / span) * h));
      for (let y = Math.max(top, 0); y < Math.min(bottom, h); y++)
        for (let x = x0; x < Math.min(x1, w); x++) if (state[y * w + x] < value) state[y * w + x] = value;
    };
    for (let e = 0; e < s.events.length; e++) {
      const at = s.result.lines[s.events[e]] * width, begin = s.found.step[s.events[e]];
      fill(begin, s.endUse[e], at, width, 1);
      fill(begin, s.lastUse[e] + 1, at, width, 2);
      fill(begin, begin + 1, at, width, 4);
    }
    for (let k = 0; k < s.found.addresses.length; k++)
      fill(s.found.step[k], s.found.step[k] + 1, s.found.addresses[k], 1, 3);
    const tones = [colour.paper, colour.dead, colour.held, colour.hit, colour.miss].map(word);
    const pixels = new Uint32Array(w * h);
    for (let k = 0; k < pixels.length; k++) pixels[k] = tones[state[k]];
    return new ImageData(new Uint8ClampedArray(pixels.buffer), w, h);
  }

  function diagram(canvas, s, t) {
    const { pen, w, h } = fit(canvas);
    const key = `${canvas.width}×${canvas.height}`;
    if (s.diagramKey !== key) {
      s.diagramKey = key;
      s.diagram = diagramPixels(s, canvas.width, canvas.height);
    }
    pen.putImageData(s.diagram, 0, 0);
    cursor(pen, ((t + 0.5) / s.found.steps) * w, h);
  }

  function cursor(pen, x, h) {
    pen.fillStyle = css(colour.ink, 0.85);
    pen.fillRect(x - 0.75, 0, 1.5, h);
  }

  // ---- running totals ----------------------------------------------------------------------------------

  function totals(canvas, s, t) {
    const { pen, w, h } = fit(canvas);
    const steps = s.found.steps, top = 8, bottom = h - 3;
    const most = Math.max(s.result.misses, s.result.optimal, 1);
    const put = (n) => bottom - (n / most) * (bottom - top);
    const X = (step) => (step / steps) * w;
    // Misses of each step, as bars of the pixels that it takes.
    const tallest = Math.max(...s.perStep, 1);
    pen.fillStyle = css(colour.miss, 0.22);
    for (let step = 0; step < steps; step++)
      if (s.perStep[step])
        pen.fillRect(X(step), bottom - (s.perStep[step] / tallest) * (bottom - top), Math.max(w / steps, 1), (s.perStep[step] / tallest) * (bottom - top));
    const curve = (sums, tone, wide) => {
      pen.strokeStyle = css(tone);
      pen.lineWidth = wide;
      pen.beginPath();
      pen.moveTo(0, bottom);
      for (let step = 0; step < steps; step++) pen.lineTo(X(step + 1), put(sums[step]));
      pen.stroke();
    };
    curve(s.sums.floor, colour.floor, 1.5);
    curve(s.sums.best, colour.best, 1.5);
    curve(s.sums.misses, colour.miss, 2);
    cursor(pen, X(t + 0.5), h);
    pen.fillStyle = css(colour.quiet);
    pen.fillText("misses up to here; bars: at each step", 4, 11);
    // The numbers up to here, beside the cursor, apart from each other.
    const labels = [["misses", colour.miss], ["best", colour.best], ["floor", colour.floor]]
      .map(([name, tone]) => ({ n: s.sums[name][t], tone }));
    const right = X(t + 0.5) > w - 60;
    let above = Infinity;
    for (const { n, tone } of labels.sort((a, b) => a.n - b.n)) {
      const y = Math.max(Math.min(put(n) + 4, above - 12), 10);
      above = y;
      pen.textAlign = right ? "right" : "left";
      pen.fillStyle = css(colour.paper, 0.8);
      const text = n.toLocaleString("en"), wide = pen.measureText(text).width;
      pen.fillRect(X(t + 0.5) + (right ? -7 - wide : 5), y - 9, wide + 4, 11);
      pen.fillStyle = css(tone);
      pen.fillText(text, X(t + 0.5) + (right ? -5 : 7), y);
    }
    pen.textAlign = "left";
  }

  // ---- misses against the size of the cache -------------------------------------------------------------

  const EDGE = { left: 44, right: 10, top: 8, bottom: 20 };

  // Where a number of lines lies, and which lies at x: logarithmic, as sizes double.
  const sweepX = (lines, most, w) =>
    EDGE.left + (Math.log(lines) / Math.log(Math.max(most, 2))) * (w - EDGE.left - EDGE.right);
  const sweepLines = (x, most, w) =>
    Math.max(most, 2) ** Math.min(Math.max((x - EDGE.left) / (w - EDGE.left - EDGE.right), 0), 1);

  function sweep(canvas, s, curves, lines, most) {
    const { pen, w, h } = fit(canvas);
    const values = curves.flatMap((c) => [...c.points.values()]);
    const low = Math.log(Math.max(s.result.compulsory, 1) * 0.85);
    const high = Math.log(Math.max(...values, s.result.misses, s.result.compulsory + 1) * 1.05);
    const Y = (n) => h - EDGE.bottom - ((Math.log(Math.max(n, 1)) - low) / (high - low)) * (h - EDGE.bottom - EDGE.top);
    pen.strokeStyle = css(colour.rule);
    pen.fillStyle = css(colour.quiet);
    pen.lineWidth = 1;
    pen.textAlign = "right";
    let lastY = Infinity;
    for (let power = 0; power < 8; power++)
      for (const digit of [1, 2, 5]) {
        const n = digit * 10 ** power, y = Y(n);
        if (y < EDGE.top || y > h - EDGE.bottom || lastY - y < 16) continue;
        lastY = y;
        pen.beginPath();
        line(pen, EDGE.left, y, w - EDGE.right, y);
        pen.stroke();
        pen.fillText(n.toLocaleString("en"), EDGE.left - 6, y + 4);
      }
    pen.textAlign = "center";
    let free = w;
    for (let n = 2 ** Math.floor(Math.log2(most)); n >= 1; n /= 2) {
      const text = n.toLocaleString("en"), half = pen.measureText(text).width / 2;
      const x = Math.min(sweepX(n, most, w), w - half);
      if (x + half > free) continue;
      pen.fillText(text, x, h - 5);
      free = x - half - 8;
    }
    pen.textAlign = "left";
    pen.lineJoin = "round";
    for (const chosen of [false, true])
      for (const c of curves.filter((c) => c.chosen === chosen)) {
        pen.strokeStyle = css(chosen ? colour.miss : c.name === "Row" ? colour.ink : colour.quiet, chosen ? 1 : c.name === "Row" ? 0.7 : 0.4);
        pen.lineWidth = chosen ? 2.5 : 1.25;
        pen.setLineDash(!chosen && c.name === "Row" ? [4, 3] : []);
        pen.beginPath();
        [...c.points].sort((a, b) => a[0] - b[0]).forEach(([n, missed], k) => {
          if (k) pen.lineTo(sweepX(n, most, w), Y(missed));
          else pen.moveTo(sweepX(n, most, w), Y(missed));
        });
        pen.stroke();
      }
    pen.setLineDash([]);
    cursor(pen, sweepX(lines, most, w), h - EDGE.bottom);
    pen.fillStyle = css(colour.miss);
    pen.beginPath();
    pen.arc(sweepX(lines, most, w), Y(s.result.misses), 4.5, 0, 7);
    pen.fill();
  }

  // A small path of an order, as SVG.
  function icon(path, rows, cols) {
    const size = 30, step = (size - 6) / Math.max(rows - 1, cols - 1, 1);
    const points = path.map((id) => `${(3 + (id % cols) * step).toFixed(1)},${(3 + Math.floor(id / cols) * step).toFixed(1)}`);
    return `<svg viewBox="0 0 ${size} ${size}" aria-hidden="true"><polyline points="${points.join(" ")}"/></svg>`;
  }

  return { readColours, order, memory, diagram, totals, sweep, sweepLines, icon };
})();
