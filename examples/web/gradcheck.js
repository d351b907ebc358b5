"use strict";
// Break a gradient: the lines that are shown are those of gradcheck_web.c, which also runs.

const $ = (id) => document.getElementById(id);

// The end of an argument that begins at `at`: a comma or a parenthesis outside of all others.
function argumentEnd(text, at) {
  for (let depth = 0; at < text.length; at++) {
    if (depth === 0 && (text[at] === "," || text[at] === ")")) return at;
    depth += text[at] === "(" ? 1 : text[at] === ")" ? -1 : 0;
  }
  throw new Error("gradcheck_web.c: an argument has no end");
}

// The function NAME_backward of the source, as [text, is it broken] pieces: BREAK(bit, right, wrong) is the one that runs.
function backwardOf(source, name, bits) {
  const begin = source.indexOf(`static bool ${name}_backward(`), end = source.indexOf("\n}\n", begin) + 2;
  const text = source.slice(begin, end), pieces = [];
  let at = 0;
  for (let found; (found = text.indexOf("BREAK(", at)) >= 0;) {
    pieces.push([text.slice(at, found), false]);
    const bitEnd = argumentEnd(text, found + 6), rightEnd = argumentEnd(text, bitEnd + 1), wrongEnd = argumentEnd(text, rightEnd + 1);
    const broken = bits >> Number(text.slice(found + 6, bitEnd)) & 1;
    const shown = broken ? text.slice(rightEnd + 1, wrongEnd) : text.slice(bitEnd + 1, rightEnd);
    pieces.push([shown.trim(), !!broken]);
    at = wrongEnd + 1;
  }
  return [...pieces, [text.slice(at), false]];
}

async function page() {
  const [to, source] = await Promise.all([loadModule("gradcheck_web.wasm"), fetch("gradcheck_web.c").then((answer) => answer.text())]);
  const text = (at) => at ? textAt(to, at) : null;
  const bits = () => [...document.querySelectorAll("#mistakes input")].reduce((sum, box, i) => sum | box.checked << i, 0);

  function check() {
    const op = $("op").selectedIndex, begun = performance.now(), at = to.web_check(op, bits());
    if (!at) throw new Error("the checker did not run");
    const took = performance.now() - begun;
    $("report").srcdoc = textAt(to, at, to.web_check_size());
    $("code").replaceChildren(...backwardOf(source, $("op").value, bits()).map(([piece, broken]) => {
      const node = document.createElement(broken ? "mark" : "span");
      node.textContent = piece;
      return node;
    }));
    $("state").textContent = `${to.web_right() ? "Right." : "Wrong."} Checked in ${took.toFixed(0)} ms on your CPU; ` +
      `the module has ${(to.bytes / 1000).toFixed(0)} kB.`;
  }
  function choose() {
    const labels = [];
    for (let bit = 0, name; (name = text(to.web_mistake($("op").selectedIndex, bit))); bit++) {
      const label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox";
      box.checked = bit === 1;
      box.onchange = check;
      label.append(box, ` ${name}`);
      labels.push(label);
    }
    $("mistakes").replaceChildren(...labels);
    check();
  }

  for (let i = 0, name; (name = text(to.web_op(i))); i++) $("op").add(new Option(name));
  $("op").onchange = choose;
  choose();
  globalThis.gradcheck = { to, bits, check };   // for tests
}

page().catch((error) => { $("state").textContent = `This page does not run here: ${error.message}`; });
