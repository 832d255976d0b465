// The budgets form: the units of a row follow one another, total and rest are live, the effect is said in words.
// The server reads, rounds and refuses by itself; this shows beforehand what it will do, in the same whole numbers.
(() => {
  "use strict";

  const PPM = 1000000n;
  const WEEK_HOURS = 168n;
  const PLACES = { percent: 4, cluster: 4, gpus: 2, hours: 1 };
  const form = document.querySelector("[data-level]");
  if (!form) {
    return;
  }
  const rows = [...form.querySelectorAll("[data-row]")];

  // Exact numbers: a numerator and a denominator.
  function ratio(text) {
    const [over, under] = String(text || "0").split("/");
    if (under) {
      return { n: BigInt(over), d: BigInt(under) };
    }
    return decimal(over) || { n: 0n, d: 1n };
  }

  function decimal(text) {
    const match = /^(\d{0,12})(?:\.(\d{0,40}))?$/.exec(text);
    if (!match || (match[1] === "" && !match[2])) {
      return null;
    }
    const rest = match[2] || "";
    return { n: BigInt((match[1] || "0") + rest), d: 10n ** BigInt(rest.length) };
  }

  const parentGpus = ratio(form.dataset.parentExact || form.dataset.parentGpus);
  const parentShare = ratio(form.dataset.parentShare);
  // What the parent holds, in each unit.
  const WHOLE = {
    percent: { n: 100n, d: 1n },
    cluster: { n: parentShare.n * 100n, d: parentShare.d },
    gpus: parentGpus,
    hours: { n: parentGpus.n * WEEK_HOURS, d: parentGpus.d },
  };

  function field(row, unit) {
    return row.querySelector(`[data-unit="${unit}"]`);
  }

  function units(row) {
    return Object.keys(WHOLE).filter((unit) => field(row, unit));
  }

  function unitMark(row) {
    return row.querySelector('input[name^="unit_"]');
  }

  function storedOf(row) {
    return BigInt(row.dataset.storedPpm);
  }

  function amountOf(text, unit) {
    const trimmed = text.trim();
    const signed = unit === "percent" || unit === "cluster" ? trimmed.replace(/\s*%$/, "") : trimmed;
    return decimal(signed || "0");
  }

  // Whole parts per million of the text, cut down; null if it is no amount from nothing to all that the parent holds.
  function ppmOf(text, unit) {
    const amount = amountOf(text, unit);
    const whole = WHOLE[unit];
    if (!amount || whole.n === 0n || amount.n * whole.d > whole.n * amount.d) {
      return null;
    }
    return (amount.n * whole.d * PPM) / (amount.d * whole.n);
  }

  // Cut down, not rounded: what is shown is never more than what is kept.
  function decimals(n, d, places) {
    const scale = 10n ** BigInt(places);
    const cut = (n * scale) / d;
    const rest = String(cut % scale).padStart(places, "0").replace(/0+$/, "");
    return rest ? `${cut / scale}.${rest}` : String(cut / scale);
  }

  function textOf(ppm, unit) {
    return decimals(WHOLE[unit].n * ppm, WHOLE[unit].d * PPM, PLACES[unit]);
  }

  function percentText(ppm) {
    return textOf(ppm, "percent");
  }

  // Whole from ten up, halves to the even number: as the server says it.
  function gpusWords(ppm) {
    const n = parentGpus.n * ppm;
    const d = parentGpus.d * PPM;
    let text = decimals(n, d, 2);
    if (n >= 10n * d) {
      const twice = 2n * (n % d);
      const up = twice > d || (twice === d && (n / d) % 2n === 1n);
      text = (n / d + (up ? 1n : 0n)).toLocaleString("en");
    }
    return text === "1" ? "1 GPU" : `${text} GPUs`;
  }

  function currentOf(row) {
    const stored = storedOf(row);
    const unit = unitMark(row).value || "percent";
    const text = field(row, unit).value;
    return text.trim() === textOf(stored, unit) ? stored : ppmOf(text, unit);
  }

  function size(ppm) {
    return ppm < 0n ? -ppm : ppm;
  }

  function effectOf(row, ppm) {
    const stored = storedOf(row);
    const moved = `${row.dataset.name} goes from ${percentText(stored)} % to ${percentText(ppm)} %`;
    return parentGpus.n > 0n
      ? `${moved}: ${gpusWords(size(ppm - stored))} ${ppm < stored ? "fewer" : "more"}`
      : moved;
  }

  function burstEffectOf(row) {
    const input = row.querySelector('input[name^="burst_"]');
    if (!input || row.dataset.storedBurst === undefined) {
      return [];
    }
    const [before, after] = [row.dataset.storedBurst, input.value.trim()];
    const words = `${row.dataset.name}: burst cap from ${before || "none"} to ${after || "none"}${after ? " GPUs" : ""}`;
    return before === after ? [] : [words];
  }

  // What will be kept, where that is not to the digit what was typed.
  function keptOf(row, ppm) {
    const unit = unitMark(row).value;
    const amount = unit && ppm !== null && ppm !== storedOf(row) ? amountOf(field(row, unit).value, unit) : null;
    if (!amount || amount.n * WHOLE[unit].d * PPM === WHOLE[unit].n * ppm * amount.d) {
      return "";
    }
    const gpus = textOf(ppm, "gpus");
    return `Keeps ${percentText(ppm)} %${parentGpus.n > 0n ? `, ${gpus} GPU${gpus === "1" ? "" : "s"}` : ""}`;
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

  function totalWords(total, values) {
    if (total <= PPM) {
      return `Given out: ${percentText(total)} %. Left: ${percentText(PPM - total)} % (${gpusWords(PPM - total)}).`;
    }
    const names = rows
      .map((row, position) => [row.dataset.name, values[position]])
      .filter(([, ppm]) => ppm)
      .map(([name, ppm]) => `${name} ${percentText(ppm)} %`);
    return `Given out: ${percentText(total)} %, ${percentText(total - PPM)} % more than there is: ${names.join(" + ")}. Not saved until it is 100 % or less.`;
  }

  function rowShow(row, ppm) {
    const edited = unitMark(row).value || "percent";
    for (const unit of units(row)) {
      const wrong = ppm === null && unit === edited;
      field(row, unit).classList.toggle("is-invalid", wrong);
      field(row, unit).setAttribute("aria-invalid", String(wrong));
    }
    const kept = row.querySelector("[data-kept]");
    if (kept) {
      kept.textContent = keptOf(row, ppm);
    }
  }

  function refresh() {
    const values = rows.map(currentOf);
    rows.forEach((row, position) => rowShow(row, values[position]));
    const total = values.reduce((sum, ppm) => sum + (ppm || 0n), 0n);
    const over = total > PPM;
    form.querySelector("[data-total-words]").textContent = totalWords(total, values);
    form.querySelector("[data-total-box]").classList.toggle("is-over", over);
    form.querySelector("[data-total-bar]").setAttribute("width", over ? "1000" : String(total / 1000n));
    form.querySelector("[data-total-bar]").setAttribute("class", over ? "fill-bad" : "fill-accent");
    listed(
      rows.flatMap((row, position) => {
        const ppm = values[position];
        const moved = ppm !== null && ppm !== storedOf(row) ? [effectOf(row, ppm)] : [];
        return [...moved, ...burstEffectOf(row)];
      }),
    );
    return { over, unreadable: values.includes(null) };
  }

  form.addEventListener("input", (event) => {
    const unit = event.target.dataset.unit;
    if (unit) {
      const row = event.target.closest("[data-row]");
      unitMark(row).value = unit;
      const ppm = ppmOf(event.target.value, unit);
      for (const other of units(row)) {
        if (other !== unit && ppm !== null && !field(row, other).disabled) {
          field(row, other).value = textOf(ppm, other);
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
