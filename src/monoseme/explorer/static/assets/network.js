"use strict";
// An image network, computed in the page in float64: the same sums as the library's, layer after layer.
(() => {
  const SIZE = 96,
    SMALL = 32,
    STEPS = 7,
    MOST_EDGES = 400;
  const { el } = monoseme,
    get = (id) => document.getElementById(id);
  const ACTS = {
    identity: (x) => x,
    sin: Math.sin,
    cos: Math.cos,
    tanh: Math.tanh,
    sigmoid: (x) => 2 / (1 + Math.exp(-x)) - 1,
    gaussian: (x) => 2 * Math.exp(-x * x) - 1,
    relu: (x) => Math.max(x, 0),
  };
  const COLOURS = { yes: "#3d9160", no: "#c0503f", unsure: "#d3a33c", invalid: "#7b6fb0" };
  const INPUTS = ["x", "y", "d", "bias"];
  let net, chosen, now;

  // rows of a matrix as lists of [from, weight index]: sparse networks cost what they have
  const read = (data) => {
    const layers = [...data.activations, Array(data.outputs).fill("identity")];
    const rows = layers.map((names) => names.map(() => []));
    data.weights.forEach(([layer, to, from], i) => rows[layer][to].push([from, i]));
    const names = new Map(data.labels.map(([l, t, f, name]) => [`${l},${t},${f}`, name]));
    const moved = new Map(data.moved.map((m) => [`${m[0]},${m[1]},${m[2]}`, m]));
    return { ...data, layers, rows, names, moved, values: Float64Array.from(data.weights, (w) => w[3]) };
  };

  const inputs = (size) => {
    const found = INPUTS.map(() => new Float64Array(size * size));
    for (let i = 0; i < size; i++)
      for (let j = 0; j < size; j++) {
        const x = -1 + (2 * j) / (size - 1),
          y = -1 + (2 * i) / (size - 1),
          p = i * size + j;
        [x, y, 1.4 * Math.sqrt(x * x + y * y), 1].forEach((v, k) => (found[k][p] = v));
      }
    return found;
  };

  // maps of every layer; below `first` those of `kept` are taken over
  const run = (values, size, kept = null, first = 0) => {
    const maps = [kept ? kept[0] : inputs(size)];
    net.layers.forEach((names, layer) => {
      if (kept && layer < first) return maps.push(kept[layer + 1]);
      const below = maps[layer];
      maps.push(
        names.map((name, to) => {
          const out = new Float64Array(size * size);
          for (const [from, i] of net.rows[layer][to]) {
            const w = values[i],
              source = below[from];
            if (w !== 0) for (let p = 0; p < out.length; p++) out[p] += w * source[p];
          }
          const act = ACTS[name];
          if (name !== "identity") for (let p = 0; p < out.length; p++) out[p] = act(out[p]);
          return out;
        }),
      );
    });
    return maps;
  };

  const clip = (v) => Math.min(Math.max(v, 0), 1);
  const rgb = (maps, size) => {
    const raw = maps[maps.length - 1],
      out = new Float64Array(3 * size * size);
    for (let p = 0; p < size * size; p++) {
      if (net.outputs === 1) {
        out.fill(clip(Math.abs(raw[0][p])), 3 * p, 3 * p + 3);
        continue;
      }
      const h = 6 * (raw[0][p] - Math.floor(raw[0][p])),
        v = clip(Math.abs(raw[2][p])),
        dip = v * clip(raw[1][p]);
      [5, 3, 1].forEach((n, c) => {
        const k = n + h,
          bend = Math.max(2 - Math.abs(k - 2), 2 - Math.abs(k - 8));
        out[3 * p + c] = v - dip * clip(bend);
      });
    }
    return out;
  };

  const paint = (canvas, size, colour) => {
    canvas.width = canvas.height = size;
    const image = new ImageData(size, size);
    for (let p = 0; p < size * size; p++) image.data.set([...colour(p), 255], 4 * p);
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  const paintPicture = (canvas, values, size) => {
    const found = rgb(run(values, size), size);
    paint(canvas, size, (p) => [0, 1, 2].map((c) => Math.round(255 * found[3 * p + c])));
  };
  const signed = (v) => {
    const share = Math.min(Math.abs(v), 1),
      full = v < 0 ? [33, 84, 156] : [178, 34, 52];
    return full.map((c) => 246 + share * (c - 246));
  };

  const where = (layer, i) => (layer === 0 ? INPUTS[i] : `${net.layers[layer - 1][i]} ${i} of layer ${layer}`);
  const title = (i) => {
    const [layer, to, from] = net.weights[i],
      name = net.names.get(`${layer},${to},${from}`);
    const target = layer === net.layers.length - 1 ? outputName(to) : where(layer + 1, to);
    return `${name ? `${name}: ` : ""}${where(layer, from)} → ${target}`;
  };
  const outputName = (i) => (net.outputs === 1 ? "ink" : ["hue", "saturation", "brightness"][i]);

  const redraw = (first = 0) => {
    now = run(net.values, SIZE, now, first);
    const found = rgb(now, SIZE);
    paint(get("picture"), SIZE, (p) => [0, 1, 2].map((c) => Math.round(255 * found[3 * p + c])));
  };

  let small = null;
  const drawMaps = (first = 0) => {
    small = run(net.values, SMALL, small, first);
    document.querySelectorAll(".neuron").forEach((node) => {
      const layer = Number(node.dataset.layer);
      if (layer <= first && first > 0) return;
      const map = small[layer][Number(node.dataset.neuron)];
      paint(node.querySelector("canvas"), SMALL, (p) => signed(map[p]));
    });
  };

  const choose = (i) => {
    chosen = i;
    const [layer, to, from, own] = net.weights[i],
      reach = Math.max(2, 1.5 * Math.abs(own));
    get("choice").value = String(i);
    const slider = get("slider");
    slider.min = String(own - reach);
    slider.max = String(own + reach);
    slider.value = String(net.values[i]);
    const move = net.moved.get(`${layer},${to},${from}`);
    const said = move ? ` Moved by ${move[3].toFixed(2)}: picture changed by ${move[4]}, judge says ${move[5]}.` : "";
    get("about").textContent = `${title(i)}. It was ${own.toPrecision(4)}.${said}`;
    document.querySelectorAll(".chosen").forEach((node) => node.classList.remove("chosen"));
    document.querySelector(`.edge[data-weight="${i}"]`)?.classList.add("chosen");
    document.querySelector(`.neuron[data-layer="${layer + 1}"][data-neuron="${to}"]`)?.classList.add("chosen");
    get("value").textContent = net.values[i].toPrecision(4);
    get("strip").replaceChildren();
  };

  const set = (value) => {
    net.values[chosen] = value;
    get("value").textContent = value.toPrecision(4);
    const first = net.weights[chosen][0];
    redraw(first);
    drawMaps(first);
  };

  const film = () => {
    const slider = get("slider"),
      low = Number(slider.min),
      high = Number(slider.max);
    get("strip").replaceChildren(
      ...Array.from({ length: STEPS }, (_, k) => {
        const value = low + ((high - low) * k) / (STEPS - 1),
          values = Float64Array.from(net.values);
        values[chosen] = value;
        const canvas = el("canvas", { role: "img", "aria-label": `picture at ${value.toPrecision(3)}` });
        paintPicture(canvas, values, 64);
        return el("figure", {}, canvas, el("figcaption", {}, value.toPrecision(3)));
      }),
    );
  };

  // neurons that an output needs and that read something; a dense network has all of them
  const live = () => {
    const wanted = net.layers.map((names) => new Set()),
      last = net.layers.length - 1;
    net.layers[last].forEach((_, to) => wanted[last].add(to));
    const read = new Set();
    for (let layer = last; layer >= 0; layer--)
      for (const to of wanted[layer])
        for (const [from] of net.rows[layer][to]) layer > 0 ? wanted[layer - 1].add(from) : read.add(from);
    return [[...read].sort((a, b) => a - b), ...wanted.map((set) => [...set].sort((a, b) => a - b))];
  };

  const graph = () => {
    const STEP_X = 104,
      STEP_Y = 70,
      box = get("layers"),
      columns = live(),
      place = new Map();
    columns.forEach((neurons, layer) =>
      neurons.forEach((neuron, row) => place.set(`${layer},${neuron}`, [12 + STEP_X * layer, 12 + STEP_Y * row])),
    );
    const height = 24 + STEP_Y * Math.max(...columns.map((c) => c.length)),
      width = 60 + STEP_X * (columns.length - 1) + 24;
    const lines = get("lines");
    for (const [key, value] of [["width", width], ["height", height]]) lines.setAttribute(key, value);
    const order = net.weights
      .map((w, i) => i)
      .filter((i) => place.has(`${net.weights[i][0]},${net.weights[i][2]}`) && place.has(`${net.weights[i][0] + 1},${net.weights[i][1]}`))
      .sort((a, b) => Math.abs(net.weights[b][3]) - Math.abs(net.weights[a][3]));
    const top = Math.abs(net.weights[order[0]]?.[3] ?? 1);
    order.slice(0, MOST_EDGES).forEach((i) => {
      const [layer, to, from, own] = net.weights[i],
        [x1, y1] = place.get(`${layer},${from}`),
        [x2, y2] = place.get(`${layer + 1},${to}`);
      const path = document.createElementNS(lines.namespaceURI, "path");
      path.setAttribute("d", `M${x1 + 48},${y1 + 24}C${x1 + 76},${y1 + 24} ${x2 - 28},${y2 + 24} ${x2},${y2 + 24}`);
      path.setAttribute("class", `edge ${own < 0 ? "below" : "above"}`);
      path.setAttribute("stroke-width", String(0.6 + 3 * Math.sqrt(Math.abs(own) / top)));
      path.dataset.weight = String(i);
      path.append(Object.assign(document.createElementNS(lines.namespaceURI, "title"), { textContent: title(i) }));
      path.addEventListener("click", () => choose(i));
      lines.append(path);
    });
    const nodes = columns.flatMap((neurons, layer) =>
      neurons.map((neuron) => {
        const name = layer === 0 ? INPUTS[neuron] : layer === net.layers.length ? outputName(neuron) : net.layers[layer - 1][neuron];
        const label = layer === 0 ? `input ${name}` : `${name} ${neuron}, layer ${layer}`;
        const node = el("button", { type: "button", class: "neuron", "aria-label": label, title: label }, el("canvas"), el("span", {}, name));
        Object.assign(node.dataset, { layer, neuron });
        const [x, y] = place.get(`${layer},${neuron}`);
        Object.assign(node.style, { left: `${x}px`, top: `${y}px` });
        node.addEventListener("click", () => {
          const into = order.filter((i) => net.weights[i][0] === layer - 1 && net.weights[i][1] === neuron);
          if (into.length) choose(into[0]);
        });
        return node;
      }),
    );
    const room = el("div");
    Object.assign(room.style, { width: `${width}px`, height: `${height}px` });
    box.append(room, ...nodes);
    const rest = order.length - MOST_EDGES;
    get("kept").textContent =
      `${nodes.length} neurons that an output needs` + (rest > 0 ? `; the ${MOST_EDGES} largest of ${order.length} weights are drawn.` : ".");
  };

  const matrices = () => {
    const box = get("matrices");
    if (!box) return;
    net.layers.forEach((names, layer) => {
      const columns = layer === 0 ? INPUTS.length : net.layers[layer - 1].length;
      const cell = Math.max(4, Math.min(12, Math.floor(300 / Math.max(columns, names.length))));
      const canvas = el("canvas", { role: "img", "aria-label": `scores of matrix ${layer}` });
      canvas.width = columns * cell;
      canvas.height = names.length * cell;
      const context = canvas.getContext("2d");
      const places = new Map();
      net.rows[layer].forEach((row, to) =>
        row.forEach(([from, i]) => {
          const move = net.moved.get(`${layer},${to},${from}`);
          places.set(`${to},${from}`, i);
          context.fillStyle = move ? COLOURS[move[5]] : "rgb(128 128 128 / 25%)";
          context.fillRect(from * cell, to * cell, cell - 1, cell - 1);
        }),
      );
      const at = (event) => places.get(`${Math.floor(event.offsetY / cell)},${Math.floor(event.offsetX / cell)}`);
      canvas.addEventListener("click", (event) => at(event) !== undefined && choose(at(event)));
      canvas.addEventListener("mousemove", (event) => (canvas.title = at(event) === undefined ? "" : title(at(event))));
      box.append(el("figure", {}, el("figcaption", {}, layer === net.layers.length - 1 ? "To the outputs" : `To layer ${layer + 1}`), canvas));
    });
  };

  monoseme.network = (data) => {
    net = read(data);
    // named weights first, then by layer
    const order = net.weights.map((_, i) => i);
    const named = order.filter((i) => net.names.has(net.weights[i].slice(0, 3).join(",")));
    const options = (list) => list.map((i) => el("option", { value: String(i) }, title(i)));
    get("choice").append(
      ...(named.length ? [el("optgroup", { label: "Known to do something" }, ...options(named))] : []),
      el("optgroup", { label: "All weights" }, ...options(order.filter((i) => !named.includes(i)))),
    );
    graph();
    matrices();
    redraw();
    drawMaps();
    choose(named[0] ?? 0);
    get("choice").addEventListener("change", (event) => choose(Number(event.target.value)));
    get("slider").addEventListener("input", (event) => set(Number(event.target.value)));
    get("reset").addEventListener("click", () => {
      set(net.weights[chosen][3]);
      get("slider").value = String(net.values[chosen]);
    });
    get("film").addEventListener("click", film);
  };
  monoseme.networkPicture = (size) => Array.from(rgb(run(net.values, size), size));
})();
