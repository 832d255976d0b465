// Runs before the first paint: the person's choice of theme, else the system's.
(function () {
  "use strict";
  var root = document.documentElement;
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  function chosen() {
    try { return localStorage.getItem("theme"); } catch (error) { return null; }
  }
  function apply() {
    var choice = chosen();
    root.dataset.bsTheme = choice || (system.matches ? "dark" : "light");
    root.dataset.themeChoice = choice || "system";
    document.dispatchEvent(new CustomEvent("commons:theme", { detail: root.dataset.bsTheme }));
  }
  window.commonsTheme = function (choice) {
    try {
      if (choice === "system") localStorage.removeItem("theme");
      else localStorage.setItem("theme", choice);
    } catch (error) { /* storage is off: the system's theme stays */ }
    apply();
  };
  system.addEventListener("change", apply);
  apply();
})();
