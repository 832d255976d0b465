// The budgets form: three units follow one another, total and rest are live, the effect is said in words.
// The server reads, rounds and refuses by itself; this shows beforehand what it will do.
(() => {
  "use strict";

  const PPM = 1000000;
  const WEEK_HOURS = 168;
  const form = document.querySelector("[data-level]");
  if (!form) {
    return;
  }
  const parentName = form.dataset.parent;
  const parentGpus = Number(form.dataset.parentGpus);
  const rows = [...form.querySelectorAll("[data-row]")];

  function field(row, unit) {
    return row.querySelector(`[data-unit="${unit}"]`);
  }

  function unitMark(row) {
    return row.querySelector('input[name^="unit_"]');
  }

  // Whole parts per million of the text, cut down; null if it is no amount from 0 to 100 %.
  function ppmOf(text, unit) {
    const match = /^(\d{0,12})(?:\.(\d{0,40}))?$/.exec(text.trim().replace(/\s*%$/, "") || "0");
    if (!match || (match[1] === "" && !match[2])) {
      return null;
    }
    if (unit === "percent") {
      const rest = (match[2] || "").padEnd(4, "0");
      const ppm = Number(match[1] || 0) * 10000 + Number(rest.slice(0, 4));
      return ppm > PPM || (ppm === PPM && /[1-9]/.test(rest.slice(4))) ? null : ppm;
    }
    const gpus = Number(`${match[1] || 0}.${match[2] || 0}`) / (unit === "hours" ? WEEK_HOURS : 1);
    const ppm = Math.floor((gpus / parentGpus) * PPM + 1e-6);
    return parentGpus > 0 && ppm <= PPM ? ppm : null;
  }

  // Cut down, not rounded: what is shown is never more than what is kept.
  function decimals(value, places) {
    const scale = 10 ** places;
    return String(Math.floor(value * scale + 1e-6) / scale);
  }

  function percentText(ppm) {
    return decimals(ppm / 10000, 4);
  }

  function textOf(ppm, unit) {
    const gpus = (parentGpus * ppm) / PPM;
    return { percent: percentText(ppm), gpus: decimals(gpus, 2), hours: decimals(gpus * WEEK_HOURS, 1) }[unit];
  }

  function gpusWords(ppm) {
    const gpus = (parentGpus * ppm) / PPM;
    const text = gpus >= 10 ? Math.round(gpus).toLocaleString("en") : decimals(gpus, 2);
    return text === "1" ? "1 GPU" : `${text} GPUs`;
  }

  function currentOf(row) {
    const stored = Number(row.dataset.storedPpm);
    const unit = unitMark(row).value;
    if (unit) {
      const text = field(row, unit).value;
      return text.trim() === textOf(stored, unit) ? stored : ppmOf(text, unit);
    }
    const shown = field(row, "percent").value;
    return shown.trim() === percentText(stored) ? stored : ppmOf(shown, "percent");
  }

  function effectOf(row, ppm) {
    const stored = Number(row.dataset.storedPpm);
    const moved = `${row.dataset.name} goes from ${percentText(stored)} % to ${percentText(ppm)} %`;
    return parentGpus > 0 ? `${moved}: ${gpusWords(Math.abs(ppm - stored))} ${ppm < stored ? "fewer" : "more"}` : moved;
  }

  function listed(words) {
    const list = form.querySelector("[data-effects]");
    list.replaceChildren(
      ...(words.length ? words : ["Nothing yet."]).map((text) => {
        const item = document.createElement("li");
        item.textContent = text;
        item.classList.toggle("quiet", !words.length);
        return item;
      }),
    );
  }

  function totalWords(total) {
    if (total <= PPM) {
      return `Given out: ${percentText(total)} %. Left: ${percentText(PPM - total)} % (${gpusWords(PPM - total)}).`;
    }
    const names = rows
      .map((row) => [row.dataset.name, currentOf(row)])
      .filter(([, ppm]) => ppm)
      .map(([name, ppm]) => `${name} ${percentText(ppm)} %`);
    return `Given out: ${percentText(total)} %, ${percentText(total - PPM)} % more than there is: ${names.join(" + ")}. Not saved until it is 100 % or less.`;
  }

  function refresh() {
    const values = rows.map(currentOf);
    rows.forEach((row, position) => {
      const unit = unitMark(row).value || "percent";
      field(row, unit).classList.toggle("is-invalid", values[position] === null);
      field(row, unit).setAttribute("aria-invalid", String(values[position] === null));
    });
    const total = values.reduce((sum, ppm) => sum + (ppm || 0), 0);
    const over = total > PPM;
    form.querySelector("[data-total-words]").textContent = totalWords(total);
    form.querySelector("[data-total-box]").classList.toggle("is-over", over);
    form.querySelector("[data-total-bar]").setAttribute("width", String(Math.min(1000, Math.floor(total / 1000))));
    form.querySelector("[data-total-bar]").setAttribute("class", over ? "fill-bad" : "fill-accent");
    listed(
      rows
        .map((row, position) => [row, values[position]])
        .filter(([row, ppm]) => ppm !== null && ppm !== Number(row.dataset.storedPpm))
        .map(([row, ppm]) => effectOf(row, ppm)),
    );
    return { over, unreadable: values.includes(null), parentName };
  }

  form.addEventListener("input", (event) => {
    const unit = event.target.dataset.unit;
    if (unit) {
      const row = event.target.closest("[data-row]");
      unitMark(row).value = unit;
      const ppm = ppmOf(event.target.value, unit);
      for (const other of ["percent", "gpus", "hours"]) {
        if (other !== unit && ppm !== null && !field(row, other).disabled) {
          field(row, other).value = textOf(ppm, other);
          field(row, other).classList.remove("is-invalid");
        }
      }
    }
    refresh();
  });

  form.addEventListener("submit", (event) => {
    const { over, unreadable } = refresh();
    if (event.submitter?.name === "save" && (over || unreadable)) {
      event.preventDefault();
      event.stopImmediatePropagation();
      const first = form.querySelector(".is-invalid") || field(rows[0], "percent");
      first.focus();
    }
  }, { capture: true });

  refresh();
})();
