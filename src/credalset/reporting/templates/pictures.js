// Pictures that follow the reader: envelopes, and sets in the triangle. The same drawing as figures.py.
const label = (x, y, text, kind, anchor) => draw("text", { x, y, class: kind, "text-anchor": anchor }, text);
const shorten = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");

function bars(rows, name) {
  const left = 14 + 6.5 * Math.min(16, Math.max(...classes.map((name) => name.length)));
  const wide = 346 - left,
    top = 6,
    bottom = top + 26 * rows.length;
  const x = (value) => left + wide * value;
  const picture = draw("svg", {
    class: "picture",
    viewBox: `0 0 360 ${bottom + 22}`,
    role: "img",
    "aria-label": name,
  });
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    picture.append(
      draw("path", { class: "grid", d: `M${x(tick)} ${top}V${bottom}` }),
      label(x(tick), bottom + 15, String(tick), "tick", "middle"),
    );
  }
  rows.forEach((row, place) => {
    const y = top + 26 * place + 13;
    picture.append(label(left - 8, y + 4, shorten(row.name, 16), "label", "end"));
    if (!Number.isNaN(row.votes))
      picture.append(draw("rect", { class: "votes", x: left, y: y + 2, width: wide * row.votes, height: 8 }));
    if (row.lower >= 0)
      picture.append(
        draw("rect", {
          class: "envelope",
          x: x(row.lower),
          y: y - 8,
          width: Math.max(wide * (row.upper - row.lower), 1),
          height: 8,
          rx: 2,
        }),
      );
    picture.append(draw("circle", { class: "prediction", cx: x(row.center), cy: y - 4, r: 3 }));
  });
  return picture;
}

function likeliest(rows, most) {
  const worth = (row) => Math.max(row.upper, 0) + (row.votes || 0);
  const kept = [...rows].sort((a, b) => worth(b) - worth(a)).slice(0, most);
  return rows.filter((row) => kept.includes(row));
}

function itemBars(item) {
  const rows = classes.map((name, k) => ({
    name,
    votes: voteShare(item, k),
    center: share("center", item, k),
    lower: isEmpty(item) ? -1 : share("lower", item, k),
    upper: share("upper", item, k),
  }));
  return bars(likeliest(rows, 20), `Envelopes, prediction and votes of item ${data.name[item]} by class`);
}

function meanBars(items) {
  const full = items.filter((item) => !isEmpty(item));
  const voted = items.filter(hasVotes);
  const mean = (list, value) => list.reduce((sum, item) => sum + value(item), 0) / list.length;
  const rows = classes.map((name, k) => ({
    name,
    votes: voted.length ? mean(voted, (item) => voteShare(item, k)) : NaN,
    center: mean(full, (item) => share("center", item, k)),
    lower: mean(full, (item) => share("lower", item, k)),
    upper: mean(full, (item) => share("upper", item, k)),
  }));
  return bars(likeliest(rows, 20), "Mean envelope of each class over the selected items");
}

const setPath = (item) => draw("path", { class: "set", d: data.outlines[item] || "M0 0" });
const corner = (k) =>
  [
    [30, 284],
    [330, 284],
    [180, 284 - 300 * Math.sqrt(0.75)],
  ][k];

function inTriangle(value) {
  const point = [0, 0];
  for (let k = 0; k < 3; k++) for (const axis of [0, 1]) point[axis] += value(k) * corner(k)[axis];
  return point;
}

function itemTriangle(item) {
  const picture = draw("svg", {
    class: "picture",
    viewBox: "0 0 360 306",
    role: "img",
    "aria-label": "The exact set in the triangle of the three classes",
  });
  picture.append(draw("path", { class: "frame", d: `M${[0, 1, 2].map((k) => corner(k).join(" ")).join("L")}z` }));
  picture.append(
    label(4, 302, shorten(classes[0], 20), "axis", "start"),
    label(356, 302, shorten(classes[1], 20), "axis", "end"),
    label(180, 16, shorten(classes[2], 40), "axis", "middle"),
  );
  picture.append(draw("g", { transform: `scale(${1 / data.steps})` }, setPath(item)));
  const [cx, cy] = inTriangle((k) => share("center", item, k));
  if (hasVotes(item)) {
    const [x, y] = inTriangle((k) => voteShare(item, k));
    picture.append(draw("rect", { class: "truth", x: x - 4.5, y: y - 4.5, width: 9, height: 9 }));
  }
  picture.append(draw("circle", { class: "prediction", cx, cy, r: 4 }));
  return picture;
}
