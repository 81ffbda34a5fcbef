// Search and sort. Pages are complete without this script. The address's hash holds the choices.
"use strict";
if (!window.roarbenchBoard) {
  window.roarbenchBoard = true;
  const asked = () => new URLSearchParams(location.hash.slice(1));
  const table = () => document.querySelector("table.board");
  const RISING = ["place", "name"];

  // Keep a choice in the address; the default is left out.
  const choose = (name, value) => {
    const state = asked();
    if (value) state.set(name, value); else state.delete(name);
    history.replaceState(history.state, "", location.pathname + location.search + (state.size ? "#" + state : ""));
    show();
  };

  // Return the value by which rows are sorted, the smallest first; rows without a number come last.
  const value = (row, key) => {
    if (!key) return row.at;
    const text = row.getAttribute(`data-${key}`);
    if (key === "name") return text.toLowerCase();
    return text === "" ? Infinity : RISING.includes(key) ? Number(text) : -Number(text);
  };
  const sort = (rows, key) => rows.sort((one, other) => {
    const [a, b] = [value(one, key), value(other, key)];
    return (a > b) - (a < b) || one.at - other.at;
  });

  const show = () => {
    const board = table(), form = document.querySelector(".find");
    if (!board || !form) return;
    const state = asked(), body = board.tBodies[0], rows = [...body.rows];
    rows.forEach((row, at) => { row.at ??= at; row.text ??= `${row.dataset.name} ${row.dataset.about}`.toLowerCase(); });
    const words = (state.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
    form.q.value === (state.get("q") || "") || document.activeElement === form.q || (form.q.value = state.get("q") || "");
    for (const row of rows) row.hidden = !words.every((word) => row.text.includes(word));
    const buttons = [...board.querySelectorAll("[data-sort]")];
    const key = buttons.find((button) => button.dataset.sort === state.get("sort"))?.dataset.sort || "";
    sort(rows, key);
    body.append(...rows);
    for (const button of buttons) {
      const heading = button.closest("th");
      if (key && button.dataset.sort === key) heading.setAttribute("aria-sort", RISING.includes(key) ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    }
    const left = rows.filter((row) => !row.hidden).length;
    form.querySelector("output").textContent = left < rows.length ? `${left} of ${rows.length} rows; places are among all rows` : "";
  };

  for (const kind of ["input", "change"]) {  // some drivers and assistive tools fire only one of these events on a list
    document.addEventListener(kind, ({ target }) => {
      if (target.form?.matches(".find")) choose(target.name, target.value);
    });
  }
  document.addEventListener("submit", (event) => { if (event.target.matches(".find")) event.preventDefault(); });
  document.addEventListener("click", ({ target }) => {
    const button = target.closest?.(".board [data-sort]");
    if (button) choose("sort", asked().get("sort") === button.dataset.sort ? "" : button.dataset.sort);
  });
  addEventListener("hashchange", show);
  let seen = null;  // the app inserts its table after this script, and replaces the table after new results
  const look = () => { if (table() !== seen) { seen = table(); show(); } };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  look();

  // Images: a link shows another row's sheet and counts; arrow keys move from image to image.
  const pictures = () => document.querySelector(".pictures");
  const showRow = () => {
    const links = [...document.querySelectorAll("[data-sheet]")];
    const row = links.find((link) => link.hash === location.hash) || (!location.hash && links[0]);
    if (!row) return;
    pictures().style.setProperty("--a", `url('${row.dataset.sheet}')`);
    for (const [line, counts] of Object.entries(row.dataset)) {
      pictures().querySelectorAll(`span.${line}`).forEach((place, at) => { place.textContent = counts.split(" ")[at]; });
    }
    for (const link of links) link.toggleAttribute("aria-current", link === row);
    document.getElementById("called").replaceChildren(...row.cloneNode(true).childNodes);
  };
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !pictures() || event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input, select")) return;
    const items = [...pictures().children], at = items.indexOf(document.activeElement);
    items[at < 0 ? 0 : Math.min(items.length - 1, Math.max(0, at + step))].focus();
    document.activeElement.scrollIntoView({ block: "nearest" });
    event.preventDefault();
  });
  addEventListener("hashchange", showRow);
  showRow();

  // Links within the app stay in its session, like the browser's back and forward buttons, instead of loading it anew.
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".stHtml a[href^='?']");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.pushState({}, "", link.href);
    dispatchEvent(new PopStateEvent("popstate"));
    if (!link.closest("thead")) document.querySelector("[data-testid=stMain]").scrollTo(0, 0);
  });
}
