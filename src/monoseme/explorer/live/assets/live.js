"use strict";
// The page of the local server: asks for pieces of tables, sends what is tried, draws answers. No framework.
(() => {
  const COUNT = 25,
    get = (id) => document.getElementById(id);
  let runs = [],
    run = 0,
    start = 0,
    asked = 0,
    picture = null;

  const el = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const say = (text) => (get("message").textContent = text);

  const ask = async (path, options = {}) => {
    say("");
    const answer = await fetch(path, options);
    const found = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
    if (!answer.ok) {
      say(found.error ?? `the server answered ${answer.status}`);
      throw new Error(found.error);
    }
    return found;
  };
  const shown = (v) => (v === null ? "not known" : Number(v.toPrecision(4)).toString());
  const outcome = (n) => {
    if (n === null) return "–";
    if (n.value === null) return `not known (${n.note})`;
    const ends = n.low === null ? "" : ` [${shown(n.low)}, ${shown(n.high)}]`;
    return `${shown(n.value)}${ends}${n.unit && n.unit !== "1" ? ` ${n.unit}` : ""}`;
  };

  const table = async () => {
    const query = new URLSearchParams({
      search: get("search").value,
      sort: get("sort").value,
      order: get("rising").checked ? "rising" : "falling",
      start: String(start),
      count: String(COUNT),
    });
    const mine = ++asked;
    const found = await ask(`/api/runs/${run}/blocks?${query}`);
    if (mine !== asked) return; // typed on since: a later answer counts
    const spoken = (name) => name.replaceAll("_", " ");
    get("head").replaceChildren(el("tr", {}, el("th", { scope: "col" }, "block"), ...found.columns.map((c) => el("th", { scope: "col" }, spoken(c)))));
    get("rows").replaceChildren(
      ...found.rows.map((row) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, el("a", { href: `/run/${run}/block.html#${row.block}` }, String(row.block))),
          ...row.numbers.map((v) => el("td", { class: v === null ? "number unknown" : "number" }, v === null ? "–" : shown(v))),
        ),
      ),
    );
    const last = Math.min(start + COUNT, found.total);
    get("where").textContent = found.total ? `${start + 1} to ${last} of ${found.total} blocks` : "no block is like that";
    get("before").disabled = start === 0;
    get("next").disabled = last >= found.total;
    const sort = get("sort"),
      before = sort.value;
    if (sort.options.length !== found.columns.length + 1) {
      sort.replaceChildren(el("option", { value: "" }, "as they are"), ...found.columns.map((c) => el("option", { value: c }, spoken(c))));
      sort.value = before;
    }
  };

  const choose = async (number) => {
    run = number;
    start = 0;
    const one = runs[run];
    get("title").textContent = one.title;
    get("facts").textContent = Object.entries(one.facts).slice(0, 4).map(([k, v]) => `${k}: ${v}`).join(" · ");
    get("notes").replaceChildren(...(one.notes.length ? [el("aside", { class: "notes" }, el("ul", {}, ...one.notes.map((n) => el("li", {}, n))))] : []));
    get("by-file").hidden = one.tries !== "picture";
    get("by-text").hidden = one.tries !== "text";
    get("go").hidden = one.tries === "";
    get("can").textContent =
      one.tries === "" ? "The model of this run cannot be opened here." : `Which blocks fire on a ${one.tries} of your own. It is not kept.`;
    get("found").replaceChildren();
    get("fvu").textContent = "";
    await Promise.all([table(), compare()]);
  };

  const compare = async () => {
    const others = runs.filter((one) => one.number !== run);
    const select = get("other");
    select.replaceChildren(...others.map((one) => el("option", { value: String(one.number) }, one.title)));
    select.parentElement.hidden = !others.length;
    get("alone").textContent = others.length ? "" : "Only one run is served. Name two: monoseme view RUN OTHER.";
    if (others.length) await sideBySide();
  };
  const sideBySide = async () => {
    const other = Number(get("other").value);
    const found = await ask(`/api/compare?first=${run}&second=${other}`);
    get("compared-head").replaceChildren(el("tr", {}, ...["", runs[run].title, runs[other].title].map((t) => el("th", { scope: "col" }, t))));
    get("compared").replaceChildren(
      ...found.rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.name.replaceAll("_", " ")), el("td", {}, outcome(row.first)), el("td", {}, outcome(row.second)))),
    );
  };

  const draw = (found) => {
    get("fvu").textContent = found.fvu === null ? "" : `Unexplained share of its variance: ${shown(found.fvu)}.`;
    const text = found.tokens.length > 0;
    get("found").className = text ? "found text" : "found";
    get("found").replaceChildren(
      ...found.blocks.map((block) => {
        const top = Math.max(...block.presence, 1e-12);
        const caption = el("figcaption", {}, el("a", { href: `/run/${run}/block.html#${block.block}` }, `Block ${block.block}`), ` ${(100 * block.share).toFixed(1)} % of the energy`);
        if (text) {
          const line = el("p");
          found.tokens.forEach((token, i) => {
            const mark = el("mark", {}, token);
            mark.style.backgroundColor = `color-mix(in srgb, var(--accent) ${Math.round((60 * block.presence[i]) / top)}%, transparent)`;
            line.append(mark);
          });
          return el("figure", {}, caption, line);
        }
        const canvas = el("canvas", { role: "img", "aria-label": `where block ${block.block} fires` });
        const cell = 192 / Math.max(found.width, found.height);
        canvas.width = Math.round(cell * found.width);
        canvas.height = Math.round(cell * found.height);
        const context = canvas.getContext("2d");
        if (picture) {
          // the middle part that the model saw
          const scale = Math.min(picture.width / found.width, picture.height / found.height),
            [pw, ph] = [scale * found.width, scale * found.height];
          context.drawImage(picture, (picture.width - pw) / 2, (picture.height - ph) / 2, pw, ph, 0, 0, canvas.width, canvas.height);
        }
        const [w, h] = [cell, cell];
        block.presence.forEach((v, i) => {
          context.fillStyle = `rgb(0 0 0 / ${0.75 * (1 - v / top)})`;
          context.fillRect((i % found.width) * w, Math.floor(i / found.width) * h, w + 0.5, h + 0.5);
        });
        return el("figure", {}, canvas, caption);
      }),
    );
  };

  const attempt = async () => {
    const one = runs[run];
    let body = get("text").value;
    if (one.tries === "picture") {
      body = get("file").files[0];
      if (!body) return say("Choose a picture first.");
      picture = await createImageBitmap(body);
    } else if (!body.trim()) return say("Write something first.");
    get("go").disabled = true;
    try {
      draw(await ask(`/api/runs/${run}/try`, { method: "POST", body }));
    } finally {
      get("go").disabled = false;
    }
  };

  const quiet = (work) => work.catch(() => {});
  const again = () => {
    start = 0;
    quiet(table());
  };
  get("run").addEventListener("change", (event) => quiet(choose(Number(event.target.value))));
  get("ask").addEventListener("submit", (event) => event.preventDefault());
  get("search").addEventListener("input", again);
  get("sort").addEventListener("change", again);
  get("rising").addEventListener("change", again);
  get("before").addEventListener("click", () => ((start = Math.max(0, start - COUNT)), quiet(table())));
  get("next").addEventListener("click", () => ((start += COUNT), quiet(table())));
  get("other").addEventListener("change", () => quiet(sideBySide()));
  get("try").addEventListener("submit", (event) => {
    event.preventDefault();
    quiet(attempt());
  });

  quiet(
    ask("/api/runs").then((found) => {
      runs = found.runs;
      get("run").replaceChildren(...runs.map((one) => el("option", { value: String(one.number) }, one.title)));
      get("run").parentElement.hidden = runs.length < 2;
      return choose(0);
    }),
  );
})();
