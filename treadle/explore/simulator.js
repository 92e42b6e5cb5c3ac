// Orders, traces and caches: what skeletons/simulator does in Python, for the page.
//
// Pure functions over typed arrays; no document here, so that tests can run it by itself.
// An order is {name, width | rows, cols | group | ids | rule} with, at block grain, block: [rows, cols].
"use strict";

const Simulator = (() => {
  const ceilDiv = (a, b) => Math.floor((a + b - 1) / b);

  // ---- orders: (row, column) of a plane, in the order of the visits ------------------------------

  // Columns of c cells, walked row by row; odd rows backwards where asked.
  function columns(top, height, width, c, zigzag, visit) {
    for (let start = 0; start < width; start += c) {
      const taken = Math.min(c, width - start);
      for (let row = 0; row < height; row++)
        for (let x = 0; x < taken; x++)
          visit(top + row, start + (zigzag && row % 2 ? taken - 1 - x : x));
    }
  }

  // The even bits of x, moved together.
  function compact(x) {
    x &= 0x55555555;
    x = (x | (x >>> 1)) & 0x33333333;
    x = (x | (x >>> 2)) & 0x0f0f0f0f;
    x = (x | (x >>> 4)) & 0x00ff00ff;
    return (x | (x >>> 8)) & 0x0000ffff;
  }

  const morton = (i) => [compact(i >>> 1), compact(i)];

  // By a parallel prefix over the digits (Warren, Hacker's Delight, section 16-2), as in curves.py.
  function hilbert(i, low) {
    const even = low & 0x55555555;
    const high = (i >>> 1) & even;
    let turns = ((i & even) + high) ^ even;
    for (const shift of [2, 4, 8, 16]) turns ^= turns >>> shift;
    const swap = turns & even, flip = (turns >>> 1) & even;
    const t = (i & swap) ^ flip;
    const interleaved = i ^ high ^ t ^ (t << 1);
    return [compact(interleaved >>> 1), compact(interleaved)];
  }

  // Square tiles whose side is the least power of two that holds the shorter axis.
  function curve(name, height, width, visit) {
    let level = 0;
    while (1 << level < Math.min(height, width)) level++;
    const side = 1 << level, low = side * side - 1;
    const tiles = ceilDiv(height, side) * ceilDiv(width, side);
    for (let tile = 0; tile < tiles; tile++)
      for (let i = 0; i <= low; i++) {
        let row, col;
        if (name === "Morton") {
          [row, col] = morton(i);
          if (height < width) col += tile * side;
          else row += tile * side;
        } else {
          const [along, across] = hilbert(i, low);
          [row, col] = height <= width ? [across, along + tile * side] : [along + tile * side, across];
        }
        if (row < height && col < width) visit(row, col);
      }
  }

  const PLANES = {
    Row: (o, h, w, visit) => columns(0, h, w, w || 1, false, visit),
    Column: (o, h, w, visit) => columns(0, h, w, o.width, false, visit),
    ZigZag: (o, h, w, visit) => columns(0, h, w, o.width, true, visit),
    Tile: (o, h, w, visit) => {
      for (let top = 0; top < h; top += o.rows)
        columns(top, Math.min(o.rows, h - top), w, o.cols, false, visit);
    },
    Swizzle: (o, h, w, visit) => columns(0, w, h, o.group, false, (row, col) => visit(col, row)),
    Morton: (o, h, w, visit) => curve("Morton", h, w, visit),
    Hilbert: (o, h, w, visit) => curve("Hilbert", h, w, visit),
  };

  // A person's own rule, "row, column" in i, rows and cols; checked to visit everything once.
  function ownRule(order, height, width, visit) {
    const rule = new Function("i", "rows", "cols", `"use strict"; return [${order.rule}]`);
    const seen = new Map();
    for (let i = 0; i < height * width; i++) {
      const at = rule(i, height, width).map(Math.floor);
      const [row, col] = at;
      if (at.length !== 2 || !(row >= 0 && row < height && col >= 0 && col < width))
        throw new Error(`step ${i} visits (${at.join(", ")}), which is outside ${height} × ${width}`);
      const id = row * width + col;
      if (seen.has(id))
        throw new Error(`steps ${seen.get(id)} and ${i} both visit (${row}, ${col})`);
      seen.set(id, i);
      visit(row, col);
    }
  }

  function ownTable(order, height, width, visit) {
    const ids = order.ids, size = height * width;
    if (ids.length !== size)
      throw new Error(`${ids.length} numbers, but ${height} × ${width} outputs need ${size}`);
    const seen = new Map();
    ids.forEach((id, step) => {
      if (!Number.isInteger(id) || id < 0 || id >= size)
        throw new Error(`entry ${step} is ${id}, outside 0 … ${size - 1}`);
      if (seen.has(id)) throw new Error(`entries ${seen.get(id)} and ${step} are both ${id}`);
      seen.set(id, step);
      visit(Math.floor(id / width), id % width);
    });
  }

  // The row-major ids of all outputs of `shape`, in the order of their visits.
  function visited(order, shape) {
    const size = shape.reduce((a, b) => a * b, 1);
    const ids = new Int32Array(size);
    let n = 0;
    if (shape.length < 2 && !order.ids) {
      for (let i = 0; i < size; i++) ids[i] = i;
      return ids;
    }
    const [height, width] = shape.length < 2 ? [1, size] : shape.slice(-2);
    const plane = height * width;
    const walk = order.ids ? ownTable : order.rule ? ownRule : PLANES[order.name];
    const [tall, wide] = order.block || [1, 1];
    const inUnits = {
      ...order,
      width: ceilDiv(order.width, wide),
      rows: ceilDiv(order.rows, tall),
      cols: ceilDiv(order.cols, wide),
      group: ceilDiv(order.group, tall),
    };
    for (let base = 0; base < size; base += plane)
      walk(inUnits, ceilDiv(height, tall), ceilDiv(width, wide), (r, c) => {
        const bottom = Math.min((r + 1) * tall, height), right = Math.min((c + 1) * wide, width);
        for (let row = r * tall; row < bottom; row++)
          for (let col = c * wide; col < right; col++) ids[n++] = base + row * width + col;
      });
    return ids;
  }

  // ---- traces ------------------------------------------------------------------------------------

  // `table[tap * outputs + id]` is the address that output `id` touches by a tap, or -1.
  // Result: addresses in the order of their access, the step (output) of each, and where steps begin.
  function trace(table, taps, ids) {
    const outputs = ids.length;
    const addresses = new Int32Array(outputs * taps), step = new Int32Array(outputs * taps);
    const begin = new Int32Array(outputs + 1);
    let n = 0;
    for (let t = 0; t < outputs; t++) {
      begin[t] = n;
      for (let tap = 0; tap < taps; tap++) {
        const address = table[tap * outputs + ids[t]];
        if (address < 0) continue;
        addresses[n] = address;
        step[n++] = t;
      }
    }
    begin[outputs] = n;
    return { addresses: addresses.subarray(0, n), step: step.subarray(0, n), begin, steps: outputs };
  }

  // How many lines 32 outputs that follow each other touch by one tap, on average: what a warp's
  // access costs.
  function linesOfWarps(table, taps, ids, width) {
    const outputs = ids.length, lines = new Set();
    let touched = 0, accesses = 0;
    for (let tap = 0; tap < taps; tap++)
      for (let first = 0; first < outputs; first += 32) {
        lines.clear();
        for (let t = first; t < Math.min(first + 32, outputs); t++) {
          const address = table[tap * outputs + ids[t]];
          if (address >= 0) lines.add(Math.floor(address / width));
        }
        touched += lines.size;
        accesses += lines.size > 0;
      }
    return touched / Math.max(accesses, 1);
  }

  function linesOf(addresses, width) {
    const lines = new Int32Array(addresses.length);
    for (let t = 0; t < lines.length; t++) lines[t] = Math.floor(addresses[t] / width);
    return lines;
  }

  // ---- caches: each returns {hits, misses, evictions} and fills `log`, if there is one --------------
  // log.missed[t] is 1 for a miss, log.evicted[t] the line that it threw out, or -1.

  const newLog = (n) => ({ missed: new Uint8Array(n), evicted: new Int32Array(n).fill(-1) });

  // Fully associative, the least recently used goes; every access counts.
  function lru(lines, step, span, capacity, log) {
    const held = new Uint8Array(span), newer = new Int32Array(span), older = new Int32Array(span);
    let newest = -1, oldest = -1, count = 0, misses = 0, evictions = 0;
    for (let t = 0; t < lines.length; t++) {
      const line = lines[t];
      if (line === newest) continue;
      if (held[line]) {
        if (line === oldest) oldest = newer[line];
        else newer[older[line]] = newer[line];
        older[newer[line]] = older[line];
      } else {
        misses++;
        if (log) log.missed[t] = 1;
        if (count === capacity) {
          const out = oldest;
          oldest = capacity > 1 ? newer[out] : -1;
          if (oldest < 0) newest = -1;
          held[out] = 0;
          evictions++;
          if (log) log.evicted[t] = out;
        } else count++;
        held[line] = 1;
      }
      if (newest < 0) oldest = line;
      else newer[newest] = line;
      older[line] = newest;
      newest = line;
    }
    return { hits: lines.length - misses, misses, evictions };
  }

  // A heap of (key, owner), the least key first.
  function makeHeap(room) {
    const keys = new Float64Array(room), owners = new Int32Array(room);
    let size = 0;
    return {
      push(key, owner) {
        let at = size++;
        while (at > 0) {
          const parent = (at - 1) >> 1;
          if (keys[parent] <= key) break;
          keys[at] = keys[parent];
          owners[at] = owners[parent];
          at = parent;
        }
        keys[at] = key;
        owners[at] = owner;
      },
      pop() {
        const top = [keys[0], owners[0]], key = keys[--size], owner = owners[size];
        let at = 0;
        for (;;) {
          let child = 2 * at + 1;
          if (child >= size) break;
          if (child + 1 < size && keys[child + 1] < keys[child]) child++;
          if (keys[child] >= key) break;
          keys[at] = keys[child];
          owners[at] = owners[child];
          at = child;
        }
        keys[at] = key;
        owners[at] = owner;
        return top;
      },
    };
  }

  // Fully associative, by the key that `keyOf` gives a line at each access; the least key goes.
  // Keys in the heap that are no longer a line's own are skipped.  Accesses are made in `order`.
  function byKey(lines, span, capacity, log, keyOf, order = lines.keys()) {
    const key = new Float64Array(span), held = new Uint8Array(span), arrival = new Int32Array(span);
    const heap = makeHeap(lines.length + 1);
    let count = 0, misses = 0, evictions = 0;
    for (const t of order) {
      const line = lines[t];
      if (!held[line]) {
        arrival[line] = misses++;
        if (log) log.missed[t] = 1;
        if (count === capacity) {
          let old, out;
          do [old, out] = heap.pop();
          while (!held[out] || key[out] !== old);
          held[out] = 0;
          evictions++;
          if (log) log.evicted[t] = out;
        } else count++;
        held[line] = 1;
      } else if (key[line] === keyOf(t, arrival[line])) continue;
      key[line] = keyOf(t, arrival[line]);
      heap.push(key[line], line);
    }
    return { hits: lines.length - misses, misses, evictions };
  }

  // Recency is the step; among lines of one step the one brought in first goes (Prasetya 2021).
  // The accesses of a step are simultaneous: they are taken by address.
  const stepLru = (lines, step, span, capacity, log) =>
    byKey(lines, span, capacity, log, (t, arrival) => step[t] * 2 ** 24 + arrival,
      Int32Array.from(lines.keys()).sort((a, b) => step[a] - step[b] || lines[a] - lines[b] || a - b));

  // Belady: the line that is used again last goes.
  function optimal(lines, step, span, capacity, log) {
    const following = new Int32Array(span).fill(lines.length), next = new Int32Array(lines.length);
    for (let t = lines.length - 1; t >= 0; t--) {
      next[t] = following[lines[t]];
      following[lines[t]] = t;
    }
    return byKey(lines, span, capacity, log, (t) => -next[t]);
  }

  // Sets of `ways` lines, least recently used of each; set = line mod sets.
  const setAssociative = (ways) => (lines, step, span, capacity, log) => {
    const sets = Math.floor(capacity / ways), tags = new Int32Array(sets * ways).fill(-1);
    let misses = 0, evictions = 0;
    for (let t = 0; t < lines.length; t++) {
      const line = lines[t], first = (line % sets) * ways;
      let carried = line, w = 0;
      for (; w < ways; w++) {
        const tag = tags[first + w];
        tags[first + w] = carried;
        carried = tag;
        if (carried === line) break;
      }
      if (w < ways) continue;
      misses++;
      if (log) log.missed[t] = 1;
      if (carried >= 0) {
        evictions++;
        if (log) log.evicted[t] = carried;
      }
    }
    return { hits: lines.length - misses, misses, evictions };
  };

  const POLICIES = { StepLru: stepLru, Lru: lru, SetAssociative: setAssociative(4), Optimal: optimal };

  // A trace through a cache of `capacity` lines of `width` elements.
  function simulate(found, span, policy, capacity, width) {
    const lines = linesOf(found.addresses, width), room = Math.floor(span / width) + 1;
    const log = newLog(lines.length), best = newLog(lines.length);
    const result = POLICIES[policy](lines, found.step, room, capacity, log);
    const { misses } = optimal(lines, found.step, room, capacity, best);
    const first = new Uint8Array(lines.length), seen = new Uint8Array(room);
    let compulsory = 0;
    for (let t = 0; t < lines.length; t++)
      if (!seen[lines[t]]) {
        seen[lines[t]] = first[t] = 1;
        compulsory++;
      }
    return {
      ...result, compulsory, optimal: misses, accesses: lines.length,
      lines, room, log, bestMissed: best.missed, firstUse: first,
    };
  }

  // Only the misses, for curves over the size of the cache.
  function misses(found, span, policy, capacity, width) {
    const lines = linesOf(found.addresses, width);
    return POLICIES[policy](lines, found.step, Math.floor(span / width) + 1, capacity, null).misses;
  }

  // ---- data of the page ----------------------------------------------------------------------------

  // The bytes of base64 text that zlib made.
  async function inflate(text) {
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }

  // A table of addresses: differences of 32 bits, summed up again.
  async function unpackTable(text) {
    const table = new Int32Array(await inflate(text));
    for (let k = 1; k < table.length; k++) table[k] += table[k - 1];
    return table;
  }

  const unpackText = async (text) => JSON.parse(new TextDecoder().decode(await inflate(text)));

  return { visited, trace, linesOfWarps, simulate, misses, unpackTable, unpackText };
})();

if (typeof module !== "undefined") module.exports = Simulator;
