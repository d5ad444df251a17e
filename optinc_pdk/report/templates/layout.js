// The layout of the page: data, tiles, choice, overlays and measuring. Leaflet pans, zooms and shows the tiles,
// layout_tree.js the list of blocks.
(() => {
  "use strict";
  const NM = 1000; // the map's unit is µm
  const TILE_PX = 512;
  const NEAR_PX = 6; // a click chooses what is at most so far away
  const PIN_COLORS = { pad: "#ffd166", bump: "#b79ae0", fibre: "#5ee6c5" };
  const CHECK_COLORS = ["#ff5ad1", "#ffb000", "#ff3b30"];
  const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const UNITS = { power: "mW", density: "mW/µm²", phase: "rad", crosstalk: "rad", voltage: "V" };
  const LIGHT_RANGE_DB = 60;
  const UNLIT = "#3b454f"; // silicon without light
  const FADED = 0.25; // opacity of other layers beside light
  const AROUND_NM = 30 * NM; // how far the shapes of a device reach beyond its box
  const GRID_NM = 100 * NM;
  const byId = (id) => document.getElementById(`layout-${id}`);

  const place = (m, dx, dy, x, y) => [m[0] * x + m[1] * y + dx, m[2] * x + m[3] * y + dy];

  function boundsOf(points) {
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < points.length; i += 2) {
      box[0] = Math.min(box[0], points[i]);
      box[1] = Math.min(box[1], points[i + 1]);
      box[2] = Math.max(box[2], points[i]);
      box[3] = Math.max(box[3], points[i + 1]);
    }
    return box;
  }

  function summed(differences) {
    const points = Float64Array.from(differences);
    for (let i = 2; i < points.length; i += 1) points[i] += points[i - 2];
    return points;
  }

  // twice the area over the perimeter: about the width of a strip
  function thickness(points) {
    let area = 0;
    let around = 0;
    for (let i = 0, j = points.length - 2; i < points.length; j = i, i += 2) {
      area += points[j] * points[i + 1] - points[i] * points[j + 1];
      around += Math.hypot(points[i] - points[j], points[i + 1] - points[j + 1]);
    }
    return Math.abs(area) / around;
  }

  // Polygons of one layer of one cell that are drawn together, and the boxes of their placements.
  class Part {
    constructor(cell, polygons, owners) {
      this.cell = cell;
      this.polygons = polygons;
      this.owners = owners; // number of the guide by placement, for parts of one polygon on the core layer
      this.thin = Math.max(...polygons.map(thickness));
      this.box = polygons.map(boundsOf).reduce((a, b) => [
        Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[2], b[2]), Math.max(a[3], b[3]),
      ]);
      this.paths = new Map();
      this.items = new Int32Array(cell.count).fill(-1); // number of the item by placement
      const [l, b, r, t] = this.box;
      this.boxes = new Float64Array(4 * cell.count);
      for (let i = 0; i < cell.count; i += 1) {
        const corners = [[l, b], [l, t], [r, b], [r, t]].flatMap(([x, y]) => cell.at(i, x, y));
        this.boxes.set(boundsOf(corners), 4 * i);
      }
    }

    // points closer together than a pixel are left out
    path(level) {
      let path = this.paths.get(level);
      if (path) return path;
      path = new Path2D();
      const step = level === null ? 0 : 2 ** level;
      for (const points of this.polygons) {
        let [x, y] = points;
        path.moveTo(x, y);
        for (let i = 2; i < points.length; i += 2) {
          if (Math.abs(points[i] - x) + Math.abs(points[i + 1] - y) >= step) {
            x = points[i];
            y = points[i + 1];
            path.lineTo(x, y);
          }
        }
        path.closePath();
      }
      this.paths.set(level, path);
      return path;
    }
  }

  class Cell {
    constructor(raw, matrices) {
      [this.matrix, this.x, this.y] = raw.placements;
      this.count = this.matrix.length;
      this.matrices = matrices;
    }

    at(i, x, y) {
      return place(this.matrices[this.matrix[i]], this.x[i], this.y[i], x, y);
    }

    // the point of the cell that is at a point of the layout
    inverse(i, x, y) {
      const [a, b, c, d] = this.matrices[this.matrix[i]];
      const det = a * d - b * c;
      const [u, v] = [x - this.x[i], y - this.y[i]];
      return [(d * u - b * v) / det, (a * v - c * u) / det];
    }
  }

  // the parts of each layer; parts of the core layer have one polygon each, so that it can be chosen
  function readParts(data) {
    const layers = data.layers.map(() => []);
    const core = data.layers.findIndex((layer) => layer.name === "core");
    data.cells.forEach((raw, number) => {
      const cell = new Cell(raw, data.matrices);
      const polygons = raw.polygons.map(summed);
      const owners = data.guides.owners[number];
      const silicon = raw.layers.filter((layer) => layer === core).length;
      let seen = 0;
      const together = new Map();
      polygons.forEach((points, i) => {
        const layer = raw.layers[i];
        if (layer === core) {
          const order = seen;
          seen += 1;
          const owned = Int32Array.from({ length: cell.count }, (_, p) => owners[p * silicon + order]);
          layers[layer].push(new Part(cell, [points], owned));
        } else if (cell.count === 1) {
          layers[layer].push(new Part(cell, [points], null));
        } else {
          together.set(layer, [...(together.get(layer) ?? []), points]);
        }
      });
      for (const [layer, group] of together) layers[layer].push(new Part(cell, group, null));
    });
    return layers;
  }

  // the smallest item around the middle of each placement that is no guide
  function assignItems(parts, items) {
    const grid = new Map();
    const cells = ([l, b, r, t]) => {
      const keys = [];
      for (let x = Math.floor(l / GRID_NM); x <= Math.floor(r / GRID_NM); x += 1) {
        for (let y = Math.floor(b / GRID_NM); y <= Math.floor(t / GRID_NM); y += 1) keys.push(`${x} ${y}`);
      }
      return keys;
    };
    items.forEach((item) => {
      for (const key of cells(item.box)) grid.set(key, [...(grid.get(key) ?? []), item]);
    });
    for (const part of parts.flat()) {
      for (let i = 0; i < part.cell.count; i += 1) {
        if (part.owners && part.owners[i] >= 0) continue;
        const box = part.boxes.subarray(4 * i, 4 * i + 4);
        const [x, y] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
        const near = grid.get(`${Math.floor(x / GRID_NM)} ${Math.floor(y / GRID_NM)}`) ?? [];
        const found = smallest(near.filter((item) => contains(item.box, x, y, 0) && [[0, 1], [2, 3]].every(
          ([u, v]) => contains(item.box, box[u], box[v], AROUND_NM),
        )));
        if (found) part.items[i] = found.number;
      }
    }
  }

  // look: layers shown, items and guides hidden, and colours of both by their light or null
  function drawTile(context, parts, layers, look, left, top, nmPerPx, ratio) {
    const right = left + TILE_PX * nmPerPx;
    const bottom = top - TILE_PX * nmPerPx;
    const level = Math.floor(Math.log2(nmPerPx));
    const scale = ratio / nmPerPx;
    const { light, hidden } = look;
    const order = layers.map((_, number) => number);
    // lit silicon is drawn on top of the other layers
    if (light) order.sort((a, b) => (layers[a].name === "core") - (layers[b].name === "core"));
    for (const number of order) {
      const layer = layers[number];
      if (!look.shown[number]) continue;
      const lit = light && layer.name === "core";
      context.globalAlpha = light && !lit ? FADED : 1;
      context.fillStyle = context.strokeStyle = layer.color;
      for (const part of parts[number]) {
        const { boxes, cell, items } = part;
        const line = layer.hollow || part.thin < nmPerPx;
        for (let i = 0; i < cell.count; i += 1) {
          const k = 4 * i;
          if (boxes[k] > right || boxes[k + 2] < left || boxes[k + 1] > top || boxes[k + 3] < bottom) continue;
          const guide = part.owners ? part.owners[i] : -1;
          if (hidden && (guide >= 0 ? hidden.guides[guide] : items[i] >= 0 && hidden.items[items[i]])) continue;
          if (lit) {
            const color = (guide >= 0 ? light.guides[guide] : light.items[items[i]]) ?? UNLIT;
            context.fillStyle = context.strokeStyle = color;
          }
          const wide = boxes[k + 2] - boxes[k];
          const high = boxes[k + 3] - boxes[k + 1];
          if (Math.max(wide, high) < 3 * nmPerPx) {
            // level of detail: a shape of few pixels is its box
            context.setTransform(1, 0, 0, 1, 0, 0);
            const [w, h] = [Math.max(wide * scale, 0.6), Math.max(high * scale, 0.6)];
            context.fillRect((boxes[k] - left) * scale, (top - boxes[k + 3]) * scale, w, h);
            continue;
          }
          const m = cell.matrices[cell.matrix[i]];
          context.setTransform(
            m[0] * scale, -m[2] * scale, m[1] * scale, -m[3] * scale,
            (cell.x[i] - left) * scale, (top - cell.y[i]) * scale,
          );
          const path = part.path(level);
          if (line) {
            context.lineWidth = (lit ? 1.5 : 0.8) * nmPerPx;
            context.stroke(path);
          } else {
            context.fill(path);
          }
        }
      }
    }
  }

  const Tiles = L.GridLayer.extend({
    options: { tileSize: TILE_PX, minZoom: -20, maxZoom: 12, keepBuffer: 1, updateWhenZooming: false },
    createTile(coords, done) {
      const canvas = document.createElement("canvas");
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      canvas.width = canvas.height = TILE_PX * ratio;
      const nmPerPx = NM / 2 ** coords.z;
      setTimeout(() => {
        const [left, top] = [coords.x * TILE_PX * nmPerPx, -coords.y * TILE_PX * nmPerPx];
        const { parts, layers, look } = this.options;
        drawTile(canvas.getContext("2d"), parts, layers, look, left, top, nmPerPx, ratio);
        done(null, canvas);
      });
      return canvas;
    },
  });

  const Scale = L.Control.Scale.extend({
    _updateMetric(most) {
      const length = most < 1 ? most : this._getRoundNum(most);
      const text = length >= NM ? `${length / NM} mm` : `${Number(length.toPrecision(3))} µm`;
      this._updateScale(this._mScale, text, length / most);
    },
  });

  const latLng = (x, y) => L.latLng(y / NM, x / NM);
  const bounds = ([l, b, r, t]) => L.latLngBounds(latLng(l, b), latLng(r, t));
  const contains = ([l, b, r, t], x, y, by) => x >= l - by && x <= r + by && y >= b - by && y <= t + by;
  const area = ([l, b, r, t]) => (r - l) * (t - b);
  const smallest = (found) => found.reduce((a, b) => (a && area(a.box) <= area(b.box) ? a : b), null);

  const signed = (number) => String(number).replace("-", "−");

  function ramp(share) {
    const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
    const i = Math.min(Math.floor(at), RAMP.length - 2);
    return `rgb(${RAMP[i].map((c, k) => Math.round(c + (at - i) * (RAMP[i + 1][k] - c))).join(",")})`;
  }

  const GRADIENT = `linear-gradient(to right, ${RAMP.map((c) => `rgb(${c.join(",")})`).join(",")})`;

  class View {
    constructor(data) {
      this.data = data;
      this.parts = readParts(data);
      this.core = this.parts[data.layers.findIndex((layer) => layer.name === "core")] ?? [];
      this.look = { shown: data.layers.map(() => true), hidden: null, light: null };
      data.items.forEach((item, number) => {
        item.number = number;
      });
      this.word = null; // number of the input whose light is shown
      this.probe = document.createElement("canvas").getContext("2d");
      this.guides = data.guides.ends.map((ends, i) => ({
        kind: "guide",
        name: ends.join(" – "),
        guide: i,
        facts: {
          From: ends[0],
          To: ends[1],
          Length: `${data.guides.length_um[i]} µm`,
          Loss: `${data.guides.loss_db[i].toFixed(4)} dB, propagation`,
        },
      }));
      this.markers = data.markers.map((marker) => ({
        kind: marker.check, name: marker.name, box: marker.box, guide: marker.guide, facts: { Finding: marker.text },
      }));
      this.heaters = data.items.filter((item) => item.values);
      this.visible = new Set();
      this.measured = null;
      this.makeMap();
      this.makeControls();
    }

    makeMap() {
      const whole = bounds(this.data.box);
      const [l, b, r, t] = this.data.box;
      byId("map").style.setProperty("--shape", `${(t - b) / (r - l)}`);
      byId("map").style.setProperty("--width", `${byId("map").clientWidth}px`);
      this.map = L.map(byId("map"), {
        crs: L.CRS.Simple, zoomSnap: 0.25, maxZoom: 7, minZoom: -20, attributionControl: false, preferCanvas: true,
        fadeAnimation: false, maxBounds: whole.pad(0.5), zoomAnimation: !matchMedia("(prefers-reduced-motion)").matches,
      });
      this.map.fitBounds(whole, { padding: [8, 8], animate: false });
      this.map.setMinZoom(this.map.getZoom() - 1);
      this.tiles = new Tiles({ parts: this.parts, layers: this.data.layers, look: this.look });
      this.tiles.once("load", () => {
        performance.mark("layout-drawn");
        byId("view").dataset.drawn = "true";
      });
      this.tiles.addTo(this.map);
      new Scale({ imperial: false, maxWidth: 120 }).addTo(this.map);
      this.overlay = L.layerGroup().addTo(this.map);
      this.choice = L.layerGroup().addTo(this.map);
      this.ruler = L.layerGroup().addTo(this.map);
      this.map.on("click", (event) => this.clicked(event.latlng));
      this.map.on("mousemove", (event) => {
        byId("place").textContent = `x ${event.latlng.lng.toFixed(3)}, y ${event.latlng.lat.toFixed(3)} µm`;
      });
      byId("map").addEventListener("keydown", (event) => {
        if (event.key === "Enter") this.clicked(this.map.getCenter());
        if (event.key === "Escape") this.setMeasure(false);
      });
    }

    nmPerPx() {
      return NM / 2 ** this.map.getZoom();
    }

    clicked(at) {
      if (this.measured) this.measure(at);
      else this.choose(this.find(at.lng * NM, at.lat * NM), false, this.textAt(at.lng * NM, at.lat * NM));
    }

    // what is said about a point where no part with a name is shown
    textAt(x, y) {
      const hidden = this.look.hidden && this.find(x, y, null);
      return hidden ? `${hidden.kind} ${hidden.name} is hidden` : this.layersAt(x, y);
    }

    layersAt(x, y) {
      const at = (part, i) => {
        const box = part.boxes.subarray(4 * i, 4 * i + 4);
        return contains(box, x, y, 0) && this.probe.isPointInPath(part.path(null), ...part.cell.inverse(i, x, y));
      };
      const { hidden } = this.look;
      const gone = (part, i) => part.items[i] >= 0 && hidden?.items[part.items[i]];
      const here = (part) => Array.from({ length: part.cell.count }, (_, i) => i).filter((i) => at(part, i));
      const visible = (part) => here(part).some((i) => !gone(part, i));
      const found = this.data.layers.filter((layer, n) => this.look.shown[n] && !layer.hollow && this.parts[n].some(visible));
      const covered = hidden && this.parts.flat().some((part) => here(part).some((i) => gone(part, i)));
      if (!found.length && covered) return "A hidden block is here";
      if (!found.length) return "Nothing is here";
      return `${found.map((layer) => layer.title).join(", ")}: no device, guide, pad or fibre`;
    }

    find(x, y, hidden = this.look.hidden) {
      const near = NEAR_PX * this.nmPerPx();
      const shown = this.markers.filter((each) => this.visible.has(each.kind));
      const marked = shown.filter((each) => each.box && contains(each.box, x, y, near));
      if (marked.length) return smallest(marked);
      const onGuides = shown.filter((each) => !each.box);
      if (onGuides.length) {
        // markers of hidden guides are drawn as well
        const at = this.findGuide(x, y, near, []);
        const marker = at && onGuides.find((each) => each.guide === at.guide);
        if (marker) return marker;
      }
      const items = this.data.items.filter((item) => !hidden?.items[item.number]);
      const inside = smallest(items.filter((item) => contains(item.box, x, y, 0)));
      if (inside) return inside;
      const guide = this.findGuide(x, y, near, hidden?.guides ?? []);
      return guide ?? smallest(items.filter((item) => contains(item.box, x, y, near)));
    }

    findGuide(x, y, near, hidden) {
      const stub = this.data.guides.stubs.find(([guide, ...box]) => !hidden[guide] && contains(box, x, y, near));
      if (stub) return this.guides[stub[0]];
      this.probe.lineWidth = 2 * near;
      for (const part of this.core) {
        for (let i = 0; i < part.cell.count; i += 1) {
          const box = part.boxes.subarray(4 * i, 4 * i + 4);
          if (part.owners[i] < 0 || hidden[part.owners[i]] || !contains(box, x, y, near)) continue;
          const [u, v] = part.cell.inverse(i, x, y);
          const path = part.path(null);
          if (this.probe.isPointInPath(path, u, v) || this.probe.isPointInStroke(path, u, v)) {
            return this.guides[part.owners[i]];
          }
        }
      }
      return null;
    }

    guideOutlines(guide) {
      const outlines = this.data.guides.stubs
        .filter(([owner]) => owner === guide)
        .map(([, l, b, r, t]) => [[latLng(l, b), latLng(l, t), latLng(r, t), latLng(r, b)]]);
      for (const part of this.core) {
        part.owners.forEach((owner, i) => {
          if (owner !== guide) return;
          const [points] = part.polygons;
          const outline = [];
          for (let k = 0; k < points.length; k += 2) outline.push(latLng(...part.cell.at(i, points[k], points[k + 1])));
          outlines.push([outline]);
        });
      }
      return outlines;
    }

    choose(item, go = false, nothing = "Nothing is here") {
      this.choice.clearLayers();
      this.chosen = item;
      const fillOpacity = item?.kind === "block" ? 0 : 0.15;
      const style = { color: "#ffffff", weight: 3, fillOpacity, interactive: false };
      const list = byId("facts");
      list.replaceChildren();
      byId("chosen").textContent = item ? `${item.kind} ${item.name}` : nothing;
      if (!item) return;
      for (const [name, value] of Object.entries({ ...item.facts, ...this.lightFacts(item) })) {
        const [head, text] = [document.createElement("dt"), document.createElement("dd")];
        head.textContent = name;
        text.textContent = value;
        list.append(head, text);
      }
      const outlines = item.box ? null : this.guideOutlines(item.guide);
      const shape = outlines ? L.polygon(outlines, style) : L.rectangle(bounds(item.box), style);
      if (!outlines || outlines.length) {
        this.choice.addLayer(shape);
        const [pad, maxZoom] = item.kind === "block" ? [0.05, 7] : [2, 3];
        if (go) this.map.fitBounds(shape.getBounds().pad(pad), { maxZoom, animate: false });
      }
    }

    makeControls() {
      const layers = byId("layers");
      this.data.layers.forEach((layer, number) => {
        const box = this.checkbox(layers, layer.title, layer.color, true, (on) => {
          this.look.shown[number] = on;
          this.tiles.redraw();
        });
        box.dataset.layer = layer.name;
      });
      const overlays = byId("overlays");
      const overlay = (kind, text, color) => this.checkbox(overlays, text, color, false, (on) => {
        if (on) this.visible.add(kind);
        else this.visible.delete(kind);
        this.drawOverlay();
      }).dataset.overlay = kind;
      if (this.data.dies.length) overlay("dies", `Dies (${this.data.dies.length})`, "#ffffff");
      for (const [kind, color] of Object.entries(PIN_COLORS)) {
        const count = this.data.items.filter((item) => item.kind === kind).length;
        if (count) overlay(kind, `${kind === "fibre" ? "Fibres" : `${kind[0].toUpperCase()}${kind.slice(1)}s`} (${count})`, color);
      }
      this.checks = [...new Set(this.markers.map((marker) => marker.kind))];
      this.checks.forEach((check, i) => {
        const count = this.markers.filter((marker) => marker.kind === check).length;
        overlay(check, `${check} (${count})`, CHECK_COLORS[i % CHECK_COLORS.length]);
      });
      if (byId("view").dataset.findings) {
        for (const box of overlays.querySelectorAll("input")) if (this.checks.includes(box.dataset.overlay)) box.click();
      }
      byId("heaters")?.addEventListener("change", () => this.drawOverlay());
      for (const option of byId("heaters")?.options ?? []) {
        option.disabled = option.value !== "none" && !this.heaters.some((item) => option.value in item.values);
      }
      this.makeLight();
      byId("next").disabled = !this.markers.length;
      byId("next").addEventListener("click", () => this.nextMarker());
      byId("measure").addEventListener("click", () => this.setMeasure(!this.measured));
      byId("whole").addEventListener("click", () => this.map.fitBounds(bounds(this.data.box), { animate: false }));
      byId("fill").addEventListener("click", () => {
        const on = byId("view").classList.toggle("filled");
        byId("fill").setAttribute("aria-pressed", String(on));
        this.map.invalidateSize();
      });
      this.makeSearch();
      this.makeTree();
    }

    makeLight() {
      const [select, { light }] = [byId("light"), this.data];
      if (!light) return;
      select.append(...light.titles.map((title, number) => new Option(title, number)));
      const levels = [...light.guides, ...light.items].flat();
      const highest = levels.reduce((a, b) => Math.max(a, b ?? light.dark), light.dark);
      // rounded up to 10 dB
      this.full = 10 * Math.ceil((highest * light.step_db) / 10);
      byId("light-low").textContent = `≤ ${signed(this.full - LIGHT_RANGE_DB)} dB`;
      byId("light-high").textContent = `${signed(this.full)} dB`;
      byId("light-ramp").style.background = GRADIENT;
      select.addEventListener("change", () => {
        this.setLight(select.value === "none" ? null : Number(select.value));
      });
    }

    setLight(word) {
      const { light } = this.data;
      this.word = word;
      byId("light-legend").hidden = word === null;
      const color = (level) => {
        if (level === null || level <= light.dark) return null;
        return ramp(1 + (level * light.step_db - this.full) / LIGHT_RANGE_DB);
      };
      this.look.light = word === null ? null : {
        guides: light.guides[word].map(color), items: light.items[word].map(color),
      };
      this.redraw();
      if (this.chosen) this.choose(this.chosen);
    }

    lightFacts(item) {
      const { light } = this.data;
      if (this.word === null) return {};
      const level = item.guide === undefined ? light.items[this.word][item.number] : light.guides[this.word][item.guide];
      if (level === null || level === undefined) return {};
      const [below, db] = [level <= light.dark ? "below " : "", signed((level * light.step_db).toFixed(1))];
      return { "Optical power": `${below}${db} dB of an input of full scale` };
    }

    // items of shapes are found when they are first needed
    redraw() {
      if (!this.assigned) assignItems(this.parts, this.data.items);
      this.assigned = true;
      this.tiles.redraw();
    }

    makeTree() {
      this.blocks = layoutTree.blocks(this.data.items, Object.keys(PIN_COLORS));
      this.isHidden = (item) => this.look.hidden?.items[item.number] ?? false;
      const [chosen, shown] = [(node) => this.chooseBlock(node), (node, on) => this.showBlock(node, on)];
      layoutTree.show(byId("tree"), this.blocks, chosen, shown, this.isHidden);
    }

    chooseBlock({ name, all, parts }) {
      if (!parts.length) {
        this.choose(all[0], true);
        return;
      }
      const box = all.map((item) => item.box).reduce((a, b) => [
        Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[2], b[2]), Math.max(a[3], b[3]),
      ]);
      const kinds = new Map();
      for (const { kind } of all) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      const facts = {
        Parts: [...kinds].map(([kind, count]) => `${kind}: ${count.toLocaleString("en")}`).join(", "),
        Size: `${((box[2] - box[0]) / NM).toFixed(1)} × ${((box[3] - box[1]) / NM).toFixed(1)} µm`,
      };
      const heaters = all.filter((item) => item.values);
      if (heaters.length) {
        facts.Power = `${heaters.reduce((sum, item) => sum + item.values.power, 0).toFixed(3)} mW, heaters`;
      }
      this.choose({ kind: "block", name, box, facts }, true);
    }

    // a guide is hidden if the devices at both ends are
    showBlock(node, on) {
      const hidden = this.look.hidden ?? { items: this.data.items.map(() => false), guides: [] };
      for (const item of node.all) hidden.items[item.number] = !on;
      const gone = new Map();
      for (const item of this.data.items) {
        gone.set(item.facts["Netlist instance"], hidden.items[item.number]);
      }
      hidden.guides = this.data.guides.ends.map((ends) => ends.every((end) => gone.get(end.slice(0, end.lastIndexOf(",")))));
      this.look.hidden = hidden.items.some((each) => each) ? hidden : null;
      layoutTree.update(byId("tree"), this.isHidden);
      this.redraw();
      this.drawOverlay();
    }

    // shows the hidden block of a part again, or those at the ends of a hidden guide; returns the names of blocks
    reveal(item) {
      const ends = item.kind === "guide" && this.look.hidden?.guides[item.guide] ? this.data.guides.ends[item.guide] : [];
      const instances = ends.map((end) => end.slice(0, end.lastIndexOf(",")));
      const parts = item.kind === "guide"
        ? this.data.items.filter((each) => instances.includes(each.facts["Netlist instance"]))
        : [item];
      const names = [];
      for (const part of parts) {
        if (!this.isHidden(part)) continue;
        const node = layoutTree.hiddenBlock(this.blocks, part, this.isHidden);
        this.showBlock(node, true);
        names.push(node.name);
      }
      return names;
    }

    checkbox(parent, text, color, checked, changed) {
      const label = document.createElement("label");
      const box = document.createElement("input");
      const key = document.createElement("span");
      box.type = "checkbox";
      box.checked = checked;
      box.addEventListener("change", () => changed(box.checked));
      key.className = "swatch";
      key.style.background = color;
      label.append(box, key, text);
      parent.append(label);
      return box;
    }

    makeSearch() {
      const [input, options] = [byId("find"), byId("names")];
      this.named = new Map();
      for (const item of [...this.data.items, ...this.guides]) this.named.set(`${item.kind} ${item.name}`, item);
      const options40 = (text) => {
        const found = [];
        for (const name of this.named.keys()) {
          if (name.toLowerCase().includes(text)) found.push(name);
          if (found.length === 40) break;
        }
        return found.map((name) => new Option(name, name));
      };
      input.addEventListener("input", () => {
        this.sought = null;
        byId("matches").textContent = "";
        if (this.named.has(input.value)) this.seek(1);
        else options.replaceChildren(...options40(input.value.toLowerCase()));
      });
      input.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        this.seek(event.shiftKey ? -1 : 1);
      });
      byId("search").addEventListener("submit", (event) => {
        event.preventDefault();
        this.seek(1);
      });
      byId("previous").addEventListener("click", () => this.seek(-1));
    }

    // chooses the next part with the text in its name, or the previous one; an equal name is the first
    seek(step) {
      const { value } = byId("find");
      const text = value.toLowerCase();
      if (this.sought?.text !== text) {
        const names = [...this.named.keys()].filter((each) => each.toLowerCase().includes(text));
        names.sort((a, b) => (b.toLowerCase() === text) - (a.toLowerCase() === text));
        this.sought = { text, names, at: step > 0 ? -1 : 0 };
      }
      const { names } = this.sought;
      if (!names.length) {
        byId("matches").textContent = "0 of 0";
        this.choose(null, true, `No part of the layout is named ${value}`);
        return;
      }
      this.sought.at = (this.sought.at + step + names.length) % names.length;
      const item = this.named.get(names[this.sought.at]);
      const again = this.reveal(item).map((name) => `; ${name} is shown again`).join("");
      byId("matches").textContent = `${(this.sought.at + 1).toLocaleString("en")} of ${names.length.toLocaleString("en")}${again}`;
      this.choose(item, true);
    }

    nextMarker(name = null) {
      const shown = this.markers.filter((marker) => (name ? marker.name === name : this.visible.has(marker.kind)));
      const among = shown.length ? shown : this.markers;
      this.current = ((this.current ?? -1) + 1) % among.length;
      const marker = among[this.current];
      const box = document.querySelector(`#layout-overlays input[data-overlay="${CSS.escape(marker.kind)}"]`);
      if (!box.checked) box.click();
      this.choose(marker, true);
    }

    drawOverlay() {
      this.overlay.clearLayers();
      const add = (layer) => this.overlay.addLayer(layer);
      const outline = (box, color, more) => add(L.rectangle(bounds(box), { color, interactive: false, ...more }));
      const quantity = byId("heaters")?.value;
      if (quantity) byId("legend").hidden = quantity === "none";
      if (quantity && quantity !== "none") this.drawHeaters(quantity, outline);
      if (this.visible.has("dies")) this.data.dies.forEach((die) => outline(die, "#ffffff", { weight: 2, fill: false }));
      for (const item of this.data.items) {
        if (!this.visible.has(item.kind) || this.look.hidden?.items[item.number]) continue;
        const style = { color: PIN_COLORS[item.kind], radius: 3, weight: 2, interactive: false };
        add(L.circleMarker(bounds(item.box).getCenter(), style));
      }
      for (const marker of this.markers) {
        if (!this.visible.has(marker.kind)) continue;
        const color = CHECK_COLORS[this.checks.indexOf(marker.kind) % CHECK_COLORS.length];
        const style = { color, weight: 2, fillOpacity: 0.3, interactive: false };
        let middle = marker.box && bounds(marker.box).getCenter();
        if (marker.box) {
          outline(marker.box, color, style);
        } else {
          const outlines = this.guideOutlines(marker.guide);
          add(L.polygon(outlines, { ...style, weight: 4 }));
          [[middle]] = outlines[Math.floor(outlines.length / 2)];
        }
        add(L.circleMarker(middle, { color, radius: 6, weight: 2, fill: false, interactive: false }));
      }
    }

    drawHeaters(quantity, outline) {
      const heaters = this.heaters.filter((item) => quantity in item.values);
      const values = heaters.map((item) => item.values[quantity]);
      const low = values.reduce((a, b) => Math.min(a, b));
      const high = values.reduce((a, b) => Math.max(a, b));
      heaters.forEach((item, i) => {
        if (this.look.hidden?.items[item.number]) return;
        const color = ramp(high > low ? (values[i] - low) / (high - low) : 0);
        outline(item.box, color, { weight: 4, fillOpacity: 1 });
      });
      byId("low").textContent = `${low.toPrecision(4)} ${UNITS[quantity]}`;
      byId("high").textContent = `${high.toPrecision(4)} ${UNITS[quantity]}`;
      byId("ramp").style.background = GRADIENT;
      byId("note").textContent = {
        density: "Power over the area of the heater. The process card states no temperature.",
        crosstalk: `Phase that the other heaters add: ${this.data.crosstalk}. The process card states no temperature.`,
      }[quantity] ?? "";
    }

    setMeasure(on) {
      this.measured = on ? [] : null;
      this.ruler.clearLayers();
      byId("measure").setAttribute("aria-pressed", String(on));
      byId("length").textContent = on ? "Choose two points in the layout" : "";
      byId("map").classList.toggle("measuring", on);
    }

    measure(at) {
      if (this.measured.length === 2) this.measured = [];
      this.measured.push(at);
      this.ruler.clearLayers();
      const style = { color: "#ffffff", weight: 2, interactive: false };
      for (const point of this.measured) this.ruler.addLayer(L.circleMarker(point, { ...style, radius: 4 }));
      if (this.measured.length < 2) return;
      const [a, b] = this.measured;
      this.ruler.addLayer(L.polyline(this.measured, { ...style, dashArray: "6 4" }));
      const [dx, dy] = [b.lng - a.lng, b.lat - a.lat];
      const length = Math.hypot(dx, dy).toFixed(3);
      byId("length").textContent = `Distance ${length} µm (x ${dx.toFixed(3)}, y ${dy.toFixed(3)} µm)`;
    }
  }

  async function start() {
    const text = atob(byId("data").textContent.trim());
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) packed[i] = text.charCodeAt(i);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const data = JSON.parse(await new Response(stream).text());
    byId("view").hidden = false;
    for (const figure of document.querySelectorAll(".static-layout")) figure.hidden = true;
    const view = new View(data);
    document.addEventListener("layout-finding", (event) => view.nextMarker(event.detail));
    const findings = new Set(data.markers.map((marker) => marker.name));
    document.dispatchEvent(new CustomEvent("layout-ready", { detail: { findings } }));
  }

  // a browser without this interface shows the pictures
  if (typeof DecompressionStream === "function") start();
})();
