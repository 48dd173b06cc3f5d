// Plane geometry of the map. Pure.

/** Places [x, y] in the unit square around 0, with one scale for both axes. */
export function fit(x, y) {
  const middle = (v) => (Math.min(...v) + Math.max(...v)) / 2;
  const half = (v) => (Math.max(...v) - Math.min(...v)) / 2;
  const [mx, my, scale] = [middle(x), middle(y), Math.max(half(x), half(y)) || 1];
  return x.map((value, i) => [(value - mx) / scale, (y[i] - my) / scale]);
}

/** Places with each axis stretched towards the full square, by at most this factor: a wide stage is used better. */
export function spread(places, most = 1.7) {
  const reach = (axis) => Math.max(1e-9, ...places.map((p) => Math.abs(p[axis])));
  const [sx, sy] = [Math.min(most, 1 / reach(0)), Math.min(most, 1 / reach(1))];
  return places.map(([x, y]) => [x * sx, y * sy]);
}

/**
 * Places turned (and mirrored, if that is nearer) towards older ones: the orthogonal matrix R that minimizes the sum of
 * |R p - q|^2 over pairs. The axes of a map are arbitrary, and what moves should be items. before: [x, y] or null.
 */
export function aligned(places, before) {
  const pairs = places.map((p, i) => [p, before[i]]).filter(([, q]) => q);
  if (pairs.length < 3) return places;
  const mean = (k, j) => pairs.reduce((sum, pair) => sum + pair[k][j], 0) / pairs.length;
  const [px, py, qx, qy] = [mean(0, 0), mean(0, 1), mean(1, 0), mean(1, 1)];
  let [a, b, c, d] = [0, 0, 0, 0]; // sums of q p'
  for (const [p, q] of pairs) {
    a += (q[0] - qx) * (p[0] - px);
    b += (q[0] - qx) * (p[1] - py);
    c += (q[1] - qy) * (p[0] - px);
    d += (q[1] - qy) * (p[1] - py);
  }
  const turn = Math.hypot(a + d, c - b);
  const mirror = Math.hypot(a - d, b + c);
  const angle = turn >= mirror ? Math.atan2(c - b, a + d) : Math.atan2(b + c, a - d);
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const turned = places.map(
    ([x, y]) => (
      turn >= mirror ? [cos * x - sin * y, sin * x + cos * y] : [cos * x + sin * y, sin * x - cos * y]
    )
  );
  return fit(turned.map(([x]) => x), turned.map(([, y]) => y));
}
