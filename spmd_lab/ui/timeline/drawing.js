// Draws one scene of a timeline on a canvas. Pixels are CSS pixels; times are seconds.

const AXIS = 22, GAP = 6, LEAST = 1, NAMES = 15;
const PASS = 4, FAINT = 0.05, JOINED = 1e-4;  // pixels, of a pass and of what is left out; of a pass

/** Where each row lies: labels in a column of their own, or above the rows where it is narrow. */
function layout(scene, width) {
  const narrow = width < 560, left = narrow ? 0 : 118, head = narrow ? 15 : 0;
  let top = AXIS + 4 + (hasNames(scene) ? NAMES : 0);
  const rows = scene.rows.map((title, number) => {
    const height = number === 0 && scene.tall ? 46 : scene.small[number] ? 15 : 24;
    const row = { title, top: top + head, height };
    top += head + height + GAP;
    return row;
  });
  return { left, narrow, rows, width, height: top + 4 };
}

/** Whether names stand above the chip: of what lies between its loops, mostly too short for one. */
function hasNames(scene) {
  return scene.tall && scene.kind.includes("loop");
}

/** A length of time with its unit, three digits. */
function timeText(seconds, digits = 3) {
  if (!seconds) return "0 s";
  const [size, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]
    .find(([step]) => Math.abs(seconds) >= step) || [1e-9, "ns"];
  const value = seconds / size;
  const text = Math.abs(value) >= 999.5 && digits === 3 ? Math.round(value).toLocaleString("en") :
    String(Number(value.toPrecision(digits)));
  return `${text} ${unit}`;
}

/** Digits that tell a tick from the next. */
function digitsFor(at, step) {
  return at ? Math.min(15, Math.max(3, 1 + Math.ceil(Math.log10(Math.abs(at) / step)))) : 3;
}

function bytesText(count) {
  const [size, unit] = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]
    .find(([step]) => count >= step) || [1, "B"];
  return `${(count / size).toFixed(size === 1 ? 0 : 1)} ${unit}`;
}

/** Ticks at round times. */
function ticks(from, to, room) {
  const rough = (to - from) / Math.max(2, room / 95), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(from / step - 1e-9) * step; at <= to + step * 1e-9; at += step) {
    found.push(at);
  }
  return found;
}

/** Text on a color: dark on a light one. */
function inkOn(hex) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue > 150 ? "#14202c" : "#ffffff";
}

function shortened(paint, text, room) {
  if (paint.measureText(text).width <= room) return text;
  let least = 0, most = text.length;
  while (least < most) {
    const middle = (least + most + 1) >> 1;
    if (paint.measureText(`${text.slice(0, middle)}…`).width <= room) least = middle;
    else most = middle - 1;
  }
  return least < 3 ? "" : `${text.slice(0, least)}…`;
}

function drawAxis(paint, look, place, view, x) {
  paint.fillStyle = look.text;
  paint.strokeStyle = look.line;
  paint.textAlign = "center";
  const marks = ticks(view.from, view.to, place.width - place.left);
  const step = marks.length > 1 ? marks[1] - marks[0] : 1;
  for (const at of marks) {
    const across = x(at);
    paint.globalAlpha = 0.55;
    paint.beginPath();
    paint.moveTo(across, AXIS - 3);
    paint.lineTo(across, place.height - 4);
    paint.stroke();
    paint.globalAlpha = 0.85;
    const text = timeText(at, digitsFor(at, step)), half = paint.measureText(text).width / 2 + 1;
    const near = Math.min(place.width - half, Math.max(place.left + half, across));
    paint.fillText(text, near, 11);
  }
  paint.globalAlpha = 1;
}

function drawRows(paint, look, place) {
  paint.textAlign = "left";
  for (const row of place.rows) {
    paint.fillStyle = look.soft;
    paint.fillRect(place.left, row.top, place.width - place.left, row.height);
    paint.fillStyle = look.text;
    const high = place.narrow ? row.top - 4 : row.top + row.height / 2 + 4;
    paint.fillText(shortened(paint, row.title, place.narrow ? place.width : place.left - 8), 0,
      high);
  }
}

/** A scene's operations as shares of its length, those of the loops inside it too; joined where alike. */
function strips(scenes, number) {
  const scene = scenes[number], last = new Map();
  if (scene.strips) return scene.strips;
  const found = [], exposed = [];
  const add = (row, kind, from, to) => {
    const before = last.get(row);
    if (before && before.kind === kind && from - before.to < JOINED) before.to = to;
    else last.set(row, found[found.push({ row, kind, from, to }) - 1]);
  };
  scene.kind.forEach((kind, at) => {
    const row = scene.rows[scene.row[at]], from = scene.start[at] / scene.length_s;
    const long = scene.length[at] / scene.length_s;
    if (kind === "loop") {
      const inner = strips(scenes, scene.inside[at]), wide = long / scene.count[at];
      for (let pass = 0; pass < scene.count[at]; pass += 1) {
        const begin = from + pass * wide;
        for (const each of inner) {
          add(each.row, each.kind, begin + each.from * wide, begin + each.to * wide);
        }
      }
    } else add(row, kind, from, from + long);
    for (const [low, high] of scene.exposed[at] || []) {
      exposed.push({ row, kind: "exposed", from: low / scene.length_s, to: high / scene.length_s });
    }
  });
  scene.strips = [...found, ...exposed];
  return scene.strips;
}

