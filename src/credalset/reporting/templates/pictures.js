// Pictures that follow the reader; the same drawing as figures.py.
const label = (x, y, text, kind, anchor) => draw("text", { x, y, class: kind, "text-anchor": anchor }, text);
const strip = { left: 38, top: 8, wide: 1034, high: 190 }; // as wide as the page, from the first drawing
const box = byId("strip-box");
let drawn = []; // the items of the strip, from left to right

function drawStrip(items) {
  // Of many items, those of one column of pixels are drawn together: the mean of their bounds, and
  // each of the shares that the model predicts, without risers, which would hide everything.
  drawn = items;
  const full = Math.max(box.clientWidth, 200);
  byId("strip").setAttribute("viewBox", `0 0 ${full} 206`);
  strip.wide = full - strip.left - 6;
  const n = items.length;
  const columns = Math.min(n, strip.wide);
  const tenth = (value) => Math.round(10 * value) / 10;
  const x = (column) => tenth(strip.left + (strip.wide * column) / Math.max(columns, 1));
  const y = (value) => tenth(strip.top + strip.high * (1 - value / data.coarse));
  const band = [],
    back = [],
    line = new Set(),
    dots = [new Set(), new Set()];
  for (let column = 0, i = 0; column < columns; column++) {
    const end = Math.floor(((column + 1) * n) / columns);
    let low = 0,
      high = 0;
    const first = i;
    const left = x(column);
    const wide = tenth(x(column + 1) - left);
    const middle = x(column + 0.5);
    for (; i < end; i++) {
      const item = items[i];
      const cell = item * size + data.label[item];
      low += Math.max(data.lower[cell], 0);
      high += Math.max(data.upper[cell], 0);
      line.add(`M${left} ${y(data[model][cell])}h${wide}`);
      const votes = voteShare(hasVotes("later", item) ? "later" : "hand", item, data.label[item]);
      if (votes >= 0) dots[hitOf(item) === 0 ? 1 : 0].add(`M${middle} ${y(votes * data.coarse)}h0`);
    }
    const right = x(column + 1);
    band.push(`V${y(high / (end - first))}H${right}`);
    back.push(`V${y(low / (end - first))}H${x(column)}`);
  }
  const begin = `M${strip.left} ${strip.top + strip.high}`;
  const set = (id, d) => byId(id).setAttribute("d", d);
  set("strip-band", n ? begin + band.join("") + back.reverse().join("") + "z" : "");
  set("strip-predicted", [...line].join(""));
  set("strip-seen", [...dots[0]].join(""));
  set("strip-missed", [...dots[1]].join(""));
  markOnStrip();
}

function markOnStrip() {
  const place = drawn.indexOf(opened);
  const cursor = byId("strip-cursor");
  cursor.toggleAttribute("hidden", place < 0);
  const x = strip.left + (strip.wide * (place + 0.5)) / Math.max(drawn.length, 1);
  cursor.setAttribute("d", `M${x.toFixed(1)} ${strip.top}V${strip.top + strip.high}`);
}

function itemOnStrip(event) {
  const area = byId("strip").getBoundingClientRect();
  const place = Math.floor(((event.clientX - area.left - strip.left) / strip.wide) * drawn.length);
  return drawn[Math.min(Math.max(place, 0), drawn.length - 1)];
}

function likeliest(item, most) {
  const all = classes.map((_, k) => k);
  if (size <= Math.max(most, 5)) return all;
  const votes = (k) => Math.max(...["hand", "later"].map((which) => voteShare(which, item, k) || 0));
  const worth = all.map((k) => Math.max(share("upper", item, k), 0) + votes(k));
  return all
    .sort((a, b) => worth[b] - worth[a] || a - b)
    .slice(0, most)
    .sort((a, b) => a - b);
}

function mini(item) {
  const rows = likeliest(item, 3);
  const picture = draw("svg", { class: "mini", viewBox: `0 0 206 ${13 * rows.length + 1}`, "aria-hidden": "true" });
  rows.forEach((k, place) => {
    const y = 13 * place + 7;
    picture.append(
      label(84, y + 4, shorten(classes[k], 13), "tick", "end"),
      draw("path", { class: "grid", d: `M90 ${y}h110` }),
    );
    if (!isEmpty(item)) {
      const low = share("lower", item, k);
      const wide = Math.max(110 * (share("upper", item, k) - low), 1);
      picture.append(draw("rect", { class: "envelope", x: 90 + 110 * low, y: y - 3, width: wide, height: 6, rx: 1 }));
    }
    for (const which of ["hand", "later"]) {
      const votes = voteShare(which, item, k);
      if (!Number.isNaN(votes))
        picture.append(draw("path", { class: `vote-tick ${kindOf(which)}`, d: `M${90 + 110 * votes} ${y - 6}v12` }));
    }
  });
  return picture;
}

