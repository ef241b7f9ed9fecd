// What a timeline says of the operation that is picked.

function describe(walk) {
  const box = walk.root.querySelector(".pick"), { words } = walk.data;
  box.classList.toggle("idle", walk.pick === null);
  if (walk.pick === null) {
    box.replaceChildren(element("div", walk.scene.summary));
    return;
  }
  const { scene } = walk, at = walk.pick, list = element("dl");
  for (const [label, value] of facts(walk, scene, at)) {
    const pair = element("div");
    pair.append(element("dt", label), element("dd", value));
    list.append(pair);
  }
  const parts = [element("b", scene.names[at]), list];
  for (const [label, numbers] of [[words.waits_for, awaited(scene, at)],
    [words.needs, scene.needs[at]], [words.needed_by, scene.users[at]]]) {
    if (numbers && numbers.length) parts.push(links(walk, label, numbers));
  }
  if (scene.line[at]) parts.push(element("code", scene.line[at]));
  if (scene.inside[at] !== null) {
    const button = element("button", words.enter);
    button.type = "button";
    button.onclick = () => walk.enter(scene.inside[at]);
    parts.splice(2, 0, button);
  }
  box.replaceChildren(...parts);
}

function awaited(scene, at) {
  return [...new Set([scene.waits[at], scene.waiter[at]])].filter((each) => each !== null);
}

function facts(walk, scene, at) {
  const { words } = walk.data, seconds = scene.length[at], times = scene.times;
  const found = [[words.time, timeText(seconds)]];
  if (times > 1) {
    found.push([words.times, times.toLocaleString("en")],
      [words.total, timeText(seconds * times)]);
  }
  if (scene.count[at]) {
    found.push([words.passes,
      `${scene.count[at].toLocaleString("en")} × ${timeText(seconds / scene.count[at])}`]);
  }
  if (scene.beside[at]) {
    const exposed = Math.min(seconds, scene.exposed_s[at]);
    found.push([words.hidden, timeText(seconds - exposed)], [words.exposed, timeText(exposed)]);
  }
  if (scene.bytes[at]) found.push([words.bytes, bytesText(scene.bytes[at])]);
  if (scene.flops[at]) {
    found.push([words.rate, `${(scene.flops[at] / seconds / 1e12).toPrecision(3)} TFLOP/s`]);
  }
  if (scene.source[at]) found.push([words.source, scene.source[at]]);
  return found;
}

function links(walk, label, numbers) {
  const line = element("div", undefined, "links");
  line.append(element("span", label));
  for (const number of numbers.slice(0, 6)) {
    const button = element("button", walk.scene.names[number]);
    button.type = "button";
    button.onclick = () => walk.choose(number, true);
    line.append(button);
  }
  if (numbers.length > 6) line.append(element("span", `+ ${numbers.length - 6}`));
  return line;
}
