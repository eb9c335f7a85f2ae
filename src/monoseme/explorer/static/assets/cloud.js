"use strict";
// Positions inside a block, on a plain canvas: a browser keeps about sixteen WebGL contexts, a gallery needs hundreds.
(() => {
  // position inside a block as colour: its direction, as red, green and blue
  monoseme.colour = (p) => {
    const n = Math.hypot(...p) || 1;
    return `rgb(${p.map((v) => Math.round(255 * (0.5 + (0.5 * v) / n))).join(" ")})`;
  };

  // positions inside the block: a strip and histogram for b = 1, a plane for b = 2, a turning cloud for b >= 3
  monoseme.cloud = (canvas, card, turn = [0.6, 0.35]) => {
    const side = canvas.clientWidth || 96,
      ratio = window.devicePixelRatio || 1,
      tall = canvas.clientHeight || side;
    if (canvas.width !== Math.round(side * ratio)) {
      canvas.width = Math.round(side * ratio);
      canvas.height = Math.round(tall * ratio);
    }
    const c = canvas.getContext("2d"),
      ink = getComputedStyle(canvas).color;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, side, tall);
    const most = Math.max(1e-30, ...card.cloud.map((p) => Math.hypot(...p)));
    const reach = 0.44 * Math.min(side, tall),
      dot = Math.max(1, side / 150);
    c.lineWidth = 1;
    if (card.size === 1) return strip(c, card, side, tall, most, ink);
    c.strokeStyle = ink;
    c.globalAlpha = 0.25;
    const [sy, cy, sx, cx] =
      card.size === 2 ? [0, 1, 0, 1] : [Math.sin(turn[0]), Math.cos(turn[0]), Math.sin(turn[1]), Math.cos(turn[1])];
    const see = ([x, y, z]) => {
      const u = cy * x + sy * z,
        w = cy * z - sy * x;
      return [u, cx * y - sx * w, sx * y + cx * w];
    };
    for (const axis of card.size === 2
      ? [
          [1, 0, 0],
          [0, 1, 0],
        ]
      : [
          [1, 0, 0],
          [0, 1, 0],
          [0, 0, 1],
        ]) {
      const [x, y] = see(axis);
      c.beginPath();
      c.moveTo(side / 2 - reach * x, tall / 2 + reach * y);
      c.lineTo(side / 2 + reach * x, tall / 2 - reach * y);
      c.stroke();
    }
    const seen = card.cloud.map((p) => [see(p.map((v) => v / most)), monoseme.colour(p)]).sort((a, b) => a[0][2] - b[0][2]);
    for (const [[x, y, z], fill] of seen) {
      c.globalAlpha = 0.55 + 0.35 * Math.max(-1, Math.min(1, z));
      c.fillStyle = fill;
      c.beginPath();
      c.arc(side / 2 + reach * x, tall / 2 - reach * y, dot * (1.5 + 0.5 * z), 0, 7);
      c.fill();
    }
    c.globalAlpha = 1;
    if (card.way) along(c, card.way, (p) => see(p.map((v) => v / most)), side, tall, reach, ink);
  };

  // a walk: its steps joined, the one that is pointed at as a ring with its number
  const along = (c, way, see, side, tall, reach, ink) => {
    const at = way.points.map(see).map(([x, y]) => [side / 2 + reach * x, tall / 2 - reach * y]);
    c.strokeStyle = c.fillStyle = ink;
    c.lineWidth = 1.5;
    c.beginPath();
    at.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
    if (way.closed) c.closePath();
    c.stroke();
    c.font = "600 12px ui-sans-serif, system-ui, sans-serif";
    at.forEach(([x, y], i) => {
      c.beginPath();
      c.arc(x, y, i === way.at ? 9 : 3, 0, 7);
      if (i !== way.at) c.fill();
      else {
        c.lineWidth = 2.5;
        c.stroke();
        c.fillText(String(i + 1), x + 12, y + 4);
      }
    });
  };

  const strip = (c, card, side, tall, most, ink) => {
    const bins = new Array(25).fill(0),
      base = 0.8 * tall;
    for (const [x] of card.cloud) bins[Math.min(24, Math.floor(((x / most + 1) / 2) * 25))] += 1;
    const top = Math.max(1, ...bins),
      step = (0.9 * side) / 25;
    bins.forEach((count, i) => {
      c.fillStyle = i > 12 ? "rgb(255 128 128)" : i < 12 ? "rgb(0 128 128)" : "rgb(128 128 128)";
      c.fillRect(
        0.05 * side + i * step,
        base - (0.7 * tall * count) / top,
        Math.max(1, step - 1),
        (0.7 * tall * count) / top,
      );
    });
    c.strokeStyle = ink;
    c.globalAlpha = 0.4;
    c.beginPath();
    c.moveTo(0.05 * side, base + 0.5);
    c.lineTo(0.95 * side, base + 0.5);
    c.moveTo(side / 2, base + 5);
    c.lineTo(side / 2, base - 0.7 * tall);
    c.stroke();
    c.globalAlpha = 1;
  };
})();
