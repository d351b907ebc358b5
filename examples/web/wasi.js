"use strict";
// What a page needs to call a module of WebAssembly without main: its exported functions, and texts that it returns.

// The functions of WASI that the module imports: a console, a clock and random bytes. There are no files, so all others fail.
function wasi(memory) {
  const BAD_FD = 8, view = () => new DataView(memory().buffer);
  let line = "";
  const calls = {
    fd_write(fd, vectors, count, written) {
      let bytes = 0;
      for (let i = 0; i < count; i++) {
        const at = view().getUint32(vectors + 8 * i, true), size = view().getUint32(vectors + 8 * i + 4, true);
        line += new TextDecoder().decode(new Uint8Array(memory().buffer, at, size));
        bytes += size;
      }
      view().setUint32(written, bytes, true);
      return 0;
    },
    clock_time_get(id, precision, out) {
      const ms = id === 0 ? Date.now() : performance.now();
      view().setBigUint64(out, BigInt(Math.round(ms * 1e6)), true);
      return 0;
    },
    random_get(at, size) {
      crypto.getRandomValues(new Uint8Array(memory().buffer, at, size));
      return 0;
    },
    environ_sizes_get(count, size) {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    proc_exit(code) { throw new Error(line.trim() || `the program ended with ${code}`); },
  };
  return new Proxy(calls, { get: (of, name) => of[name] ?? (() => BAD_FD) });
}

// The exported functions of the module at `url`, ready to be called, with bytes, its size.
async function loadModule(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  const code = await response.arrayBuffer(), module = await WebAssembly.compile(code);
  let to = null;
  const given = wasi(() => to.memory), imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) (imports[from] ??= {})[name] = given[name];
  to = (await WebAssembly.instantiate(module, imports)).exports;
  to._initialize();
  return { ...to, bytes: code.byteLength };
}

// The text at an address: `size` bytes, or up to a NUL.
function textAt(to, at, size) {
  const memory = new Uint8Array(to.memory.buffer);
  return new TextDecoder().decode(memory.subarray(at, size === undefined ? memory.indexOf(0, at) : at + size));
}
