"use strict";
// What both pages share: loading shards, decoding cards, drawing overlays. No framework, no network.
const monoseme = (() => {
  const waiting = new Map(),
    // a page may be told of the card that was opened, and show some of its numbers elsewhere
    self = { data: null, ready: [], opened: () => {}, elsewhere: new Set() };

  self.index = (data) => {
    self.data = data;
    self.ready.forEach((run) => run(data));
  };
  self.whenReady = (run) => (self.data ? run(self.data) : self.ready.push(run));
  self.add = (number, part) => waiting.get(number).resolve(part);

  // a page opened from a file may not fetch, but may load scripts that lie beside it
  self.card = (position) => {
    const number = Math.floor(position / self.data.shard);
    if (!waiting.has(number)) {
      const entry = {};
      entry.promise = new Promise((resolve, reject) => {
        entry.resolve = resolve;
        entry.reject = reject;
      });
      waiting.set(number, entry);
      const script = document.createElement("script");
      script.src = `data/${number}.js`;
      script.onerror = () => entry.reject(new Error(`data/${number}.js is missing`));
      document.head.append(script);
    }
    return waiting.get(number).promise.then((part) => {
      const [block, size, outcomes, shown, cloud] = part.cards[position % self.data.shard];
      return {
        block,
        size,
        shown,
        cloud: points(cloud),
        outcomes: outcomes.map((o) => ({
          name: o[0],
          value: o[1],
          low: o[2],
          high: o[3],
          confidence: o[4],
          unit: o[5] === "1" ? "" : o[5],
          better: o[6],
          n: o[7],
          nUnit: o[8],
          note: part.notes[o[9]],
        })),
      };
    });
  };

  const bytes = (text) => Uint8Array.from(atob(text), (ch) => ch.charCodeAt(0));
  const points = ([scale, text]) => {
    const whole = new Int16Array(bytes(text).buffer);
    return Array.from({ length: whole.length / 3 }, (_, i) => [0, 1, 2].map((j) => (whole[3 * i + j] / 32767) * scale));
  };

  self.el = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") node.className = value;
      else if (key in node) node[key] = value;
      else node.setAttribute(key, value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  };

  self.spoken = (name) => name.replaceAll("_", " ");

  self.figure = (value) => {
    if (value === null || value === undefined) return "not known";
    const size = Math.abs(value);
    const text =
      size >= 1e4 && size < 1e12
        ? Math.round(value).toLocaleString("en").replaceAll(",", "\u2009")
        : String(Number(value.toPrecision(4)));
    return text.replaceAll("-", "−");
  };

  // one held-out sample: a picture with the block's tokens over it, or a text with its tokens coloured
  self.sample = ([number, height, width, most, packed], card, large) => {
    const [id, picture, label, tokens] = self.data.samples[number];
    const data = bytes(packed),
      cells = [];
    for (let i = 0; i < data.length; i += 6)
      cells.push([data[i] + 256 * data[i + 1], data[i + 2], data[i + 3], data[i + 4], data[i + 5]]);
    const about = `${label || id}: presence of block ${card.block} up to ${self.figure(most)} on ${cells.length} of ${height * width} tokens`;
    const caption = large
      ? self.el(
          "figcaption",
          {},
          self.el("b", {}, label || id),
          self.el("span", {}, `presence up to ${self.figure(most)}, ${cells.length} of ${height * width} tokens`),
        )
      : null;
    if (height === 1)
      return self.el("figure", { class: "sample text", title: about }, ...text(tokens, width, cells, large), caption);
    const layers = ["place", "presence"].map((view) => {
      const canvas = self.el("canvas", { width, height, class: `over ${view}`, "aria-hidden": "true" });
      const context = canvas.getContext("2d"),
        image = context.createImageData(width, height);
      for (const [token, presence, ...colour] of cells)
        image.data.set(
          [...(view === "place" ? colour : [255, 196, 0]), view === "place" ? presence : Math.round(0.9 * presence)],
          4 * token,
        );
      context.putImageData(image, 0, 0);
      return canvas;
    });
    const under = picture
      ? self.el("img", { src: picture, alt: about, loading: "lazy", decoding: "async" })
      : self.el("span", { class: "blank", role: "img", "aria-label": about });
    const frame = self.el("span", { class: "frame" }, under, ...layers);
    frame.style.aspectRatio = `${width} / ${height}`;
    return self.el("figure", { class: "sample", title: about }, frame, caption);
  };

  // letters of context before and after the strongest token: on a card of the gallery, on the block's page
  const AROUND = { small: [22, 80], large: [150, 190] };
  const BLANK = /^\s*$/;

  // blanks that mean something are shown: a new line, a tab, and a space that fires; a token without letters is "▁"
  const visible = (token, fires) => {
    const shown = (token || "▁").replace(/\r?\n|\r/g, "⏎\u200b").replace(/\t/g, "⇥");
    return fires && BLANK.test(shown) ? "␣" : shown; // ⏎ is no blank, and a line may break behind it
  };
  const whole = (token) => (token || "▁").replace(/\r?\n|\r/g, "⏎\n");

  // what can be read on a colour laid over the paper: the darker or the lighter ink
  const PAPER = { light: 252, dark: 21 };
  const ink = ([r, g, b], share, paper) =>
    share * (0.3 * r + 0.59 * g + 0.11 * b) + (1 - share) * paper > 128 ? "#111" : "#fff";

  // the words around the strongest token; on the block's page a button shows the whole window and back
  const text = (tokens, width, cells, large) => {
    const node = self.el("p", {}),
      at = new Map(cells.map((cell) => [cell[0], cell]));
    const peak = cells.reduce((best, cell) => (cell[1] > best[1] ? cell : best), [0, 0])[0];
    const [before, after] = AROUND[large ? "large" : "small"],
      length = (i) => visible(tokens[i], at.has(i)).length;
    let start = peak,
      end = peak + 1;
    for (let room = before; start > 0 && (room -= length(start - 1)) > 0;) start -= 1;
    for (let room = after; end < width && (room -= length(end)) > 0;) end += 1;
    const mark = (i, all) => {
      const cell = at.get(i),
        span = self.el("span", {}, all ? whole(tokens[i]) : visible(tokens[i], at.has(i)));
      if (cell) {
        const [, presence, ...colour] = cell;
        span.className = i === peak ? "mark peak" : "mark";
        for (const [view, shade, share] of [
          ["place", colour, presence / 255],
          ["presence", [255, 196, 0], (0.9 * presence) / 255],
        ]) {
          span.style.setProperty(`--${view}`, `rgb(${shade.join(" ")} / ${share})`);
          for (const scheme of ["light", "dark"])
            span.style.setProperty(`--${view}-on-${scheme}`, ink(shade, share, PAPER[scheme]));
        }
      }
      return span;
    };
    const fill = (all) => {
      const [first, last] = all ? [0, width] : [start, end];
      const spans = Array.from({ length: last - first }, (_, n) => mark(first + n, all));
      node.classList.toggle("whole", all);
      node.replaceChildren(first > 0 ? "…" : "", ...spans, last < width ? "…" : "");
    };
    fill(false);
    if (!large || (start === 0 && end === width)) return [node];
    const more = self.el("button", { type: "button", class: "more" }, "Whole window");
    more.addEventListener("click", () => {
      const all = !node.classList.contains("whole");
      fill(all);
      more.textContent = all ? "Around the strongest token" : "Whole window";
    });
    return [node, more];
  };

  const kept = () => {
    try {
      return localStorage.getItem("monoseme-view");
    } catch {
      return null;
    }
  };
  self.views = () => {
    const radios = document.querySelectorAll("input[name=view]");
    const show = (view) => {
      document.body.dataset.view = view;
      radios.forEach((radio) => {
        radio.checked = radio.value === view;
      });
    };
    radios.forEach((radio) =>
      radio.addEventListener("change", () => {
        show(radio.value);
        try {
          localStorage.setItem("monoseme-view", radio.value);
        } catch {
          /* private windows may refuse */
        }
      }),
    );
    show([...radios].some((radio) => radio.value === kept()) ? kept() : "place");
  };
  return self;
})();
