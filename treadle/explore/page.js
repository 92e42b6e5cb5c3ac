// What a person chooses, and what follows from it.
"use strict";

(() => {
  const at = (id) => document.getElementById(id);
  const programs = JSON.parse(at("data").textContent);
  const number = (n) => n.toLocaleString("en");
  const counted = (n, one, more = `${one}s`) => `${number(n)} ${n === 1 ? one : more}`;

  const ORDERS = {
    Row: [], Column: ["width"], ZigZag: ["width"], Tile: ["rows", "cols"],
    Swizzle: ["group"], Morton: [], Hilbert: [], Own: [],
  };
  const MEANING = {
    width: "width of a column", rows: "rows of a tile", cols: "columns of a tile", group: "rows of a group",
  };
  const BLOCKS = ["", "2 × 2", "4 × 4", "2 × 8", "4 × 8", "8 × 8", "8 × 32"];
  const SNAKE = "i / cols, (i / cols & 1) ? cols - 1 - i % cols : i % cols";

  // All that the address bar keeps.
  const choice = {
    program: programs[0].key, shape: 0, order: "Column", width: 4, rows: 4, cols: 4, group: 4, block: "",
    rule: SNAKE, lines: 24, line: 4, policy: "StepLru", step: -1, memory: "now", tab: "code",
  };

  let program = null, variant = null, table = null, texts = null; // of the chosen program
  let scene = null, moment = 0; // the simulation that is shown, and its step
  let sizes = []; // numbers of lines to choose from, and to sweep over
  const seen = new Map(); // misses, by order, size and policy: sweeps are drawn again and again

  // ---- the order -------------------------------------------------------------------------------------

  function orderNamed(name) {
    const order = { name, ...Object.fromEntries(["width", "rows", "cols", "group"].map((k) => [k, choice[k]])) };
    if (choice.block && variant.shape.length > 1) order.block = choice.block.split(" × ").map(Number);
    if (name === "Own") {
      const own = choice.rule.trim();
      if (/^\[?\s*\d+(\s*,\s*\d+)+\s*\]?$/.test(own)) order.ids = own.replace(/[[\]\s]/g, "").split(",").map(Number);
      else order.rule = own;
      delete order.block;
    }
    return order;
  }

  // As Python writes it: the order alone, and the schedule.
  const orderWritten = (name) =>
    name === "Own" ? "Table([…])" : `${name}(${ORDERS[name].map((k) => choice[k]).join(", ")})`;

  function written(name) {
    const blocks = choice.block && name !== "Own" && variant.shape.length > 1;
    return orderWritten(name) + (blocks ? ` | Block(${choice.block.replace(" × ", ", ")})` : "");
  }

  const keyOf = (name) => `${written(name)}${name === "Own" ? choice.rule : ""}`;

  // ---- the simulation ----------------------------------------------------------------------------------

  function traceOf(name) {
    return Simulator.trace(table, variant.taps, Simulator.visited(orderNamed(name), variant.shape));
  }

  function makeScene() {
    const order = orderNamed(choice.order);
    const ids = Simulator.visited(order, variant.shape);
    const found = Simulator.trace(table, variant.taps, ids);
    const result = Simulator.simulate(found, variant.span, choice.policy, choice.lines, choice.line);
    const when = new Int32Array(ids.length);
    ids.forEach((id, step) => (when[id] = step));
    const { missed, evicted } = result.log, { steps } = found;
    const s = { order, ids, when, found, result, variant, lineWidth: choice.line, block: order.block };
    s.warp = Simulator.linesOfWarps(table, variant.taps, ids, choice.line);
    // Events: a line comes in; until when it is used, and when it goes.
    s.events = new Int32Array(result.misses);
    s.lastUse = new Int32Array(result.misses);
    s.endUse = new Int32Array(result.misses).fill(steps);
    s.loadsAtEnd = new Int32Array(result.room);
    s.perStep = new Int32Array(steps);
    const open = new Int32Array(result.room).fill(-1);
    const best = new Int32Array(steps), floor = new Int32Array(steps);
    let count = 0;
    for (let k = 0; k < missed.length; k++) {
      const line = result.lines[k], step = found.step[k];
      if (missed[k]) {
        if (evicted[k] >= 0) s.endUse[open[evicted[k]]] = step;
        open[line] = count;
        s.events[count++] = k;
        s.loadsAtEnd[line]++;
        s.perStep[step]++;
      }
      s.lastUse[open[line]] = step;
      best[step] += result.bestMissed[k];
      floor[step] += result.firstUse[k];
    }
    const running = (each) => {
      let sum = 0;
      return each.map((n) => (sum += n));
    };
    s.sums = { misses: running(s.perStep), best: running(best), floor: running(floor) };
    s.content = contents(s);
    return s;
  }

  // What the cache holds after a step: by line, 1 + the event that brought it in, and loads so far.
  function contents(s) {
    const held = new Int32Array(s.result.room), loads = new Int32Array(s.result.room);
    let done = 0, reached = -1;
    return (t) => {
      if (t < reached) {
        held.fill(0);
        loads.fill(0);
        done = 0;
      }
      reached = t;
      for (; done < s.events.length && s.found.step[s.events[done]] <= t; done++) {
        const k = s.events[done], out = s.result.log.evicted[k];
        if (out >= 0) held[out] = 0;
        held[s.result.lines[k]] = done + 1;
        loads[s.result.lines[k]]++;
      }
      return { held, loads };
    };
  }

  // ---- sweeps: misses of every order on every size, a few milliseconds at a time --------------------------

  const sweepKey = (name) => [program.key, choice.shape, keyOf(name), choice.line, choice.policy].join("|");

  function pointsOf(name) {
    const key = sweepKey(name);
    if (!seen.has(key)) seen.set(key, new Map());
    return seen.get(key);
  }

  const swept = () => Object.keys(ORDERS).filter((n) => n !== "Own" || choice.order === n);

  function curvesNow() {
    return swept().map((name) => ({ name, chosen: name === choice.order, points: pointsOf(name) }));
  }

  let sweeping = 0;
  function sweepAll() {
    const sweep = ++sweeping;
    const names = swept().sort((a, b) => (b === choice.order) - (a === choice.order));
    const traces = new Map();
    const work = (function* () {
      // The chosen size of all orders first, so that the ranking stands; then the curves.
      for (const name of names) yield [name, choice.lines];
      for (const name of names) for (const lines of sizesOfCurves()) yield [name, lines];
    })();
    let drawn = 0;
    const some = () => {
      if (sweep !== sweeping) return;
      const until = performance.now() + 12;
      // Not for … of: leaving that would end the generator.
      for (let next = work.next(); !next.done; next = work.next()) {
        const [name, lines] = next.value, points = pointsOf(name);
        if (points.has(lines)) continue;
        if (!traces.has(name)) traces.set(name, traceOf(name));
        points.set(lines, Simulator.misses(traces.get(name), variant.span, choice.policy, lines, choice.line));
        if (performance.now() < until) continue;
        if (until - drawn > 150) {
          drawSweep();
          drawn = until;
        }
        setTimeout(some, 2);
        return;
      }
      document.body.dataset.swept = "yes";
      drawSweep();
    };
    some();
  }

  function drawSweep() {
    if (!scene) return;
    Pictures.sweep(at("sweep"), scene, curvesNow(), choice.lines, sizes[sizes.length - 1]);
    const ranked = curvesNow().filter((c) => c.points.has(choice.lines));
    ranked.sort((a, b) => a.points.get(choice.lines) - b.points.get(choice.lines));
    const text = ranked.map((c) => [c.name, orderWritten(c.name), number(c.points.get(choice.lines))]);
    const box = at("ranking");
    if (box.dataset.text !== JSON.stringify([text, choice.order])) {
      const focused = document.activeElement?.dataset?.order;
      box.dataset.text = JSON.stringify([text, choice.order]);
      box.replaceChildren(...text.map(([name, label, misses]) => {
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.order = name;
        button.setAttribute("aria-pressed", name === choice.order);
        button.append(`${label} `, Object.assign(document.createElement("b"), { textContent: misses }));
        button.onclick = () => change({ order: name });
        return button;
      }));
      if (focused) box.querySelector(`[data-order="${focused}"]`)?.focus();
    }
    const row = pointsOf("Row").get(choice.lines);
    if (row !== undefined) bar("row", row);
    const label = ranked.map((c) => `${written(c.name)} ${c.points.get(choice.lines)}`).join(", ");
    at("sweep").setAttribute("aria-label", `Misses with ${choice.lines} lines: ${label}`);
  }

  // ---- what is written ---------------------------------------------------------------------------------------

  const bars = {};
  function bar(which, count) {
    bars[which] = count;
    const most = Math.max(...Object.values(bars), 1);
    for (const [name, n] of Object.entries(bars)) {
      const dd = at(`${name}-bar`);
      dd.textContent = number(n);
      dd.style.setProperty("--share", `${(100 * n) / most}%`);
      dd.style.setProperty("--tone", `var(--${{ this: "miss", row: "row", best: "best", floor: "floor" }[name]})`);
    }
  }

  function tell() {
    const r = scene.result;
    at("misses").textContent = `${number(r.misses)} misses`;
    at("of").textContent = `of ${number(r.accesses)} reads and writes, ${((100 * r.misses) / Math.max(r.accesses, 1)).toFixed(1)} %`;
    at("schedule").textContent = `schedule=${written(choice.order)}`;
    at("warp").textContent = `on a GPU, ${scene.warp.toFixed(1)} lines for every read of 32 threads`;
    document.body.dataset.warp = scene.warp.toFixed(6);
    for (const name of Object.keys(bars)) delete bars[name];
    bar("this", r.misses);
    bar("best", r.optimal);
    bar("floor", r.compulsory);
    Object.assign(document.body.dataset, {
      misses: r.misses, accesses: r.accesses, optimal: r.optimal, compulsory: r.compulsory, evictions: r.evictions,
    });
  }

  function place(id) {
    let rest = id;
    return [...variant.shape].reverse().map((n) => {
      const k = rest % n;
      rest = Math.floor(rest / n);
      return k;
    }).reverse().join(", ");
  }

  function draw() {
    if (!scene) return;
    const t = moment;
    Pictures.order(at("order"), scene, t);
    const most = Pictures.memory(at("memory"), scene, t, choice.memory === "loads");
    Pictures.diagram(at("diagram"), scene, t);
    Pictures.totals(at("totals"), scene, t);
    const accesses = scene.found.begin[t + 1] - scene.found.begin[t], missed = scene.perStep[t];
    const steps = scene.found.steps;
    at("time").value = t;
    at("now").textContent = `${number(t + 1)} of ${number(steps)}  (${place(scene.ids[t])})  ${counted(accesses - missed, "hit")}, ${counted(missed, "miss", "misses")}`;
    at("time").setAttribute("aria-valuetext", at("now").textContent);
    at("order").setAttribute("aria-label", `Elements of the result in the order of ${written(choice.order)}; step ${t + 1} computes (${place(scene.ids[t])})`);
    at("memory").setAttribute("aria-label", `Memory after step ${t + 1}: ${scene.content(t).held.reduce((n, e) => n + (e > 0), 0)} lines in the cache`);
    at("diagram").setAttribute("aria-label", `Addresses over time: ${scene.result.misses} misses`);
    at("totals").setAttribute("aria-label", `${scene.sums.misses[t]} misses so far; ideal cache ${scene.sums.best[t]}; unavoidable ${scene.sums.floor[t]}`);
    const keys = choice.memory === "loads"
      ? [["load once", "fetched once"], ["load", `${number(most)} times`]]
      : [["miss", "miss"], ["hit", "hit"], ["held", "kept"], ["dead", "kept in vain"]];
    at("memory-legend").innerHTML = keys.map(([k, text]) => `<span>${k ? `<i class="key ${k}"></i>` : ""}${text}</span>`).join("");
  }

  // ---- the source ---------------------------------------------------------------------------------------------

  const escaped = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  const WORDS = /\b(?:const|int|int64|uint32|float|float4|void|for|if|else|while|return|extern|using|bool|def|lambda|in|import|from|True|False|unsigned|long)\b/;

  function painted(text, comment) {
    const token = new RegExp(`(?<c>${comment}.*$)|(?<k>${WORDS.source})|(?<n>\\b\\d[\\w.]*)`, "gm");
    return escaped(text).replace(token, (whole, ...rest) => {
      const found = rest[rest.length - 1];
      return `<span class="${found.c ? "c" : found.k ? "k" : "n"}">${whole}</span>`;
    });
  }

  // The embedded kernel that is nearest to the schedule chosen.
  function nearest() {
    const name = choice.order, blocks = !!choice.block;
    const size = choice[{ Tile: "cols", Swizzle: "group" }[name] || "width"];
    const far = (k) => (k.name === name ? 0 : 1000) + (k.blocks === blocks ? 0 : 100) + Math.abs(Math.log2((k.size || 1) / size));
    return [...texts.kernels].sort((a, b) => far(a) - far(b))[0];
  }

  function showSource() {
    for (const tab of ["code", "cuda", "explain"]) {
      at(`tab-${tab}`).setAttribute("aria-selected", tab === choice.tab);
      at(`tab-${tab}`).tabIndex = tab === choice.tab ? 0 : -1;
    }
    const kernel = nearest();
    const text = choice.tab === "code" ? program.code : choice.tab === "explain" ? texts.explain[choice.shape] : kernel?.cuda;
    const same = kernel?.schedule === written(choice.order);
    at("which").textContent = choice.tab !== "cuda" || !kernel ? ""
      : same ? `under ${kernel.schedule}` : `under ${kernel.schedule}, the closest that this page includes`;
    at("text").setAttribute("aria-labelledby", `tab-${choice.tab}`);
    at("text").innerHTML = choice.tab === "explain" ? escaped(text || "") : painted(text || "The source of this kernel is not included.", choice.tab === "code" ? "#" : "//");
  }

  // ---- from choice to page --------------------------------------------------------------------------------------

  function remember() {
    const kept = new URLSearchParams();
    for (const [key, value] of Object.entries(choice)) if (key !== "rule" || choice.order === "Own") kept.set(key, value);
    kept.set("step", moment);
    try {
      history.replaceState(null, "", `#${kept}`);
    } catch {} // a page shown inside another one may not
  }

  let remembering = 0;
  function rememberSoon() {
    clearTimeout(remembering);
    remembering = setTimeout(remember, 250);
  }

  let updating = 0;
  async function change(what) {
    const before = { ...choice };
    Object.assign(choice, what);
    if (what.program && what.program !== before.program) Object.assign(choice, { shape: 0, block: "" }, programOf().start);
    if (what.lines === undefined) settle();
    document.body.dataset.swept = "no";
    if (!program || choice.program !== before.program || choice.shape !== before.shape) await load();
    // Once a frame: a slider says more often where it is.
    if (!updating) updating = requestAnimationFrame(update);
  }

  const programOf = () => programs.find((p) => p.key === choice.program) || programs[0];

  // Choices that do not fit are replaced by the nearest that do.
  function settle() {
    const shown = programOf();
    choice.program = shown.key;
    choice.shape = Math.min(Math.max(0, choice.shape), shown.variants.length - 1);
    if (!(choice.order in ORDERS)) choice.order = "Row";
    const shape = shown.variants[choice.shape].shape, cols = shape[shape.length - 1] || 1;
    const rows = shape[shape.length - 2] || 1;
    for (const [key, most] of [["width", cols], ["cols", cols], ["rows", rows], ["group", rows]])
      choice[key] = Math.min(Math.max(1, Math.round(choice[key]) || 1), most);
  }

  async function load() {
    program = programOf();
    variant = program.variants[choice.shape];
    [table, texts] = await Promise.all([Simulator.unpackTable(variant.table), Simulator.unpackText(program.texts)]);
  }

  // Every number up to 64, then steps of a thirtysecond at most, up to what holds everything.
  function sizesUpTo(most) {
    const found = [], whole = choice.policy === "SetAssociative" ? 4 : 1;
    for (let n = whole, step = whole; n < most; n += step) {
      found.push(n);
      while (step * 64 <= n) step *= 2;
    }
    found.push(Math.ceil(most / whole) * whole);
    return found;
  }

  // Those that the curves are made of: fewer where a point takes long.
  function sizesOfCurves() {
    const apart = table.length > 150000 ? 1.15 : 1.05;
    let last = 0;
    return sizes.filter((n, k) => (n >= last * apart || k === sizes.length - 1) && (last = n));
  }

  function update() {
    updating = 0;
    at("wrong").textContent = "";
    const everything = Math.ceil(variant.span / choice.line);
    sizes = sizesUpTo(Math.max(everything, 4));
    choice.lines = sizes.reduce((a, b) => (Math.abs(b - choice.lines) < Math.abs(a - choice.lines) ? b : a));
    const share = scene && scene.found.steps > 1 ? moment / (scene.found.steps - 1) : 0.45;
    controls();
    try {
      scene = makeScene();
    } catch (error) {
      sweeping++; // what is under way is of an order that is gone
      document.body.dataset.swept = "yes";
      at("wrong").textContent = error.message;
      return;
    }
    const last = scene.found.steps - 1;
    at("time").max = last;
    if (choice.step >= 0) moment = Math.min(choice.step, last);
    else moment = Math.round(share * last);
    choice.step = -1;
    tell();
    draw();
    sweepAll();
    showSource();
    rememberSoon();
    document.body.dataset.ready = "yes";
  }

  function controls() {
    at("program").value = program.key;
    at("note").textContent = program.note;
    if (at("shape").dataset.of !== program.key) {
      at("shape").dataset.of = program.key;
      at("shape").replaceChildren(...program.variants.map((v, k) => new Option(v.label, k)));
    }
    at("shape").value = choice.shape;
    at("lines").max = sizes.length - 1;
    at("lines").value = sizes.indexOf(choice.lines);
    at("lines").setAttribute("aria-valuetext", `${choice.lines} lines`);
    at("lines-now").textContent = `${number(choice.lines)}  (${number(choice.lines * choice.line)} numbers)`;
    at("line").value = Math.log2(choice.line);
    at("line").setAttribute("aria-valuetext", `${choice.line} numbers`);
    at("line-now").textContent = choice.line;
    at("policy").value = choice.policy;
    at("own").hidden = choice.order !== "Own";
    if (document.activeElement !== at("rule")) at("rule").value = choice.rule;
    at("show-now").setAttribute("aria-pressed", choice.memory === "now");
    at("show-loads").setAttribute("aria-pressed", choice.memory === "loads");
    for (const radio of at("orders").querySelectorAll("input")) radio.checked = radio.value === choice.order;
    parameters();
  }

  function parameters() {
    const shape = variant.shape, rows = shape[shape.length - 2] || 1, cols = shape[shape.length - 1];
    const most = { width: cols, cols, rows, group: rows };
    const wanted = ORDERS[choice.order], flat = shape.length < 2;
    const key = `${choice.order} ${shape}`;
    if (at("parameters").dataset.of !== key) {
      at("parameters").dataset.of = key;
      at("parameters").innerHTML = flat && choice.order !== "Row"
        ? `<p class="choice">The result has one axis: two-dimensional orders visit it from left to right.</p>`
        : wanted.map((k) => `<label class="slider" for="${k}">${MEANING[k]} <output id="${k}-now"></output><input type="range" id="${k}" min="1" max="${most[k]}" step="1"></label>`).join("")
          + (flat || choice.order === "Own" ? "" : `<label class="choice">unit <select id="block">${BLOCKS.map((b) => `<option value="${b}">${b ? `a block of ${b}` : "one element"}</option>`).join("")}</select></label>`);
      for (const k of wanted) if (at(k)) at(k).oninput = () => change({ [k]: +at(k).value });
      if (at("block")) at("block").onchange = () => change({ block: at("block").value });
    }
    for (const k of wanted) if (at(k)) {
      at(k).value = choice[k];
      at(`${k}-now`).textContent = choice[k];
    }
    if (at("block")) at("block").value = choice.block;
  }

  // ---- time -------------------------------------------------------------------------------------------------------

  let playing = 0, carried = 0;
  function go(step) {
    moment = Math.min(Math.max(0, step), scene.found.steps - 1);
    draw();
    rememberSoon();
  }

  function play(on) {
    playing = on ? performance.now() : 0;
    at("play").textContent = on ? "❚❚" : "▶";
    at("play").setAttribute("aria-label", on ? "Pause" : "Play");
    if (!on) return;
    if (moment >= scene.found.steps - 1) go(0);
    carried = 0;
    requestAnimationFrame(tick);
  }

  function tick(now) {
    if (!playing) return;
    // Steps a second: 4 at the left end, doubled by each notch; large shapes go as much faster.
    const rate = 4 * 2 ** at("speed").value * Math.max(1, scene.found.steps / 1024);
    carried += (Math.min(now - playing, 200) / 1000) * rate;
    playing = now;
    if (carried >= 1) {
      go(moment + Math.floor(carried));
      carried %= 1;
    }
    if (moment >= scene.found.steps - 1) play(false);
    else requestAnimationFrame(tick);
  }

  // ---- beginning -----------------------------------------------------------------------------------------------------

  function listen() {
    at("program").append(...programs.map((p) => new Option(p.title, p.key)));
    at("program").onchange = () => change({ program: at("program").value });
    at("shape").onchange = () => change({ shape: +at("shape").value });
    at("lines").oninput = () => change({ lines: sizes[+at("lines").value] });
    at("line").oninput = () => change({ line: 2 ** +at("line").value });
    at("policy").onchange = () => change({ policy: at("policy").value });
    at("rule").oninput = () => change({ rule: at("rule").value });
    at("controls").onsubmit = (event) => event.preventDefault();
    at("orders").innerHTML = Object.keys(ORDERS).map((name) => {
      const order = name === "Own"
        ? { rule: SNAKE } : { name, width: 2, rows: 2, cols: 2, group: 2 };
      const path = [...Simulator.visited(order, [4, 4])];
      return `<label>${Pictures.icon(path, 4, 4)}<input type="radio" name="order" value="${name}">${name}</label>`;
    }).join("");
    at("orders").onchange = (event) => change({ order: event.target.value });
    at("time").oninput = () => go(+at("time").value);
    at("play").onclick = () => play(!playing);
    for (const mode of ["now", "loads"])
      at(`show-${mode}`).onclick = () => {
        choice.memory = mode;
        controls();
        go(moment);
      };
    const tabs = ["code", "cuda", "explain"];
    for (const tab of tabs) at(`tab-${tab}`).onclick = () => {
      choice.tab = tab;
      showSource();
      rememberSoon();
    };
    at("source").onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || event.target.getAttribute("role") !== "tab") return;
      event.stopPropagation();
      const next = tabs[(tabs.indexOf(choice.tab) + step + tabs.length) % tabs.length];
      at(`tab-${next}`).click();
      at(`tab-${next}`).focus();
    };
    for (const id of ["diagram", "totals"]) dragged(at(id), (x, w) => go(Math.floor((x / w) * scene.found.steps)));
    dragged(at("sweep"), (x, w) => change({ lines: Math.round(Pictures.sweepLines(x, sizes[sizes.length - 1], w)) }));
    document.onkeydown = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      // Sliders, lists and texts keep their own keys.
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
      if (event.key === " " && event.target.tagName !== "BUTTON") play(!playing);
      else if (by) go(moment + by * (event.shiftKey ? 10 : 1));
      else return;
      event.preventDefault();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      Pictures.readColours();
      if (scene) scene.diagramKey = "";
      draw();
      drawSweep();
    });
    new ResizeObserver(() => {
      draw();
      drawSweep();
    }).observe(at("stage"));
  }

  function dragged(canvas, act) {
    const move = (event) => act(event.offsetX, canvas.clientWidth);
    canvas.onpointerdown = (event) => {
      canvas.setPointerCapture(event.pointerId);
      canvas.onpointermove = move;
      move(event);
    };
    canvas.onpointerup = canvas.onpointercancel = () => (canvas.onpointermove = null);
  }

  Object.assign(choice, programs[0].start);
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (wanted.has("program")) {
    choice.program = wanted.get("program");
    Object.assign(choice, programOf().start);
  }
  for (const [key, value] of wanted) if (key in choice) choice[key] = typeof choice[key] === "number" ? +value : value;
  Pictures.readColours();
  listen();
  change({}).catch((error) => {
    at("note").textContent = `This page could not start: ${error.message}`;
    throw error;
  });
})();
