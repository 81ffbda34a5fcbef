// A packed page: its body, and the files that it offers, are deflated in script elements that no browser runs.
"use strict";

async function unpacked(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).text();
}

async function save(file) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([await unpacked(file)]));
  link.download = file.dataset.file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function show() {
  const files = [...document.querySelectorAll("[data-file]")];
  const page = new DOMParser().parseFromString(await unpacked(document.getElementById("packed")), "text/html");
  document.body.replaceChildren(...page.body.childNodes);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[download]");
    const file = link && files.find((found) => found.dataset.file === link.getAttribute("href"));
    if (!file) return;
    event.preventDefault();
    save(file);
  });
  const script = document.createElement("script");
  script.src = "board.js";
  document.body.append(script);
}

show();
