// Shows the run as the server sees it, once a second. Without scripts the page is loaded anew every five seconds.
"use strict";
(() => {
  const now = document.getElementById("now");
  const silent = document.getElementById("silent");
  const events = new EventSource(now.dataset.events);
  events.addEventListener("now", (event) => {
    silent.hidden = true;
    now.innerHTML = event.data;  // made by the server's templates, which escape everything that came from a run
  });
  events.addEventListener("over", () => {
    events.close();
    silent.hidden = true;
  });
  events.addEventListener("error", () => { silent.hidden = false; });
})();
