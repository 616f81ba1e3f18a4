// What follows the error of accepted labels and the level of the sets; all numbers were computed before.
function setStatement(id, [tone, text]) {
  const line = byId(id);
  if (!line) return;
  line.className = tone;
  const link = line.querySelector("a");
  line.replaceChildren(make("span", { class: "sign", "aria-hidden": "true" }), text);
  if (link) line.append(" ", link);
}

function showError() {
  const found = now();
  byId("headline").textContent = found.headline;
  setStatement("statement", found.statement);
  data.queue.forEach((step, code) => {
    const [number, part, remark] = found.tiles[code];
    const tile = document.querySelector(`.tile.${step}`);
    tile.querySelector(".big").textContent = number.toLocaleString("en");
    tile.querySelector(".share").textContent = part;
    tile.querySelector(".advice").textContent = remark;
    tile.classList.toggle("chosen", state.step === step);
    const link = tile.querySelector("a");
    if (state.step === step) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
  if (byId("error")) byId("error").value = state.error;
}

function showLevel() {
  const levels = data.levels;
  if (levels === null || state.level === shownLevel) return;
  const alpha = levels.alpha[state.level];
  byId("level").value = state.level;
  byId("level").setAttribute("aria-valuetext", `alpha ${alpha}, ${levels.observed[state.level]} covered`);
  byId("level-value").textContent = `${alpha}`;
  const own = alpha === data.alpha ? "" : ` The sets drawn on this page are those at α = ${data.alpha}.`;
  byId("level-words").textContent =
    `At α = ${alpha}, ${levels.observed[state.level]} of ${levels.n.toLocaleString("en")} items are covered ` +
    `(${(levels.n - levels.hits[state.level]).toLocaleString("en")} are not).${own}`;
  setStatement("set-statement", levels.statement[state.level]);
  shownLevel = state.level;
  if (byId("target")) byId("target").textContent = `${Number((100 * (1 - alpha)).toFixed(1))}%`;
  for (const row of document.querySelectorAll("tr[data-slice]")) {
    const [hits, n, low, high] = levels.slices[Number(row.dataset.slice)];
    const ends = [low[state.level] / data.coarse, high[state.level] / data.coarse];
    const percent = (x) => `${(100 * x).toFixed(1)}%`;
    row.querySelector(".share-cell").textContent = percent(hits[state.level] / n);
    row.querySelector(".range").textContent = ends.map(percent).join("–");
    drawInterval(row, hits[state.level] / n, ...ends, 1 - alpha);
    const flag = row.querySelector(".flag");
    if (flag) flag.hidden = alpha !== data.alpha;
  }
}
let shownLevel = start.level; // the page was written for it

function showChips() {
  const chips = [];
  const add = (key, text) => {
    const button = make("button", { type: "button", class: "chip" }, `${text} ×`);
    button.setAttribute("aria-label", `Remove the filter ${text}`);
    button.onclick = () => choose({ [key]: "" });
    chips.push(button);
  };
  if (state.step !== "") add("step", titleOf(state.step));
  if (state.label !== "") add("label", `label ${classes[Number(state.label)]}`);
  if (state.hit !== "") add("hit", data.outcome[Number(state.hit)]);
  if (state.slice !== "") {
    const [feature, code] = sliceOf(state.slice);
    const found = data.features[feature];
    if (found) add("slice", `${found.name}: ${found.values[code]}`);
  }
  if (state.point !== "") add("point", `item ${state.point}`);
  if (state.q !== "") add("q", `“${state.q}”`);
  if (state.sort !== "") add("sort", `sorted by ${state.sort === "p" ? "p-value" : state.sort}`);
  if (chips.length > 1) {
    const clear = make("button", { type: "button", id: "clear" }, "Clear all");
    clear.onclick = () => {
      const { error, level } = state;
      forget();
      choose({ error, level });
    };
    chips.push(clear);
  }
  byId("chips").replaceChildren(...chips);
  for (const [id, key] of [
    ["search", "q"],
    ["by-step", "step"],
    ["by-label", "label"],
    ["by-hit", "hit"],
  ])
    if (byId(id) && byId(id).value !== state[key]) byId(id).value = state[key];
  for (const link of document.querySelectorAll("a[data-filter]")) {
    const [key, wanted] = link.dataset.filter.split("=");
    link.classList.toggle("chosen", state[key] === wanted);
  }
}
