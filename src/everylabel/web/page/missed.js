// Answers that did not count, because they came before the next item could be read: said, not dropped in silence.
import { byId, plural, setText } from "./dom.js";

const STAYS = 4000; // milliseconds after the last one
let number = 0;
let timer = 0;

export function missed() {
  number += 1;
  setText(byId("missed"), `${plural(number, "answer")} did not count: too early, before the next item could be read.`);
  clearTimeout(timer);
  timer = setTimeout(() => {
    number = 0;
    setText(byId("missed"), "");
  }, STAYS);
}
