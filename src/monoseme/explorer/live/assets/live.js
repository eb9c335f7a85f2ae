"use strict";
// @ts-check
// The page of the local server: asks for pieces of tables, sends what is tried, draws answers. No framework.
// Its state is the address, so that a view can be come back to. Types are those of the server: answers.d.ts.
/** @import { Blocks, Comparison, Number as Outcome, Run, Runs, Tried } from "./answers" */
(() => {
  const COUNT = 25,
    LARGEST = 16 * 2 ** 20;
  /** @param {string} id @returns {any} */
  const get = (id) => document.getElementById(id);
  /** @type {Run[]} */
  let runs = [];
  let run = 0,
    start = 0,
    asked = 0,
    compared = 0;
  /** @type {ImageBitmap | null} */
  let picture = null;

  /** @param {string} name @param {Record<string, string>} [attributes] @param {...(Node | string)} children */
  const el = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  /** @param {string} text */
  const say = (text) => (get("message").textContent = text);

  /** An answer of the server; what it refuses is said on the page. @param {string} path @param {RequestInit} [options] @returns {Promise<any>} */
  const ask = async (path, options = {}) => {
    say("");
    const answer = await fetch(path, options).catch(() => null);
    if (answer === null) {
      say("The server does not answer. Is monoseme view still running?");
      throw new Error("no answer");
    }
    const found = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      say(found.error ?? `The server answered ${answer.status}.`);
      throw new Error(found.error);
    }
    return found;
  };
  /** @param {number | null} v */
  const shown = (v) => (v === null ? "not known" : Number(v.toPrecision(4)).toString());
  /** @param {Outcome | null} n */
  const outcome = (n) => {
    if (n === null) return "–";
    if (n.value === null) return `not known (${n.note})`;
    const ends = n.low === null || n.high === null ? "" : ` [${shown(n.low)}, ${shown(n.high)}]`;
    return `${shown(n.value)}${ends}${n.unit && n.unit !== "1" ? ` ${n.unit}` : ""}`;
  };

  /** @param {string} name @param {string} value */
  const keep = (name, value) => {
    try {
      sessionStorage.setItem(name, value);
    } catch {
      /* private windows may refuse */
    }
  };

  /** @param {string} name */
  const spoken = (name) => name.replaceAll("_", " ");

  const table = async () => {
    const view = { search: get("search").value, sort: get("sort").value, order: get("rising").checked ? "rising" : "falling", start: String(start) };
    const address = `?${new URLSearchParams({ run: String(run), ...view })}`;
    history.replaceState(null, "", address + location.hash);
    keep(`monoseme-live-${run}`, address); // the page of a block leads back here
    const mine = ++asked;
    /** @type {Blocks} */
    const found = await ask(`/api/runs/${run}/blocks?${new URLSearchParams({ ...view, count: String(COUNT) })}`).catch((error) => {
      if (mine === asked) {
        get("rows").replaceChildren();
        get("where").textContent = "";
        get("before").disabled = get("next").disabled = true;
      }
      throw error;
    });
    if (mine !== asked) return; // typed on since: a later answer counts
    if (found.total > 0 && start >= found.total) return again(); // an address of a longer table
    get("head").replaceChildren(el("tr", {}, el("th", { scope: "col" }, "block"), ...found.columns.map((c) => el("th", { scope: "col" }, spoken(c)))));
    get("rows").replaceChildren(
      ...found.rows.map((row) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, el("a", { href: `/run/${run}/live-block.html#${row.block}` }, String(row.block))),
          ...row.numbers.map((v) => el("td", { class: v === null ? "number unknown" : "number" }, v === null ? "–" : shown(v))),
        ),
      ),
    );
    keep("monoseme-order", JSON.stringify(found.rows.map((row) => row.block)));
    const last = Math.min(start + COUNT, found.total);
    get("where").textContent = found.total ? `${start + 1} to ${last} of ${found.total} blocks` : "no block is like that";
    get("before").disabled = start === 0;
    get("next").disabled = last >= found.total;
    const sort = get("sort"),
      before = sort.value;
    sort.replaceChildren(el("option", { value: "" }, "as they are"), ...found.columns.map((c) => el("option", { value: c }, spoken(c))));
    sort.value = before;
  };

  /** @param {number} number */
  const choose = async (number) => {
    run = number;
    const one = runs[run];
    get("title").textContent = one.title;
    get("facts").textContent = Object.entries(one.facts).slice(0, 4).map(([k, v]) => `${k}: ${v}`).join(" · ");
    get("notes").replaceChildren(...(one.notes.length ? [el("aside", { class: "notes" }, el("ul", {}, ...one.notes.map((n) => el("li", {}, n))))] : []));
    get("by-file").hidden = one.tries !== "picture";
    get("by-text").hidden = one.tries !== "text";
    get("go").hidden = one.tries === "";
    get("can").textContent =
      one.tries === "" ? one.why || "Nothing can be tried on this run." : `Which blocks fire on a ${one.tries} of your own. It is not kept.`;
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
    const mine = ++compared;
    /** @type {Comparison} */
    const found = await ask(`/api/compare?first=${run}&second=${other}`);
    if (mine !== compared) return;
    get("compared-head").replaceChildren(el("tr", {}, ...["", runs[run].title, runs[other].title].map((t) => el("th", { scope: "col" }, t))));
    get("compared").replaceChildren(
      ...found.rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.name.replaceAll("_", " ")), el("td", {}, outcome(row.first)), el("td", {}, outcome(row.second)))),
    );
  };

  /** @param {Tried} found */
  const draw = (found) => {
    const said = [found.fvu === null ? "" : `Unexplained share of its variance: ${shown(found.fvu)}.`, found.note, found.blocks.length ? "" : "No block fires."];
    get("fvu").textContent = said.filter(Boolean).join(" ");
    const text = found.tokens.length > 0;
    get("found").className = text ? "found text" : "found";
    get("found").replaceChildren(
      ...found.blocks.map((block) => {
        const top = Math.max(...block.presence, 1e-12);
        const caption = el("figcaption", {}, el("a", { href: `/run/${run}/live-block.html#${block.block}` }, `Block ${block.block}`), ` ${(100 * block.share).toFixed(1)} % of the energy`);
        if (text) {
          const line = el("p");
          found.tokens.forEach((token, i) => {
            const mark = el("mark", {}, token);
            mark.style.backgroundColor = `color-mix(in srgb, var(--accent) ${Math.round((60 * block.presence[i]) / top)}%, transparent)`;
            line.append(mark);
          });
          return el("figure", {}, caption, line);
        }
        const canvas = document.createElement("canvas");
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", `where block ${block.block} fires`);
        const w = 192 / Math.max(found.width, found.height),
          h = Math.max(w, 12 / found.height); // tokens in one line have no place on the picture
        canvas.width = Math.round(w * found.width);
        canvas.height = Math.round(h * found.height);
        const context = canvas.getContext("2d");
        if (context === null) return el("figure", {}, caption);
        if (picture && found.height > 1) {
          // the middle part that the model saw
          const scale = Math.min(picture.width / found.width, picture.height / found.height),
            [pw, ph] = [scale * found.width, scale * found.height];
          context.drawImage(picture, (picture.width - pw) / 2, (picture.height - ph) / 2, pw, ph, 0, 0, canvas.width, canvas.height);
        }
        block.presence.forEach((v, i) => {
          context.fillStyle = `rgb(0 0 0 / ${0.75 * (1 - v / top)})`;
          context.fillRect((i % found.width) * w, Math.floor(i / found.width) * h, w + 0.5, h + 0.5);
        });
        return el("figure", {}, canvas, caption);
      }),
    );
  };

  const attempt = async () => {
    const at = run;
    /** @type {string | File} */
    let body = get("text").value;
    if (runs[at].tries === "picture") {
      const file = get("file").files[0];
      if (!file) return say("Choose a picture first.");
      if (file.size > LARGEST) return say("The picture is larger than 16 MB.");
      body = file;
      picture = await createImageBitmap(file).catch(() => null); // what cannot be shown may be readable there
    } else if (!String(body).trim()) return say("Write something first.");
    get("go").disabled = true;
    get("fvu").textContent = "…";
    get("found").replaceChildren();
    try {
      /** @type {Tried} */
      const found = await ask(`/api/runs/${at}/try`, { method: "POST", body });
      if (at === run) draw(found);
    } catch {
      get("fvu").textContent = "";
    } finally {
      get("go").disabled = false;
    }
  };

  /** What failed was said by `ask`. @param {Promise<unknown>} work */
  const quiet = (work) => work.catch(() => {});
  const again = () => {
    start = 0;
    quiet(table());
  };
  /** @param {string} id @param {string} what @param {(event: any) => void} act */
  const on = (id, what, act) => get(id).addEventListener(what, act);
  on("run", "change", (event) => {
    start = 0;
    get("sort").value = ""; // the other run may have no such column
    quiet(choose(Number(event.target.value)));
  });
  on("ask", "submit", (event) => event.preventDefault());
  on("search", "input", again);
  on("sort", "change", again);
  on("rising", "change", again);
  on("before", "click", () => ((start = Math.max(0, start - COUNT)), quiet(table())));
  on("next", "click", () => ((start += COUNT), quiet(table())));
  on("other", "change", () => quiet(sideBySide()));
  on("try", "submit", (event) => {
    event.preventDefault();
    quiet(attempt());
  });

  /** The view that the address names. @param {Runs} found */
  const begin = (found) => {
    runs = found.runs;
    const view = new URLSearchParams(location.search),
      wanted = Number(view.get("run")),
      sort = view.get("sort") ?? "";
    run = runs[wanted] ? wanted : 0;
    start = Math.min(1e8, Math.max(0, Math.trunc(Number(view.get("start")) || 0)));
    get("search").value = view.get("search") ?? "";
    get("rising").checked = view.get("order") === "rising";
    get("sort").replaceChildren(el("option", { value: sort }, spoken(sort)));
    get("run").replaceChildren(...runs.map((one) => el("option", { value: String(one.number) }, one.title)));
    get("run").value = String(run);
    get("run").parentElement.hidden = runs.length < 2;
    return choose(run);
  };
  quiet(ask("/api/runs").then(begin));
})();
