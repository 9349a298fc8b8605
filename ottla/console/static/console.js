// Pages work without this. With it, parts of them renew themselves, lists filter while one types, and streams arrive.

const root = document.documentElement;

// -- theme: the system's, unless somebody chose

const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
const applyTheme = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
applyTheme(stored());
for (const button of document.querySelectorAll("[data-theme-toggle]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const next = dark ? "light" : "dark";
    applyTheme(next);
    try { localStorage.setItem("theme", next); } catch { /* private windows */ }
  });
}

// -- parts of a page that are fetched again

async function renew(element, url, { signal } = {}) {
  const response = await fetch(url, { headers: { Accept: "text/html" }, signal });
  if (!response.ok || response.redirected) return false;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const fresh = page.getElementById(element.id);
  if (!fresh) return false;
  const opened = new Set([...element.querySelectorAll("details[open][data-key]")].map((each) => each.dataset.key));
  for (const each of fresh.querySelectorAll("details[data-key]")) if (opened.has(each.dataset.key)) each.open = true;
  element.replaceChildren(...fresh.childNodes);
  return true;
}

const isBusy = (element) => element.contains(document.activeElement) && document.activeElement !== document.body
  || !getSelection().isCollapsed && element.contains(getSelection().anchorNode);

for (const element of document.querySelectorAll("[data-refresh]")) {
  const seconds = Number(element.dataset.refresh);
  setInterval(() => {
    if (document.hidden || isBusy(element)) return;
    renew(element, location.href).catch(() => {});
  }, seconds * 1000);
}

// -- filters

for (const form of document.querySelectorAll("form[data-filter]")) {
  const target = document.getElementById(form.dataset.filter);
  let timer, running;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      running?.abort();
      running = new AbortController();
      const url = new URL(location.href);
      url.search = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
      history.replaceState(null, "", url);
      await renew(target, url.href, { signal: running.signal }).catch(() => {});
    }, 180);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); form.dispatchEvent(new Event("input")); });
}

// -- where to begin: a typed offset or time chooses itself, and "newest" clears both

for (const choice of document.querySelectorAll('select[name="from"]')) {
  const fields = { offset: choice.form.elements.offset, time: choice.form.elements.time };
  for (const [name, field] of Object.entries(fields)) field?.addEventListener("input", () => { if (field.value) choice.value = name; });
  choice.addEventListener("change", () => {
    for (const [name, field] of Object.entries(fields)) if (field && name !== choice.value) field.value = "";
  });
}

// -- copying, asking before what cannot be undone

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  await navigator.clipboard.writeText(source.textContent);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1200);
});
document.addEventListener("submit", (event) => {
  const sentence = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (sentence && !confirm(sentence)) event.preventDefault();
});
for (const each of document.querySelectorAll("[data-needs-script]")) each.hidden = false;

// -- streams of rows: live tail, search, SQL

for (const place of document.querySelectorAll("[data-stream]")) {
  const rows = document.getElementById(place.dataset.rows);
  const note = place.querySelector("[data-note]");
  const bar = place.querySelector("progress");
  const stop = place.querySelector("[data-stop]");
  const atTop = place.dataset.order !== "append";
  const most = Number(place.dataset.most || 500);
  const source = new EventSource(place.dataset.stream);
  const end = (text) => { source.close(); place.dataset.state = "ended"; if (stop) stop.hidden = true; if (note && text) note.textContent = text; };
  source.addEventListener("rows", (event) => {
    rows.querySelector("[data-empty]")?.remove();
    const template = document.createElement("template");
    template.innerHTML = event.data;
    for (const row of [...template.content.children]) {
      row.classList.add("fresh");
      if (atTop) rows.prepend(row); else rows.append(row);
    }
    while (rows.children.length > most) (atTop ? rows.lastElementChild : rows.firstElementChild).remove();
  });
  source.addEventListener("head", (event) => { document.getElementById(place.dataset.head).innerHTML = event.data; });
  source.addEventListener("progress", (event) => {
    const seen = JSON.parse(event.data);
    if (bar) { bar.max = Math.max(seen.total, 1); bar.value = seen.done; }
    if (note) note.textContent = seen.text;
  });
  source.addEventListener("more", (event) => {
    const more = place.querySelector("[data-more]");
    if (more) { more.href = event.data; more.hidden = false; }
  });
  source.addEventListener("end", (event) => end(event.data));
  source.addEventListener("failed", (event) => { end(event.data); note?.classList.add("problem"); });
  source.onerror = () => { if (source.readyState === EventSource.CLOSED) end("The connection was lost."); };
  if (stop) { stop.hidden = false; stop.addEventListener("click", () => end("Stopped.")); }
  addEventListener("pagehide", () => source.close());
}
