"use strict";
// The table of certificates: search, verdict, order, range, pages; the state is the address after '#'. A link
// '#feature=12' goes to that row, wherever order and filters have put it.
(() => {
  const PAGE = 50,
    DEFAULT = { q: "", verdict: "", sort: "removable_loss", order: "desc", min: "", max: "", page: "0", feature: "" };
  const WORDS = { stable: ["✓", "stable"], unstable: ["✗", "unstable"], unknown: ["?", "not known"] },
    RANK = { unstable: 2, unknown: 1, stable: 0 };
  const { el, figure } = monoseme,
    by = (id) => document.getElementById(id);
  const waiting = new Map();
  let data, state, form, found;

  const unpack = (text, Kind) => new Kind(Uint8Array.from(atob(text), (ch) => ch.charCodeAt(0)).buffer);
  const number = (value) => {
    if (value === Infinity) return "∞";
    const tiny = value !== 0 && Math.abs(value) < 1e-3;
    return tiny ? value.toExponential(2).replaceAll("-", "−") : figure(value);
  };

  // a page opened from a file may not fetch, but may load scripts that lie beside it
  monoseme.reasons = (shard, part) => waiting.get(shard).resolve(part);
  const reason = (feature) => {
    const shard = Math.floor(feature / data.shard);
    if (!waiting.has(shard)) {
      const entry = {};
      entry.promise = new Promise((resolve, reject) => Object.assign(entry, { resolve, reject }));
      waiting.set(shard, entry);
      const script = el("script", { src: `data/why-${shard}.js` });
      script.onerror = () => entry.reject(new Error(`data/why-${shard}.js is missing`));
      document.head.append(script);
    }
    return waiting.get(shard).promise.then((part) => {
      const [why, partners, namedBy, times] = part[feature % data.shard];
      return { why, partners, namedBy, times };
    });
  };

  const verdict = (j) => data.verdicts[data.verdict[j]];
  const name = (j) => (data.side ? `${j} (block ${data.block[j]} ${data.side[j] < 0 ? "−" : "+"})` : String(j));
  const value = (key, j) =>
    key === "feature" ? j : key === "verdict" ? RANK[verdict(j)] : key === "partners" ? data.partnerCount[j] : data.numbers[key][j];

  const read = () => {
    const given = location.hash.includes("=") ? Object.fromEntries(new URLSearchParams(location.hash.slice(1))) : {};
    state = { ...DEFAULT, ...given };
    if (![...form.elements.sort.options].some((option) => option.value === state.sort)) state.sort = DEFAULT.sort;
    if (!(state.verdict in WORDS)) state.verdict = "";
    for (const key of ["q", "verdict", "sort", "order", "min", "max"]) form.elements[key].value = state[key];
  };
  const address = (of) => {
    const differs = Object.entries(of).filter(([key, text]) => text !== DEFAULT[key]);
    return differs.length ? `#${new URLSearchParams(differs)}` : "#features";
  };
  const write = (change) => {
    state = { ...state, page: "0", feature: "", ...change };
    history.replaceState(null, "", address(state));
    for (const key of ["sort", "order"]) form.elements[key].value = state[key];
    draw();
  };

  // "7, 20-40" names feature 7 and features 20 to 40
  const named = (text) => {
    const parts = text
      .split(/[\s,;]+/)
      .filter(Boolean)
      .map((part) => part.match(/^(\d+)(?:[-–](\d+))?$/));
    return (j) => !parts.length || parts.some((m) => m && (m[2] ? +m[1] <= j && j <= +m[2] : j === +m[1]));
  };
  const bound = (text, otherwise) => (text.trim() === "" || Number.isNaN(Number(text)) ? otherwise : Number(text));
  const chosen = () => {
    const low = bound(state.min, -Infinity),
      high = bound(state.max, Infinity),
      match = named(state.q),
      sign = state.order === "asc" ? 1 : -1;
    const keys = Float64Array.from({ length: data.count }, (_, j) => value(state.sort, j));
    const rows = [];
    for (let j = 0; j < data.count; j++)
      if (match(j) && (!state.verdict || verdict(j) === state.verdict) && low <= keys[j] && keys[j] <= high) rows.push(j);
    // two infinities have no difference; a row stands by its number then
    return rows.sort((i, j) => (keys[i] === keys[j] ? i - j : sign * (keys[i] < keys[j] ? -1 : 1)));
  };

  const link = (j) => el("a", { href: address({ ...state, page: "0", feature: String(j) }) }, name(j));
  const list = (features) => features.flatMap((j, i) => (i ? [", ", link(j)] : [link(j)]));
  const cell = (label, kind, ...children) => el("td", { class: kind, "data-label": label }, ...children);
  const amount = (label, x) => cell(label, x === 0 ? "number nil" : "number", number(x));

  const violation = (j) => {
    const [low, high] = [data.numbers.violation_lower[j], data.numbers.violation_upper[j]];
    if (high === Infinity) return low > 0 ? `≥ ${number(low)}` : "not known";
    if (low === 0) return high > 0 ? `≤ ${number(high)}` : "0";
    return high > low * 1.0005 ? `${number(low)} to ${number(high)}` : number(low);
  };
  const partners = (j) => {
    const few = [...data.partners.slice(data.first * j, data.first * (j + 1))].filter((k) => k >= 0),
      rest = data.partnerCount[j] - few.length;
    const node = cell("Partners", few.length ? "" : "nil", ...(few.length ? list(few) : ["none"]));
    if (rest) {
      const more = el("button", { type: "button", class: "more" }, `+${rest} more`);
      more.addEventListener("click", () =>
        reason(j).then((whole) => {
          const left = data.partnerCount[j] - whole.partners.length;
          node.replaceChildren(...list(whole.partners), left ? ` and ${figure(left)} more` : "");
        }),
      );
      node.append(" ", more);
    }
    return node;
  };

  const row = (j) => {
    const [sign, word] = WORDS[verdict(j)],
      by = data.strainPartner[j];
    const why = cell("Why", "why");
    reason(j)
      .then((whole) => {
        why.append(whole.why);
        if (!whole.namedBy.length) return;
        const left = whole.times - whole.namedBy.length;
        why.append(el("small", {}, "Partner of ", ...list(whole.namedBy), left ? ` and ${figure(left)} more` : ""));
      })
      .catch((error) => why.append(el("span", { class: "quiet" }, `Not shown: ${error.message}.`)));
    return el(
      "tr",
      { id: `f${j}`, tabIndex: -1 },
      el("th", { scope: "row" }, name(j)),
      cell("Verdict", "", el("span", { class: `verdict ${verdict(j)}` }, el("span", { "aria-hidden": "true" }, `${sign} `), word)),
      amount("Removable loss", data.numbers.removable_loss[j]),
      cell("Violation D", "number", violation(j)),
      cell("Strain κ", "number", number(data.numbers.strain[j]), by < 0 ? null : el("small", {}, "beside ", link(by))),
      partners(j),
      cell("Density", "number", number(data.numbers.density[j])),
      amount("Antipode gain", data.numbers.antipode_gain[j]),
      amount("Split gain", data.numbers.split_gain[j]),
      why,
    );
  };

  const draw = () => {
    found = chosen();
    const pages = Math.max(1, Math.ceil(found.length / PAGE)),
      wanted = state.feature === "" ? -1 : found.indexOf(Number(state.feature));
    const asked = wanted >= 0 ? Math.floor(wanted / PAGE) : parseInt(state.page, 10) || 0,
      page = Math.min(pages - 1, Math.max(0, asked));
    by("rows").replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(row));
    by("count").textContent = found.length
      ? `${figure(found.length)} of ${figure(data.count)} features`
      : "No feature fits. Clear the search or widen the range.";
    by("where").textContent = `${page + 1} / ${pages}`;
    by("earlier").disabled = page === 0;
    by("later").disabled = page === pages - 1;
    for (const [id, step] of [
      ["earlier", -1],
      ["later", 1],
    ])
      by(id).onclick = () => {
        write({ page: String(page + step) });
        by("features").scrollIntoView();
      };
    for (const head of document.querySelectorAll(".certificates thead th")) {
      if (head.querySelector("button")?.dataset.sort === state.sort)
        head.setAttribute("aria-sort", state.order === "asc" ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
  };

  // a row that the filters hide is worth more than the filters
  const jump = () => {
    const feature = Number(state.feature);
    if (!/^\d+$/.test(state.feature) || feature >= data.count) {
      by("count").textContent = `There is no feature ${state.feature}. Features are 0 to ${data.count - 1}.`;
      return;
    }
    if (!found.includes(feature)) {
      state = { ...DEFAULT, sort: state.sort, order: state.order, feature: state.feature };
      history.replaceState(null, "", address(state));
      read();
      draw();
    }
    const target = by(`f${feature}`);
    target.classList.add("at");
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "center" });
  };
  const arrive = () => {
    read();
    draw();
    if (state.feature !== "") jump();
  };

  monoseme.verdictOf = (j) => verdict(j);
  monoseme.goTo = (j) => {
    const to = address({ ...state, page: "0", feature: String(j) });
    if (location.hash === to) arrive();
    else location.hash = to;
  };
  monoseme.certificates = (given) => {
    data = {
      ...given,
      verdict: unpack(given.verdict, Int8Array),
      numbers: Object.fromEntries(Object.entries(given.numbers).map(([key, text]) => [key, unpack(text, Float32Array)])),
      block: given.block && unpack(given.block, Int32Array),
      side: given.side && unpack(given.side, Int8Array),
    };
    for (const key of ["strainPartner", "partners", "partnerCount"]) data[key] = unpack(given[key], Int32Array);
    form = by("controls");
    form.addEventListener("submit", (event) => event.preventDefault());
    // some ways of choosing from a list give only the second of these events
    for (const kind of ["input", "change"])
      form.addEventListener(kind, ({ target }) => state[target.name] !== target.value && write({ [target.name]: target.value }));
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      state = { ...DEFAULT };
      write({});
      read();
    });
    for (const button of document.querySelectorAll(".certificates thead button"))
      button.addEventListener("click", () => {
        const sort = button.dataset.sort,
          again = sort === state.sort && state.order === "desc";
        write({ sort, order: again ? "asc" : "desc" });
      });
    // a link to where the address is already changes nothing, yet the reader wants to be taken there
    document.addEventListener("click", ({ target }) => {
      const hash = target.closest("a")?.getAttribute("href");
      if (hash?.includes("feature=") && hash === location.hash) arrive();
    });
    addEventListener("hashchange", () => location.hash.includes("=") && arrive());
    arrive();
    if (location.hash.includes("=") && state.feature === "") by("features").scrollIntoView();
    const { first, second, strain, cosine } = given.pairs;
    monoseme.pairs({
      first: unpack(first, Int32Array),
      second: unpack(second, Int32Array),
      strain: unpack(strain, Float32Array),
      cosine: unpack(cosine, Float32Array),
    }, name);
  };
})();
