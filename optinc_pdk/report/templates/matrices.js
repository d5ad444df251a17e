// Heat maps of the chip's matrices: target, chip and difference, with the values of a chosen entry.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(`matrices-${id}`);
  const RAMPS = {
    value: [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]],
    error: [[0, 0, 4], [81, 18, 124], [183, 55, 121], [252, 137, 97], [252, 253, 191]],
  };
  const FLOOR_DB = -60;
  const SCALES = { amplitude: (v) => v, power: (v) => v * v, db: (v) => Math.max(20 * Math.log10(v), FLOOR_DB) };
  const UNITS = { amplitude: "", power: "", db: " dB" };

  function color(ramp, share) {
    const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
    const i = Math.min(Math.floor(at), ramp.length - 2);
    return ramp[i].map((c, k) => Math.round(c + (at - i) * (ramp[i + 1][k] - c)));
  }

  function short(value) {
    if (value === null) return "not used";
    return value && Math.abs(value) < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  }

  class Maps {
    constructor(matrices) {
      this.matrices = matrices;
      matrices.forEach((matrix, i) => {
        const option = document.createElement("option");
        option.value = String(i);
        option.textContent = `${matrix.name} (${matrix.rows} × ${matrix.columns})`;
        byId("part").append(option);
      });
      byId("part").disabled = matrices.length < 2;
      for (const name of ["part", "scale"]) byId(name).addEventListener("change", () => this.draw());
      byId("table").addEventListener("toggle", () => this.fillTable());
      byId("maps").addEventListener("keydown", (event) => this.move(event));
      this.draw();
    }

    draw() {
      this.matrix = this.matrices[Number(byId("part").value)];
      const { target, chip, error } = this.matrix;
      const scale = byId("scale").value;
      const scaled = (values) => values.map((v) => (v === null ? null : SCALES[scale](v)));
      const [a, b] = [scaled(target), scaled(chip)];
      const all = [...a, ...b].filter((v) => v !== null);
      const most = all.reduce((x, y) => Math.max(x, y));
      const least = scale === "db" ? all.reduce((x, y) => Math.min(x, y)) : 0;
      const worst = error.reduce((x, y) => Math.max(x, y ?? 0), 0);
      const maps = [
        ["Target", a, least, most, RAMPS.value, UNITS[scale]],
        ["Chip", b, least, most, RAMPS.value, UNITS[scale]],
        ["Difference over the largest entry", error, 0, worst, RAMPS.error, ""],
      ];
      byId("maps").replaceChildren(...maps.map((map) => this.figure(...map)));
      this.at = null;
      byId("value").textContent = `Largest difference ${short(worst)} of the largest entry`;
      this.fillTable();
    }

    figure(title, values, least, most, ramp, unit) {
      const { rows, columns } = this.matrix;
      const [figure, canvas, bar, ends, caption] = ["figure", "canvas", "div", "div", "figcaption"].map((tag) => document.createElement(tag));
      canvas.width = columns;
      canvas.height = rows;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${title}: ${rows} outputs by ${columns} inputs; the table below has the values`);
      canvas.style.aspectRatio = `${columns} / ${Math.max(rows, columns / 8)}`;
      const context = canvas.getContext("2d");
      const image = context.createImageData(columns, rows);
      values.forEach((value, i) => {
        const rgb = value === null ? [128, 128, 128] : color(ramp, most > least ? (value - least) / (most - least) : 0);
        image.data.set([...rgb, 255], 4 * i);
      });
      context.putImageData(image, 0, 0);
      const pointed = (event) => {
        const box = canvas.getBoundingClientRect();
        const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
        const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
        this.choose(Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1));
      };
      canvas.addEventListener("pointermove", pointed);
      canvas.addEventListener("click", pointed);
      bar.className = "ramp";
      bar.style.background = `linear-gradient(to right, ${ramp.map((c) => `rgb(${c.join(",")})`).join(",")})`;
      ends.className = "ends";
      const [low, high] = [least, most].map((value) => {
        const span = document.createElement("span");
        span.textContent = `${short(value)}${unit}`;
        return span;
      });
      ends.append(low, high);
      caption.textContent = title;
      figure.append(canvas, bar, ends, caption);
      return figure;
    }

    choose(row, column) {
      const { columns, target, chip, error } = this.matrix;
      const i = row * columns + column;
      this.at = [row, column];
      const db = (v) => (v ? ` (${(20 * Math.log10(v)).toFixed(2)} dB)` : "");
      byId("value").textContent = `Output ${row}, input ${column}: target ${short(target[i])}${db(target[i])}, `
        + `chip ${short(chip[i])}${db(chip[i])}, difference ${short(error[i])}`;
    }

    move(event) {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const { rows, columns } = this.matrix;
      const [row, column] = this.at ? [this.at[0] + step[0], this.at[1] + step[1]] : [0, 0];
      this.choose(Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1));
    }

    // only when it is opened: a matrix may have thousands of entries
    fillTable() {
      const holder = byId("table").querySelector(".wide");
      holder.replaceChildren();
      if (!byId("table").open) return;
      const { columns, target, chip, error } = this.matrix;
      const table = document.createElement("table");
      const add = (row, tag, text) => {
        const cell = document.createElement(tag);
        cell.textContent = text;
        row.append(cell);
        return cell;
      };
      const head = table.createTHead().insertRow();
      for (const name of ["Output", "Input", "Target", "Chip", "Difference"]) add(head, "th", name).scope = "col";
      const body = table.createTBody();
      target.forEach((value, i) => {
        const row = body.insertRow();
        for (const number of [Math.floor(i / columns), i % columns]) add(row, "th", String(number)).scope = "row";
        for (const number of [value, chip[i], error[i]]) add(row, "td", short(number));
      });
      holder.append(table);
    }
  }

  async function start() {
    const packed = Uint8Array.from(atob(byId("data").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const matrices = JSON.parse(await new Response(stream).text());
    document.getElementById("matrices").hidden = false;
    return new Maps(matrices);
  }

  if (byId("data") && typeof DecompressionStream === "function") start();
})();
