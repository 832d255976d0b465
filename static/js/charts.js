// Draws the figures that the server put beside each plot as JSON. Colours come from CSS custom properties, so that a
// change of theme redraws with the same data. Nothing here computes a number.
(() => {
  "use strict";

  const NARROW = 560;
  const CONFIG = { displayModeBar: false, responsive: false, typesetMath: false, scrollZoom: false, doubleClick: false };

  function tokenValue(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--chart-${name}`).trim();
  }

  function coloured(value) {
    if (typeof value === "string") {
      return value.startsWith("token:") ? tokenValue(value.slice(6)) : value;
    }
    if (Array.isArray(value)) {
      return value.map(coloured);
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, coloured(part)]));
    }
    return value;
  }

  function thinTicks(axis, every) {
    return {
      ...axis,
      tickvals: axis.tickvals.filter((_, position) => position % every === 0),
      ticktext: axis.ticktext.filter((_, position) => position % every === 0),
    };
  }

  // Small multiples: as many columns as fit, each panel at least 260 px wide.
  function panelled(layout, width) {
    const count = layout.meta.panels;
    const columns = Math.max(1, Math.min(count, Math.floor(width / 260)));
    const rows = Math.ceil(count / columns);
    const across = columns > 1 ? 0.09 : 0;
    const down = 64 / (rows * layout.meta.panel_height);
    const cell = { width: (1 - across * (columns - 1)) / columns, height: (1 - down * (rows - 1)) / rows };
    for (let position = 0; position < count; position += 1) {
      const suffix = position === 0 ? "" : String(position + 1);
      const left = (position % columns) * (cell.width + across);
      const bottom = 1 - Math.floor(position / columns) * (cell.height + down) - cell.height;
      layout[`xaxis${suffix}`].domain = [left, left + cell.width];
      layout[`yaxis${suffix}`].domain = [Math.max(0, bottom), Math.min(1, bottom + cell.height)];
    }
    layout.height = rows * layout.meta.panel_height + 90;
    return cell.width * width;
  }

  function fitted(figure, width) {
    const layout = coloured(figure.layout);
    const axisWidth = layout.meta?.panels ? panelled(layout, width) : width - layout.margin.l - layout.margin.r;
    for (const name of Object.keys(layout)) {
      const axis = layout[name];
      if (/^xaxis\d*$/.test(name) && axis.tickvals) {
        const room = Math.max(2, Math.floor(axisWidth / (axis.type === "log" ? 80 : 56)));
        layout[name] = thinTicks(axis, Math.ceil(axis.tickvals.length / room));
      }
    }
    return { data: coloured(figure.data), layout: { ...layout, width } };
  }

  function figureOf(plot) {
    return JSON.parse(document.getElementById(plot.dataset.figure).textContent);
  }

  function wrapped(text, most) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const line = lines[lines.length - 1];
      if (line && line.length + word.length >= most) {
        lines.push(word);
      } else {
        lines[lines.length - 1] = line ? `${line} ${word}` : word;
      }
    }
    return lines;
  }

  function draw(plot) {
    const width = Math.floor(plot.clientWidth);
    if (!width) {
      return;
    }
    const { data, layout } = fitted(figureOf(plot), width);
    plot.querySelector(".chart-room")?.remove();
    Plotly.react(plot, data, layout, CONFIG).then(() => {
      plot.dataset.drawn = String(width);
    });
  }

  // A chart that can't be drawn says so and opens its table.
  function failed(plot, error) {
    const figure = plot.closest(".chart");
    figure.querySelector(".chart-failure").hidden = false;
    figure.querySelector("details").open = true;
    plot.hidden = true;
    console.error(error);
  }

  function drawAll(root) {
    for (const plot of root.querySelectorAll(".chart-plot")) {
      try {
        draw(plot);
      } catch (error) {
        failed(plot, error);
      }
    }
  }

  function savePng(button) {
    const plot = document.getElementById(button.dataset.png);
    const figure = figureOf(plot);
    const width = 1200;
    const { data, layout } = fitted(figure, width);
    const title = wrapped(figure.title, 120);
    const subtitle = wrapped(figure.subtitle, 165);
    const head = 40 + 24 * title.length + 18 * subtitle.length;
    layout.margin = { ...layout.margin, t: (layout.margin.t || 0) + head };
    layout.height += head;
    layout.title = {
      text: title.join("<br>"),
      subtitle: { text: subtitle.join("<br>"), font: { size: 13, color: tokenValue("muted") } },
      x: 0.01,
      xanchor: "left",
      yref: "container",
      y: 1,
      yanchor: "top",
      pad: { t: 16 },
      font: { size: 18 },
    };
    return Plotly.downloadImage(
      { data, layout, config: CONFIG },
      { format: "png", width, height: layout.height, scale: 2, filename: figure.filename },
    );
  }

  function watch() {
    document.addEventListener("click", (event) => {
      const button = event.target.closest("[data-png]");
      if (button) {
        savePng(button);
      }
    });
    document.body.addEventListener("htmx:afterSwap", (event) => drawAll(event.target));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(document));
    new MutationObserver(() => drawAll(document)).observe(document.documentElement, {
      attributes: true,
      attributeFilter: ["data-bs-theme", "data-theme", "class"],
    });
    const widths = new ResizeObserver((entries) => {
      for (const { target } of entries) {
        if (target.dataset.drawn && target.dataset.drawn !== String(Math.floor(target.clientWidth))) {
          draw(target);
        }
      }
    });
    for (const plot of document.querySelectorAll(".chart-plot")) {
      widths.observe(plot);
    }
  }

  function start() {
    drawAll(document);
    watch();
  }

  if (document.readyState === "loading") {
    document.addEventListener("DOMContentLoaded", start);
  } else {
    start();
  }
})();
