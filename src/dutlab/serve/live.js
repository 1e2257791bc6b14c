// Shows the state of the run from the server once a second, and the buttons that fit it. Without scripts the page reloads every five seconds.
"use strict";
(() => {
  const now = document.getElementById("now");
  const silent = document.getElementById("silent");
  const told = document.getElementById("told");
  const events = new EventSource(now.dataset.events);

  // Where the reader was: the box that has the keyboard, and how far boxes are scrolled.
  const places = () => [...now.querySelectorAll("[id][tabindex]")].map((box) => [box.id, box.scrollLeft, box === document.activeElement]);
  const restore = (before) => before.forEach(([id, left, focused]) => {
    const box = document.getElementById(id);
    if (!box) return;
    box.scrollLeft = left;
    if (focused) box.focus({ preventScroll: true });
  });
  const fit = () => {
    const stage = document.getElementById("stage");
    if (!stage) return;
    document.querySelectorAll("[data-stages]").forEach((form) => {
      form.hidden = !form.dataset.stages.split(" ").includes(stage.dataset.stage);
    });
    if (told.textContent !== stage.textContent) told.textContent = stage.textContent;  // said to screen readers when it changes
  };

  events.addEventListener("now", (event) => {
    silent.hidden = true;
    const before = places();
    now.innerHTML = event.data;  // from the server's templates, which escape all text of a run
    restore(before);
    fit();
  });
  events.addEventListener("over", () => {
    events.close();
    silent.hidden = true;
  });
  events.addEventListener("error", () => { silent.hidden = false; });
})();
