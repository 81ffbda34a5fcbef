// Sorting, filtering and comparing on static pages. Text is only ever read and written as text.
"use strict";

const state = new URLSearchParams(location.hash.slice(1));

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
const FIELD = { "no-retrain": "unretrained", place: "gain", group: "gain" };

function value(row, key) {
  const text = row.dataset[FIELD[key] || key];
  if (key === "place" || key === "group") return text === "" ? null : -Number(text);
  return ["gain", "kar", "no-retrain", "seconds", "seeds"].includes(key) ? number(text) : text.toLowerCase();
}

function sortRows(body, key, descending) {
  const rows = [...body.rows];
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
  const placed = rows.filter((row) => row.dataset.gain !== "");
  const groups = new Map(placed.map((row) => [row, new Set(row.dataset.groups.split(" ").filter(Boolean))]));
  for (const row of placed) {
    const mine = groups.get(row), gain = Number(row.dataset.gain);
    let place = 1, low = 1, high = placed.length;
    for (const other of placed) {
      const theirs = Number(other.dataset.gain);
      const apart = ![...mine].some((group) => groups.get(other).has(group));
      if (theirs > gain) { place += 1; if (apart) low += 1; }
      if (theirs < gain && apart) high -= 1;
    }
    const cell = row.querySelector(".place");
    cell.textContent = mine.size === 0 || low === high ? String(mine.size === 0 ? place : low) : `${low}-${high}`;
  }
}

function showBoard(table, form) {
  const rows = [...table.tBodies[0].rows];
  const words = (state.get("search") || "").toLowerCase().split(/\s+/).filter(Boolean);
  const shown = rows.filter((row) => {
    const text = (row.dataset.estimator + " " + row.dataset.about).toLowerCase();
    const hit = (!state.get("family") || row.dataset.family === state.get("family"))
      && (!state.get("status") || row.dataset.status === state.get("status"))
      && words.every((word) => text.includes(word));
    row.hidden = !hit;
    return hit;
  });
  placeRows(shown);
  const note = document.getElementById("shown");
  note.textContent = `${shown.length} of ${rows.length} rows. Places are among the rows shown.`;
  const key = state.get("sort") || "gain";
  const descending = state.has("down") ? state.get("down") === "1" : !ASCENDING.has(key);
  sortRows(table.tBodies[0], key, descending);
  for (const button of table.tHead.querySelectorAll("button")) {
    const cell = button.closest("th");
    if (button.dataset.sort === key) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
  for (const field of form.elements) if (field.name) field.value = state.get(field.name) || "";
}

function startBoard(table, form) {
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const key = button.dataset.sort;
    const same = (state.get("sort") || "gain") === key;
    const was = state.has("down") ? state.get("down") === "1" : !ASCENDING.has(key);
    state.set("sort", key);
    if (same) state.set("down", was ? "0" : "1"); else state.delete("down");
    remember();
    showBoard(table, form);
  });
  onChoice(form, () => showBoard(table, form));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => {
    for (const key of ["search", "family", "status"]) state.delete(key);
    remember();
    setTimeout(() => showBoard(table, form));
  });
  showBoard(table, form);
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

const board = document.getElementById("board"), filters = document.getElementById("filters");
if (board && filters) startBoard(board, filters);
const pair = document.getElementById("pair");
if (pair) startPairs(pair);
