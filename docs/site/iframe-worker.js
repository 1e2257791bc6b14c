// The search runs in a worker. Browsers start none for pages that were opened from a folder (file:). There an invisible frame
// takes its place: scripts are loaded into it one after the other, and messages go to and fro as with a worker.
"use strict";
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const base = new URL(url, document.baseURI);
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "";
      this.frame = frame;
      this.loaded = new Promise((done) => frame.addEventListener("load", done, { once: true })).then(() => {
        const inner = frame.contentWindow;
        const load = (source) =>
          new Promise((done, failed) => {
            const script = inner.document.createElement("script");
            script.src = new URL(source, base);
            script.onload = done;
            script.onerror = () => failed(new Error(`cannot load ${script.src}`));
            inner.document.body.append(script);
          });
        inner.importScripts = (...sources) => sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
        inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        return load(base);
      });
      this.loaded.catch((error) => this.dispatchEvent(new ErrorEvent("error", { error, message: error.message })));
      document.body.append(frame);
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
