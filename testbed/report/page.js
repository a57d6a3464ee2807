"use strict";

/** Order a table's rows by a column's data-value: numbers as numbers, cells without a value always last. */
function sortBy(header) {
  const body = header.closest("table").tBodies[0];
  const column = [...header.parentNode.children].indexOf(header);
  const sign = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
  const keyed = [...body.rows].map((row) => [row.cells[column].dataset.value ?? "", row]);
  keyed.sort(([a], [b]) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const order = Number(a) - Number(b);
    return sign * (Number.isNaN(order) ? a.localeCompare(b, "en", { numeric: true }) : order);
  });
  body.append(...keyed.map(([, row]) => row));
}

for (const button of document.querySelectorAll("table.sortable thead button"))
  button.addEventListener("click", () => sortBy(button.closest("th")));

for (const input of document.querySelectorAll("input[data-filter]")) {
  const rows = [...document.getElementById(input.dataset.filter).tBodies[0].rows];
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    input.nextElementSibling.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  });
}

for (const button of document.querySelectorAll("button[data-details]"))
  button.addEventListener("click", () => {
    const shown = document.getElementById(button.dataset.details).classList.toggle("all");
    button.setAttribute("aria-pressed", String(shown));
    button.textContent = shown ? "Main measurements" : "All measurements";
  });

const dialog = document.querySelector("dialog");
if (dialog) {
  const [image, caption] = [dialog.querySelector("img"), dialog.querySelector("p")];
  for (const button of document.querySelectorAll("figure > button"))
    button.addEventListener("click", () => {
      const plot = button.querySelector("img");
      [image.src, image.alt, caption.textContent] = [plot.src, plot.alt, plot.alt];
      dialog.style.setProperty("--ratio", plot.naturalWidth / plot.naturalHeight);
      dialog.showModal();
      dialog.scrollTo(0, 0);
    });
  dialog.addEventListener("click", () => dialog.close());
}

/** Put text on the clipboard, also in a page opened from a file. */
async function copy(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) await navigator.clipboard.writeText(text);
}

for (const button of document.querySelectorAll(".command button"))
  button.addEventListener("click", async () => {
    const before = button.textContent;
    try {
      await copy(button.parentNode.querySelector("code").textContent);
      button.textContent = "copied";
    } catch {
      button.textContent = "select it, and copy by hand";
    }
    button.focus();
    setTimeout(() => { button.textContent = before; }, 1500);
  });
