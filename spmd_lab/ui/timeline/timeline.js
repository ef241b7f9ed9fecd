// A timeline to walk in: zoom, pan, enter loops, search, pick an operation. All of it happens here;
// the server hears only where the viewer is, for the link.

const MARGIN = 0.02, STEP = 1.5, KEPT_MS = 350;

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

class Walk {
  constructor(root) {
    this.root = root;
    this.canvas = root.querySelector("canvas");
    this.tip = root.querySelector(".tip");
    this.views = new Map();
    this.pick = null;
    this.found = null;
    listen(this);
    new ResizeObserver(() => this.later()).observe(this.canvas);
    this.watch = setInterval(() => this.recolor(), 700);
  }

  /** Draw anew after the viewer has changed the theme, which no event tells. */
  recolor() {
    if (!this.root.isConnected) clearInterval(this.watch);
    else if (this.data && this.themed !== this.theme()) this.later();
  }

  theme() {
    const style = getComputedStyle(this.root);
    return style.getPropertyValue("--st-text-color")
      + style.getPropertyValue("--st-background-color");
  }

  /** New data; where the viewer is stays, if it is the same timeline. */
  show(data, tell) {
    this.tell = tell;
    if (this.data && this.data.id === data.id) {
      this.data = data;
      this.later();
      return;
    }
    this.data = data;
    this.views.clear();
    this.number = data.scenes[data.at] ? data.at : 0;
    const picked = this.scene.hlo.indexOf(data.pick);
    this.pick = data.pick && picked >= 0 ? picked : null;
    this.words();
    if (data.window) this.look_at(data.window[0], data.window[1] - data.window[0]);
    this.enter(this.number, this.pick);
  }

  get scene() { return this.data.scenes[this.number]; }

  get view() {
    if (!this.views.has(this.number)) this.views.set(this.number, this.fitted());
    return this.views.get(this.number);
  }

  fitted(scene = this.scene) {
    const room = scene.end * MARGIN;
    return { from: -room / 2, to: scene.end + room };
  }

  words() {
    const { words } = this.data, find = (name) => this.root.querySelector(name);
    this.root.setAttribute("aria-label", words.title);
    this.root.classList.remove("unnamed");
    find(".path").setAttribute("aria-label", words.path);
    find(".search").placeholder = words.search;
    find(".search").setAttribute("aria-label", words.search);
    for (const name of ["in", "out", "all"]) {
      find(`.${name}`).title = words[name];
      find(`.${name}`).setAttribute("aria-label", words[name]);
    }
    find(".all").textContent = words.all;
    const help = find(".help"), keys = find(".keys");
    keys.textContent = help.title = words.keys;
    help.setAttribute("aria-label", words.help);
    help.onclick = () => help.setAttribute("aria-expanded", String(!(keys.hidden = !keys.hidden)));
  }

  /** What is drawn in this scene, but what the screen names already. */
  legend() {
    const { seen } = this.scene;
    const entries = this.data.legend.filter(([kind]) => seen.includes(kind)).map(([kind, text]) => {
      const entry = element("span"), box = element("i");
      box.style.background = this.data.colors[kind];
      entry.append(box, element("span", text));
      return entry;
    });
    this.root.querySelector(".legend").replaceChildren(...entries);
  }

  look() {
    const style = getComputedStyle(this.root);
    const read = (name, other) => style.getPropertyValue(name).trim() || other;
    return { text: read("--st-text-color", "#222"), page: read("--st-background-color", "#fff"),
      soft: read("--st-secondary-background-color", "#f3f5f8"),
      line: read("--st-border-color", "#ddd"), primary: read("--st-primary-color", "#1f5fbf"),
      font: style.fontFamily || "sans-serif", colors: this.data.colors };
  }

