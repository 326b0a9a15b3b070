"use strict";
{
  const box = document.getElementById("q");
  const shown = document.getElementById("shown");
  const refresh = document.getElementById("refresh");
  const rows = Array.from(document.querySelectorAll("tbody tr"), (row) => [row, `${row.textContent} ${row.dataset.address}`.toLowerCase()]);
  const filter = () => {
    const wanted = box.value.trim().toLowerCase();
    let left = 0;
    for (const [row, text] of rows) {
      row.hidden = !text.includes(wanted);
      left += !row.hidden;
    }
    shown.textContent = left;
  };
  box.addEventListener("input", () => {
    filter();
    const here = new URL(location);
    here.searchParams.set("q", box.value);
    history.replaceState(null, "", here);
  });
  refresh.checked = sessionStorage.refresh === "on";
  refresh.addEventListener("change", () => { sessionStorage.refresh = refresh.checked ? "on" : ""; });
  setInterval(() => { if (refresh.checked && !document.hidden && document.activeElement !== box) location.reload(); }, 30000);
  document.getElementById("refreshing").hidden = false;
}
