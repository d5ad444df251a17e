// The table of design rules: a filter, the choice of all rules in narrow windows, and buttons that show the markers of a violated rule in the layout.
(() => {
  "use strict";
  const section = document.getElementById("rules");
  if (!section) return;
  const rows = [...section.querySelectorAll("tbody tr")];
  const filter = document.getElementById("rules-filter");
  const count = document.getElementById("rules-count");
  const all = document.getElementById("rules-all");
  const held = rows.filter((row) => row.dataset.state === "pass").length;
  document.getElementById("rules-tools").hidden = false;
  // the style sheet leaves out the rules that hold only in narrow windows; a text is sought in all rules
  const update = () => {
    const on = all.getAttribute("aria-pressed") === "true";
    section.classList.toggle("brief", !on && !filter.value);
    const others = held < rows.length ? `Show the ${held} rules that hold too` : `All ${held} rules hold: show them`;
    all.textContent = on ? "Leave out rules that hold" : others;
    all.hidden = !held || filter.value !== "";
  };
  all.addEventListener("click", () => {
    all.setAttribute("aria-pressed", String(all.getAttribute("aria-pressed") !== "true"));
    update();
  });
  update();
  filter.addEventListener("input", () => {
    const text = filter.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(text);
    update();
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rules`;
  });
  document.addEventListener("layout-ready", (event) => {
    for (const row of rows) {
      const { rule } = row.dataset;
      if (!event.detail.findings.has(rule)) continue;
      const cell = row.querySelector(".result");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      button.setAttribute("aria-label", `${cell.textContent} of ${rule}: show the next in the layout`);
      button.addEventListener("click", () => {
        document.dispatchEvent(new CustomEvent("layout-finding", { detail: rule }));
        document.getElementById("layout-view").scrollIntoView({ block: "start" });
      });
      cell.replaceChildren(button);
    }
  });
})();
