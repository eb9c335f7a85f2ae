"use strict";
// Strain against cosine, a mark a pair; colour and shape say the verdict of its first feature. Infinite strain has a
// lane of its own along the upper edge. One tab stop for all marks: the arrow keys step through them by strain.
(() => {
  const { el, figure } = monoseme,
    by = (id) => document.getElementById(id);
  const EDGE = { left: 58, right: 16, top: 16, bottom: 46 },
    LANE = 26,
    NEAR = 20;
  const WORDS = { unstable: "unstable", stable: "stable", unknown: "not known" };
  const SHAPES = {
    unstable: "M0,-4.6L4.4,3.4H-4.4z",
    stable: "M-3.4,0a3.4,3.4 0 1,0 6.8,0a3.4,3.4 0 1,0 -6.8,0",
    unknown: "M-3.2,-3.2h6.4v6.4h-6.4z",
  };

  const svg = (name, attributes, ...children) => {
    const node = document.createElementNS(by("pair-plot").dataset.space, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };

  const steps = (low, high, about) => {
    const power = 10 ** Math.floor(Math.log10((high - low) / about)),
      step = [1, 2, 5, 10].find((m) => m * power >= (0.999 * (high - low)) / about) * power,
      found = [];
    for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) found.push(Number((i * step).toPrecision(12)));
    return found;
  };
  const powers = (low, high) => {
    const found = [];
    for (let p = Math.floor(low); p <= Math.ceil(high); p++)
      for (const m of high - low <= 2.2 ? [1, 2, 5] : [1]) if (Math.log10(m) + p >= low - 1e-9 && Math.log10(m) + p <= high + 1e-9) found.push(Number(`${m}e${p}`));
    return found.filter((_, i) => i % Math.max(1, Math.ceil(found.length / 7)) === 0);
  };

  const place = (pairs, width, height) => {
    const finite = [...pairs.strain].filter(Number.isFinite),
      lane = finite.length < pairs.strain.length ? LANE : 0;
    const top = Math.max(0.3, 1.04 * Math.log10(Math.max(1, ...finite))),
      [left, right] = [Math.min(0, ...pairs.cosine), Math.max(0.1, ...pairs.cosine)],
      margin = 0.03 * (right - left);
    const floor = height - EDGE.bottom,
      ceiling = EDGE.top + lane;
    const x = (cosine) => EDGE.left + ((width - EDGE.left - EDGE.right) * (cosine - left + margin)) / (right - left + 2 * margin);
    const y = (strain) => (strain === Infinity ? EDGE.top + 8 : floor - ((floor - ceiling) * Math.max(0, Math.log10(strain))) / top);
    return { x, y, lane, floor, across: steps(left, right, Math.max(4, width / 130)), up: powers(0, top) };
  };

  const frame = ({ x, y, lane, floor, across, up }, width) => {
    const parts = [],
      end = width - EDGE.right;
    for (const strain of [...up, ...(lane ? [Infinity] : [])]) {
      parts.push(svg("line", { x1: EDGE.left, x2: end, y1: y(strain), y2: y(strain), class: strain === Infinity ? "grid lane" : "grid" }));
      parts.push(svg("text", { x: EDGE.left - 8, y: y(strain) + 4, class: "tick end" }, strain === Infinity ? "∞" : figure(strain)));
    }
    for (const cosine of across) {
      parts.push(svg("line", { x1: x(cosine), x2: x(cosine), y1: floor, y2: floor + 4, class: "axis" }));
      parts.push(svg("text", { x: x(cosine), y: floor + 18, class: "tick middle" }, figure(cosine)));
    }
    parts.push(svg("line", { x1: EDGE.left, x2: end, y1: floor, y2: floor, class: "axis" }));
    parts.push(svg("text", { x: (EDGE.left + end) / 2, y: floor + 40, class: "label middle" }, "cosine of the two atoms"));
    const turn = `translate(13 ${(EDGE.top + floor) / 2}) rotate(-90)`;
    parts.push(svg("text", { transform: turn, class: "label middle" }, "strain κ, at least (log scale)"));
    return parts;
  };

  const draw = (pairs, hidden, name) => {
    const plot = by("pair-plot"),
      told = by("pair-told");
    const shown = [...pairs.first.keys()].filter((i) => !hidden.has(monoseme.verdictOf(pairs.first[i])));
    told.textContent = shown.length ? `${figure(shown.length)} pairs.` : "No pair to draw.";
    const width = Math.max(280, plot.clientWidth),
      height = Math.round(Math.max(300, Math.min(460, 0.5 * width))),
      at = place(pairs, width, height);
    const marks = svg("g", {});
    // the rest first, so that what is unstable is never covered
    const depth = { stable: 0, unknown: 1, unstable: 2 };
    for (const i of [...shown].sort((a, b) => depth[monoseme.verdictOf(pairs.first[a])] - depth[monoseme.verdictOf(pairs.first[b])])) {
      const verdict = monoseme.verdictOf(pairs.first[i]),
        where = `translate(${at.x(pairs.cosine[i]).toFixed(1)} ${at.y(pairs.strain[i]).toFixed(1)})`;
      marks.append(svg("path", { d: SHAPES[verdict], transform: where, class: `pair-mark ${verdict}` }));
    }
    const ring = svg("circle", { r: 8, class: "ring", visibility: "hidden" });
    const about = `Strain against cosine of ${shown.length} pairs. Arrow keys step through them by strain, Enter goes to the row.`;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, tabindex: 0, role: "application", "aria-label": about });
    root.append(...frame(at, width), marks, ring);
    plot.replaceChildren(root);

    let now = -1;
    const point = (k) => {
      now = k;
      const i = shown[k],
        strain = pairs.strain[i] === Infinity ? "∞" : figure(pairs.strain[i]);
      ring.setAttribute("cx", at.x(pairs.cosine[i]));
      ring.setAttribute("cy", at.y(pairs.strain[i]));
      ring.setAttribute("visibility", "visible");
      told.textContent = `${name(pairs.first[i])} (${WORDS[monoseme.verdictOf(pairs.first[i])]}) beside ${name(pairs.second[i])}: strain ${strain}, cosine ${figure(pairs.cosine[i])}`;
    };
    const go = () => {
      if (now >= 0) monoseme.goTo(pairs.first[shown[now]]);
    };
    const nearest = (event) => {
      const box = root.getBoundingClientRect(),
        [px, py] = [((event.clientX - box.left) * width) / box.width, ((event.clientY - box.top) * height) / box.height];
      let best = -1,
        least = NEAR;
      shown.forEach((i, k) => {
        const far = Math.hypot(at.x(pairs.cosine[i]) - px, at.y(pairs.strain[i]) - py);
        if (far < least) [best, least] = [k, far];
      });
      root.classList.toggle("over", best >= 0);
      return best;
    };
    root.addEventListener("pointermove", (event) => {
      const k = nearest(event);
      if (k >= 0 && k !== now) point(k);
    });
    // a finger has no hover: its first touch points at a mark, the second on the same one goes there
    root.addEventListener("pointerdown", (event) => {
      const before = now,
        k = nearest(event);
      if (k < 0) return;
      point(k);
      if (event.pointerType === "mouse" || before === k) go();
    });
    root.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter") go();
      if (!step || !shown.length) return;
      event.preventDefault();
      point(Math.min(shown.length - 1, Math.max(0, now + step)));
    });
  };

  const legend = (pairs, hidden, redraw) => {
    for (const [verdict, word] of Object.entries(WORDS)) {
      const count = [...pairs.first].filter((j) => monoseme.verdictOf(j) === verdict).length;
      if (!count) continue;
      const mark = svg("path", { d: SHAPES[verdict], transform: "translate(8 8)", class: `pair-mark ${verdict}` });
      const swatch = svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, mark);
      const button = el("button", { type: "button", "aria-pressed": "true" }, swatch, `${word} (${figure(count)})`);
      button.addEventListener("click", () => {
        if (!hidden.delete(verdict)) hidden.add(verdict);
        button.setAttribute("aria-pressed", String(!hidden.has(verdict)));
        redraw();
      });
      by("pair-legend").append(button);
    }
  };

  monoseme.pairs = (pairs, name) => {
    const plot = by("pair-plot");
    if (!plot) return;
    plot.dataset.space = plot.querySelector("svg").namespaceURI;
    const hidden = new Set(),
      redraw = () => draw(pairs, hidden, name);
    legend(pairs, hidden, redraw);
    redraw();
    let wide = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth !== wide) redraw();
      wide = innerWidth;
    });
  };
})();
