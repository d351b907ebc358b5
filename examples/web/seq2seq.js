"use strict";
// One file for the page and for its Web Worker, which trains: only the worker loads the WebAssembly.

// ---- the worker ----

async function work() {
  importScripts("wasi.js");
  const to = await loadModule("seq2seq_web.wasm");

  const TESTED = 200, TESTED_LAST = 1000, T = 13;
  let running = false, step = 0, seconds = 0, timer = 0;

  const numbers = (at, n) => Array.from(new Float64Array(to.memory.buffer, at, n));
  function show() {
    const length = to.web_show(), shown = numbers(to.web_shown(), 3 * T);
    postMessage({ kind: "map", length, digits: shown.slice(0, length), answer: shown.slice(T, T + length + 1),
      written: shown.slice(2 * T, 2 * T + length + 1), weights: numbers(to.web_attention(), (length + 1) * length) });
  }
  function test(n) { postMessage({ kind: "test", right: to.web_test(n), of: n, step }); }
  function begin(sort) {
    step = seconds = 0;
    postMessage({ kind: "begun", parameters: to.web_begin(1, sort), steps: to.web_steps() });
    show();
  }
  // Trains for some 60 ms, then lets messages in: stop, or begin anew.
  function slice() {
    if (!running) return;
    const losses = [], begun = performance.now();
    let exact = [];
    while (step < to.web_steps() && performance.now() - begun < 60) {
      losses.push(to.web_step());
      exact.push(to.web_exact());
      step++;
      if (step % 50 === 0) break;
    }
    seconds += (performance.now() - begun) / 1000;
    postMessage({ kind: "steps", step, losses, exact, seconds });
    if (step % 10 === 0 || losses.length > 1) show();
    const done = step === to.web_steps();
    if (step % 50 === 0) test(done ? TESTED_LAST : TESTED);
    if (done) {
      running = false;
      postMessage({ kind: "done" });
    } else schedule();
  }
  // One timer: a second "run" while the last slice's is pending must not make two chains of slices.
  function schedule() {
    clearTimeout(timer);
    timer = setTimeout(() => { try { slice(); } catch (error) { failed(error); } }, 0);
  }
  onmessage = ({ data }) => {
    try {
      if (data.begin !== undefined) begin(data.begin === "sort" ? 1 : 0);
      if (data.run !== undefined && data.run !== running) {
        running = data.run;
        if (running) schedule();
      }
    } catch (error) { failed(error); }
  };
  function failed(error) { running = false; postMessage({ kind: "failed", message: error.message }); }
  postMessage({ kind: "ready" });
}

// ---- the page ----

const count = (n) => n.toLocaleString("en");
const $ = (id) => document.getElementById(id);

function page() {
  const worker = new Worker("seq2seq.js");
  const state = { running: false, done: false, steps: 600, losses: [], exact: [], parameters: 0 };
  globalThis.seq2seq = state; // what the page knows, for tests
  const mean = (list, n) => { const last = list.slice(-n); return last.reduce((a, b) => a + b, 0) / last.length; };
  const percent = (share) => `${(100 * share).toFixed(1)} <small>%</small>`;

  function say() {
    $("run").textContent = state.running ? "Stop" : state.done ? "Done" : state.losses.length ? "Go on" : "Start";
    $("run").disabled = state.done;
    const what = `${count(state.parameters)} parameters, 64 sequences a step`;
    $("state").textContent = state.error ?? (state.done ? `Trained: ${what}.` : state.running ? `Training: ${what}.` : `Stopped: ${what}.`);
  }
  function begin() {
    Object.assign(state, { running: false, done: false, losses: [], exact: [], tested: undefined, error: undefined });
    for (const id of ["loss", "speed", "exact", "tested"]) $(id).textContent = "–";
    worker.postMessage({ run: false });
    worker.postMessage({ begin: $("task").value });
  }
  function run(on) {
    state.running = on;
    worker.postMessage({ run: on });
    say();
  }
  $("run").onclick = () => run(!state.running);
  $("again").onclick = () => { begin(); run(true); };
  $("task").onchange = () => { begin(); run(true); };

  const on = {
    ready() { begin(); run(true); },
    begun({ parameters, steps }) {
      Object.assign(state, { parameters, steps, losses: [], exact: [] });
      $("step").innerHTML = `0 <small>of ${count(steps)}</small>`;
      curve(state);
      say();
    },
    steps({ step, losses, exact, seconds }) {
      state.losses.push(...losses);
      state.exact.push(...exact);
      state.speed = step / seconds;
      $("step").innerHTML = `${step} <small>of ${count(state.steps)}</small>`;
      $("loss").textContent = mean(state.losses, 20).toFixed(4);
      $("speed").innerHTML = `${state.speed.toFixed(1)} <small>steps/s</small>`;
      $("exact").innerHTML = percent(mean(state.exact, 20));
      state.stale = true;
    },
    map(data) { state.map = data; state.stale = true; },
    test({ right, of }) {
      state.tested = right / of;
      $("tested").innerHTML = `${percent(state.tested)} <small>of ${count(of)}</small>`;
    },
    done() { state.running = false; state.done = true; say(); },
    failed({ message }) { state.running = false; state.error = `It failed: ${message}`; console.error(message); say(); },
  };
  worker.onmessage = ({ data }) => on[data.kind](data);
  worker.onerror = (event) => on.failed({ message: event.message ?? "the worker did not start" });
  (function frame() { // at most once a frame, however fast the steps come
    if (state.stale) {
      state.stale = false;
      curve(state);
      if (state.map) map(state.map);
    }
    requestAnimationFrame(frame);
  })();
}

