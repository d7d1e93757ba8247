// Messages for keys that did nothing: answers pressed before the next item could be read, and keys without a meaning
// here.
import { byId, plural, setText } from "./dom.js";

const STAYS = 4000; // milliseconds after the last message
let number = 0;
let timer = 0;

export function missed() {
  number += 1;
  say(`${plural(number, "answer")} did not count: too early to have read the next item.`);
}

/** Shows why a key does nothing, unless the message about a dropped answer is in sight. */
export function nothing(why) {
  if (!number) say(why);
}

function say(text) {
  setText(byId("missed"), text);
  clearTimeout(timer);
  timer = setTimeout(() => {
    number = 0;
    setText(byId("missed"), "");
  }, STAYS);
}
