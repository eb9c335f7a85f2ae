"use strict";
// Tables whose heads sort them: once from the smallest, again from the largest. What is not known stands last.
(() => {
  const value = (cell) => {
    const text = cell.dataset.value ?? cell.textContent.trim();
    return text === "" || Number.isNaN(Number(text)) ? text : Number(text);
  };
  const compare = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
    return typeof a === "number" ? -1 : 1;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells],
      body = table.tBodies[0];
    for (const head of heads)
      head.querySelector("button").addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending",
          sign = up ? 1 : -1;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const known = (row) => value(row.cells[head.cellIndex]) !== "";
        const order = (a, b) =>
          known(b) - known(a) || sign * compare(value(a.cells[head.cellIndex]), value(b.cells[head.cellIndex]));
        body.replaceChildren(...[...body.rows].sort(order));
      });
  }
})();
