// Back goes back: one step of the browser's history for each act of the viewer. Streamlit adds a step
// whenever a script writes the address, also where it only completes what the viewer opened; such a
// write replaces the step that it belongs to. A busy browser takes in the query of a screen before it
// takes in its name: the name then replaces the step of the query.
if (!window.spmdSteps) {
  window.spmdSteps = true;
  let acted = false;
  let early = null; // the query of the last step, if the page of before took it
  const note = (event) => {
    acted ||= event.isTrusted;
  };
  for (const kind of ["pointerup", "keyup", "change"]) {
    document.addEventListener(kind, note, { capture: true, passive: true });
  }
  const push = window.history.pushState.bind(window.history);
  window.history.pushState = (state, title, address) => {
    const { pathname, search } = new URL(address, document.location);
    const isSamePage = pathname === document.location.pathname;
    const isOneStep = isSamePage ? !acted : !acted && search === early;
    if (isOneStep) window.history.replaceState(state, title, address);
    else push(state, title, address);
    early = isSamePage && !isOneStep ? search : null;
    acted = false;
  };
}
// Over a narrow window the fields cover the answer: the next load begins with them closed.
if (!window.spmdFields) {
  window.spmdFields = true;
  window.addEventListener("pagehide", () => {
    if (window.innerWidth > 768) return;
    const kept = Object.keys(window.localStorage);
    kept.filter((key) => key.startsWith("stSidebarCollapsed")).forEach((key) => window.localStorage.removeItem(key));
  });
}
// Columns of numbers end at the right. A narrow window shows each row of a wide table as a card: its
// cells need the names of their columns.
if (!window.spmdCards) {
  window.spmdCards = true;
  const name = () => {
    for (const table of document.querySelectorAll('[data-testid="stTable"] table')) {
      const heads = [...table.querySelectorAll("thead th")].map((head) => head.innerText.trim());
      const rows = [...table.querySelectorAll("tr")];
      heads.forEach((_, at) => {
        const texts = rows.slice(1).map((row) => row.children[at]?.innerText.trim() ?? "");
        const known = texts.filter((text) => !["", "–", "none"].includes(text));
        const numbers = known.filter((text) => /^(about )?[\d<≈+−-]*\d[^=]*$/.test(text));
        const isNumber = at > 0 && 0 < numbers.length && 2 * numbers.length >= known.length && !texts.some((text) => text.length > 40);
        for (const row of rows) row.children[at]?.classList.toggle("number", isNumber);
      });
      if (heads.length < 3) continue;
      for (const row of table.querySelectorAll("tbody tr")) {
        [...row.children].forEach((cell, at) => {
          const label = at === 0 ? "" : heads[at] || "";
          if (cell.dataset.label !== label) cell.dataset.label = label;
          const text = cell.innerText.trim();
          cell.classList.toggle("unknown", at > 0 && text === "–");
          cell.classList.toggle("long", at > 0 && label.length + text.length > 19);
        });
      }
    }
  };
  let waits = false;
  new MutationObserver(() => {
    if (waits) return;
    waits = true;
    window.requestAnimationFrame(() => {
      waits = false;
      name();
    });
  }).observe(document.body, { childList: true, subtree: true });
  name();
}
