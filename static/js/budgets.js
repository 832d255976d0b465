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
  const SIGNS = { percent: "%", cluster: "%", gpus: "GPUs", hours: "GPU-hours per week" };
  // Changes of this level that are still ahead, the next first: at, words, and the lines by project id.
  const planned = JSON.parse(form.dataset.planned || "[]");
  // What a row had before something was typed in it that can't be read: it counts with that.
  const lastValid = new Map();

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

  function readingOf(row) {
    const ppm = currentOf(row);
    if (ppm !== null) {
      lastValid.set(row, ppm);
    }
    return ppm;
  }

  function countedOf(row, ppm) {
    return ppm ?? lastValid.get(row) ?? storedOf(row);
  }

  // Why a row can't be read, as the server says it.
  function wrongWords(row) {
    const unit = unitMark(row).value || "percent";
    const text = field(row, unit).value.trim();
    if (!amountOf(text, unit)) {
      const shown = `'${text.slice(0, 40)}'`;
      return text.startsWith("-")
        ? `${shown} is below 0; a budget is 0 ${SIGNS[unit]} or more.`
        : `${shown} is not a number of ${SIGNS[unit]}; write digits with a point, such as 12.5.`;
    }
    return WHOLE[unit].n === 0n
      ? "The parent holds no GPUs here, so only percent can be given."
      : "More than 100 % of the parent's share.";
  }

  function wrongShow(row, isWrong) {
    const head = row.querySelector("th");
    const input = field(row, unitMark(row).value || "percent");
    head.querySelector("[data-wrong]")?.remove();
    input.removeAttribute("aria-describedby");
    const words = isWrong ? wrongWords(row) : "";
    if (!words || [...head.querySelectorAll(".error span")].some((each) => each.textContent === words)) {
      return;
    }
    const box = document.createElement("div");
    box.className = "field";
    box.dataset.wrong = "";
    box.id = `wrong-${unitMark(row).name}`;
    box.append(document.createElement("div"));
    box.firstChild.className = "error";
    box.firstChild.append(document.createElement("span"));
    box.querySelector("span").textContent = words;
    head.append(box);
    input.setAttribute("aria-describedby", box.id);
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
    if (parentGpus.n === 0n) {
      return `Keeps ${percentText(ppm)} %`;
    }
    const [gpus, hours] = [textOf(ppm, "gpus"), textOf(ppm, "hours")];
    const ends = [gpus, hours].map((text) => (text === "1" ? "" : "s"));
    return `Keeps ${percentText(ppm)} %, ${gpus} GPU${ends[0]}, ${hours} GPU-hour${ends[1]} per week`;
  }

  function burstOf(row) {
    const text = row.querySelector('input[name^="burst_"]')?.value.trim();
    return /^\d+$/.test(text || "") ? Number(text) : null;
  }

  // A budget as the planned changes have it: [ppm, burst cap]; none: nothing, without a cap.
  function lineWords(line) {
    if (!line) {
      return "no budget";
    }
    const cap = line[1] === null ? "" : `, at most ${line[1].toLocaleString("en")} GPUs`;
    return `${percentText(BigInt(line[0]))} %${cap}`;
  }

  function isSame(one, other) {
    const [a, b] = [one || [0, null], other || [0, null]];
    return BigInt(a[0]) === BigInt(b[0]) && a[1] === b[1];
  }

  // What each change still ahead will set back of what is typed: as portal.budgets.selectors.set_back_by.
  function plannedWords(values) {
    const typed = form.querySelector('input[name="effective_at"]')?.value || "";
    const moment = typed.length === 16 ? `${typed}:00` : typed;
    const [past, ahead] = [[], []];
    planned.forEach((each) => (moment && each.at <= moment ? past : ahead).push(each));
    let decided = rows
      .map((row, position) => {
        const id = unitMark(row).name.slice("unit_".length);
        const stored = [storedOf(row), row.dataset.storedBurst ? Number(row.dataset.storedBurst) : null];
        const before = past.length ? past[past.length - 1].lines[id] : stored;
        return { id, name: row.dataset.name, before, line: [values[position], burstOf(row)] };
      })
      .filter(({ before, line }) => !isSame(before, line));
    return ahead.flatMap(({ words, lines }) => {
      const undone = decided.filter(({ id, line }) => !isSame(lines[id], line));
      decided = decided.filter((each) => !undone.includes(each));
      const parts = undone.map(({ id, name, line }) => `${name} from ${lineWords(line)} to ${lineWords(lines[id])}`);
      return parts.length ? [`${words} sets ${parts.join(", ")}.`] : [];
    });
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

  function unreadWords(values, counted) {
    return rows
      .filter((_, position) => values[position] === null)
      .map((row) => `${row.dataset.name} is counted with ${percentText(counted[rows.indexOf(row)])} %: what is typed there can’t be read.`);
  }

  function rowShow(row, ppm) {
    const edited = unitMark(row).value || "percent";
    for (const unit of units(row)) {
      const wrong = ppm === null && unit === edited;
      field(row, unit).classList.toggle("is-invalid", wrong);
      field(row, unit).setAttribute("aria-invalid", String(wrong));
    }
    wrongShow(row, ppm === null);
    const kept = row.querySelector("[data-kept]");
    if (kept) {
      kept.textContent = keptOf(row, ppm);
    }
  }

  function refresh() {
    const values = rows.map(readingOf);
    rows.forEach((row, position) => rowShow(row, values[position]));
    const counted = rows.map((row, position) => countedOf(row, values[position]));
    const total = counted.reduce((sum, ppm) => sum + ppm, 0n);
    const over = total > PPM;
    form.querySelector("[data-total-words]").textContent = [totalWords(total, counted), ...unreadWords(values, counted)].join(" ");
    form.querySelector("[data-total-box]").classList.toggle("is-over", over);
    form.querySelector("[data-total-bar]").setAttribute("width", over ? "1000" : String(total / 1000n));
    form.querySelector("[data-total-bar]").setAttribute("class", over ? "fill-bad" : "fill-accent");
    const effects = rows.flatMap((row, position) => {
      const ppm = values[position];
      const moved = ppm !== null && ppm !== storedOf(row) ? [effectOf(row, ppm)] : [];
      return [...moved, ...burstEffectOf(row)];
    });
    listed([...effects, ...plannedWords(counted)]);
    return { over, unreadable: values.includes(null) };
  }

  form.addEventListener("input", (event) => {
    const unit = event.target.dataset.unit;
    if (unit) {
      const row = event.target.closest("[data-row]");
      row.querySelectorAll("th .field").forEach((said) => said.remove());
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
