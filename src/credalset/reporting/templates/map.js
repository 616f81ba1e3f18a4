// The map: drag to select, click to open; what is selected shows in the triangle or the envelopes.
const [mapLeft, mapWide, mapX] = data.map.x;
const [mapTop, mapHigh, mapY] = data.map.y;
const xOf = (item) => mapLeft + (mapWide * fine("aleatoric", item)) / mapX;
const yOf = (item) => mapTop + (mapHigh * (mapY - fine("epistemic", item))) / mapY;
const mostDrawn = 60;
const map = byId("map-picture");
const envelopes = byId("envelopes");
const firstSets = byId("sets") ? [...byId("sets").children] : [];
const firstWords = byId("sets-of") ? byId("sets-of").textContent : "";
let dragFrom = null;

function follow(items, filtered) {
  if (!map) return;
  const shown = items.filter((item) => !isEmpty(item));
  const path = filtered ? shown.map((item) => `M${xOf(item).toFixed(1)} ${yOf(item).toFixed(1)}h0`).join("") : "";
  byId("map-selected").replaceChildren(...(path ? [draw("path", { class: "chosen", d: path })] : []));
  map.classList.toggle("dimmed", filtered);
  byId("map-count").textContent = filtered ? `${items.length.toLocaleString("en")} selected` : "Nothing selected";
  byId("map-clear").hidden = !filtered;
  showBrush();
  if (data.outlines !== null) {
    byId("sets").replaceChildren(...(filtered ? items.slice(0, mostDrawn).map(setPath) : firstSets));
    byId("sets").classList.toggle("many", filtered && items.length > 12);
    byId("sets-of").textContent = !filtered
      ? firstWords
      : items.length > mostDrawn
        ? `the first ${mostDrawn} of ${items.length.toLocaleString("en")} selected items`
        : "the selected items";
  } else if (envelopes) {
    const drawn = filtered && shown.length ? meanBars(items) : envelopes;
    byId("envelopes-now").replaceChildren(drawn);
    byId("sets-of").textContent = filtered ? `the ${items.length.toLocaleString("en")} selected items` : firstWords;
  }
}

function showBrush() {
  const ends = ["aleatoric-from", "aleatoric-to", "epistemic-from", "epistemic-to"].map((id) => byId(id).value);
  const brush = byId("map-brush");
  if (ends.every((end) => end === "")) {
    brush.setAttribute("width", 0);
    brush.setAttribute("height", 0);
    return;
  }
  const or = (end, otherwise) => (end === "" ? otherwise : Math.min(Math.max(Number(end), 0), 1));
  const x0 = mapLeft + (mapWide * or(ends[0], 0)) / mapX,
    x1 = mapLeft + (mapWide * Math.min(or(ends[1], mapX), mapX)) / mapX;
  const y0 = mapTop + (mapHigh * (mapY - Math.min(or(ends[3], mapY), mapY))) / mapY,
    y1 = mapTop + (mapHigh * (mapY - or(ends[2], 0))) / mapY;
  place(x0, y0, x1, y1);
}

function place(x0, y0, x1, y1) {
  const brush = byId("map-brush");
  for (const [name, value] of Object.entries({
    x: Math.min(x0, x1),
    y: Math.min(y0, y1),
    width: Math.abs(x1 - x0),
    height: Math.abs(y1 - y0),
  }))
    brush.setAttribute(name, value);
}

function pointer(event) {
  const box = map.getBoundingClientRect(),
    view = map.viewBox.baseVal;
  return [
    ((event.clientX - box.left) * view.width) / box.width,
    ((event.clientY - box.top) * view.height) / box.height,
  ];
}

function select(a, b) {
  const share = (x, from, wide, end) => Math.min(Math.max((end * (x - from)) / wide, 0), end);
  const xs = [a[0], b[0]].map((x) => share(x, mapLeft, mapWide, mapX)).sort((p, q) => p - q);
  const ys = [a[1], b[1]].map((y) => mapY - share(y, mapTop, mapHigh, mapY)).sort((p, q) => p - q);
  byId("aleatoric-from").value = xs[0].toFixed(2);
  byId("aleatoric-to").value = xs[1].toFixed(2);
  byId("epistemic-from").value = ys[0].toFixed(2);
  byId("epistemic-to").value = ys[1].toFixed(2);
  table.update();
}

function nearest([x, y]) {
  let best = -1,
    least = 144; // within 12 units
  for (const item of table.order) {
    if (isEmpty(item)) continue;
    const d = (xOf(item) - x) ** 2 + (yOf(item) - y) ** 2;
    if (d < least) {
      least = d;
      best = item;
    }
  }
  return best;
}

function addBrush() {
  map.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    dragFrom = pointer(event);
    map.setPointerCapture(event.pointerId);
  });
  map.addEventListener("pointermove", (event) => {
    if (dragFrom) place(...dragFrom, ...pointer(event));
  });
  map.addEventListener("pointerup", (event) => {
    if (!dragFrom) return;
    const from = dragFrom,
      to = pointer(event);
    dragFrom = null;
    if (Math.hypot(from[0] - to[0], from[1] - to[1]) > 5) {
      select(from, to);
      return;
    }
    showBrush();
    const item = nearest(to);
    if (item >= 0) openItem(item);
  });
  map.addEventListener("pointercancel", () => {
    dragFrom = null;
    showBrush();
  });
}
