// Sorting, filtering and comparing on static pages. Text is only ever read and written as text.
"use strict";

const state = new URLSearchParams(location.hash.slice(1));

// A link to another view of the page that is open changes the address alone; `remember` does not fire this.
addEventListener("hashchange", () => { if (location.hash !== "#main") location.reload(); });  // that is the skip link

function remember() {
  history.replaceState(null, "", "#" + state.toString());
}

function number(text) {
  return text === "" ? null : Number(text);
}

// Some drivers and assistive tools only fire "change" on a list, browsers also "input" while one types.
function onChoice(form, show) {
  for (const kind of ["input", "change"]) {
    form.addEventListener(kind, (event) => {
      state.set(event.target.name, event.target.value);
      remember();
      show();
    });
  }
}

// ---- the board -----------------------------------------------------------------------------------------------------

const ASCENDING = new Set(["estimator", "random", "sobel", "seconds", "status", "place", "group"]);
const FILTERS = ["search", "protocol", "unit", "level", "family", "status"];

// A row's values under the chosen board are kept on its element as `values`; they are null where the board lacks it.
function chosenBoard(boards) {
  const asked = boards.filter((board) => board.protocol === (state.get("protocol") || boards[0].protocol));
  const unit = asked.filter((board) => board.unit === (state.get("unit") || boards[0].unit));
  const found = unit.length ? unit : asked.length ? asked : boards;
  return found.find((board) => board.level === (state.get("level") || "")) || found[0];
}

function signed(points) {
  const rounded = Math.round(Math.abs(points) * 10) / 10;
  return (points < 0 && rounded > 0 ? "-" : "+") + rounded.toFixed(1);
}

function writeSpan(cell, [value, low, high]) {
  cell.textContent = value === null ? "–" : signed(value);
  if (low === null) return;
  const interval = document.createElement("span");
  interval.className = "ci";
  interval.textContent = ` [${signed(low)}, ${signed(high)}]`;
  cell.append(interval);
}

function drawBar(svg, values, board) {
  svg.replaceChildren();
  const [value, low, high] = values.gain;
  if (value === null) return;
  const share = (points) => 100 * (points - board.scale[0]) / (board.scale[1] - board.scale[0]);
  const add = (kind, attributes) => {
    const shape = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, text] of Object.entries(attributes)) shape.setAttribute(name, text);
    svg.append(shape);
  };
  const line = (points, kind) => add("line", { class: kind, x1: share(points), x2: share(points), y1: 0, y2: 10 });
  line(0, "zero");
  if (board.sobel !== null) line(board.sobel, "dash");
  const left = share(low ?? value), right = share(high ?? value);
  add("rect", { class: values.random.replaceAll(" ", "-"), x: left, width: right - left, y: 3, height: 4 });
  add("rect", { class: "value", x: share(value) - 0.5, width: 1, y: 1, height: 8 });
}

function writeRow(row, values, board) {
  row.values = values;
  if (!values) return;
  const cell = (name) => row.querySelector("." + name);
  writeSpan(cell("gain"), values.gain);
  drawBar(cell("bar"), values, board);
  writeSpan(cell("kar"), values.kar);
  writeSpan(cell("unretrained"), values.unretrained);
  for (const name of ["random", "sobel", "seeds", "date"]) row.querySelector("td." + name).textContent = values[name] === "" ? "–" : values[name];
  cell("groups").textContent = values.groups.join(" ") || "–";
  cell("gap").textContent = values.gap ? "no place: " + values.gap : "";
}

function writeBoard(table, board) {
  for (const [id, text] of [["about", board.about + "."], ["caption", board.caption + "."], ["footnote", board.footnote]]) {
    document.getElementById(id).textContent = text;
  }
  table.rowsInOrder.forEach((row, index) => writeRow(row, board.rows[index], board));
}

function value(row, key) {
  if (key === "gain" || key === "place" || key === "group") return row.values.gain[0] === null ? null : (key === "gain" ? 1 : -1) * row.values.gain[0];
  if (key === "kar") return row.values.kar[0];
  if (key === "no-retrain") return row.values.unretrained[0];
  if (key === "seeds") return row.values.seeds;
  if (key === "seconds") return number(row.dataset.seconds);
  return (row.values[key] ?? row.dataset[key]).toLowerCase();
}

function sortRows(body, key, descending) {
  const rows = [...body.rows].filter((row) => row.values);
  const sign = descending ? -1 : 1;
  rows.sort((one, other) => {
    const a = value(one, key), b = value(other, key);
    if (a === null || b === null || a === "" || b === "") return (a === null || a === "") - (b === null || b === "");
    return a < b ? -sign : a > b ? sign : 0;
  });
  body.append(...rows);
}

// Rows are told apart if they share no tie group; the tests hold for all pairs at once, so also for those shown.
function placeRows(rows) {
  for (const row of rows) row.querySelector(".place").textContent = "–";
  const placed = rows.filter((row) => row.values.gain[0] !== null);
  for (const row of placed) {
    const mine = new Set(row.values.groups), gain = row.values.gain[0];
    let place = 1, low = 1, high = placed.length;
    for (const other of placed) {
      const theirs = other.values.gain[0];
      const apart = !other.values.groups.some((group) => mine.has(group));
      if (theirs > gain) { place += 1; if (apart) low += 1; }
      if (theirs < gain && apart) high -= 1;
    }
    const cell = row.querySelector(".place");
    cell.textContent = mine.size === 0 || low === high ? String(mine.size === 0 ? place : low) : `${low}-${high}`;
  }
}