// ---- pictures ----

function curve({ losses, steps }) {
  const left = 36, right = 548, top = 10, bottom = 358, most = Math.max(2.5, ...losses.slice(0, 5));
  const x = (step) => left + (right - left) * step / steps, y = (loss) => bottom - (bottom - top) * Math.min(loss, most) / most;
  let out = "";
  for (let v = 0; v <= most; v += 0.5)
    out += `<path class="axis" d="M${left} ${y(v)}H${right}"/><text x="${left - 8}" y="${y(v) + 4}" text-anchor="end">${v.toFixed(1)}</text>`;
  for (let s = 0; s <= steps; s += 100)
    out += `<text x="${x(s)}" y="${bottom + 18}" text-anchor="middle">${s}</text>`;
  out += `<text x="${(left + right) / 2}" y="${bottom + 38}" text-anchor="middle">training step</text>`;
  const line = (value) => losses.map((_, i) => `${i ? "L" : "M"}${x(i + 1).toFixed(1)} ${y(value(i)).toFixed(1)}`).join("");
  let sum = 0;
  const running = losses.map((loss, i) => (sum += loss - (i >= 20 ? losses[i - 20] : 0)) / Math.min(i + 1, 20));
  out += `<path class="raw" d="${line((i) => losses[i])}"/><path class="mean" d="${line((i) => running[i])}"/>`;
  $("curve").innerHTML = out;
}

function map({ length, digits, answer, written, weights }) {
  const END = 11, name = (token) => (token === END ? "end" : token > 9 ? "·" : String(token));
  const left = 58, top = 40, wide = (456 - left) / length, high = (392 - top) / (length + 1), gap = 2;
  let out = `<text x="${left}" y="12">read</text><text x="4" y="${top - 6}">written</text>`;
  for (let j = 0; j < length; j++) out += `<text class="token" x="${left + wide * (j + 0.5)}" y="${top - 6}">${name(digits[j])}</text>`;
  for (let i = 0; i <= length; i++) {
    const y = top + high * i, right = written[i] === answer[i];
    out += `<text class="token ${right ? "right" : "wrong"}" x="28" y="${y + high / 2 + 5}">${name(written[i])}</text>`;
    for (let j = 0; j < length; j++) {
      const w = weights[i * length + j], value = Math.round(100 * w);
      out += `<rect x="${left + wide * j}" y="${y}" width="${wide - gap}" height="${high - gap}" rx="2" fill="rgba(var(--cell), ${(0.05 + 0.95 * w).toFixed(3)})"/>`;
      if (value >= 5)
        out += `<text x="${left + wide * j + (wide - gap) / 2}" y="${y + high / 2 + 3}" text-anchor="middle" style="fill:var(--${w > 0.5 ? "ground" : "ink"})">${value}</text>`;
    }
  }
  $("map").innerHTML = out;
}

if (typeof document === "undefined") work().catch((error) => postMessage({ kind: "failed", message: error.message }));
else page();
