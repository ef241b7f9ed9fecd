// Back goes back: one step of the browser's history for each act of the viewer. Streamlit adds a step
// whenever a script writes the address, also where it only completes what the viewer opened; such a
// write replaces the step that it belongs to.
if (!window.spmdSteps) {
  window.spmdSteps = true;
  let acted = false;
  const note = (event) => {
    acted ||= event.isTrusted;
  };
  for (const kind of ["pointerup", "keyup", "change"]) {
    document.addEventListener(kind, note, { capture: true, passive: true });
  }
  const push = window.history.pushState.bind(window.history);
  window.history.pushState = (state, title, address) => {
    const isSamePage = new URL(address, document.location).pathname === document.location.pathname;
    if (isSamePage && !acted) window.history.replaceState(state, title, address);
    else push(state, title, address);
    acted = false;
  };
}
