// Keys that did nothing: answers that came before the next item could be read, and keys that mean nothing here. Said, not
// dropped in silence.
import { byId, plural, setText } from "./dom.js";

const STAYS = 4000; // milliseconds after the last one
let number = 0;
let timer = 0;

export function missed() {
  number += 1;
  say(`${plural(number, "answer")} did not count: too early, before the next item could be read.`);
}

/** Tells why a key does nothing; never over an answer that did not count. */
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
