"use strict";
// Text, tokens, bytes: a tokenizer.json of the page's or of the reader's own.

const $ = (id) => document.getElementById(id);

async function page() {
  const [to, file] = await Promise.all([loadModule("tokenizer_web.wasm"), fetch("tokenizer.json").then((answer) => answer.arrayBuffer())]);

  // Calls a function with the address and the number of bytes that it is given, and frees.
  function given(name, bytes) {
    const at = to.web_take(bytes.length);
    if (!at) throw new Error("the text does not fit into memory");
    new Uint8Array(to.memory.buffer).set(bytes, at);
    return to[name](at, bytes.length);
  }
  function open(bytes, name) {
    const begun = performance.now(), ids = given("web_open", bytes);
    $("state").textContent = ids ? `${name}: ${ids.toLocaleString("en")} ids, opened in ${(performance.now() - begun).toFixed(0)} ms.`
      : `${name}: ${textAt(to, to.web_error())}`;
    show();
  }
  function show() {
    const bytes = new TextEncoder().encode($("text").value), begun = performance.now();
    const n = given("web_encode", bytes), took = performance.now() - begun;
    if (n < 0) throw new Error("the text could not be encoded");
    const numbers = (at, count) => Array.from(new Float64Array(to.memory.buffer, at, count));
    const ids = numbers(to.web_ids(), n), ranges = numbers(to.web_ranges(), 2 * n);
    $("counts").textContent = `${[...$("text").value].length} characters, ${bytes.length} bytes, ${n} tokens in ${took.toFixed(2)} ms on your CPU`;
    $("tokens").replaceChildren(...ids.map((id, i) => {
      const of = bytes.subarray(ranges[2 * i], ranges[2 * i + 1]), node = document.createElement("span");
      const again = i > 0 && ranges[2 * i] < ranges[2 * i - 1];   // another byte of the last token's character
      node.textContent = again ? "·" : new TextDecoder().decode(of).replaceAll("\n", "⏎\n") || textAt(to, to.web_token(id));
      node.onpointerenter = () => {
        const hex = [...of].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
        $("about").textContent = `id ${id}, ${JSON.stringify(textAt(to, to.web_token(id)))}, bytes ${hex || "none"}`;
      };
      return node;
    }));
    return { n, ids, ranges };
  }

  $("text").oninput = show;
  $("file").onchange = async () => {
    const [chosen] = $("file").files;
    if (chosen) open(new Uint8Array(await chosen.arrayBuffer()), chosen.name);
  };
  open(new Uint8Array(file), "This page's");
  globalThis.tokenizer = { show, open };   // for tests
}

page().catch((error) => { $("state").textContent = `This page does not run here: ${error.message}`; });
