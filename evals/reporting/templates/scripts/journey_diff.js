"use strict";
// Which words of two texts are in one of them only, by a longest common subsequence.
const journeyDiff = (() => {
  const MOST = 400; // words of each: of longer texts, words that the other has nowhere are marked
  const NONE = 10_000; // words of a text in which nothing is marked

  const words = (text) => text.match(/\s+|[^\s]+/g) ?? [];
  const isWord = (part) => /\S/.test(part);

  const kept = (one, other) => {
    const table = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
    for (let a = one.length - 1; a >= 0; a -= 1) {
      for (let b = other.length - 1; b >= 0; b -= 1) {
        table[a][b] = one[a] === other[b] ? table[a + 1][b + 1] + 1 : Math.max(table[a + 1][b], table[a][b + 1]);
      }
    }
    const same = new Set();
    for (let a = 0, b = 0; a < one.length && b < other.length;) {
      if (one[a] === other[b]) {
        same.add(a);
        a += 1;
        b += 1;
      } else if (table[a + 1][b] >= table[a][b + 1]) a += 1;
      else b += 1;
    }
    return same;
  };

  // The parts of `text` in their order: [part, whether it is a word that `other` lacks].
  const parts = (text, other) => {
    const all = words(text);
    const own = all.filter(isWord);
    if (own.length > NONE) return [[text, false]];
    const theirs = words(other).filter(isWord);
    const held = new Set(theirs);
    const same = own.length > MOST || theirs.length > MOST ? null : kept(own, theirs);
    const found = [];
    let at = -1;
    for (const part of all) {
      if (isWord(part)) at += 1;
      const alone = isWord(part) && (same ? !same.has(at) : !held.has(part));
      const last = found.at(-1);
      if (last && (last[1] === alone || !isWord(part))) last[0] += part;
      else found.push([part, alone]);
    }
    return found;
  };

  return { parts };
})();
