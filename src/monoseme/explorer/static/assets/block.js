"use strict";
// The page of one block: block.html#123.
(() => {
  const { el, figure, spoken } = monoseme,
    by = (id) => document.getElementById(id);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let card = null,
    turn = [0.6, 0.35],
    held = null,
    resting = false;

  const plural = (n, units) => (n === 1 ? units.replace(/^(\S*?)s(?= |$)/, "$1") : units);

  // what was not computed takes one line a reason, under the numbers
  const ABSENT = /^not computed(: |$)|^$/;
  const absent = (outcomes) => {
    const reasons = new Map();
    for (const o of outcomes)
      if (o.value === null && ABSENT.test(o.note)) {
        const why = o.note.replace(ABSENT, "");
        reasons.set(why, [...(reasons.get(why) || []), spoken(o.name)]);
      }
    return [...reasons].map(([why, names]) =>
      el("tr", { class: "off" }, el("td", { class: "how", colSpan: 3 }, `Not computed: ${names.join(", ")}${why && ` (${why})`}`)),
    );
  };
  const numbers = (all) => {
    const outcomes = all.filter((o) => !monoseme.elsewhere.has(o.name));
    return [...outcomes.filter((o) => o.value !== null || !ABSENT.test(o.note)).map(row), ...absent(outcomes)];
  };

  const row = (o) => {
      const known = o.value !== null;
      const range =
        known && o.low !== null && o.high !== null
          ? `${figure(o.confidence * 100)} % interval ${figure(o.low)} to ${figure(o.high)}`
          : "";
      const over = known && o.n !== null ? `over ${figure(o.n)} ${plural(o.n, o.nUnit)}` : "";
      const direction = o.better ? `${o.better} is better` : "";
      const how = [range, over, direction, known ? o.note : ""].filter(Boolean).join(" · ");
      const value = known
        ? el(
            "td",
            { class: "number" },
            el("span", { class: "value" }, figure(o.value)),
            el("span", { class: "unit" }, ` ${o.unit}`),
          )
        : el("td", { class: "number unknown" }, "not known");
      return el(
        "tr",
        { class: known ? "" : "off" },
        el("th", { scope: "row" }, spoken(o.name)),
        value,
        el("td", { class: "how" }, known ? how : o.note),
      );
  };

  const show = () => {
    const data = monoseme.data,
      block = Number(location.hash.slice(1)),
      position = data.blocks.indexOf(block);
    let order = data.blocks;
    try {
      const kept = JSON.parse(sessionStorage.getItem("monoseme-order"));
      if (Array.isArray(kept) && kept.includes(block)) order = kept;
      const back = sessionStorage.getItem("monoseme-back");
      if (back) by("back").href = `index.html${back}`;
    } catch {
      /* private windows may refuse */
    }
    const at = order.indexOf(block);
    for (const [id, other] of [
      ["previous", order[at - 1]],
      ["next", order[at + 1]],
    ]) {
      if (at < 0 || other === undefined) by(id).removeAttribute("href");
      else by(id).href = `#${other}`;
    }
    if (location.hash === "" || position < 0) {
      by("message").textContent =
        `There is no block ${location.hash.slice(1) || "named in the address"} here. Blocks are ${Math.min(...data.blocks)} to ${Math.max(...data.blocks)}.`;
      return;
    }
    document.querySelector("h1").textContent = `Block ${block}`;
    document.title = `Block ${block}`;
    by("message").textContent = "";
    monoseme
      .card(position)
      .then((whole) => {
        card = whole;
        by("numbers").replaceChildren(...numbers(card.outcomes));
        by("shown").replaceChildren(...card.shown.map((item) => monoseme.sample(item, card, true)));
        if (!card.shown.length) by("shown").append(el("p", { class: "quiet" }, "It fires on no held-out sample."));
        const kind =
          card.size === 1
            ? "Coordinate, by count"
            : card.size === 2
              ? "Positions in the plane of the block"
              : "Positions, first three principal directions. Drag, or use the arrow keys";
        by("cloud-caption").textContent = card.cloud.length
          ? `${kind}. ${figure(card.cloud.length)} held-out rows, within ${figure(Math.max(...card.cloud.map((p) => Math.hypot(...p))))} raw activation units.`
          : "No positions: it fires on no held-out row.";
        by("cloud").setAttribute(
          "aria-label",
          `${card.cloud.length} positions inside block ${block}, of size ${card.size}`,
        );
        resting = false;
        monoseme.cloud(by("cloud"), card, turn);
        monoseme.opened(card, () => monoseme.cloud(by("cloud"), whole, turn));
      })
      .catch((error) => {
        by("message").textContent = `Not shown: ${error.message}.`;
      });
  };

  const spin = () => {
    if (card && card.size > 2 && !held && !resting && !still.matches) {
      turn[0] += 0.004;
      monoseme.cloud(by("cloud"), card, turn);
    }
    requestAnimationFrame(spin);
  };
  const rotate = (x, y) => {
    turn = [turn[0] + x, Math.max(-1.5, Math.min(1.5, turn[1] + y))];
    resting = true;
    if (card) monoseme.cloud(by("cloud"), card, turn);
  };

  monoseme.whenReady(() => {
    const canvas = by("cloud");
    canvas.addEventListener("pointerdown", (event) => {
      held = [event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held) {
        rotate((event.clientX - held[0]) / 120, (event.clientY - held[1]) / 120);
        held = [event.clientX, event.clientY];
      }
    });
    for (const end of ["pointerup", "pointercancel"])
      canvas.addEventListener(end, () => {
        held = null;
      });
    addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input")) return;
      const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
      if (step && event.target === canvas) {
        rotate(...step);
        event.preventDefault();
      } else if (event.key === "ArrowLeft" || event.key === "ArrowRight")
        by(event.key === "ArrowLeft" ? "previous" : "next").click();
    });
    addEventListener("hashchange", show);
    addEventListener("resize", () => card && monoseme.cloud(canvas, card, turn));
    monoseme.views();
    show();
    requestAnimationFrame(spin);
  });
})();
