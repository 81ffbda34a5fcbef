// Sorting, filtering and comparing on static pages. Text is only ever read and written as text.
"use strict";

// The address holds every choice, in its hash. Each view shows what it asks for; back and forward move between choices.
let state = new URLSearchParams(location.hash.slice(1));
const views = [];
const unknown = [];  // sentences about what the address asks for and the page does not have

function showAll() {
  unknown.length = 0;
  for (const view of views) view();
  const place = document.getElementById("unknown");
  if (!place) return;
  place.textContent = unknown.join(" ");
  place.hidden = unknown.length === 0;
}

addEventListener("popstate", () => {
  if (location.hash === "#main") return;  // the skip link
  state = new URLSearchParams(location.hash.slice(1));
  showAll();
});

function choose(choices, typing = false) {
  for (const [name, value] of Object.entries(choices)) {
    if (value) state.set(name, value); else state.delete(name);
  }
  const address = "#" + state;
  if (address === (location.hash || "#")) return;
  if (typing) history.replaceState(null, "", address); else history.pushState(null, "", address);
  showAll();
}

// What the address asks for under a name, if that is one of `known`; else `instead`, and a sentence that says so.
function asked(name, known, instead, what = name + " {} here", nothing = "all") {
  const value = state.get(name);
  if (!value || known.includes(value)) return value || instead;
  unknown.push(`There is no ${what.replace("{}", () => `'${value}'`)}; shown: ${instead || nothing}.`);
  return instead;
}

function number(text) {
  return text === "" ? null : Number(text);
}

// Some drivers and assistive tools only fire "change" on a list, browsers also "input" while one types.
function onChoice(form) {
  for (const kind of ["input", "change"]) {
    form.addEventListener(kind, ({ target }) => {
      choose({ [target.name]: target.value }, target.type === "search" && state.has(target.name));
    });
  }
}

// ---- the board -----------------------------------------------------------------------------------------------------

const RISING = new Set(["place", "estimator", "beats", "random", "sobel", "blurred", "seconds", "status"]);
const FILTERS = ["search", "protocol", "unit", "level", "family", "status"];

// A row's values under the chosen board are kept on its element as `values`; they are null where the board lacks it.
function chosenBoard(boards) {
  const names = (found, key) => [...new Set(found.map((board) => board[key]))];
  const protocol = asked("protocol", names(boards, "protocol"), boards[0].protocol);
  const under = boards.filter((board) => board.protocol === protocol);
  const unit = asked("unit", names(under, "unit"), under[0].unit, `unit {} under ${under[0].called}`);
  const found = under.filter((board) => board.unit === unit);
  const whole = found[0], level = state.get("level");
  if (whole.levels.length === 1 && level === String(whole.levels[0])) return whole;
  const chosen = asked("level", names(found, "level"), "", `level {} under ${under[0].called}`);
  return found.find((board) => board.level === chosen);
}

function signed(points) {
  const rounded = Math.abs(points).toFixed(1);
  return rounded === "0.0" ? rounded : (points < 0 ? "-" : "+") + rounded;
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
  for (const [name, points] of Object.entries({ zero: 0, ...board.lines })) {
    add("line", { class: name, x1: share(points), x2: share(points), y1: 0, y2: 10 });
  }
  const left = share(low ?? value), right = share(high ?? value);
  add("rect", { class: values.kind.replaceAll(" ", "-"), x: left, width: right - left, y: 3, height: 4 });
  add("rect", { class: "value", x: share(value) - 0.5, width: 1, y: 1, height: 8 });
}

function share([value, low, high]) {
  const percent = (accuracy) => (100 * accuracy).toFixed(1);
  return value === null ? "–" : percent(value) + "%" + (low === null ? "" : ` [${percent(low)}, ${percent(high)}]`);
}

