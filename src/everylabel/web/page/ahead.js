// Pictures that may be asked for next, fetched while a person looks at this one: the browser has them then.
import { get } from "./api.js";
import { on, state } from "./state.js";

const WAIT = 250; // milliseconds: the picture in sight comes first
let kept = []; // so that the browser does not let go of them

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
    // Then the next picture is fetched when it is shown.
  }
}

export function startAhead() {
  let timer = 0;
  on("task", () => {
    clearTimeout(timer);
    if (state.task?.item.image) timer = setTimeout(fetchAhead, WAIT);
  });
}