/** Each pass of a loop where it is, with its operations on their rows. */
function drawPasses(paint, look, box, zone, inner, count, place) {
  const wide = box.width / count, rows = new Map(place.rows.map((row) => [row.title, row]));
  const first = Math.max(0, Math.floor((box.least - box.x) / wide) - 1);
  const last = Math.min(count, Math.ceil((box.most - box.x) / wide) + 1);
  for (let pass = first; pass < last; pass += 1) {
    const from = box.x + pass * wide;
    for (const each of inner) {
      const row = rows.get(each.row), at = row === place.rows[0] ? zone : row;
      if (!row || (each.to - each.from) * wide < FAINT) continue;
      paint.fillStyle = look.colors[each.kind];
      paint.fillRect(from + each.from * wide, at.top, (each.to - each.from) * wide, at.height);
    }
    if (pass && wide >= 2 * PASS) {
      paint.fillStyle = look.page;
      paint.fillRect(from - 0.5, zone.top, 1, zone.height);
    }
  }
}

/** Bands as high as the shares of passes that are too narrow to be drawn, from below. */
function drawBands(paint, look, box, at, shares) {
  let low = at.top + at.height;
  for (const [kind, share] of shares) {
    low -= share * at.height;
    paint.fillStyle = look.colors[kind];
    paint.fillRect(box.x, low, box.width, share * at.height);
  }
}

/** A loop: its name above; below it, and on the other rows, its passes. */
function drawLoop(paint, look, box, scenes, scene, number, place) {
  const high = Math.round(box.height * 0.55), count = scene.count[number];
  const zone = { top: box.y + box.height - high, height: high };
  paint.fillStyle = look.page;
  paint.fillRect(box.x, box.y, box.width, box.height);
  if (box.width >= count * PASS) {
    drawPasses(paint, look, box, zone, strips(scenes, scene.inside[number]), count, place);
  } else {
    drawBands(paint, look, box, zone, scene.mix[number] || []);
    for (const [row, shares] of Object.entries(scene.aside[number] || {})) {
      drawBands(paint, look, box, place.rows[row], shares);
    }
  }
  paint.strokeStyle = look.colors.loop;
  paint.strokeRect(box.x + 0.5, box.y + 0.5, Math.max(0, box.width - 1), box.height - 1);
  paint.fillStyle = look.text;
  const from = Math.max(box.x, box.least) + 6;
  const room = Math.min(box.x + box.width, box.most) - from - 6;
  const text = `${scene.short[number]} ×${count} ▸`;
  if (room > 24) paint.fillText(shortened(paint, text, room), from, box.y + 15);
}

function drawPlain(paint, look, box, kind, text) {
  const color = look.colors[kind];
  paint.fillStyle = color;
  paint.fillRect(box.x, box.y, box.width, box.height);
  const from = Math.max(box.x, box.least) + 4;
  const room = Math.min(box.x + box.width, box.most) - from - 4;
  if (room < 26) return;
  if (paint.measureText(text).width > room) text = text.replace(/ (matmul|kernel)$/, "");
  paint.fillStyle = inkOn(color);
  paint.fillText(shortened(paint, text, room), from, box.y + box.height / 2 + 4);
}

/** The names of the operations between loops that have no room for one, above each stretch of them. */
function drawNames(paint, look, scene, place, x) {
  const stretches = [];
  let open = null;
  scene.short.forEach((name, number) => {
    const kind = scene.kind[number];
    if (scene.row[number] !== 0 || kind === "wait" || kind === "exposed") return;
    if (kind === "loop") { open = null; return; }
    if (!open) stretches.push(open = { names: new Map(), from: scene.start[number], to: 0 });
    open.to = scene.start[number] + scene.length[number];
    open.names.set(name, (open.names.get(name) || 0) + scene.length[number]);
  });
  let free = place.left;
  paint.fillStyle = look.text;
  for (const { names, from, to } of stretches) {
    const lengths = [...names].sort((one, other) => other[1] - one[1]);
    const seen = lengths.filter(([, length]) => length > 0.1 * (to - from)).slice(0, 2);
    const text = seen.map(([name]) => name.replace(/ matmul$/, "")).join(", ");
    const wide = paint.measureText(text).width, middle = (x(from) + x(to)) / 2;
    const at = Math.min(place.width - wide, Math.max(place.left, middle - wide / 2));
    if (x(to) < place.left || x(from) > place.width || at < free) continue;
    paint.fillText(text, at, place.rows[0].top - (place.narrow ? 20 : 5));  // above the row's title
    free = at + wide + 8;
  }
}

