// A Worker for pages that are read from the disk, where browsers allow none: its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #heard = null; // what the script does with a message, once it is there
    #waiting = [];
    #frame = document.createElement("iframe");

    constructor(url) {
      super();
      this.#frame.hidden = true;
      this.#frame.title = "search";
      this.#frame.onload = () => this.#run(this.#frame.contentWindow, url);
      document.body.append(this.#frame);
    }

    #run(inside, url) {
      let heard = () => {};
      inside.addEventListener = (kind, listener) => { if (kind === "message") heard = listener; };
      inside.postMessage = (data) => this.#tell(new MessageEvent("message", { data: structuredClone(data) }));
      const script = inside.document.createElement("script");
      script.src = url;
      script.onerror = () => this.#tell(new Event("error"));
      script.onload = () => {
        this.#heard = inside.onmessage ?? heard;
        for (const data of this.#waiting.splice(0)) this.postMessage(data);
      };
      inside.document.body.append(script);
    }

    // As of a worker, messages are copies and come later: who sends one is never answered within the call.
    #tell(event) {
      setTimeout(() => {
        this[`on${event.type}`]?.(event);
        this.dispatchEvent(event);
      });
    }

    postMessage(message) {
      const data = structuredClone(message);
      if (this.#heard) setTimeout(() => this.#heard({ data }));
      else this.#waiting.push(data);
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
