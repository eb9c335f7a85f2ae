"use strict";
// Points whose axes the reader chooses: means with their intervals, single seeds small, one colour and shape a series.
(() => {
  const { el, figure, spoken } = monoseme;
  const EDGE = { left: 58, right: 16, top: 14, bottom: 46 };
  const SHAPES = [
    (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
    (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    (r) => `M0,${-1.35 * r}L${1.35 * r},0L0,${1.35 * r}L${-1.35 * r},0z`,
    (r) => `M0,${-1.3 * r}L${1.25 * r},${0.95 * r}H${-1.25 * r}z`,
    (r) => `M0,${1.3 * r}L${1.25 * r},${-0.95 * r}H${-1.25 * r}z`,
  ];
  const COLOURS = 6,
    NAMESPACE = document.querySelector(".plot svg").namespaceURI;

  const svg = (name, attributes, ...children) => {
    const node = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };

  // round numbers (1, 2, 5 times a power of ten) inside a range; on a log scale low and high are exponents
  const ticks = (low, high, log, about) => {
    if (log) {
      const steps = high - low <= 2.2 ? [1, 2, 5] : [1],
        found = [];
      for (let p = Math.floor(low); p <= Math.ceil(high); p++)
        for (const m of steps) {
          const at = Math.log10(m) + p;
          if (low - 1e-9 <= at && at <= high + 1e-9) found.push(Number(`${m}e${p}`));
        }
      const every = Math.max(1, Math.ceil(found.length / 7));
      return found.filter((_, i) => i % every === 0);
    }
    const rough = (high - low) / about,
      power = 10 ** Math.floor(Math.log10(rough)),
      step = [1, 2, 5, 10].find((m) => m * power >= 0.999 * rough) * power,
      values = [];
    for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++)
      values.push(Number((i * step).toPrecision(12)));
    return values;
  };

  // The range holds all values and seeds. Intervals may widen it, but not beyond the span of the values on either
  // side: the interval of two seeds can be a hundred times wider than anything else, and is cut at the frame.
  const scale = (core, ends, log, start, end) => {
    const to = (v) => (log ? Math.log10(v) : v),
      inner = core.map(to),
      outer = ends.filter((v) => !log || v > 0).map(to);
    let low = Math.min(...inner),
      high = Math.max(...inner);
    const span = high - low || Math.abs(high) * 0.2 || 1;
    low = Math.max(low - span, Math.min(low, ...outer));
    high = Math.min(high + span, Math.max(high, ...outer));
    const margin = 0.06 * (high - low) || 0.5 * span;
    // zero is shown where it is near, and never crossed by what is never negative
    low = !log && Math.min(...inner) >= 0 && low - margin < 0.4 * high ? 0 : low - margin;
    high += margin;
    const place = (v) => start + ((end - start) * ((log && v <= 0 ? low - span : to(v)) - low)) / (high - low);
    place.ticks = ticks(low, high, log, Math.max(4, Math.abs(end - start) / 90));
    return place;
  };

  const axes = (x, y, width, height, labels) => {
    const floor = height - EDGE.bottom,
      parts = [];
    for (const value of y.ticks) {
      parts.push(svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value), class: "grid" }));
      parts.push(svg("text", { x: EDGE.left - 8, y: y(value) + 4, class: "tick end" }, figure(value)));
    }
    for (const value of x.ticks) {
      parts.push(svg("line", { x1: x(value), x2: x(value), y1: floor, y2: floor + 4, class: "axis" }));
      parts.push(svg("text", { x: x(value), y: floor + 18, class: "tick middle" }, figure(value)));
    }
    parts.push(svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: floor, y2: floor, class: "axis" }));
    parts.push(svg("text", { x: (EDGE.left + width - EDGE.right) / 2, y: height - 6, class: "label middle" }, labels.x));
    const turn = `translate(13 ${(EDGE.top + floor) / 2}) rotate(-90)`;
    parts.push(svg("text", { transform: turn, class: "label middle" }, labels.y));
    return parts;
  };

  const label = (column, log) => {
    const about = [column.unit, column.better && `${column.better} is better`, log && "log scale"].filter(Boolean);
    return spoken(column.name) + (about.length ? ` (${about.join(", ")})` : "");
  };

  const said = (column, [value, low, high]) =>
    `${spoken(column.name)} ${figure(value)}${low !== null && high !== null ? ` [${figure(low)}, ${figure(high)}]` : ""}`;

  const draw = (root, data, hidden) => {
    const form = root.querySelector("form"),
      [x, y] = ["x", "y"].map((name) => Number(form.elements[name].value)),
      [logX, logY] = ["log-x", "log-y"].map((name) => form.elements[name].checked);
    const shown = data.points.filter((p) => !hidden.has(p.series)),
      drawn = shown.filter(
        (p) => [p.values[x][0], p.values[y][0]].every((v) => v !== null) && (!logX || p.values[x][0] > 0) && (!logY || p.values[y][0] > 0),
      );
    const plot = root.querySelector(".plot"),
      told = root.querySelector(".told"),
      missing = shown.length - drawn.length;
    const rest = missing ? `${missing} of ${shown.length} points lack a number for one of these axes and are not drawn.` : "";
    told.textContent = rest || "Point at a mark, or step through them with the tab key, to read it.";
    if (!drawn.length) return plot.replaceChildren(el("p", { class: "quiet" }, "No point to draw."));

    const width = Math.max(280, plot.clientWidth),
      height = Math.round(Math.max(300, Math.min(480, 0.56 * width)));
    const across = (i, log) => [
      drawn.flatMap((p) => [p.values[i][0], ...(p.seeds[i] ?? [])]).filter((v) => !log || v > 0),
      drawn.flatMap((p) => p.values[i].slice(1)).filter((v) => v !== null),
    ];
    const px = scale(...across(x, logX), logX, EDGE.left, width - EDGE.right),
      py = scale(...across(y, logY), logY, height - EDGE.bottom, EDGE.top);
    const labels = { x: label(data.columns[x], logX), y: label(data.columns[y], logY) };
    const inside = svg("g", { "clip-path": `url(#${root.id}-frame)` });
    const frame = svg(
      "clipPath",
      { id: `${root.id}-frame` },
      svg("rect", {
        x: EDGE.left,
        y: EDGE.top - 8,
        width: width - EDGE.left - EDGE.right + 8,
        height: height - EDGE.top - EDGE.bottom + 8,
      }),
    );

    const strands = new Map();
    for (const p of drawn.filter((p) => p.strand)) {
      const key = `${p.series} ${p.strand}`;
      strands.set(key, [...(strands.get(key) ?? []), p]);
    }
    for (const strand of strands.values())
      inside.append(
        svg("polyline", {
          points: strand.map((p) => `${px(p.values[x][0])},${py(p.values[y][0])}`).join(" "),
          class: `strand s${strand[0].series % COLOURS}`,
        }),
      );
    for (const p of drawn) inside.append(mark(p, data, x, y, px, py, told));
    const about = `${labels.y} against ${labels.x}: ${drawn.length} points`;
    plot.replaceChildren(
      svg(
        "svg",
        { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": about },
        svg("defs", {}, frame),
        ...axes(px, py, width, height, labels),
        inside,
      ),
    );
  };

  const mark = (p, data, x, y, px, py, told) => {
    const [[vx, lx, hx], [vy, ly, hy]] = [p.values[x], p.values[y]],
      at = [px(vx), py(vy)];
    const text = [data.series[p.series], p.label, said(data.columns[x], p.values[x]), said(data.columns[y], p.values[y])]
      .filter(Boolean)
      .join(" · ");
    const node = svg("g", { class: `mark-of s${p.series % COLOURS}`, tabindex: 0, role: "img", "aria-label": text });
    if (lx !== null && hx !== null)
      node.append(svg("line", { x1: px(lx), x2: px(hx), y1: at[1], y2: at[1], class: "whisk" }));
    if (ly !== null && hy !== null)
      node.append(svg("line", { x1: at[0], x2: at[0], y1: py(ly), y2: py(hy), class: "whisk" }));
    (p.seeds[x] ?? []).forEach((one, i) =>
      node.append(svg("circle", { cx: px(one), cy: py(p.seeds[y][i]), r: 2.5, class: "seed" })),
    );
    const place = `translate(${at[0].toFixed(1)} ${at[1].toFixed(1)})`;
    node.append(svg("path", { d: SHAPES[p.series % SHAPES.length](5), transform: place, class: "spot" }));
    node.append(svg("circle", { cx: at[0], cy: at[1], r: 12, class: "reach" }, svg("title", {}, text)));
    for (const kind of ["pointerenter", "focus"]) node.addEventListener(kind, () => (told.textContent = text));
    return node;
  };

  const legend = (root, data, hidden, redraw) => {
    const place = root.querySelector(".legend");
    place.hidden = data.series.length < 2;
    data.series.forEach((name, i) => {
      const shape = svg("path", { d: SHAPES[i % SHAPES.length](5), class: "spot", transform: "translate(8 8)" });
      const swatch = svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, class: `s${i % COLOURS}`, "aria-hidden": "true" }, shape);
      const button = el("button", { type: "button", "aria-pressed": "true" }, swatch, name);
      button.addEventListener("click", () => {
        if (!hidden.delete(i)) hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        redraw();
      });
      place.append(button);
    });
  };

  monoseme.scatter = (number, data) => {
    const root = document.getElementById(`scatter-${number}`),
      form = root.querySelector("form"),
      hidden = new Set();
    const redraw = () => draw(root, data, hidden);
    // a column that spans more than a factor of twenty is read on a log scale, unless the reader says otherwise
    const suit = (axis) => {
      const values = data.points.map((p) => p.values[Number(form.elements[axis].value)][0]).filter((v) => v !== null),
        box = form.elements[`log-${axis}`],
        low = Math.min(...values);
      box.disabled = !(low > 0);
      box.checked = low > 0 && Math.max(...values) / low > 20;
    };
    ["x", "y"].forEach(suit);
    for (const kind of ["input", "change"])
      form.addEventListener(kind, ({ target }) => {
        if (target.name === "x" || target.name === "y") suit(target.name);
        redraw();
      });
    form.addEventListener("submit", (event) => event.preventDefault());
    legend(root, data, hidden, redraw);
    redraw();
    let wide = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth !== wide) redraw();
      wide = innerWidth;
    });
  };
})();
