"use strict";
{
  const box = document.getElementById("q");
  const shown = document.getElementById("shown");
  const rows = Array.from(document.querySelectorAll("tbody tr"), (row) => [row, row.textContent.toLowerCase()]);
  box.addEventListener("input", () => {
    const wanted = box.value.trim().toLowerCase();
    let left = 0;
    for (const [row, text] of rows) {
      row.hidden = !text.includes(wanted);
      left += !row.hidden;
    }
    shown.textContent = left;
  });
}
