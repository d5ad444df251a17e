// The table of design rules: a filter, and buttons that show the markers of a violated rule in the layout.
(() => {
  "use strict";
  const section = document.getElementById("rules");
  if (!section) return;
  const rows = [...section.querySelectorAll("tbody tr")];
  const filter = document.getElementById("rules-filter");
  const count = document.getElementById("rules-count");
  document.getElementById("rules-tools").hidden = false;
  filter.addEventListener("input", () => {
    const text = filter.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(text);
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
