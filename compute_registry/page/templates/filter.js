"use strict";
{
  const box = document.getElementById("q");
  const refresh = document.getElementById("refresh");
  const links = () => Array.from(document.querySelectorAll("tbody th a"));
  let asked = new AbortController();
  let pause;
  // The server searches, also among the hosts that are not listed.
  const show = async (url) => {
    asked.abort();
    asked = new AbortController();
    try {
      const answer = await fetch(url, { signal: asked.signal });
      if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const before = document.activeElement.getAttribute("href");
      for (const part of ["#groups", "#count", "#trouble", "#list", "footer"]) document.querySelector(part).replaceWith(page.querySelector(part));
      links().find((link) => link.getAttribute("href") === before)?.focus();
      const now = new Date(answer.headers.get("Date")).toISOString();
      const asOf = document.getElementById("as-of");
      asOf.dateTime = now;
      asOf.textContent = `as of ${now.slice(0, 10)} ${now.slice(11, 19)} UTC`;
      history.replaceState(null, "", url);
    } catch (err) {
      if (err.name !== "AbortError") document.getElementById("trouble").textContent = `not up to date: ${err.message}`;
    }
  };
  const search = () => {
    const url = new URL(location);
    if (box.value.trim()) url.searchParams.set("q", box.value.trim());
    else url.searchParams.delete("q");
    url.hash = "";
    show(url);
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "/" && document.activeElement !== box) {
      event.preventDefault();
      if (box) box.select();
      else location = `${document.querySelector("#up").href}#q`;
    } else if (box && event.key === "Escape") {
      box.value = "";
      search();
    } else if (box && step) {
      const rows = links();
      const at = rows.indexOf(document.activeElement);
      if (at < 0 && document.activeElement !== box && document.activeElement !== document.body) return;
      event.preventDefault();
      (at + step < 0 ? box : rows[Math.min(at + step, rows.length - 1)] ?? box).focus();
    }
  });
  if (box) {
    box.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(search, 150); });
    box.form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
    if (location.hash === "#q") box.focus();
    refresh.checked = sessionStorage.refresh !== "off";
    refresh.addEventListener("change", () => { sessionStorage.refresh = refresh.checked ? "on" : "off"; });
    setInterval(() => { if (refresh.checked && !document.hidden) show(location.href); }, 30000);
    document.getElementById("refreshing").hidden = false;
  }
}