function writeAccuracies(cell, accuracies, levels) {
  cell.replaceChildren(...accuracies.map((accuracy, number) => {
    const line = document.createElement("span");
    line.className = "line";
    line.textContent = `t = ${levels[number]}: ${share(accuracy)}`;
    return line;
  }));
}

function writeOther(cell, values) {
  writeSpan(cell, values.other);
  const verdict = document.createElement("span");
  verdict.className = "verdict";
  verdict.textContent = values.vsOther;
  cell.append(" ", verdict);
}

function writeRow(row, values, board) {
  row.values = values;
  row.marked = board.marked;
  if (!values) return;
  const cell = (name) => row.querySelector("." + name);
  writeSpan(cell("gain"), values.gain);
  drawBar(cell("bar"), values, board);
  writeAccuracies(cell("accuracy"), values.accuracies, board.levels);
  writeSpan(cell("kar"), values.kar);
  writeSpan(cell("no-retrain"), values.unretrained);
  writeOther(cell("other-image"), values);
  const [place, low, high] = values.place || ["–", null];
  cell("place").textContent = low === null ? place : low === high ? low : `${low}-${high}`;
  for (const name of ["beats", "random", "sobel", "blurred", "seeds", "date", "status"]) {
    row.querySelector("td." + name).textContent = values[name] === "" ? "–" : values[name];
  }
  Object.assign(cell("sign"), { textContent: values.sign, title: values.flag });
  cell("gap").textContent = values.gap ? "no place: " + values.gap : "";
}

function writeBoard(table, board) {
  const texts = { about: board.about + ".", caption: board.caption + ".", headline: board.headline, footnote: board.footnote, legend: board.legend };
  for (const [id, text] of Object.entries(texts)) document.getElementById(id).textContent = text;
  table.className = [...board.without.map((key) => "no-" + key), board.gained ? "" : "ungained"].join(" ");
  table.rowsInOrder.forEach((row, index) => writeRow(row, board.rows[index], board));
  for (const whole of document.querySelectorAll("[data-whole]")) {
    whole.hidden = whole.dataset.whole !== `${board.protocol} ${board.unit}`;
  }
}

// The marks of a row; none on a board without marks. Above: what is left of its accuracy beside that of
// masks alone, with lower and upper end.
function doubts(row) {
  if (!row.marked) return { twin: null, masks: null, above: [null, null, null] };
  const { twin, masks, above } = row.dataset;
  return { twin: number(twin), masks: number(masks), above: above.split(" ").map(number) };
}

function value(row, key) {
  const { gain, place, beating, accuracies, kar, unretrained, other, ...others } = row.values;
  const { twin, masks, above } = doubts(row);
  const numbers = {
    ...others, place: place && -gain[0], gain: gain[0], beats: beating[3], accuracy: (accuracies.at(-1) ?? [null])[0], kar: kar[0],
    "no-retrain": unretrained[0], "other-image": other[0], twin, masks, above: above[0],
    seconds: number(row.dataset.seconds), estimator: row.dataset.estimator.toLowerCase(),
  };
  return numbers[key] === "" ? null : numbers[key];
}

// What is missing is last, whichever way the rest is sorted; what is equal stays in the board's own order.
function sortRows(table, key, descending) {
  const rows = table.rowsInOrder.filter((row) => row.values);
  rows.sort((one, other) => {
    const a = value(one, key), b = value(other, key), order = one.values.at - other.values.at;
    if (a === null || b === null) return (a === null) - (b === null) || order;
    if (a === b) return order;
    return (a < b) === descending ? 1 : -1;
  });
  table.tBodies[0].append(...rows);
}