function itemBars(item) {
  const rows = likeliest(item, 12);
  const left = 14 + 6.6 * Math.min(24, Math.max(...rows.map((k) => classes[k].length)));
  const wide = 430 - left,
    step = 30,
    bottom = 6 + step * rows.length;
  const x = (value) => left + wide * value;
  const picture = draw("svg", {
    class: "picture",
    viewBox: `0 0 444 ${bottom + 22}`,
    role: "img",
    "aria-label": `Bounds, prediction and votes of item ${data.name[item]} by class`,
  });
  for (const tick of [0, 0.25, 0.5, 0.75, 1])
    picture.append(
      draw("path", { class: "grid", d: `M${x(tick)} 6V${bottom}` }),
      label(x(tick), bottom + 15, String(tick), "tick", "middle"),
    );
  rows.forEach((k, place) => {
    const y = 6 + step * place + 15;
    const name = label(left - 8, y + 4, shorten(classes[k], 24), "label", "end");
    name.append(draw("title", {}, classes[k]));
    picture.append(name);
    if (!isEmpty(item)) {
      const low = share("lower", item, k);
      const span = Math.max(wide * (share("upper", item, k) - low), 1);
      picture.append(draw("rect", { class: "envelope", x: x(low), y: y - 10, width: span, height: 8, rx: 2 }));
    }
    let under = y + 1;
    for (const which of ["hand", "later"]) {
      const votes = voteShare(which, item, k);
      if (Number.isNaN(votes)) continue;
      picture.append(
        draw("rect", { class: `votes ${kindOf(which)}`, x: left, y: under, width: Math.max(wide * votes, 0.5), height: 5 }),
      );
      under += 6;
    }
    picture.append(draw("circle", { class: "prediction", cx: x(share(model, item, k)), cy: y - 6, r: 3.2 }));
  });
  if (rows.length < size)
    picture.append(label(left - 8, bottom + 15, `+ ${size - rows.length} more`, "tick", "end"));
  return picture;
}

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
    class: "picture triangle",
    viewBox: "0 0 360 306",
    role: "img",
    "aria-label": "The exact set in the triangle of the three classes",
  });
  picture.append(draw("path", { class: "frame", d: `M${[0, 1, 2].map((k) => corner(k).join(" ")).join("L")}z` }));
  picture.append(
    label(4, 302, shorten(classes[0], 24), "axis", "start"),
    label(356, 302, shorten(classes[1], 24), "axis", "end"),
    label(180, 16, shorten(classes[2], 40), "axis", "middle"),
    draw(
      "g",
      { transform: `scale(${1 / data.outline})` },
      draw("path", { class: "set", d: data.outlines[item] || "M0 0" }),
    ),
  );
  for (const which of ["hand", "later"])
    if (hasVotes(which, item)) {
      const [x, y] = inTriangle((k) => voteShare(which, item, k));
      picture.append(draw("rect", { class: `truth ${kindOf(which)}`, x: x - 4.5, y: y - 4.5, width: 9, height: 9 }));
    }
  const [cx, cy] = inTriangle((k) => share(model, item, k));
  picture.append(draw("circle", { class: "prediction", cx, cy, r: 4 }));
  return picture;
}

function ribbon(item) {
  // The bounds of a few classes at several numbers of votes, one band each, with a tick for each vote.
  const found = data.ribbons[item];
  const { numbers, shown } = found;
  const left = 30,
    wide = 400,
    high = 64,
    gap = 20;
  const most = numbers[numbers.length - 1];
  const x = (votes) => left + (wide * votes) / most;
  const bottom = shown.length * (high + gap);
  const picture = draw("svg", {
    class: "picture ribbon",
    viewBox: `0 0 444 ${bottom + 30}`,
    role: "img",
    "aria-label": `The set of item ${data.name[item]} at ${numbers.join(", ")} votes`,
  });
  shown.forEach((k, place) => {
    const top = 14 + place * (high + gap);
    const y = (value) => (top + high * (1 - value)).toFixed(1);
    const cell = (column, h) => found[column][h * shown.length + place] / data.coarse;
    const upper = numbers.map((votes, h) => `${x(votes).toFixed(1)} ${y(cell("upper", h))}`);
    const lower = numbers.map((votes, h) => `${x(votes).toFixed(1)} ${y(cell("lower", h))}`).reverse();
    picture.append(
      draw("path", { class: "grid", d: `M${left} ${y(0)}h${wide}M${left} ${y(1)}h${wide}` }),
      label(left - 5, Number(y(0)) + 4, "0", "tick", "end"),
      label(left - 5, Number(y(1)) + 4, "1", "tick", "end"),
      label(left, top - 3, shorten(classes[k], 40), "label", "start"),
      draw("path", { class: "band", d: `M${upper.join("L")}L${lower.join("L")}z` }),
    );
    for (const votes of numbers) picture.append(draw("path", { class: "grid", d: `M${x(votes)} ${y(0)}V${y(1)}` }));
    found.votes.forEach((vote, i) => {
      if (vote === k && i < most)
        picture.append(
          draw("path", { class: `vote-tick ${kindOf(i < found.in_hand ? "hand" : "later")}`, d: `M${x(i + 1)} ${y(0)}v-9` }),
        );
    });
  });
  for (const votes of numbers) picture.append(label(x(votes), bottom + 8, String(votes), "tick", "middle"));
  picture.append(label(left + wide / 2, bottom + 24, "votes", "axis", "middle"));
  return picture;
}

function drawInterval(row, seen, low, high, target) {
  const least = Number(row.closest("table").dataset.least);
  const x = (value) => 4 + (152 * (Math.max(value, least) - least)) / (1 - least);
  const picture = row.querySelector("svg");
  picture.replaceChildren(draw("path", { class: "line", d: `M4 9H156` }));
  if (target >= least) picture.append(draw("path", { class: "promised", d: `M${x(target)} 1V17` }));
  picture.append(draw("path", { class: "whisker", d: `M${x(low)} 9H${x(high)}` }));
  if (seen >= least) picture.append(draw("circle", { class: "observed", cx: x(seen), cy: 9, r: 4 }));
}
