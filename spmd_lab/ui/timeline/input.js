// Mouse, fingers and keys of a timeline.

/** The span under a point; the nearest within a few pixels, as most are narrow. */
function under(walk, event) {
  if (!walk.drawn) return null;
  const { place, scale } = walk.drawn, scene = walk.scene, near = 4;
  const box = walk.canvas.getBoundingClientRect();
  const across = event.clientX - box.left, down = event.clientY - box.top;
  const row = place.rows.findIndex((each) => down >= each.top && down <= each.top + each.height);
  if (row < 0 || across < place.left) return null;
  const at = walk.view.from + (across - place.left) / scale;
  let best = null, least = near / scale;
  for (let number = 0; number < scene.names.length; number += 1) {
    if (scene.row[number] !== row) continue;
    const off = Math.max(scene.start[number] - at,
      at - scene.start[number] - scene.length[number], 0);
    if (off < least || (off === 0 && best !== null && least === 0 &&
        scene.length[number] < scene.length[best])) {
      best = number;
      least = off;
    }
  }
  return best;
}

function listen(walk) {
  const { canvas, root } = walk;
  canvas.addEventListener("wheel", (event) => wheel(walk, event), { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    walk.drag = { x: event.clientX, from: walk.view.from, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => move(walk, event));
  canvas.addEventListener("pointerup", (event) => release(walk, event));
  canvas.addEventListener("pointercancel", () => { walk.drag = null; });
  canvas.addEventListener("pointerleave", () => { walk.tip.style.display = "none"; });
  canvas.addEventListener("keydown", (event) => key(walk, event));
  root.querySelector(".in").onclick = () => walk.zoom(STEP);
  root.querySelector(".out").onclick = () => walk.zoom(1 / STEP);
  root.querySelector(".all").onclick = () => walk.zoom(0);
  const field = root.querySelector(".search");
  field.oninput = () => walk.search(false);
  field.onkeydown = (event) => {
    if (event.key === "Enter") walk.search(true);
    if (event.key === "Escape") {
      field.value = "";
      walk.search(false);
      canvas.focus();
    }
    event.stopPropagation();  // letters are shortcuts of the page elsewhere
  };
}

/** Up zooms in, down out; where all is seen already, down scrolls the page. */
function wheel(walk, event) {
  const { from, to } = walk.view, whole = walk.fitted();
  const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
  if (!sideways && event.deltaY > 0 && to - from >= (whole.to - whole.from) * 0.999) return;
  event.preventDefault();
  const box = walk.canvas.getBoundingClientRect(), { left } = walk.drawn.place;
  if (sideways) return walk.pan((event.deltaX || event.deltaY) / (box.width - left));
  const share = (event.clientX - box.left - left) / (box.width - left);
  walk.zoom(Math.exp(-event.deltaY / 260), Math.min(1, Math.max(0, share)));
}

function move(walk, event) {
  if (!walk.drag) return hover(walk, event);
  const away = event.clientX - walk.drag.x;
  if (Math.abs(away) > 4) walk.drag.moved = true;
  if (!walk.drag.moved) return;
  walk.canvas.classList.add("dragging");
  walk.tip.style.display = "none";
  walk.look_at(walk.drag.from - away / walk.drawn.scale, walk.view.to - walk.view.from);
  walk.later();
}

function hover(walk, event) {
  const number = under(walk, event), box = walk.canvas.getBoundingClientRect();
  walk.canvas.classList.toggle("over", number !== null);
  if (number === null) { walk.tip.style.display = "none"; return; }
  walk.tip.textContent = `${walk.scene.names[number]}: ${timeText(walk.scene.length[number])}`;
  walk.tip.style.display = "block";
  const room = box.width - walk.tip.offsetWidth - 4;
  walk.tip.style.left = `${Math.max(0, Math.min(room, event.clientX - box.left + 12))}px`;
  walk.tip.style.top = `${event.clientY - box.top + 16}px`;
}

function release(walk, event) {
  const dragged = walk.drag && walk.drag.moved;
  walk.drag = null;
  walk.canvas.classList.remove("dragging");
  if (dragged) return;
  const number = under(walk, event);
  if (number !== null && walk.scene.inside[number] !== null) walk.enter(walk.scene.inside[number]);
  else walk.choose(number);
}

function key(walk, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const done = {
    ArrowLeft: () => event.shiftKey ? step(walk, -1) : walk.pan(-0.2),
    ArrowRight: () => event.shiftKey ? step(walk, 1) : walk.pan(0.2),
    ArrowUp: () => change(walk, -1), ArrowDown: () => change(walk, 1),
    "+": () => walk.zoom(STEP), "=": () => walk.zoom(STEP), "-": () => walk.zoom(1 / STEP),
    0: () => walk.zoom(0), Home: () => walk.zoom(0),
    Enter: () => openLoop(walk), Backspace: () => walk.back(),
    Escape: () => walk.choose(null),
    "/": () => walk.root.querySelector(".search").focus(),
  }[event.key];
  if (!done) return;
  event.preventDefault();
  event.stopPropagation();
  done();
}

/** The next or the last operation of the row of the picked one. */
function step(walk, by) {
  const { row, start } = walk.scene, on = walk.pick === null ? 0 : row[walk.pick];
  const listed = row.map((each, number) => number).filter((number) => row[number] === on)
    .sort((one, two) => start[one] - start[two]);
  const at = walk.pick === null ? (by > 0 ? -1 : listed.length) : listed.indexOf(walk.pick);
  const next = listed[at + by];
  if (next !== undefined) walk.choose(next, true);
}

/** The operation of another row that is nearest in time. */
function change(walk, by) {
  const { row, start, rows } = walk.scene;
  const on = (walk.pick === null ? (by > 0 ? -1 : rows.length) : row[walk.pick]) + by;
  const at = walk.pick === null ? (walk.view.from + walk.view.to) / 2 : start[walk.pick];
  const listed = row.map((each, number) => number).filter((number) => row[number] === on);
  listed.sort((one, two) => Math.abs(start[one] - at) - Math.abs(start[two] - at));
  if (listed.length) walk.choose(listed[0], true);
}

function longestLoop({ inside, length }) {
  const loops = inside.map((each, number) => number).filter((number) => inside[number] !== null);
  return loops.sort((one, two) => length[two] - length[one])[0];
}

/** Enter the picked loop; where none is picked, the longest. */
function openLoop(walk) {
  const { inside } = walk.scene;
  const isLoop = walk.pick !== null && inside[walk.pick] !== null;
  const at = isLoop ? walk.pick : longestLoop(walk.scene);
  if (at !== undefined) walk.enter(inside[at]);
}
