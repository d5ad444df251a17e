// Blocks of the layout: devices, pads and fibres by the parts of their names, as a tree that zooms and hides.
const layoutTree = (() => {
  "use strict";

  // "l1_v_c0_r0.first" belongs to the blocks l1, l1_v, l1_v_c0 and l1_v_c0_r0
  const tokens = (name) => name.split(/(?=[_.])/);
  // localeCompare makes such an object for every comparison
  const order = new Intl.Collator("en", { numeric: true });
  const byName = (a, b) => order.compare(a.name, b.name);

  function grow(name, items) {
    const root = { name, items: [], parts: new Map() };
    for (const item of items) {
      let node = root;
      let path = "";
      for (const token of tokens(item.name)) {
        path += token;
        if (!node.parts.has(path)) node.parts.set(path, { name: path, items: [], parts: new Map() });
        node = node.parts.get(path);
      }
      node.items.push(item);
    }
    return finish(root);
  }

  // a block with one part only is that part
  function finish(node) {
    const parts = [...node.parts.values()].map(finish);
    if (parts.length === 1 && !node.items.length) return parts[0];
    const own = node.items.map((item) => ({ name: item.name, all: [item], parts: [] }));
    // a device of its own is a leaf
    if (!parts.length && own.length === 1) return own[0];
    const all = [...node.items, ...parts.flatMap((part) => part.all)];
    return { name: node.name, all, parts: [...own, ...parts].sort(byName) };
  }

  /**
   * The blocks of the layout's items: those of the devices, then all pads, bumps and fibres.
   * @param {object[]} items Items with kind and name.
   * @param {string[]} pinKinds Kinds of pads, bumps and fibres.
   */
  function blocks(items, pinKinds) {
    const devices = grow("devices", items.filter((item) => !pinKinds.includes(item.kind)));
    const pins = pinKinds
      .map((kind) => ({ kind, among: items.filter((item) => item.kind === kind) }))
      .filter(({ among }) => among.length)
      .map(({ kind, among }) => {
        const tree = grow(kind, among);
        const parts = tree.parts.length ? tree.parts : [tree];
        return { name: kind === "fibre" ? "fibres" : `${kind}s`, all: tree.all, parts };
      });
    return [...(devices.all.length ? (devices.parts.length ? devices.parts : [devices]) : []), ...pins];
  }

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  const blockOf = new WeakMap(); // block by its box

  function tick(box, hidden) {
    const { all } = blockOf.get(box);
    const count = all.filter(hidden).length;
    box.checked = count < all.length;
    box.indeterminate = count > 0 && box.checked;
  }

  /**
   * Sets the boxes of a list by what is hidden.
   * @param {HTMLElement} list The list.
   * @param {(item: object) => boolean} hidden Whether an item is hidden.
   */
  function update(list, hidden) {
    for (const box of list.querySelectorAll("input")) tick(box, hidden);
  }

  /**
   * The largest block with a hidden item of which nothing is shown.
   * @param {object[]} nodes Blocks.
   * @param {object} item The item.
   * @param {(item: object) => boolean} hidden Whether an item is hidden.
   */
  function hiddenBlock(nodes, item, hidden) {
    const node = nodes.find((each) => each.all.includes(item));
    return node.all.every(hidden) ? node : hiddenBlock(node.parts, item, hidden);
  }

  /**
   * Shows blocks as a list; parts of a block are made when it is first opened.
   * @param {HTMLElement} list The list.
   * @param {object[]} nodes Blocks.
   * @param {(node: object) => void} chosen Called with a block that is chosen.
   * @param {(node: object, on: boolean) => void} shown Called with a block that is shown or hidden.
   * @param {(item: object) => boolean} hidden Whether an item is hidden.
   */
  function show(list, nodes, chosen, shown, hidden) {
    for (const node of nodes) {
      const box = element("input", { type: "checkbox" });
      blockOf.set(box, node);
      tick(box, hidden);
      const label = element("label", {}, box, element("span", { className: "unseen", textContent: `Show ${node.name}` }));
      const count = node.parts.length ? ` (${node.all.length.toLocaleString("en")})` : "";
      const zoom = element("button", { type: "button", className: "block", textContent: `${node.name}${count}` });
      const row = element("li", {}, label, zoom);
      zoom.addEventListener("click", () => chosen(node));
      box.addEventListener("change", () => shown(node, box.checked));
      if (node.parts.length) {
        const open = element("button", { type: "button", className: "open", textContent: "▸", ariaLabel: `Parts of ${node.name}` });
        open.setAttribute("aria-expanded", "false");
        open.addEventListener("click", () => {
          const now = open.getAttribute("aria-expanded") !== "true";
          open.setAttribute("aria-expanded", String(now));
          open.textContent = now ? "▾" : "▸";
          if (!row.querySelector("ul")) {
            const inner = element("ul", {});
            show(inner, node.parts, chosen, shown, hidden);
            row.append(inner);
          }
          row.querySelector("ul").hidden = !now;
        });
        row.prepend(open);
      }
      list.append(row);
    }
  }

  return { blocks, show, update, hiddenBlock };
})();