/** The box of a span; null where the view does not hold it. */
function boxOf(scene, place, number, x) {
  const row = place.rows[scene.row[number]];
  const from = x(scene.start[number]), to = x(scene.start[number] + scene.length[number]);
  if (to < place.left || from > place.width) return null;
  return { x: from, y: row.top, width: Math.max(LEAST, to - from), height: row.height,
    least: place.left, most: place.width };
}

function drawSpans(paint, look, scenes, scene, place, x, found) {
  const drawn = place.rows.map(() => ({}));
  scene.short.forEach((name, number) => {
    const box = boxOf(scene, place, number, x);
    if (!box) return;
    const kind = scene.kind[number], pixel = Math.floor(box.x);
    if (box.width <= LEAST) {  // hundreds may lie on one pixel
      const held = drawn[scene.row[number]];
      if (held[kind] === pixel) return;
      held[kind] = pixel;
    }
    paint.globalAlpha = found && !found.has(number) ? 0.22 : 1;
    if (kind === "loop") {
      drawLoop(paint, look, box, scenes, scene, number, place);
    } else {
      drawPlain(paint, look, box, kind, name);
    }
    for (const [from, to] of scene.exposed[number] || []) {
      paint.fillStyle = look.colors.exposed;
      paint.fillRect(x(from), box.y, Math.max(LEAST, x(to) - x(from)), box.height);
    }
  });
  paint.globalAlpha = 1;
}

/** A line from the end of one span to the start (or the end) of another. */
function drawLink(paint, place, scene, x, from, to, color, width, toEnd = false) {
  const [one, two] = [from, to].map((number) => place.rows[scene.row[number]]);
  const ahead = x(Math.min(scene.start[from] + scene.length[from],
    scene.start[to] + (toEnd ? scene.length[to] : 1e9)));
  const behind = x(scene.start[to] + (toEnd ? scene.length[to] : 0));
  if (Math.max(ahead, behind) < place.left || Math.min(ahead, behind) > place.width) return;
  const up = one.top > two.top;
  const low = one === two ? one.top + one.height - 3 : up ? one.top : one.top + one.height;
  const high = one === two ? low : up ? two.top + two.height : two.top;
  const bend = one === two ? 14 : 0, middle = (low + high) / 2;
  paint.strokeStyle = color;
  paint.lineWidth = width;
  paint.beginPath();
  paint.moveTo(ahead, low);
  paint.bezierCurveTo(ahead + 2, middle + bend, behind - 2, middle + bend, behind, high);
  paint.stroke();
  paint.lineWidth = 1;
}

/** What waits for what: of every wait wide enough, and of the picked operation. */
function drawLinks(paint, look, scene, place, x, pick) {
  scene.waits.forEach((awaited, number) => {
    if (awaited === null || x(scene.length[number]) - x(0) < 3) return;
    drawLink(paint, place, scene, x, awaited, number, look.colors.exposed, 1.5, true);
  });
  if (pick === null) return;
  const box = boxOf(scene, place, pick, x);
  for (const needed of scene.needs[pick] || []) {
    drawLink(paint, place, scene, x, needed, pick, look.text, 1.2);
  }
  for (const user of scene.users[pick] || []) {
    drawLink(paint, place, scene, x, pick, user, look.primary, 1.2);
  }
  if (!box) return;
  paint.strokeStyle = look.text;
  paint.lineWidth = 2;
  paint.strokeRect(box.x - 1, box.y - 1, box.width + 2, box.height + 2);
  paint.lineWidth = 1;
}

/** A scene of those given, as far as the view goes. */
function draw(canvas, look, scenes, scene, view, pick, found) {
  const width = canvas.clientWidth, place = layout(scene, width);
  const dense = window.devicePixelRatio || 1;
  canvas.style.height = `${place.height}px`;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(place.height * dense);
  const paint = canvas.getContext("2d");
  paint.scale(dense, dense);
  paint.font = `12px ${look.font}`;
  const scale = (width - place.left) / (view.to - view.from);
  const x = (at) => place.left + (at - view.from) * scale;
  drawRows(paint, look, place);
  drawAxis(paint, look, place, view, x);
  paint.save();
  paint.beginPath();
  paint.rect(place.left, 0, width - place.left, place.height);
  paint.clip();
  paint.textAlign = "left";
  if (hasNames(scene)) drawNames(paint, look, scene, place, x);
  drawSpans(paint, look, scenes, scene, place, x, found);
  drawLinks(paint, look, scene, place, x, pick);
  paint.restore();
  return { place, scale };
}
