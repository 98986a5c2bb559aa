// Replaces the contents of <main> while the page is open, without a reload: scroll position, filter and open details
// stay. It waits while a field of <main> is in use, or text of it is selected: an operator may be copying a command.
"use strict";
(() => {
  const inUse = (main) =>
    main.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")
    || (!getSelection().isCollapsed && main.contains(getSelection().anchorNode));

  async function look() {
    const main = document.querySelector("main");
    let every = Number(document.body.dataset.refreshMs);
    if (!document.hidden && !inUse(main)) {
      try {
        const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
        const found = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = found.querySelector("main");
        if (!fresh) throw new Error(`the page answers ${answer.status}`);
        const open = new Set([...main.querySelectorAll("details[open]")].map((one) => one.id));
        if (fresh.innerHTML !== main.innerHTML) main.replaceChildren(...fresh.childNodes);
        for (const one of main.querySelectorAll("details")) if (open.has(one.id)) one.open = true;
        every = Number(found.body.dataset.refreshMs);
        document.body.dataset.refreshMs = String(every);
      } catch (error) {
        say(main, `This page shows an old state: ${error.message}. It tries again.`);
      }
    }
    if (every > 0) setTimeout(look, every);
  }

  function say(main, words) {
    const line = main.querySelector("p.lost") || main.insertBefore(document.createElement("p"), main.firstChild);
    line.className = "bad lost";
    line.setAttribute("role", "alert");
    line.textContent = words;
  }

  // A form filled in: Airflow's own API triggers the run, so Airflow decides whether this user may.
  async function start(event) {
    event.preventDefault();
    const form = event.target, button = form.querySelector("button"), main = document.querySelector("main");
    const conf = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
    for (const box of form.querySelectorAll("input[type=checkbox]")) conf[box.name] = box.checked;
    for (const area of form.querySelectorAll("[data-several]")) {
      conf[area.name] = area.value.split("\n").map((one) => one.trim()).filter((one) => one !== "");
    }
    button.disabled = true;
    try {
      const answer = await fetch(form.dataset.api, {
        method: "POST",
        credentials: "same-origin",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ logical_date: null, conf }),
      });
      const run = await answer.json();
      if (!answer.ok) throw new Error(typeof run.detail === "string" ? run.detail : JSON.stringify(run.detail));
      window.top.location.href = new URL(`${form.dataset.runs}/${encodeURIComponent(run.dag_run_id)}`, location.href).href;
    } catch (error) {
      say(main, `No run was triggered: ${error.message}`);
      button.disabled = false;
    }
  }

  document.querySelector("form.start")?.addEventListener("submit", start);
  const every = Number(document.body.dataset.refreshMs);
  if (every > 0) setTimeout(look, every);
})();