  later() {
    if (this.waiting || !this.data) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      if (!this.canvas.clientWidth) return;
      const begun = performance.now();
      this.themed = this.theme();
      const { scenes } = this.data;
      this.drawn =
        draw(this.canvas, this.look(), scenes, this.scene, this.view, this.pick, this.found);
      this.one();
      this.root.dataset.drawn = String(Number(this.root.dataset.drawn || 0) + 1);
      this.root.dataset.took = (performance.now() - begun).toFixed(1);
    });
  }

  /** One pass of the longest loop of the step, below it. */
  one() {
    const box = this.root.querySelector(".one"), { scene } = this, at = longestLoop(scene);
    box.hidden = scene.parent !== null || at === undefined;
    if (box.hidden) return;
    const { scenes, words } = this.data, inner = scenes[scene.inside[at]];
    const [button, canvas] = box.children;
    button.textContent = words.one.replace("{}", scene.names[at])
      .replace("{}", timeText(inner.length_s));
    button.onclick = canvas.onclick = () => this.enter(scene.inside[at]);
    canvas.setAttribute("aria-label", inner.alt);
    draw(canvas, this.look(), scenes, inner, this.fitted(inner), null, null);
  }

  // Where the viewer is ------------------------------------------------------------------------

  enter(number, pick = null) {
    this.number = number;
    this.pick = pick;
    this.tip.style.display = "none";
    this.search(false);
    this.crumbs();
    this.legend();
    describe(this);
    this.later();
    this.keep();
  }

  back() {
    const left = this.number, above = this.scene.parent;
    if (above === null) return;
    this.enter(above, this.data.scenes[above].inside.indexOf(left));
  }

  choose(number, bring = false) {
    this.pick = number;
    if (bring && number !== null) this.bring(number);
    describe(this);
    this.later();
    this.keep();
  }

  /** Tell the server, once the viewer rests. */
  keep() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      const place = [this.number, this.pick === null ? "" : this.scene.hlo[this.pick],
        ...this.window()].join(":");
      if (place !== this.told) this.tell(this.told = place);
    }, KEPT_MS);
  }

  /** The seconds in sight, for the link; nothing where all are. */
  window() {
    const { from, to } = this.view, whole = this.fitted();
    return to - from >= (whole.to - whole.from) * 0.999 ? []
      : [[from, to].map((seconds) => Number(seconds.toPrecision(9))).join("~")];
  }

  crumbs() {
    const path = [];
    for (let at = this.number; at !== null; at = this.data.scenes[at].parent) path.unshift(at);
    this.root.querySelector(".path").replaceChildren(...path.flatMap((at, place) => {
      const { title } = this.data.scenes[at];
      if (at === this.number) return [element("span", title, "here")];
      const button = element("button", title);
      button.type = "button";
      button.onclick = () => this.enter(at, this.data.scenes[at].inside.indexOf(path[place + 1]));
      return [button, element("span", "›")];
    }));
    this.canvas.setAttribute("aria-label", this.scene.alt);
  }

  /** Zoom by a factor around a share of the width; pan by a share of the view. */
  zoom(factor, around = 0.5) {
    const { from, to } = this.view, at = from + (to - from) * around, whole = this.fitted();
    const length = Math.max((to - from) / factor, this.scene.end * 1e-6);
    if (length >= whole.to - whole.from) this.views.set(this.number, whole);
    else this.look_at(at - length * around, length);
    this.later();
    this.keep();
  }

  pan(share) {
    const { from, to } = this.view;
    this.look_at(from + (to - from) * share, to - from);
    this.later();
  }

  look_at(from, wanted) {
    const whole = this.fitted();
    const length = Math.min(Math.max(wanted, this.scene.end * 1e-6), whole.to - whole.from);
    const least = Math.min(Math.max(from, whole.from), whole.to - length);
    this.views.set(this.number, { from: least, to: least + length });
    this.keep();
  }

  /** Make a span visible. */
  bring(number) {
    const { start, length } = this.scene, { from, to } = this.view, room = to - from;
    const [begin, end] = [start[number], start[number] + length[number]];
    if (end - begin < room * 0.004) {
      const wide = Math.max((end - begin) * 12, this.scene.end * 1e-6);
      this.look_at(begin - wide / 2, wide);
    } else if (begin < from || end > to) {
      this.look_at((begin + end) / 2 - Math.max(room, end - begin) / 2,
        Math.max(room, (end - begin) * 1.2));
    }
  }

  // Search -------------------------------------------------------------------------------------

  matches(scene, wanted) {
    const found = [];
    scene.names.forEach((name, number) => {
      if (["wait", "exposed"].includes(scene.kind[number])) return;
      const text = `${name} ${scene.hlo[number]} ${scene.op[number]} ${scene.source[number]}`;
      if (text.toLowerCase().includes(wanted)) found.push(number);
    });
    return found;
  }

  /** What was typed, here; with `jump`, the next match, in the next scene that has one. */
  search(jump) {
    const wanted = this.root.querySelector(".search").value.trim().toLowerCase();
    const here = wanted ? this.matches(this.scene, wanted) : [];
    this.found = wanted ? new Set(here) : null;
    const longest = [...here].sort((one, two) => this.scene.length[two] - this.scene.length[one])[0];
    const next = this.pick === null ? longest : here.find((number) => number > this.pick);
    if (jump && wanted && next === undefined) {
      const count = this.data.scenes.length;
      for (let step = 1; step <= count; step += 1) {
        const other = (this.number + step) % count;
        const [first] = this.matches(this.data.scenes[other], wanted);
        if (first !== undefined) {
          this.enter(other, first);
          this.bring(first);
          break;
        }
      }
    } else if (jump && next !== undefined) this.choose(next, true);
    const all = wanted ? this.data.scenes
      .reduce((sum, scene) => sum + this.matches(scene, wanted).length, 0) : 0;
    this.root.querySelector(".found").textContent = wanted ?
      `${this.found.size} ${this.data.words.here}, ${all} ${this.data.words.in_all}` : "";
    this.later();
  }
}

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const root = parentElement.querySelector(".timeline");
  root.walk = root.walk || new Walk(root);
  root.walk.show(data, (place) => setStateValue("place", place));
}
