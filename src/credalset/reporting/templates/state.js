// What the reader has chosen. The address holds it, so that a link shows the same.
const start = { error: 0, level: data.levels === null ? 0 : data.levels.alpha.indexOf(data.alpha) };
const state = {};
const texts = ["q", "sort"];
const numbers = ["error", "level"];
const choices = ["step", "label", "hit", "slice", "point", "item", "down"];
let written = "";

function forget() {
  for (const key of [...texts, ...choices]) state[key] = "";
  Object.assign(state, start);
}

function readAddress() {
  forget();
  const hash = location.hash.slice(1);
  if (!hash.includes("=")) return;
  const found = new URLSearchParams(hash);
  for (const key of [...texts, ...choices]) state[key] = found.get(key) ?? "";
  for (const key of numbers) {
    const most = key === "error" ? data.errors.length : data.levels === null ? 0 : data.levels.alpha.length;
    const wanted = key === "level" && found.has("alpha") ? levelOf(found.get("alpha")) : Number(found.get(key));
    if (found.has(key === "level" ? "alpha" : key) && wanted >= 0 && wanted < most) state[key] = wanted;
  }
}

const levelOf = (alpha) => (data.levels === null ? -1 : data.levels.alpha.indexOf(Number(alpha)));

function writeAddress() {
  const found = new URLSearchParams();
  if (state.error !== start.error) found.set("error", state.error);
  if (state.level !== start.level) found.set("alpha", data.levels.alpha[state.level]);
  for (const key of [...choices, ...texts]) if (state[key] !== "") found.set(key, state[key]);
  written = found.toString();
  history.replaceState(null, "", written ? `#${written}` : location.pathname + location.search);
}

// Steps come from the queue, for each error that the rule was tested for; see acting/steps.py.
const now = () => data.errors[state.error];
const stepOf = (item) => data.queue[now().step[item]];
const reason = (item) =>
  now()
    .reason[item].map((code) => data.reasons[code])
    .join(" ");

function hitOf(item) {
  if (data.levels !== null) {
    const missed = data.levels.missed[item];
    return missed < 0 ? 2 : missed > state.level ? 1 : 0;
  }
  return now().error !== null && stepOf(item) !== "accept" ? 2 : data.hit[item];
}

const sliceOf = (key) => key.split(".").map(Number);

function tests() {
  const found = [];
  if (state.step !== "") found.push((item) => stepOf(item) === state.step);
  if (state.label !== "") found.push((item) => data.label[item] === Number(state.label));
  if (state.hit !== "") found.push((item) => hitOf(item) === Number(state.hit));
  if (state.slice !== "") {
    const [feature, value] = sliceOf(state.slice);
    const codes = data.features[feature] ? data.features[feature].code : [];
    found.push((item) => codes[item] === value);
  }
  if (state.q !== "") {
    const wanted = state.q.trim().toLowerCase();
    found.push((item) => textOf(item).includes(wanted));
  }
  return found;
}

let searched = null; // names and texts in lower case, made when first needed
function textOf(item) {
  searched ??= data.name.map((name, i) => (name + "\n" + (data.text === null ? "" : data.text[i])).toLowerCase());
  return searched[item];
}

function choose(changes) {
  Object.assign(state, changes);
  update();
}