function passes(row, wanted) {
  const text = (row.dataset.estimator + " " + row.dataset.about).toLowerCase();
  return row.values !== null
    && (!wanted.family || (row.dataset.control ? "control" : row.dataset.family) === wanted.family)
    && (!wanted.status || row.values.status === wanted.status)
    && wanted.search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function showBoard(table, form, boards) {
  const board = chosenBoard(boards);
  writeBoard(table, board);
  const options = (name) => [...form.elements[name].options].map((option) => option.value);
  const wanted = { search: state.get("search") || "" };
  for (const name of ["family", "status"]) wanted[name] = asked(name, options(name), "");
  const shown = table.rowsInOrder.filter((row) => {
    row.hidden = !passes(row, wanted);
    return !row.hidden;
  });
  const whole = board.rows.filter(Boolean).length;
  document.getElementById("shown").textContent = `${shown.length} of ${whole} rows.`
    + (board.gained && shown.length < whole ? " Places are those among all rows." : "");
  const buttons = [...table.tHead.querySelectorAll("button")];
  const key = asked("sort", buttons.map((button) => button.dataset.sort), "gain", "column {} to sort by");
  const descending = state.has("down") ? state.get("down") === "1" : !RISING.has(key);
  sortRows(table, key, descending);
  for (const button of buttons) {
    const cell = button.closest("th");
    if (button.dataset.sort === key) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
  const fields = { ...wanted, ...board };
  for (const field of form.elements) if (field.name) field.value = fields[field.name];
}

function startBoard(table, form, boards) {
  table.rowsInOrder = [...table.tBodies[0].rows];
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const was = button.closest("th").getAttribute("aria-sort");
    choose({ sort: button.dataset.sort, down: was && (was === "descending" ? "0" : "1") });
  });
  onChoice(form);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();  // the fields follow the address
    choose(Object.fromEntries(FILTERS.map((key) => [key, ""])));
  });
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => saveRows(table, chosenBoard(boards), button.dataset.save));
  }
  views.push(() => showBoard(table, form, boards));
}

// ---- the rows shown, as a file -------------------------------------------------------------------------------------

// The same columns and digits as the files that Python writes.
function record(row, board) {
  const { gain, beating, accuracies, kar, unretrained, other, vsOther, random, sobel, blurred, seeds, date, status, gap,
    flag, sign } = row.values;
  const { name, about, family, control, seconds } = row.dataset;
  const { twin, masks, above } = doubts(row);
  const withEnds = (name, [value, low, high]) => ({ [name]: value, [name + "_low"]: low, [name + "_high"]: high });
  const [place, low, high, groups] = row.values.place || [null, null, null, []];
  const [beats, nearest, over] = beating;
  const levels = accuracies.map((accuracy, number) => withEnds("accuracy_" + board.levels[number], accuracy));
  return {
    estimator: name, about, family, control: control !== "", place, place_low: low, place_high: high,
    tie_groups: groups.join(" "), ...withEnds("gain", gain), beats_controls: beats, nearest_control: nearest,
    ...withEnds("over_nearest", over), vs_random: random || null, vs_sobel: sobel || null, vs_random_blurred: blurred || null, kar_gain: kar[0], no_retrain_gain: unretrained[0],
    ...withEnds("over_other_image", other), vs_other_image: vsOther || null, flag: flag || null, sign: sign || null, blurred_twin_share: twin,
    masks_share: masks, ...withEnds("above_masks", above),
    seconds_per_1000_images: number(seconds), seeds, date: date || null, status: status || null,
    no_place_because: gap || null, ...Object.assign({}, ...levels),
  };
}

