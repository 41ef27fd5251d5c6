// Sorts, filters and pages the table of all cases; text enters the page as text, never as markup.
"use strict";
(() => {
  const table = document.getElementById("cases");
  if (!table) return;
  const { columns, cells } = JSON.parse(document.getElementById("case-data").textContent);
  const rowCount = cells[0].length;
  const of = (name) => columns.findIndex((column) => column.name === name);
  const [filter, status, size] = ["filter", "status", "page-size"].map((id) => document.getElementById(id));
  const visible = columns.map((column) => column.first);
  const state = { sort: -1, down: false, page: 0 };
  const statusAt = of("status");
  const flagsAt = of("flags");

  function bytes(value) {
    const units = [["TiB", 2 ** 40, 4], ["GiB", 2 ** 30, 4], ["MiB", 2 ** 20, 4], ["KiB", 2 ** 10, 4],
      ["TB", 1e12, 10], ["GB", 1e9, 10], ["MB", 1e6, 10], ["kB", 1e3, 10]];
    for (const [unit, factor, parts] of units) {
      if (value >= factor && (value * parts) % factor === 0) return value / factor + unit;
    }
    return value + "B";
  }

  function shown(place, value) {
    if (value === null || value === undefined) return "";
    const { name, type } = columns[place];
    if (type === "integer" && name.endsWith("_bytes") && value > 0) return bytes(value);
    if (type !== "number") return String(value);
    if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
    return String(value === 0 || Math.abs(value) >= 1e-6 ? Number(value.toPrecision(4)) : value);
  }

  const texts = [];
  function textOf(row) {
    texts[row] ??= columns.map((_, place) => shown(place, cells[place][row])).join(" ").toLowerCase();
    return texts[row];
  }

  function compare(one, other) {
    const [a, b] = [cells[state.sort][one], cells[state.sort][other]];
    const [noA, noB] = [a === null || a === "", b === null || b === ""];
    if (noA || noB) return noA - noB;
    const order = typeof a === "number" ? a - b : a.localeCompare(b, "en");
    return state.down ? -order : order;
  }

  function found() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [];
    for (let row = 0; row < rowCount; row++) {
      const wanted = !status.value || cells[statusAt][row] === status.value;
      if (wanted && words.every((word) => textOf(row).includes(word))) rows.push(row);
    }
    return state.sort < 0 ? rows : rows.sort(compare);
  }

  function header() {
    const line = document.createElement("tr");
    columns.forEach((column, place) => {
      if (!visible[place]) return;
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.dataset.name = column.name;
      if (place === state.sort) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      const button = document.createElement("button");
      button.type = "button";
      // Between the words of a name a narrow page, such as paper, may break it.
      column.label.split("_").forEach((word, index) => button.append(...(index ? ["_", document.createElement("wbr"), word] : [word])));
      button.addEventListener("click", () => sortBy(place));
      cell.append(button);
      line.append(cell);
    });
    table.tHead.replaceChildren(line);
  }

  function body() {
    const rows = found();
    const perPage = Number(size.value) || Math.max(rows.length, 1);
    const pages = Math.max(1, Math.ceil(rows.length / perPage));
    state.page = Math.min(state.page, pages - 1);
    const lines = document.createDocumentFragment();
    for (const row of rows.slice(state.page * perPage, (state.page + 1) * perPage)) {
      const line = document.createElement("tr");
      if (statusAt >= 0 && !["ok", "excluded"].includes(cells[statusAt][row])) line.className = "trouble";
      columns.forEach((column, place) => {
        if (!visible[place]) return;
        const cell = line.insertCell();
        const text = shown(place, cells[place][row]);
        cell.textContent = text;
        if (column.type !== "text") cell.className = "number";
        else if (text.length > 60) cell.className = "long";
        if (place === flagsAt && text) cell.classList.add("doubt");
      });
      lines.append(line);
    }
    table.tBodies[0].replaceChildren(lines);
    const all = `${rowCount} ${rowCount === 1 ? "row" : "rows"}`;
    const of = rows.length === rowCount ? all : `${rows.length} of ${all}`;
    document.getElementById("count").textContent = pages > 1 ? `${of}, page ${state.page + 1} of ${pages}` : of;
    document.getElementById("previous").disabled = state.page === 0;
    document.getElementById("next").disabled = state.page >= pages - 1;
  }

  function sortBy(place) {
    state.down = state.sort === place ? !state.down : false;
    state.sort = place;
    state.page = 0;
    header();
    body();
    table.tHead.querySelector("th[aria-sort] button").focus();
  }

  function turn(step) {
    state.page += step;
    body();
  }

  function chooser() {
    columns.forEach((column, place) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = visible[place];
      box.addEventListener("change", () => { visible[place] = box.checked; header(); body(); });
      label.append(box, " " + column.name);
      document.getElementById("columns").append(label);
    });
  }

  for (const word of new Set(statusAt < 0 ? [] : cells[statusAt])) status.add(new Option(word, word));
  for (const control of [filter, status, size]) {
    control.addEventListener("input", () => { state.page = 0; body(); });
  }
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("previous").addEventListener("click", () => turn(-1));
  document.getElementById("next").addEventListener("click", () => turn(1));
  document.getElementById("controls").hidden = false;
  chooser();
  header();
  body();
})();
