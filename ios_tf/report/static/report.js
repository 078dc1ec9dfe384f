// The charts and the search of the report. All data is in the page.
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const labels = {
    tensorflow: "TensorFlow",
    converted: "converted",
    portable: "without ios_tf",
  };

  // The batch size of a network, and the number of callers if there are several.
  function loadOf(network) {
    const callers = network.callers || 1;
    return network.batch_size + (callers === 1 ? "" : ` with ${callers} callers`);
  }

  function formatMs(ms) {
    if (ms === null || ms === undefined) return "–";
    if (ms >= 100) return `${ms.toFixed(0)} ms`;
    return ms >= 0.1 ? `${+ms.toPrecision(3)} ms` : `${+(ms * 1e3).toPrecision(3)} µs`;
  }

  // Makes a chart one picture with a description for screen readers.
  function describe(figure, label) {
    figure.querySelectorAll("[aria-label]").forEach((one) => one.removeAttribute("aria-label"));
    figure.setAttribute("role", "img");
    figure.setAttribute("aria-label", label);
  }

  // Says in an element that its chart cannot be drawn, if drawing fails.
  function attempt(element, drawing) {
    try {
      drawing();
    } catch (error) {
      element.replaceChildren(`This chart cannot be drawn: ${error.message}`);
    }
  }

  // Draws a chart into an element again whenever the element's width changes.
  function draw(element, label, plot) {
    let drawn = 0;
    const update = () => {
      const width = Math.floor(element.clientWidth);
      if (width < 50 || width === drawn) return;
      drawn = width;
      attempt(element, () => {
        const figure = plot(width);
        describe(figure, label);
        element.replaceChildren(figure);
      });
    };
    new ResizeObserver(update).observe(element);
    update();
  }

  function latencyChart(element) {
    const rows = JSON.parse(element.dataset.rows).map((row) => ({ ...row, name: labels[row.key] }));
    const colors = {
      tensorflow: "var(--copy)",
      converted: "var(--pool)",
      portable: "var(--conv)",
    };
    const spread = rows.filter((row) => row.low_ms !== null && row.high_ms > row.low_ms);
    const text = rows.map((row) => `${row.name} ${formatMs(row.ms)}`).join(", ");
    draw(element, `Median times of a call: ${text}`, (width) =>
      Plot.plot({
        width,
        height: 62 + 44 * rows.length,
        marginLeft: 108,
        marginRight: 84,
        marginTop: 6,
        marginBottom: 46,
        style: { background: "none", fontSize: "13px" },
        x: { label: "ms for a call (bar: median, line: 10 % to 90 %)", labelAnchor: "center", labelOffset: 40, labelArrow: "none", grid: true, zero: true, ticks: width < 500 ? 4 : 8 },
        y: { label: null, domain: rows.map((row) => row.name), tickSize: 0 },
        marks: [
          Plot.barX(rows, { x: "ms", y: "name", fill: (row) => colors[row.key], rx: 3, insetTop: 3, insetBottom: 3 }),
          Plot.ruleY(spread, { x1: "low_ms", x2: "high_ms", y: "name", stroke: "currentColor", strokeWidth: 2 }),
          Plot.tickX(spread, { x: "low_ms", y: "name", insetTop: 13, insetBottom: 13, strokeWidth: 2 }),
          Plot.tickX(spread, { x: "high_ms", y: "name", insetTop: 13, insetBottom: 13, strokeWidth: 2 }),
          Plot.text(rows, {
            x: (row) => Math.max(row.ms, row.high_ms ?? 0), y: "name", text: (row) => formatMs(row.ms),
            textAnchor: "start", dx: 8, fontWeight: 600, fill: "currentColor",
          }),
        ],
      }),
    );
  }

  function gainChart(element) {
    const shares = JSON.parse(element.dataset.parts);
    const kinds = JSON.parse(element.dataset.kinds);
    const rows = shares.map((share, index) => ({ share, kind: kinds[index] }));
    draw(element, "Parts of the gain, which the list below explains", (width) =>
      Plot.plot({
        width,
        height: 34,
        margin: 0,
        style: { background: "none", fontSize: "13px" },
        x: { axis: null },
        marks: [
          Plot.barX(rows, Plot.stackX({ x: "share", order: null, fill: (row) => `var(--${row.kind})`, rx: 3, insetLeft: 1, insetRight: 1 })),
        ],
      }),
    );
  }

  function rooflineChart(element) {
    const network = report.networks[+element.dataset.network];
    const { gflop_per_s: peak, gb_per_s: bandwidth } = report.machine.roofline;
    const points = network.operators
      .filter((op) => op.ms && op.operations && op.bytes)
      .map((op) => ({
        x: op.operations / op.bytes,
        y: op.operations / op.ms / 1e6,
        ms: op.ms,
        algorithm: op.algorithm ?? "direct",
        title: `${op.name}\n${op.type}, ${op.algorithm ?? "direct"}\n${formatMs(op.ms)}, ${(op.operations / op.ms / 1e6).toFixed(0)} GFLOP/s`,
      }))
      .filter((point) => Number.isFinite(point.y));
    if (!points.length) return;
    const [low, high] = d3.extent(points, (point) => point.x);
    const domain = [Math.min(low / 1.5, peak / bandwidth / 2), Math.max(high * 1.5, (peak / bandwidth) * 2)];
    const ridge = peak / bandwidth;
    const roof = [domain[0], ridge, domain[1]].map((x) => ({ x, y: Math.min(peak, x * bandwidth) }));
    draw(element, "Roofline: the rate of each operator over its operations per byte; the table above has the slowest operators", (width) =>
      Plot.plot({
        width,
        height: Math.min(380, Math.max(260, width * 0.5)),
        marginLeft: 56,
        marginTop: 28,
        marginBottom: 46,
        style: { background: "none", fontSize: "13px" },
        x: { type: "log", label: "operations per byte", labelAnchor: "center", labelOffset: 40, labelArrow: "none", domain, grid: true, ticks: width < 500 ? 4 : 8, tickFormat: "~s" },
        y: { type: "log", label: "GFLOP/s", grid: true, ticks: 5, tickFormat: "~s" },
        r: { range: [2, 16] },
        color: { legend: true, scheme: "observable10", domain: [...new Set(points.map((point) => point.algorithm))].sort() },
        marks: [
          Plot.line(roof, { x: "x", y: "y", stroke: "var(--bad)", strokeWidth: 2 }),
          Plot.text([roof[2]], { x: "x", y: "y", text: [`highest rate: ${peak.toFixed(0)} GFLOP/s`], textAnchor: "end", dy: -9, fill: "currentColor" }),
          Plot.dot(points, { x: "x", y: "y", r: "ms", fill: "algorithm", fillOpacity: 0.65, stroke: "currentColor", strokeOpacity: 0.4, title: "title", tip: true }),
        ],
      }),
    );
  }

  // A timeline with more slices would make the page slow.
  const mostSlices = 20000;

  // The times of a network's operators if each stage runs as it was measured. Stops when
  // there are more than `mostSlices`.
  function expected(network) {
    const slices = [];
    let begin = 0;
    // The groups of a stage with their lanes, begins and durations.
    const placed = (stage) => {
      const count = report.machine.lanes;
      const split = stage.strategy === "split";
      const parts = Math.min(stage.micro_batches, mostSlices);
      const groups = split ? Array(parts).fill(stage.groups[0]) : stage.groups;
      // A group alone has the whole device.
      if (groups.length === 1) {
        return [{ group: groups[0], lane: 0, lanes: count, begin: 0, time: stage.ms ?? 0 }];
      }
      const free = Array(Math.min(count, groups.length)).fill(0);
      const found = groups.map((group, index) => {
        const time = stage.group_ms?.[index] ?? stage.ms ?? 0;
        const lane = d3.minIndex(free);
        free[lane] += time;
        return { group, lane, lanes: 1, begin: free[lane] - time, time };
      });
      // Groups that run beside others take longer than alone, and a stage ends with the last.
      const factor = (stage.ms ?? 0) / (d3.max(free) || 1);
      return found.map((one) => ({ ...one, begin: one.begin * factor, time: one.time * factor }));
    };
    for (const region of network.regions) {
      for (const block of region.kept ? region.blocks : []) {
        for (const stage of block.stages) {
          for (const { group, lane, lanes, begin: offset, time } of placed(stage)) {
            if (slices.length > mostSlices) return slices;
            const members = group.map((op) => network.operators[op]);
            const total = d3.sum(members, (op) => op.ms) || 1;
            if (stage.strategy === "merge") {
              const name = members.map((op) => op.name).join("\n");
              slices.push({ name, type: "merge", lane, lanes, begin_ms: begin + offset, end_ms: begin + offset + time });
              continue;
            }
            let at = begin + offset;
            for (const op of members) {
              const end = at + (time * (op.ms ?? 0)) / total;
              slices.push({ name: op.name, type: op.type, lane, lanes, begin_ms: at, end_ms: end });
              at = end;
            }
          }
          begin += stage.ms ?? 0;
        }
      }
    }
    return slices;
  }

  const typeColors = new Map(Object.entries({
    conv2d: "var(--conv)", conv2d_transpose: "var(--conv)", sepconv: "var(--conv)",
    matmul: "var(--matmul)", pool: "var(--pool)", global_pool: "var(--pool)",
    concat: "var(--copy)", slice: "var(--copy)", pad: "var(--copy)", merge: "var(--merge)",
  }));

  // A table of slices for people who do not use a pointer. It is made when it is opened.
  function sliceTable(title, slices) {
    const mostRows = 2000;
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    details.className = "slices";
    summary.textContent = "These operators as a table";
    details.append(summary);
    const row = (kind, cells) => {
      const line = document.createElement("tr");
      cells.forEach((text, column) => {
        const cell = document.createElement(column ? kind : "th");
        if (column) cell.className = "n";
        if (kind === "th" || !column) cell.scope = kind === "th" ? "col" : "row";
        cell.textContent = text;
        line.append(cell);
      });
      return line;
    };
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      const box = document.createElement("div");
      const table = document.createElement("table");
      box.className = "scroll";
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", `${title} as a table`);
      table.createTHead().append(row("th", ["Operator", "Type", "Lane", "Begin", "Time"]));
      table.createTBody().append(
        ...slices.slice(0, mostRows).map((one) =>
          row("td", [one.name, one.type, one.lanes > 1 ? "all" : one.lane + 1, formatMs(one.begin_ms), formatMs(one.end_ms - one.begin_ms)]),
        ),
      );
      box.append(table);
      details.append(box);
      const rest = slices.length - mostRows;
      if (rest > 0) details.append(`${rest} more are in the data.`);
    });
    return details;
  }

  // Draws slices, which occupy `lanes` lanes from `lane` on, or one lane.
  function timelineChart(parent, title, all, note) {
    const slices = all.slice(0, mostSlices);
    const article = document.createElement("article");
    const head = document.createElement("h3");
    head.textContent = title;
    const text = document.createElement("p");
    text.textContent = slices.length < all.length ? `${note} Only the first ${mostSlices} slices are drawn.` : note;
    const tools = document.createElement("p");
    tools.className = "tools";
    const chart = document.createElement("div");
    chart.className = "chart";
    chart.tabIndex = 0;
    chart.setAttribute("role", "region");
    chart.setAttribute("aria-label", `${title}; scroll to see all of it`);
    article.append(head, text, tools, chart, sliceTable(title, slices));
    parent.append(article);
    const lanes = d3.max(slices, (one) => one.lane + (one.lanes ?? 1));
    // Many lanes are thinner, so that the chart stays on the screen.
    const height = Math.min(Math.max(900 / lanes, 4), 38);
    const end = d3.max(slices, (one) => one.end_ms);
    let zoom = 1;
    const render = () => {
      const width = Math.min(Math.max(Math.floor(article.clientWidth - 36), 250) * zoom, 30000);
      const figure = Plot.plot({
        width,
        height: 60 + height * lanes,
        marginLeft: 60,
        marginRight: 16,
        style: { background: "none", fontSize: "13px" },
        x: { label: null, domain: [0, end], grid: true, axis: "top", ticks: width / 90, tickFormat: (ms) => `${ms} ms` },
        y: { label: null, domain: [lanes, 0], axis: null },
        marks: [
          Plot.axisY(d3.range(0, lanes, Math.ceil(16 / height)), { y: (lane) => lane + 0.5, text: (lane) => `lane ${lane + 1}`, tickSize: 0, label: null }),
          Plot.rect(slices, {
            x1: "begin_ms", x2: "end_ms", y1: (one) => one.lane + 0.06, y2: (one) => one.lane + (one.lanes ?? 1) - 0.06,
            fill: (one) => typeColors.get(one.type) ?? "var(--other)", insetRight: 0.5, title: (one) => `${one.name}\n${one.type}\n${formatMs(one.end_ms - one.begin_ms)}`, tip: true,
          }),
        ],
      });
      describe(figure, `${title}: ${slices.length} operators on ${lanes} lane${lanes === 1 ? "" : "s"} in ${formatMs(end)}`);
      chart.replaceChildren(figure);
    };
    for (const [label, factor] of [["Zoom in", 2], ["Zoom out", 0.5]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", () => {
        const middle = (chart.scrollLeft + chart.clientWidth / 2) / zoom;
        zoom = Math.min(Math.max(zoom * factor, 1), 64);
        render();
        chart.scrollLeft = middle * zoom - chart.clientWidth / 2;
      });
      tools.append(button, " ");
    }
    let drawn = 0;
    new ResizeObserver(() => {
      if (article.clientWidth !== drawn) attempt(chart, render);
      drawn = article.clientWidth;
    }).observe(article);
  }

  function timelines(parent) {
    parent.replaceChildren();
    for (const one of report.timelines ?? []) {
      if (!one.slices.length) continue;
      timelineChart(parent, `A run of ${one.signature} at batch ${one.batch_size}`, one.slices, "One real run, as the engine recorded it. In a gap, the lane waits for other lanes, or TensorFlow computes operators of its own.");
    }
    if (parent.children.length) return;
    for (const network of report.networks) {
      const slices = expected(network);
      if (!slices.length || !d3.max(slices, (one) => one.end_ms)) continue;
      timelineChart(parent, `Batch ${loadOf(network)}`, slices, "Computed from the measured times of the stages, not recorded from a run. A gap is a lane that waits for the others at the end of a stage.");
    }
    if (!parent.children.length) parent.append("No times of stages are known.");
  }

  function reveal(id) {
    const target = document.getElementById(id);
    if (!target) return;
    for (let node = target; node; node = node.parentElement) {
      if (node.tagName === "DETAILS") node.open = true;
    }
    document.querySelectorAll(".target").forEach((one) => one.classList.remove("target"));
    target.classList.add("target");
    target.scrollIntoView({ block: target.tagName === "DETAILS" ? "start" : "center" });
    (target.tagName === "DETAILS" ? target.querySelector("summary") : target).focus({ preventScroll: true });
  }

  function search() {
    const input = document.getElementById("find");
    if (!input) return;
    const box = document.querySelector(".found");
    const list = box.querySelector("ul");
    const count = document.getElementById("found-count");
    const index = report.networks.flatMap((network, number) =>
      network.operators.map((op, position) => ({
        id: `o${number}-${position}`,
        name: op.name,
        key: op.name.toLowerCase(),
        note: `${report.networks.length > 1 ? `batch ${loadOf(network)}, ` : ""}${formatMs(op.ms)}`,
      })),
    );
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      box.hidden = !words.length;
      if (box.hidden) return;
      const found = index.filter((one) => words.every((word) => one.key.includes(word)));
      const shown = found.slice(0, 50);
      count.textContent = `${found.length} operator${found.length === 1 ? "" : "s"}${found.length > 50 ? ", the first 50:" : ""}`;
      list.replaceChildren(
        ...shown.map((one) => {
          const item = document.createElement("li");
          const link = document.createElement("a");
          const name = document.createElement("span");
          const note = document.createElement("span");
          link.href = `#${one.id}`;
          name.className = "name";
          name.textContent = one.name;
          note.textContent = one.note;
          link.append(name, note);
          item.append(link);
          return item;
        }),
      );
    };
    input.addEventListener("input", show);
    input.addEventListener("focus", show);
    input.form.addEventListener("submit", (event) => {
      event.preventDefault();
      list.querySelector("a")?.click();
    });
    input.form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        box.hidden = true;
        input.focus();
      }
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      const links = [input, ...list.querySelectorAll("a")];
      const at = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      links[at]?.focus();
      event.preventDefault();
    });
    document.addEventListener("click", (event) => {
      if (!input.form.contains(event.target)) box.hidden = true;
    });
    list.addEventListener("click", () => { box.hidden = true; });
  }

  search();

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && /^#[bo]\d/.test(link.getAttribute("href"))) {
      event.preventDefault();
      const id = link.getAttribute("href").slice(1);
      history.replaceState(null, "", `#${id}`);
      reveal(id);
    }
    const { open, close } = event.target.dataset ?? {};
    if (open ?? close) {
      document.querySelectorAll(`[data-blocks="${open ?? close}"] > details`).forEach((one) => {
        one.open = open !== undefined;
      });
    }
  });

  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  document.getElementById("download").addEventListener("click", () => {
    const blob = new Blob([JSON.stringify(report, null, 1)], { type: "application/json" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = "ios_tf_report.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });

  // A printed page has no closed parts.
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((one) => {
      one.dataset.wasOpen = one.open ? "1" : "";
      one.open = true;
    });
  });
  addEventListener("afterprint", () => {
    document.querySelectorAll("details").forEach((one) => {
      one.open = one.dataset.wasOpen === "1";
    });
  });

  // The charts come last, so that the rest of the page works even if a chart cannot be
  // drawn.
  const charts = { latency: latencyChart, gain: gainChart, roofline: rooflineChart };
  for (const element of document.querySelectorAll("[data-chart]")) {
    attempt(element, () => charts[element.dataset.chart](element));
  }
  const parent = document.getElementById("timelines");
  if (parent) attempt(parent, () => timelines(parent));
  if (/^#[bo]\d/.test(location.hash)) reveal(location.hash.slice(1));
})();
