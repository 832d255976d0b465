// Small behaviours of every page. Pages work without them; nothing here holds a rule.
(function () {
  "use strict";

  // "/" puts the cursor into the search field.
  document.addEventListener("keydown", function (event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    var field = document.getElementById("search");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  });

  // Theme: buttons that carry data-theme-choice.
  function markTheme() {
    document.querySelectorAll("[data-theme-choice]").forEach(function (button) {
      if (button === document.documentElement) return;
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === document.documentElement.dataset.themeChoice));
    });
  }
  document.addEventListener("click", function (event) {
    var button = event.target.closest("button[data-theme-choice]");
    if (button) { window.commonsTheme(button.dataset.themeChoice); markTheme(); }
  });

  // Questions before dangerous actions: a button with data-opens="id of a dialog".
  document.addEventListener("click", function (event) {
    var opener = event.target.closest("[data-opens]");
    if (opener) { event.preventDefault(); document.getElementById(opener.dataset.opens).showModal(); }
    var closer = event.target.closest("[data-closes]");
    if (closer) { event.preventDefault(); closer.closest("dialog").close(); }
  });

  // A form is sent once: the second click finds its button off.
  document.addEventListener("submit", function (event) {
    if (event.defaultPrevented || event.target.method !== "post") return;
    var buttons = event.target.querySelectorAll("button[type=submit]");
    setTimeout(function () { buttons.forEach(function (button) { button.disabled = true; }); }, 0);
  });
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) document.querySelectorAll("button[type=submit]").forEach(function (button) { button.disabled = false; });
  });

  // Filters that apply as soon as they are chosen.
  document.addEventListener("change", function (event) {
    if (event.target.matches("select[data-autosend]")) event.target.form.requestSubmit();
  });

  // Copy buttons: data-copies="id of the text".
  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-copies]");
    if (!button || !navigator.clipboard) return;
    navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent.trim()).then(function () {
      button.querySelector("span").textContent = "Copied";
    });
  });

  // Parts that refresh in place (data-live): not while the page is hidden, and only if something changed.
  var last = new WeakMap();
  document.addEventListener("htmx:beforeRequest", function (event) {
    if (event.detail.elt.hasAttribute("data-live") && document.hidden) event.preventDefault();
  });
  document.addEventListener("htmx:beforeSwap", function (event) {
    var target = event.detail.target, live = event.detail.elt.closest("[data-live]");
    if (!live) return;
    if (event.detail.xhr.status >= 400) { event.detail.shouldSwap = false; return; }
    if (event.detail.xhr.responseURL.indexOf("/accounts/login/") > 0) {
      event.detail.shouldSwap = false; // the session has ended: the whole page goes to the sign-in
      window.location.reload();
      return;
    }
    var text = event.detail.xhr.responseText;
    if (last.get(target) === text) event.detail.shouldSwap = false;
    last.set(target, text);
  });

  // A refresh that fails is said; the next one that works takes it back.
  function stale(isStale) {
    var notice = document.getElementById("stale");
    if (notice) notice.hidden = !isStale;
  }
  document.addEventListener("htmx:responseError", function () { stale(true); });
  document.addEventListener("htmx:sendError", function () { stale(true); });
  document.addEventListener("htmx:afterOnLoad", function (event) { if (event.detail.xhr.status < 400) stale(false); });

  // Logs: stay at the end while the reader is there, else where the reader is.
  var reading = null;
  document.addEventListener("htmx:beforeSwap", function (event) {
    var box = event.detail.shouldSwap && event.detail.target.querySelector(".log");
    reading = box && { top: box.scrollTop, atEnd: box.scrollHeight - box.scrollTop - box.clientHeight < 24 };
  });
  document.addEventListener("htmx:afterSwap", function (event) {
    var box = event.detail.target.querySelector(".log");
    if (box) box.scrollTop = !reading || reading.atEnd ? box.scrollHeight : reading.top;
  });

  document.addEventListener("DOMContentLoaded", function () {
    markTheme();
    document.querySelectorAll(".log").forEach(function (box) { box.scrollTop = box.scrollHeight; });
    var errors = document.getElementById("form-errors");
    if (errors) errors.focus();
  });
})();
