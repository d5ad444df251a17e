// Eye diagrams: the density of traces over two symbols, with the window in which a receiver reads.
(() => {
  "use strict";
  const data = document.getElementById("eyes-data");

  function draw(eye, window) {
    const [figure, canvas, caption] = ["figure", "canvas", "figcaption"].map((tag) => document.createElement(tag));
    canvas.width = eye.wide;
    canvas.height = eye.high_cells;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Eye diagram of ${eye.name}, from ${eye.low} to ${eye.high}; the table below has its opening`);
    const context = canvas.getContext("2d");
    const image = context.createImageData(eye.wide, eye.high_cells);
    const most = Math.log1p(eye.counts.reduce((a, b) => Math.max(a, b)));
    eye.counts.forEach((count, i) => {
      const share = Math.log1p(count) / most;
      // a reading ends with its symbol; the diagram begins half a symbol before
      const time = (2 * ((i % eye.wide) + 0.5)) / eye.wide - 0.5;
      const read = (time > -window && time < 0) || (time > 1 - window && time < 1);
      const back = read ? [58, 44, 20] : [14, 19, 24];
      const front = [125, 183, 240];
      image.data.set([...back.map((c, k) => c + share * (front[k] - c)), 255], 4 * i);
    });
    context.putImageData(image, 0, 0);
    caption.textContent = `${eye.name}, from ${Number(eye.low.toPrecision(3))} to ${Number(eye.high.toPrecision(3))}`;
    figure.append(canvas, caption);
    return figure;
  }

  async function start() {
    const packed = Uint8Array.from(atob(data.textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const { eyes, window } = JSON.parse(await new Response(stream).text());
    document.getElementById("eyes-maps").append(...eyes.map((eye) => draw(eye, window)));
  }

  if (data && typeof DecompressionStream === "function") start();
})();
