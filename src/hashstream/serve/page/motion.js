// How one board follows another. Nothing moves for readers who want no motion.

import { calm } from "./dom.js";

/** The cards of a grid leave. */
export async function sweep(grid) {
  if (calm()) return;
  const gone = [...grid.cards.values()].map((card, i) => card.animate(
    [{}, { opacity: 0, transform: "translateY(-14px) scale(.96)" }],
    { duration: 200, delay: 10 * i, fill: "forwards", easing: "ease-in" },
  ).finished);
  await Promise.allSettled(gone);
}

/** The cards of a grid come in. */
export function rise(grid) {
  if (calm()) return;
  [...grid.cards.values()].forEach((card, i) => {
    card.getAnimations().forEach((old) => old.cancel());
    card.animate(
      [{ opacity: 0, transform: "translateY(22px) scale(.94)" }, {}],
      { duration: 380, delay: 16 * i, fill: "backwards", easing: "cubic-bezier(.2, .7, .2, 1)" },
    );
  });
}
