// Lets readers sort tables of class "sortable" by a column: numbers by their data-sort, other cells by their text.
"use strict";
document.querySelectorAll("table.sortable").forEach((table) => {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const key = (row, n) => {
    const cell = row.cells[n], own = cell.dataset.sort;
    if (own === undefined) return cell.textContent.trim();
    return own === "" ? null : Number.isNaN(Number(own)) ? own : Number(own);
  };
  const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : typeof a === typeof b ? a.localeCompare(b, "en", { numeric: true }) : typeof a === "number" ? -1 : 1;
  heads.forEach((head, n) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [key(row, n), row]);
      rows.sort(([a], [b]) => a === null ? (b === null ? 0 : 1) : b === null ? -1 : sign * order(a, b));  // what is empty is last
      body.append(...rows.map(([, row]) => row));
    });
  });
});
