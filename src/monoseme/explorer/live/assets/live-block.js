"use strict";
// @ts-check
// The page of a block on the local server: what is computed when it is asked for, beside what the static page shows.
/** @import { Number as Outcome, Shape, Verdict, Way, Waypoint } from "./answers" */
(() => {
  /** @type {any} */
  const { el, figure, spoken } = monoseme;
  /** @param {string} id @returns {any} */
  const by = (id) => document.getElementById(id);
  const run = location.pathname.split("/")[2];
  const SIGNS = { stable: "✓", unstable: "✗", unknown: "?" };
  const TILE = 160, // pixels of a step's picture
    WORDS = 5; // tokens on either side of a step's
  let asked = 0;

  /** @param {string} text */
  const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");

  // these stand under their own heading here
  for (const name of ["stable_rank_covariance", "stable_rank_codes", "participation_ratio", "effective_rank", "utilisation", "certificate"])
    monoseme.elsewhere.add(name);

  // -- dimensions ------------------------------------------------------------------------------------------------------
  const CALLED = {
    stable_rank_covariance: ["stable rank of the covariance", "Σλ² ÷ λ₁²"],
    stable_rank_codes: ["stable rank of the codes", "Σλ ÷ λ₁"],
    participation_ratio: ["participation ratio", "(Σλ)² ÷ Σλ²"],
    effective_rank: ["effective rank", "exp of the entropy of λ ÷ Σλ"],
    utilisation: ["utilisation", "effective rank ÷ dimensions of the block"],
  };
  /** @param {Outcome} o @param {number} size */
  const tile = (o, size) => {
    const [name, formula] = CALLED[o.name] ?? [spoken(o.name), ""];
    const most = o.name === "utilisation" ? 1 : size;
    if (o.value === null)
      return el("div", { class: "tile off" }, el("dt", {}, name), el("dd", {}, el("span", { class: "unknown" }, "not known")), el("dd", { class: "how" }, o.note));
    const bar = el("progress", { max: most, value: o.value, "aria-label": `${name}, ${figure(o.value)} of ${most}` });
    const value = el("dd", {}, el("span", { class: "value" }, figure(o.value)), el("span", { class: "unit" }, ` of ${most}`));
    const over = o.n === null ? "" : `over ${figure(o.n)} ${o.n_unit}`;
    return el("div", { class: "tile" }, el("dt", {}, name), value, el("dd", {}, bar), el("dd", { class: "how" }, [formula, over].filter(Boolean).join(", ")));
  };

  // -- the walk --------------------------------------------------------------------------------------------------------
  /** The part of a picture around a token, which is framed. @param {HTMLImageElement} picture */
  const crop = (canvas, picture, height, width, token) => {
    const c = canvas.getContext("2d");
    const [cw, ch] = [picture.naturalWidth / width, picture.naturalHeight / height]; // a token's pixels
    const across = Math.max(3, Math.round(Math.max(height, width) * 0.4)); // tokens of the part
    const pixels = Math.min(picture.naturalWidth, picture.naturalHeight, across * Math.max(cw, ch));
    const [col, row] = [token % width, Math.floor(token / width)];
    const inside = (middle, whole) => Math.min(Math.max(0, middle - pixels / 2), whole - pixels);
    const [x, y] = [inside((col + 0.5) * cw, picture.naturalWidth), inside((row + 0.5) * ch, picture.naturalHeight)];
    const scale = canvas.width / pixels;
    c.drawImage(picture, x, y, pixels, pixels, 0, 0, canvas.width, canvas.height);
    if (height * width === 1 || height === 1) return; // tokens in one line have no place on the picture
    for (const [colour, thick] of [["#000", 4], ["#fff", 2]]) {
      c.strokeStyle = colour;
      c.lineWidth = thick;
      c.strokeRect((col * cw - x) * scale, (row * ch - y) * scale, cw * scale, ch * scale);
    }
  };
  /** @param {string[]} tokens @param {number} token */
  const words = (tokens, token) => {
    const from = Math.max(0, token - WORDS);
    const shown = tokens.slice(from, token + WORDS + 1).map((t) => (t || "▁").replace(/\r?\n|\r/g, "⏎"));
    const line = shown.map((text, i) => (from + i === token ? el("b", { class: "peak" }, text) : text));
    return el("p", {}, from > 0 ? "…" : "", ...line, token + WORDS + 1 < tokens.length ? "…" : "");
  };
  /** One step: what the block shows there, and how far the code that shows it lies from the walk. @param {Waypoint} step @param {number} i @param {any} card */
  const frame = (step, i, card) => {
    const [sample, height, width] = card.shown[step.shown];
    const [id, source, label, tokens] = monoseme.data.samples[sample];
    const name = label || id;
    const button = el("button", { type: "button" });
    const far = `${figure(Number(step.away.toPrecision(2)))} away`;
    if (height === 1 && tokens.length) button.append(words(tokens, step.token));
    else {
      const canvas = el("canvas", { width: 2 * TILE, height: 2 * TILE, role: "img", "aria-label": `${name}, around token ${step.token}` });
      if (source) {
        const picture = new Image();
        picture.onload = () => crop(canvas, picture, height, width, step.token);
        picture.src = source;
      }
      button.append(canvas);
    }
    button.append(el("span", { class: "step" }, String(i + 1)), el("span", { class: "name" }, name), el("span", { class: "away" }, far));
    button.style.borderTopColor = monoseme.colour(step.place);
    return el("li", {}, button);
  };
  /** @param {Way} way @param {any} card @param {() => void} draw */
  const strip = (way, card, draw) => {
    const frames = way.waypoints.map((step, i) => frame(step, i, card));
    const line = { points: way.waypoints.map((step) => step.place), closed: way.closed, at: -1 };
    const buttons = frames.map((node) => node.firstElementChild);
    const point = (i) => {
      card.way = line;
      line.at = i;
      buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
      draw();
    };
    buttons.forEach((button, i) => {
      button.tabIndex = i ? -1 : 0; // one stop for the tab key; arrow keys walk
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("pointerenter", () => point(i));
      button.addEventListener("focus", () => point(i));
      button.addEventListener("click", () => {
        const item = by("shown").children[way.waypoints[i].shown];
        item?.scrollIntoView({ block: "center" });
        document.querySelectorAll("#shown .meant").forEach((node) => node.classList.remove("meant"));
        item?.classList.add("meant");
      });
      button.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        event.stopPropagation(); // the page's own arrows lead to other blocks
        const to = way.closed ? (i + step + buttons.length) % buttons.length : Math.min(buttons.length - 1, Math.max(0, i + step));
        buttons.forEach((other, j) => (other.tabIndex = j === to ? 0 : -1));
        buttons[to].focus();
      });
    });
    card.way ??= line;
    const heading = el("h3", {}, `${way.name[0].toUpperCase()}${way.name.slice(1)}, ${frames.length} equal steps`);
    const list = el("ol", { class: card.shown.some(([, height]) => height > 1) ? "way" : "way text", "aria-label": way.name }, ...frames);
    const hint = el("p", { class: "hint" }, "Scroll sideways to see all steps →");
    return el("div", { class: "group" }, heading, hint, el("div", { class: "scroll" }, list));
  };
  /** @param {Shape} shape @param {any} card @param {() => void} draw */
  const walk = (shape, card, draw) => {
    const { topology, reason, numbers, ways, why } = shape.walk;
    const said = numbers.filter((o) => o.value !== null).map((o) => `${spoken(o.name)} ${figure(o.value)}`);
    by("walk-said").textContent = why || [
      `A self-organising map of its codes, laid out as a ${topology}.`,
      reason,
      said.length ? sentence(`${said.join(", ")} (lower is better)`) : "",
      "Each step shows the sample below whose code lies nearest; how far is said in units of the spread of all codes. Point at a step, or use the arrow keys, to see it in the cloud.",
    ].filter(Boolean).join(" ");
    by("ways").replaceChildren(...ways.map((way) => strip(way, card, draw)));
    draw();
  };

  // -- the certificate -------------------------------------------------------------------------------------------------
  /** @param {Verdict} v */
  const verdict = (v) => {
    const half = v.side > 0 ? ", positive half" : v.side < 0 ? ", negative half" : "";
    const word = v.verdict === "unknown" ? "not known" : v.verdict;
    const state = { stable: "reproduced", unstable: "not", unknown: "not-run" }[v.verdict];
    const between = (o) => (o.high === null ? `${figure(o.low)} or more` : `${figure(o.low)} to ${figure(o.high)}`);
    const told = (o) => (o.value === null ? "∞" : o.low === null || o.low === o.high ? figure(o.value) : between(o));
    const rows = v.numbers.map((o) => el("tr", {}, el("th", { scope: "row" }, o.name), el("td", { class: "number" }, told(o)), el("td", { class: "how" }, o.note)));
    const partners = v.partners.flatMap((block) => [" ", el("a", { href: `#${block}` }, String(block))]);
    return el(
      "div",
      { class: "group" },
      el("h3", {}, `Feature ${v.feature}${half} `, el("span", { class: `status ${state}` }, `${SIGNS[v.verdict]} ${word}`)),
      el("p", { class: "lead" }, [v.meaning, v.reason].filter(Boolean).map(sentence).join(" ")),
      partners.length ? el("p", { class: "lead" }, "Blocks that would take over:", ...partners) : null,
      el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": `Numbers of feature ${v.feature}` }, el("table", { class: "plain" }, el("tbody", {}, ...rows))),
    );
  };

  /** @param {string} text */
  const missing = (text) => {
    by("walk-said").textContent = text;
    by("uncertified").textContent = "";
    for (const id of ["ways", "dimension", "verdicts"]) by(id).replaceChildren();
  };
  const back = () => {
    by("back").textContent = "← All blocks";
    let kept = null;
    try {
      kept = sessionStorage.getItem(`monoseme-live-${run}`);
    } catch {
      /* private windows may refuse */
    }
    by("back").href = `/${kept ?? `?run=${run}`}`;
  };

  monoseme.opened = async (card, draw) => {
    back();
    const mine = ++asked;
    missing("Laying out a map of its codes …");
    const answer = await fetch(`/api/runs/${run}/blocks/${card.block}/shape`).catch(() => null);
    const found = answer === null ? null : await answer.json().catch(() => null);
    if (mine !== asked) return; // another block was opened since
    if (answer === null || found === null) return missing("The server does not answer. Is monoseme view still running?");
    if (!answer.ok) return missing(found.error ?? `The server answered ${answer.status}.`);
    walk(found, card, draw);
    by("dimension").replaceChildren(...found.dimension.map((o) => tile(o, found.size)));
    by("uncertified").textContent = found.uncertified;
    by("verdicts").replaceChildren(...found.verdicts.map(verdict));
  };
})();
