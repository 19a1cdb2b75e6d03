// The insights page, made livelier: times by the server's clock, changes as they happen, and a dialog that asks first.
// Without this file the page works as plain links and forms.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const dialog = byId("dialog");
  document.documentElement.classList.add("js");

  // Times, by the server's clock: it is this much ahead of ours.
  let offset = 0;
  let swept = null;

  function span(seconds) {
    const [d, h, m, s] = [seconds / 86400, (seconds / 3600) % 24, (seconds / 60) % 60, seconds % 60].map(Math.floor);
    if (d) return h ? `${d} d ${h} h` : `${d} d`;
    if (h) return m ? `${h} h ${m} min` : `${h} h`;
    if (m) return m < 10 && s ? `${m} min ${s} s` : `${m} min`;
    return `${s} s`;
  }
  function said(time, kind) {
    const left = Math.round((time - Date.now() - offset) / 1000);
    if (kind === "in") return left > 0 ? `in ${span(left)}` : "due";
    if (kind === "at" && left > 0) return `in ${span(left)}`;
    return `${span(Math.max(0, -left))} ago`;
  }

  function paint(root) {
    for (const element of root.querySelectorAll("time[data-said]")) {
      const time = new Date(element.dateTime);
      if (Number.isNaN(time.getTime())) continue;
      const text = said(time.getTime(), element.dataset.said);
      if (element.textContent !== text) element.textContent = text;
      element.title ||= `${time.toLocaleString()} (${time.toISOString().slice(0, 19).replace("T", " ")} UTC)`;
    }
    if (swept && byId("swept")) byId("swept").textContent = `${span(swept.age + Math.floor((Date.now() - swept.at) / 1000))} ago`;
  }
  function setClock(now, sweptSeconds) {
    if (now) offset = Date.parse(now) - Date.now();
    if (sweptSeconds != null) swept = { age: Number(sweptSeconds), at: Date.now() };
  }

  // The stream of changes.
  let [source, address, again, heard, next] = [null, null, 0, Date.now(), 2000];
  const WORDS = {
    off: "not live", live: "live", connecting: "connecting", stale: "stale", paused: "paused",
    down: "store does not answer", expired: "sign-in expired",
  };

  function badge(kind) {
    const element = byId("badge");
    if (!element || element.dataset.badge === kind) return;
    element.dataset.badge = document.body.dataset.badge = kind;
    element.textContent = WORDS[kind];
    byId("badge-sign-in").hidden = kind !== "expired";
    age();
  }
  function age() {
    const kind = byId("badge")?.dataset.badge;
    const old = span(Math.floor((Date.now() - heard) / 1000));
    if (byId("badge-age")) byId("badge-age").textContent =
      kind === "stale" ? `since ${old}` : kind === "down" ? `what you see is from ${old} ago` : "";
  }
  function close() {
    clearTimeout(again);
    source?.close();
    source = null;
  }
  function connect() {
    close();
    address = byId("view")?.dataset.live;
    if (!address) return badge("off");
    if (document.hidden) return badge("paused");
    badge("connecting");
    source = new EventSource(address);
    for (const kind of ["update", "beat", "gone", "down", "expired"]) {
      source.addEventListener(kind, (event) => hear(kind, JSON.parse(event.data)));
    }
    source.onerror = () => source?.readyState === EventSource.CLOSED && refused();
  }

  // A refused stream does not say why: whether the sign-in is still good, another address tells.
  async function refused() {
    close();
    const me = `/api${address.split("/").slice(0, 3).join("/")}/me`;
    const answer = await fetch(me).catch(() => null);
    // The page may have been left, or filtered anew, meanwhile.
    if (source || document.hidden) return;
    if (answer?.status === 401 || answer?.status === 403) return badge("expired");
    if (byId("badge").dataset.badge === "connecting") badge("stale");
    again = setTimeout(connect, 5000);
  }

  function hear(kind, event) {
    if (kind === "expired" || kind === "gone") close();
    next = event.next ?? next;
    if (kind === "expired" || kind === "down") return badge(kind);
    heard = Date.now();
    setClock(event.now, event.sweptSeconds);
    badge(kind === "gone" ? "off" : "live");
    if (byId("gone")) byId("gone").hidden = kind !== "gone";
    if (kind === "gone") document.querySelector("#view [data-held]")?.removeAttribute("data-held");
    for (const [name, html] of Object.entries(event.parts ?? {})) part(name, html);
    for (const [name, change] of Object.entries(event.lists ?? {})) take(name, change);
    watchConfirm();
    countPicked();
  }

  // What became of an action stays in its row, whatever else changes there.
  const results = new Map();
  function keepResults() {
    for (const output of document.querySelectorAll("output.result")) {
      if (output.innerHTML) results.set(output.id, output.innerHTML);
    }
  }

  // Puts one element's new content in the place of the old, and the focus back to where it was.
  function swap(old, fresh) {
    for (const output of fresh.querySelectorAll("output.result")) output.innerHTML = results.get(output.id) ?? "";
    for (const box of old.querySelectorAll("input[type=checkbox]:checked")) {
      for (const other of fresh.querySelectorAll(`input[value="${CSS.escape(box.value)}"]`)) other.checked = true;
    }
    paint(old);
    paint(fresh);
    if (old.isEqualNode(fresh)) return;
    const focus = old.contains(document.activeElement) ? document.activeElement.dataset.f : null;
    old.replaceWith(fresh);
    window.htmx?.process(fresh);
    if (focus) (fresh.querySelector(`[data-f="${focus}"]`) ?? fresh.querySelector("a"))?.focus();
  }

  function part(name, html) {
    const old = byId(`part-${name}`);
    if (!old) return;
    const fresh = old.cloneNode(false);
    fresh.innerHTML = html;
    swap(old, fresh);
  }
  function parse(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  }
  const flash = (element) => requestAnimationFrame(() => element.classList.add("flash"));

  function patch(row, fresh) {
    const differs = row.dataset.mark !== fresh.dataset.mark;
    row.classList.remove("ended", "flash");
    row.removeAttribute("data-unsure");
    row.querySelector(".word.ending")?.remove();
    const focused = row.contains(document.activeElement);
    row.dataset.mark = fresh.dataset.mark;
    row.toggleAttribute("data-held", fresh.hasAttribute("data-held"));
    if (row.children.length !== fresh.children.length) row.replaceChildren(...fresh.children);
    else [...row.children].forEach((cell, at) => swap(cell, fresh.children[at].cloneNode(true)));
    // What had the focus may be gone, as the button of a lease that is revoked: its row keeps it.
    if (focused && !row.contains(document.activeElement)) row.querySelector("a")?.focus();
    if (differs) flash(row);
  }

  // Lists: rows change where they stand. While somebody is at a list, none of its rows comes, goes or moves.
  const lists = new Map();
  function take(name, change) {
    const list = lists.get(name) ?? { items: new Map() };
    list.order = change.order;
    for (const [key, html] of Object.entries(change.items)) list.items.set(key, html);
    for (const key of list.items.keys()) if (!list.order.includes(key)) list.items.delete(key);
    lists.set(name, list);
    refresh(name);
  }

  function end(row) {
    if (row.classList.contains("ended")) return;
    const full = byId("view").dataset.perPage <= lists.get("rows")?.order.length;
    row.classList.add("ended");
    row.toggleAttribute("data-unsure", full);
    row.removeAttribute("data-held");
    for (const box of row.querySelectorAll("input")) box.disabled = !(box.checked = false);
    const word = parse(`<span class="word calm ending">${full ? "ended or moved" : "ended"}</span>`);
    (row.querySelector(".standing") ?? row.firstElementChild).append(" ", word);
    countPicked();
  }

  function refresh(name, forced) {
    const list = lists.get(name);
    const element = document.querySelector(`[data-list="${name}"]`);
    if (!list || !element) return;
    const rows = new Map([...element.children].map((row) => [row.dataset.key, row]));
    for (const [key, html] of list.items) {
      if (!rows.has(key)) continue;
      patch(rows.get(key), parse(html));
      list.items.delete(key);
    }
    const added = list.order.filter((key) => !rows.has(key) && list.items.has(key));
    const gone = [...rows.keys()].filter((key) => !list.order.includes(key));
    gone.forEach((key) => end(rows.get(key)));
    const busy = dialog.open || element.matches(":hover") || element.contains(document.activeElement);
    list.waiting = [added.length, gone.length];
    list.due = busy && !forced;
    if (list.due) return offer();
    for (const key of gone) {
      if (results.has(`result-${key}`) && !forced) continue;
      rows.get(key).remove();
      list.waiting[1] -= 1;
    }
    let at = element.firstElementChild;
    for (const key of list.order) {
      while (at?.classList.contains("ended")) at = at.nextElementSibling;
      const row = rows.get(key) ?? (list.items.has(key) && parse(list.items.get(key)));
      if (row && row === at) at = at.nextElementSibling;
      else if (row) element.insertBefore(row, at);
      if (!row || rows.has(key)) continue;
      list.items.delete(key);
      paint(row);
      window.htmx?.process(row);
      flash(row);
    }
    list.waiting[0] = 0;
    offer();
  }
  function offer() {
    if (!byId("moved")) return;
    const [added, gone] = [0, 1].map((at) => [...lists.values()].reduce((sum, { waiting }) => sum + (waiting?.[at] ?? 0), 0));
    byId("moved").hidden = added + gone === 0;
    const words = [added && `${added} new`, gone && `${gone} ended`].filter(Boolean).join(", ");
    byId("show-moved").textContent = `${words} – show`;
  }

  // The dialog, and what is ticked.
  function watchConfirm() {
    const tokens = byId("confirm")?.dataset.tokens;
    // What is not on this page, or may only have moved to another, is not known to have changed.
    const changed = (token) => document.querySelector(`#view [data-key="${token}"]:not([data-held], [data-unsure])`);
    if (tokens && dialog.open) byId("confirm-changed").hidden = !tokens.split(" ").some(changed);
  }

  let opener = null;
  function ask() {
    if (!dialog.open) opener = document.activeElement;
    paint(dialog);
    const title = dialog.querySelector("h2");
    if (title) title.id = "dialog-title";
    if (!dialog.querySelector("[data-close]")) dialog.append(parse('<button type="button" data-close>Close</button>'));
    if (!dialog.open) dialog.showModal();
    (byId("reason") ?? dialog.querySelector("[data-close]")).focus();
    watchConfirm();
  }
  function countPicked() {
    const count = document.querySelectorAll("input[name=seen][form=bulk]:checked").length;
    const button = byId("bulk-button") ?? {};
    button.disabled = count === 0;
    button.textContent = count ? `Revoke ${count} selected…` : "Revoke selected…";
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("#show-moved")) for (const name of lists.keys()) refresh(name, true);
    if (!dialog?.open || !event.target.closest("[data-close]")) return;
    event.preventDefault();
    dialog.close();
  });
  document.addEventListener("change", countPicked);
  dialog?.addEventListener("close", () => {
    dialog.replaceChildren();
    // The button that opened it may have been replaced meanwhile, or be gone with its lease: then its row has the focus.
    const key = opener?.closest("[data-key]")?.dataset.key;
    const row = !opener?.isConnected && key && document.querySelector(`#view [data-key="${key}"]`);
    if (row) (row.querySelector(`[data-f="${opener.dataset.f}"]`) ?? row.querySelector("a"))?.focus();
  });

  // Our own refusals say why, whatever their status.
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.xhr.status >= 500 && detail.serverResponse.includes("data-state=")) detail.shouldSwap = true;
  });
  for (const kind of ["htmx:sendError", "htmx:responseError"]) {
    document.addEventListener(kind, ({ detail }) => {
      if (detail.xhr?.responseText.includes("data-state=")) return;
      (byId("dialog-error") ?? byId("outcome")).textContent =
        "The brain did not answer. Whether something was done is not known; to do it again does no harm.";
    });
  }
  document.addEventListener("htmx:afterSwap", ({ detail }) => {
    if (detail.target.id === "dialog") ask();
    if (detail.target.id === "list") start();
  });
  for (const kind of ["htmx:oobAfterSwap", "htmx:afterSettle"]) document.addEventListener(kind, keepResults);
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    // To htmx, what may be swapped is successful: a refusal too, which is to be read in the dialog.
    if (detail.elt.id === "revoke-form" && detail.xhr.status === 200) dialog.close();
  });

  // A page that nobody sees needs no stream: a browser has few of them.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return connect();
    close();
    badge("paused");
  });

  function start() {
    lists.clear();
    results.clear();
    offer();
    const view = byId("view");
    if (view) setClock(view.dataset.now, view.dataset.swept);
    heard = Date.now();
    paint(document);
    countPicked();
    connect();
  }

  setInterval(() => {
    paint(document);
    if (byId("badge")?.dataset.badge === "live" && Date.now() - heard > 2 * next + 2000) badge("stale");
    age();
    for (const [name, list] of lists) if (list.due || list.waiting?.some(Boolean)) refresh(name);
  }, 1000);
  start();
})();