function passes(row, words) {
  const text = (row.dataset.estimator + " " + row.dataset.about).toLowerCase();
  return row.values !== null
    && (!state.get("family") || row.dataset.family === state.get("family"))
    && (!state.get("status") || row.dataset.status === state.get("status"))
    && words.every((word) => text.includes(word));
}

function showBoard(table, form, boards) {
  const board = chosenBoard(boards);
  writeBoard(table, board);
  const words = (state.get("search") || "").toLowerCase().split(/\s+/).filter(Boolean);
  const shown = table.rowsInOrder.filter((row) => {
    row.hidden = !passes(row, words);
    return !row.hidden;
  });
  placeRows(shown);
  const whole = board.rows.filter(Boolean).length;
  document.getElementById("shown").textContent = `${shown.length} of ${whole} rows. Places are among the rows shown.`;
  const key = state.get("sort") || "gain";
  const descending = state.has("down") ? state.get("down") === "1" : !ASCENDING.has(key);
  sortRows(table.tBodies[0], key, descending);
  for (const button of table.tHead.querySelectorAll("button")) {
    const cell = button.closest("th");
    if (button.dataset.sort === key) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
  const fields = { search: state.get("search"), family: state.get("family"), status: state.get("status"), ...board };
  for (const field of form.elements) if (field.name) field.value = fields[field.name] || "";
}

function startBoard(table, form, boards) {
  table.rowsInOrder = [...table.tBodies[0].rows];
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const key = button.dataset.sort;
    const same = (state.get("sort") || "gain") === key;
    const was = state.has("down") ? state.get("down") === "1" : !ASCENDING.has(key);
    state.set("sort", key);
    if (same) state.set("down", was ? "0" : "1"); else state.delete("down");
    remember();
    showBoard(table, form, boards);
  });
  onChoice(form, () => showBoard(table, form, boards));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => {
    for (const key of FILTERS) state.delete(key);
    remember();
    setTimeout(() => showBoard(table, form, boards));
  });
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => saveRows(table, chosenBoard(boards), button.dataset.save));
  }
  showBoard(table, form, boards);
}

// ---- the rows shown, as a file -------------------------------------------------------------------------------------

function record(row, board) {
  const { gain, kar, unretrained, random, sobel, seeds, date, gap } = row.values;
  return {
    suite: board.suite, estimator: row.dataset.estimator, control: row.dataset.family === "control",
    place: row.querySelector(".place").textContent.replace("–", "") || null,
    gain: gain[0], gain_low: gain[1], gain_high: gain[2], vs_random: random || null, vs_sobel: sobel || null,
    kar_gain: kar[0], no_retrain_gain: unretrained[0], flag: row.dataset.flag || null,
    seconds_per_1000_images: number(row.dataset.seconds), seeds, date: date || null, status: row.dataset.status,
    no_place_because: gap || null, numbers_are_of: board.caption,
  };
}

// Texts that a spreadsheet would compute get an apostrophe in front.
function csvCell(item) {
  if (item === null) return "";
  const text = typeof item === "string" && /^[=+\-@\t\r]/.test(item) ? "'" + item : String(item);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveRows(table, board, kind) {
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => record(row, board));
  const lines = rows.map((row) => Object.values(row).map(csvCell).join(","));
  const text = kind === "json" ? JSON.stringify({ caption: board.caption, footnote: board.footnote, rows }, null, 1)
    : [Object.keys(rows[0] || {}).join(","), ...lines, ""].join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind === "json" ? "application/json" : "text/csv" }));
  link.download = `rows-${board.protocol}${board.level ? "-" + board.level : ""}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// ---- comparing -----------------------------------------------------------------------------------------------------

function showPair(form) {
  for (const name of ["first", "second"]) {
    const field = form.elements[name];
    if (state.has(name)) field.value = state.get(name);
  }
  const first = form.elements.first.value, second = form.elements.second.value;
  let found = null;
  for (const part of document.querySelectorAll(".duel")) {
    const pair = [part.dataset.first, part.dataset.second];
    part.hidden = !(pair.includes(first) && pair.includes(second) && first !== second);
    if (!part.hidden) found = part;
  }
  document.getElementById("pairstate").textContent = found ? "" : "Choose two different estimators.";
}

function startPairs(form) {
  onChoice(form, () => showPair(form));
  showPair(form);
}

// ---- the paper's curves over ours ----------------------------------------------------------------------------------

function showLaid(form) {
  const asked = state.get("published") || "";
  form.elements.published.value = asked;
  let found = 0;
  for (const row of document.querySelectorAll("[data-laid]")) {
    row.hidden = row.dataset.laid !== asked;
    if (!row.hidden) found += 1;
  }
  document.getElementById("overlaid").textContent = asked === "" ? ""
    : found ? `Families that the paper has on ${asked}: its curves are dashed; another data set and network.`
      : "The paper has none of these estimators.";
}

function startLaid(form) {
  onChoice(form, () => showLaid(form));
  showLaid(form);
}

const board = document.getElementById("board"), filters = document.getElementById("filters");
if (board && filters) startBoard(board, filters, JSON.parse(document.getElementById("boards").textContent));
const pair = document.getElementById("pair");
if (pair) startPairs(pair);
const overlay = document.getElementById("overlay");
if (overlay) startLaid(overlay);
