// Shows the state of the run from the server once a second. Without scripts the page reloads every five seconds.
"use strict";
(() => {
  const now = document.getElementById("now");
  const silent = document.getElementById("silent");
  const events = new EventSource(now.dataset.events);
  events.addEventListener("now", (event) => {
    silent.hidden = true;
    now.innerHTML = event.data;  // from the server's templates, which escape all text of a run
  });
  events.addEventListener("over", () => {
    events.close();
    silent.hidden = true;
  });
  events.addEventListener("error", () => { silent.hidden = false; });
})();
