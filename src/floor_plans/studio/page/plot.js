// The geometry of a plot: corners in metres, y downwards.

export const noPlot = () => ({ corners: [], closed: false, entrance: null, north: null, ratio: null });

export const PRESETS = {
  "11 × 9 m": [[0, 0], [11, 0], [11, 9], [0, 9]],
  "12 × 8 m": [[0, 0], [12, 0], [12, 8], [0, 8]],
  "L, 12 × 10 m": [[0, 0], [12, 0], [12, 6], [7, 6], [7, 10], [0, 10]],
};

const MOST_CORNERS = 64; // that the studio takes
const DEGREES = 0.05; // wider is no plot of a house in degrees, so it is in metres
const METRES_OF_A_DEGREE = 111_320;

export const rounded = (value, step = 0.01) => Number((Math.round(value / step) * step).toFixed(2));
export const between = ([x1, y1], [x2, y2]) => Math.hypot(x2 - x1, y2 - y1);
export const sidesOf = (corners) => corners.map((corner, k) => [corner, corners[(k + 1) % corners.length]]);

export function areaOf(corners) {
  return Math.abs(sidesOf(corners).reduce((sum, [[x1, y1], [x2, y2]]) => sum + x1 * y2 - x2 * y1, 0)) / 2;
}

const turn = ([ax, ay], [bx, by], [cx, cy]) => Math.sign((bx - ax) * (cy - ay) - (by - ay) * (cx - ax));

/** True if two sides that are no neighbours meet, or there is no area. */
export function crosses(corners) {
  const sides = sidesOf(corners), n = sides.length;
  if (n < 3 || areaOf(corners) < 0.01) return true;
  return sides.some(([a, b], i) => sides.some(([c, d], j) => {
    if (j <= i + 1 || (i === 0 && j === n - 1)) return false;
    return turn(a, b, c) * turn(a, b, d) <= 0 && turn(c, d, a) * turn(c, d, b) <= 0;
  }));
}

/** The corners of the plot, or null where it is none that plans can have. */
export const boundaryOf = ({ corners, closed }) => (closed && !crosses(corners) ? corners : null);

/** Corners with another length of side `k`: those behind it move too, as far as the next parallel side. */
export function withLength(corners, k, length) {
  const n = corners.length, before = corners[k], after = corners[(k + 1) % n], old = between(before, after);
  if (!(old > 0 && length > 0)) return corners;
  const way = [0, 1].map((axis) => ((after[axis] - before[axis]) * (length - old)) / old);
  const moved = corners.map((corner) => [...corner]);
  for (let j = 1; j < n; j++) {
    const corner = (k + j) % n, next = (k + j + 1) % n;
    for (const axis of [0, 1]) moved[corner][axis] = rounded(corners[corner][axis] + way[axis]);
    const side = [0, 1].map((axis) => corners[next][axis] - corners[corner][axis]);
    if (Math.abs(side[0] * way[1] - side[1] * way[0]) < 1e-6 * old) return moved;
  }
  return corners.map((corner, j) => (j === (k + 1) % n ? moved[j] : corner)); // none is parallel
}

/** The place of the entrance, or null. */
export function entranceOf({ corners, closed, entrance }) {
  if (!closed || !entrance) return null;
  const [a, b] = sidesOf(corners)[entrance.side], length = between(a, b);
  const share = Math.min(1, Math.max(0, entrance.at / length));
  return [0, 1].map((axis) => a[axis] + share * (b[axis] - a[axis]));
}

/** The side that a point is nearest to: {side, at, distance}. */
export function nearestSide(corners, point) {
  const found = sidesOf(corners).map(([a, b], side) => {
    const length = between(a, b);
    const along = ((point[0] - a[0]) * (b[0] - a[0]) + (point[1] - a[1]) * (b[1] - a[1])) / (length || 1);
    const at = Math.min(length, Math.max(0, along)), share = at / (length || 1);
    return { side, at, distance: between(point, [0, 1].map((axis) => a[axis] + share * (b[axis] - a[axis]))) };
  });
  return found.sort((one, other) => one.distance - other.distance)[0];
}

/** Corners of the first polygon of a GeoJSON text, from 0, 0 on; throws an error named as a label. */
export function fromGeoJson(text) {
  let ring;
  try { ring = ringOf(JSON.parse(text)); } catch { throw new Error("geojson-unread"); }
  if (!ring) throw new Error("geojson-none");
  let points = ring.map(([x, y]) => [Number(x), -Number(y)]);
  if (!points.flat().every(Number.isFinite)) throw new Error("geojson-unread");
  const size = (axis) => Math.max(...points.map((p) => p[axis])) - Math.min(...points.map((p) => p[axis]));
  if (size(0) < DEGREES && size(1) < DEGREES) { // longitude and latitude
    const shrink = Math.cos((points[0][1] * Math.PI) / 180);
    points = points.map(([x, y]) => [x * METRES_OF_A_DEGREE * shrink, y * METRES_OF_A_DEGREE]);
  }
  const low = [0, 1].map((axis) => Math.min(...points.map((point) => point[axis])));
  points = points.map((point) => point.map((value, axis) => rounded(value - low[axis])));
  points = points.filter((point, k) => between(point, points[(k + 1) % points.length]) > 0);
  return fitting(points);
}

/** The corners, if plans can have them; else throws an error named as a label. */
export function fitting(points) {
  if (points.length > MOST_CORNERS) throw new Error("too-many-corners");
  if (crosses(points)) throw new Error("plot-crosses");
  return points;
}

function ringOf(data) {
  if (data.type === "Polygon") return data.coordinates[0];
  if (data.type === "MultiPolygon") return data.coordinates[0][0];
  if (data.type === "Feature") return ringOf(data.geometry ?? {});
  for (const each of data.features ?? data.geometries ?? []) {
    const found = ringOf(each);
    if (found) return found;
  }
  return null;
}
