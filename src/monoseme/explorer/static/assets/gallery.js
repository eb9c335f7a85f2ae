"use strict";
// The gallery: search, order, range, pages. Its state is the address after '#', so a view can be sent to somebody.
(() => {
  const PAGE = 48,
    DEFAULT = { q: "", sort: "", order: "desc", min: "", max: "", page: "0" };
  const { el, figure, spoken } = monoseme,
    by = (id) => document.getElementById(id);
  let data, state, form;

  const read = () => {
    const given = location.hash.includes("=") ? Object.fromEntries(new URLSearchParams(location.hash.slice(1))) : {};
    state = { ...DEFAULT, sort: data.first, ...given };
    if (state.sort !== "block" && !data.columns.some((c) => c.name === state.sort)) state.sort = data.first;
    for (const key of ["q", "sort", "order", "min", "max"]) form.elements[key].value = state[key];
  };
  const write = (change) => {
    state = { ...state, page: "0", ...change };
    const differs = Object.entries(state).filter(
      ([key, value]) => value !== (key === "sort" ? data.first : DEFAULT[key]),
    );
    history.replaceState(null, "", differs.length ? `#${new URLSearchParams(differs)}` : "#parts");
    draw();
  };

  // "7, 20-40" names block 7 and blocks 20 to 40
  const named = (text) => {
    const parts = text
      .split(/[\s,;]+/)
      .filter(Boolean)
      .map((part) => part.match(/^(\d+)(?:[-–](\d+))?$/));
    return (block) =>
      !parts.length || parts.some((m) => m && (m[2] ? +m[1] <= block && block <= +m[2] : block === +m[1]));
  };
  const bound = (text, otherwise) => (text.trim() === "" || Number.isNaN(Number(text)) ? otherwise : Number(text));
  const chosen = () => {
    const column = data.columns.find((c) => c.name === state.sort),
      value = (i) => (column ? column.values[i] : data.blocks[i]);
    const low = bound(state.min, -Infinity),
      high = bound(state.max, Infinity),
      match = named(state.q),
      sign = state.order === "asc" ? 1 : -1;
    // what is not known has no place in a range, and stands last in either order
    const inside = (i) =>
      value(i) === null ? low === -Infinity && high === Infinity : low <= value(i) && value(i) <= high;
    const order = (i, j) => (value(i) === null) - (value(j) === null) || sign * (value(i) - value(j)) || i - j;
    return data.blocks
      .map((_, i) => i)
      .filter((i) => match(data.blocks[i]) && inside(i))
      .sort(order);
  };

  const card = (i) => {
    const names = [
      ...new Set([state.sort, ...data.columns.filter((c) => c.values.some((v) => v !== null)).map((c) => c.name)]),
    ];
    const numbers = names
      .filter((name) => name !== "block")
      .slice(0, 3)
      .map((name) => {
        const column = data.columns.find((c) => c.name === name);
        return el(
          "div",
          {},
          el("dt", { title: [name, column.unit].filter(Boolean).join(", ") }, spoken(name)),
          el("dd", {}, figure(column.values[i])),
        );
      });
    const block = data.blocks[i];
    const node = el(
      "li",
      { class: "card" },
      el("h3", {}, el("a", { href: `block.html#${block}` }, `Block ${block}`)),
      el(
        "div",
        { class: "look" },
        el("canvas", { class: "mini", role: "img", "aria-label": `positions inside block ${block}` }),
        el("div", { class: "strip" }),
      ),
      el("dl", {}, ...numbers),
    );
    node.dataset.position = i;
    return node;
  };
  const fill = (node) =>
    monoseme
      .card(+node.dataset.position)
      .then((whole) => {
        const strip = node.querySelector(".strip");
        if (strip.childElementCount) return;
        strip.append(...whole.shown.slice(0, 4).map((item) => monoseme.sample(item, whole, false)));
        if (!whole.shown.length) strip.append(el("p", { class: "quiet" }, "Fires on no held-out sample."));
        node.querySelector(".mini").hidden = !whole.cloud.length;
        if (whole.cloud.length) monoseme.cloud(node.querySelector(".mini"), whole);
        node.classList.add("full");
      })
      .catch((error) =>
        node.querySelector(".strip").replaceChildren(el("p", { class: "quiet" }, `Not shown: ${error.message}.`)),
      );
  const seen = new IntersectionObserver(
    (entries) =>
      entries
        .filter((e) => e.isIntersecting)
        .forEach((e) => {
          seen.unobserve(e.target);
          fill(e.target);
        }),
    { rootMargin: "400px" },
  );

  const draw = () => {
    const found = chosen(),
      pages = Math.max(1, Math.ceil(found.length / PAGE));
    const page = Math.min(pages - 1, Math.max(0, parseInt(state.page, 10) || 0));
    seen.disconnect();
    by("cards").replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(card));
    [...by("cards").children].forEach((node) => seen.observe(node));
    by("count").textContent = found.length
      ? `${figure(found.length)} of ${figure(data.blocks.length)} blocks`
      : "No block fits. Clear the search or widen the range.";
    by("where").textContent = `${page + 1} / ${pages}`;
    by("earlier").disabled = page === 0;
    by("later").disabled = page === pages - 1;
    for (const [id, step] of [
      ["earlier", -1],
      ["later", 1],
    ])
      by(id).onclick = () => {
        write({ page: String(page + step) });
        by("parts").scrollIntoView();
      };
    try {
      sessionStorage.setItem("monoseme-back", location.hash);
      sessionStorage.setItem("monoseme-order", JSON.stringify(found.map((i) => data.blocks[i])));
    } catch {
      /* private windows may refuse */
    }
  };

  monoseme.whenReady((index) => {
    data = index;
    form = by("controls");
    const known = data.columns.filter((c) => c.values.some((v) => v !== null)).map((c) => c.name);
    data.first = known.find((name) => name.startsWith("energy")) ?? known[0] ?? "block";
    form.elements.sort.append(...[...known, "block"].map((name) => el("option", { value: name }, spoken(name))));
    form.addEventListener("submit", (event) => event.preventDefault());
    // some ways of choosing from a list give only the second of these events; an unchanged value must not turn back the page
    for (const kind of ["input", "change"])
      form.addEventListener(
        kind,
        ({ target }) => state[target.name] !== target.value && write({ [target.name]: target.value }),
      );
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      write({ ...DEFAULT, sort: data.first });
      read();
    });
    addEventListener("hashchange", () => {
      if (location.hash.includes("=")) {
        read();
        draw();
      }
    });
    monoseme.views();
    read();
    draw();
    if (location.hash.includes("=")) by("parts").scrollIntoView();
  });
})();