// Texts that a spreadsheet would compute get an apostrophe in front.
function csvCell(item) {
  if (item === null) return "";
  const text = typeof item === "string" && /^[=+\-@\t\r]/.test(item) ? "'" + item : String(item);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvText(records) {
  const lines = [Object.keys(records[0] || {}), ...records.map((row) => Object.values(row))];
  return lines.map((line) => line.map(csvCell).join(",") + "\n").join("");
}

function saveRows(table, board, kind) {
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => record(row, board));
  const { slug, title, protocol, unit, levels, caption, headline, footnote } = board;
  const text = kind === "json"
    ? JSON.stringify({ slug, title, protocol, unit, levels, caption, headline, footnote, rows }, null, 1) + "\n"
    : csvText(rows.map((row) => ({ suite: title, ...row, numbers_are_of: caption })));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind === "json" ? "application/json" : "text/csv" }));
  link.download = `rows-${slug}-${protocol}-${unit}${board.level ? "-" + board.level : ""}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// ---- comparing -----------------------------------------------------------------------------------------------------

// A pair from the other side.
function turned(comparison) {
  const minus = ([value, low, high]) => [value, high, low].map((points) => points === null ? null : -points);
  const levels = comparison.levels.map((level) => ({
    ...level, difference: minus(level.difference), only_first: level.only_second, only_second: level.only_first,
    examples_first: level.examples_second, examples_second: level.examples_first,
  }));
  return { ...comparison, gain: minus(comparison.gain), levels };
}

function pairOf(comparisons, first, second) {
  const found = comparisons.find((comparison) => comparison.first === first && comparison.second === second);
  const other = comparisons.find((comparison) => comparison.first === second && comparison.second === first);
  return found || (other && turned(other));
}

function levelRow(level) {
  const row = document.createElement("tr");
  const add = (kind, name, text) => {
    const cell = document.createElement(kind);
    cell.className = name;
    cell.textContent = text;
    row.append(cell);
    return cell;
  };
  add("th", "", level.t).scope = "row";
  writeSpan(add("td", "n", ""), level.difference);
  for (const name of ["only_first", "only_second", "both", "neither"]) add("td", "n", level[name]);
  for (const name of ["examples_first", "examples_second"]) add("td", "long", level[name].join(" ") || "–");
  return row;
}

function showPair(form, part, comparisons) {
  const names = [...form.elements.first.options].map((option) => option.value);
  form.elements.first.value = asked("first", names, names[0], "estimator {} here");
  form.elements.second.value = asked("second", names, names[1], "estimator {} here");
  const [first, second] = [form.elements.first, form.elements.second];
  const found = pairOf(comparisons, first.selectedIndex, second.selectedIndex);
  document.getElementById("pairstate").textContent = found ? "" : "Choose two different estimators.";
  part.hidden = !found;
  if (!found) return;
  const title = `${first.selectedOptions[0].text} against ${second.selectedOptions[0].text}`;
  part.querySelector("h2").textContent = title;
  part.querySelector("[role=region]").setAttribute("aria-label", title);
  writeSpan(part.querySelector(".gain"), found.gain);
  part.querySelector(".of").textContent = found.caption + ".";
  part.querySelector("tbody").replaceChildren(...found.levels.map(levelRow));
}

// ---- the paper's curves with ours ----------------------------------------------------------------------------------

function showOverlaid(form) {
  const names = [...form.elements.published.options].map((option) => option.value);
  const dataset = asked("published", names, "", "published data set {} here", "none");
  form.elements.published.value = dataset;
  let found = 0;
  for (const row of document.querySelectorAll("[data-overlaid]")) {
    row.hidden = row.dataset.overlaid !== dataset;
    if (!row.hidden) found += 1;
  }
  document.getElementById("overlaid").textContent = dataset === "" ? ""
    : found ? `Families that the paper has on ${dataset}: its curves are dashed; they are of another data set and network.`
      : "The paper has none of these estimators.";
}

const board = document.getElementById("board"), filters = document.getElementById("filters");
if (board && filters) startBoard(board, filters, JSON.parse(document.getElementById("boards").textContent));
const pair = document.getElementById("pair"), comparisons = document.getElementById("comparisons");
if (pair && comparisons) {
  onChoice(pair);
  views.push(() => showPair(pair, document.getElementById("comparison"), JSON.parse(comparisons.textContent)));
}
const overlay = document.getElementById("overlay");
if (overlay) {
  onChoice(overlay);
  views.push(() => showOverlaid(overlay));
}
showAll();
