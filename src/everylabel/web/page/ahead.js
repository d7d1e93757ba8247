// Prefetches pictures that may be shown next, while the person looks at the current one.
import { get } from "./api.js";
import { on, state } from "./state.js";

const WAIT = 250; // milliseconds: the current picture loads first
let kept = []; // keeps the browser from discarding them

async function fetchAhead() {
  try {
    const { images } = await get("/api/ahead", { person: state.person });
    kept = images.map((address) => {
      const picture = new Image();
      picture.decoding = "async";
      picture.src = address;
      return picture;
    });
  } catch {
    // The next picture is then fetched when it is shown.
  }
}

export function startAhead() {
  let timer = 0;
  on("task", () => {
    clearTimeout(timer);
    if (state.task?.item.image) timer = setTimeout(fetchAhead, WAIT);
  });
}
