// A sentence about other people's answers to an item while this person was looking at it.
import { labelName, state } from "./state.js";

const saying = ({ person, class: number, absent }) => (number === null ? `${person} could not tell` : `${person} said ${labelName(number, absent)}`);

const alike = (a, b) => JSON.stringify(Array.isArray(a) ? [...a].sort() : a) === JSON.stringify(Array.isArray(b) ? [...b].sort() : b);

/** Returns a sentence, or nothing; `number` is the class just given, null for "cannot tell". */
export function meanwhileText(said, number) {
  const own = said.find((each) => each.person === state.person);
  const others = said.filter((each) => each !== own);
  const parts = [];
  if (others.length) {
    const same = others.every((each) => alike(each.class, number));
    const kept = others.length === 1 ? "both answers are kept" : "all answers are kept";
    parts.push(`${others.map(saying).join(", ")} meanwhile${same ? ", too." : `; ${kept}.`}`);
  }
  if (own && !alike(own.class, number)) {
    const before = own.class === null ? "cannot tell" : labelName(own.class, own.absent);
    parts.push(`In another window this was answered as ${state.person} meanwhile: ${before}. Your answer now replaces it; u undoes it.`);
  }
  return parts.join(" ");
}
