// Shows the command or the script, whichever is chosen; the other keeps what was typed.
document.addEventListener("DOMContentLoaded", function () {
  "use strict";
  var form = document.getElementById("submit-form");
  if (!form) return;
  function show() {
    var chosen = form.querySelector("input[name=how]:checked");
    form.querySelectorAll("[data-shown-for]").forEach(function (part) {
      part.hidden = chosen && part.dataset.shownFor !== chosen.value;
    });
  }
  form.addEventListener("change", show);
  show();
});
