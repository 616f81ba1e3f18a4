// One item in full, beside the page: text, votes, set, how it changes with votes, and why.
const panel = byId("item");
let opened = -1;
let openedFrom = null;

function votesOf(which, item) {
  const total = voteTotal(which, item);
  const counted = data[which].counted;
  const found = classes.map((name, k) => [name, counted ? data[which].cells[item * size + k] : voteShare(which, item, k)]);
  found.sort((a, b) => b[1] - a[1]);
  const several = found.filter(([, n]) => n > 0).map(([name, n]) => `${name}: ${counted ? n : words(n)}`);
  return [counted ? `${nameOfVotes(which)} (${total})` : nameOfVotes(which), several.join(", ") || "none"];
}

function factsOf(item) {
  const facts = [];
  for (const which of ["hand", "later"]) if (hasVotes(which, item)) facts.push(votesOf(which, item));
  const hit = hitOf(item);
  if (hit !== 2) facts.push(["result", data.outcome[hit]]);
  const said = data.predicted[item];
  facts.push(["model", `${classes[said]} (${words(share(model, item, said))})`]);
  facts.push(["label", labelOf(item)]);
  if (data.risk !== null && data.risk[item] >= 0)
    facts.push(["risk", `${words(data.risk[item] / data.coarse)}, that another annotator disagrees with the label`]);
  const open = data.open[item].map((k) => data.choices[k]);
  facts.push(["labels left open", open.join(", ") || "none: the set is empty"]);
  if (data.mean !== null && data.mean.lower[item] !== null)
    facts.push(["mean on the scale", `${words(data.mean.lower[item])} to ${words(data.mean.upper[item])}`]);
  if (!isEmpty(item))
    facts.push([
      "entropy in the set",
      `${words(data.entropy[0][item] / data.coarse)} to ${words(data.entropy[1][item] / data.coarse)} of 1`,
    ]);
  if (data.p !== null && data.p[item] >= 0) facts.push(["p-value", String(data.p[item] / data.fine)]);
  for (const feature of data.features)
    if (feature.code[item] >= 0) facts.push([feature.name, feature.values[feature.code[item]]]);
  return facts;
}

function openItem(item, from = document.activeElement) {
  if (opened < 0) openedFrom = from;
  opened = item;
  state.item = data.name[item];
  showPanel();
  panel.hidden = false;
  byId("item-name").focus({ preventScroll: true });
  panel.scrollTop = 0;
  writeAddress();
}

function showPanel() {
  const item = opened;
  const place = table.order.indexOf(item);
  const close = make("button", { type: "button", id: "item-close" }, "Close");
  const before = make("button", { type: "button" }, "Previous");
  const after = make("button", { type: "button" }, "Next");
  before.disabled = place <= 0;
  after.disabled = place < 0 || place >= table.order.length - 1;
  close.onclick = closeItem;
  before.onclick = () => stepBy(-1);
  after.onclick = () => stepBy(1);
  const list = make("dl");
  for (const [name, value] of factsOf(item)) list.append(make("dt", {}, name), make("dd", { class: "break" }, value));
  const body = [
    make("p", { class: "buttons" }, before, after, close),
    make("h2", { id: "item-name", tabindex: "-1", class: "break" }, data.name[item]),
  ];
  if (data.text !== null && data.text[item])
    body.push(make("p", { class: "full", tabindex: "0", role: "region", "aria-label": "Text of the item" }, data.text[item]));
  if (data.link !== null && data.link[item]) body.push(linkTo(data.link[item]));
  const hit = hitOf(item);
  const step = stepOf(item);
  const what = step === "accept" ? `${titleOf(step)}: ${labelOf(item)}. ` : `${titleOf(step)}. `;
  const verdict = make("p", {}, swatch(step), make("b", { class: "break" }, what), reason(item));
  if (hit === 0) verdict.append(" ", make("span", { class: "flag" }, data.outcome[0]));
  body.push(verdict, itemBars(item), make("p", { class: "quiet" }, ...legend()));
  if (data.outlines !== null && data.outlines[item]) body.push(itemTriangle(item));
  if (data.ribbons !== null && data.ribbons[item])
    body.push(make("h3", {}, "The set as votes come in"), ribbon(item));
  body.push(list);
  panel.replaceChildren(...body);
  markOnStrip();
}

function closeItem() {
  const item = opened;
  opened = -1;
  state.item = "";
  panel.hidden = true;
  markOnStrip();
  writeAddress();
  if (!table.focus(item) && openedFrom) openedFrom.focus();
}

function legend() {
  const keys = [
    make("span", { class: "key envelope-key" }, "what the set allows"),
    " ",
    make("span", { class: "key prediction-key" }, "model"),
  ];
  for (const which of ["hand", "later"])
    if (data[which] !== null) keys.push(" ", make("span", { class: `key ${kindOf(which)}-key` }, nameOfVotes(which)));
  return keys;
}

function linkTo(address) {
  if (address.startsWith("data:")) return make("img", { src: address, alt: "Picture of the item" });
  return make(
    "p",
    {},
    make("a", { href: address, rel: "noopener noreferrer", target: "_blank", class: "break" }, address),
  );
}

function stepBy(by) {
  const next = table.order[table.order.indexOf(opened) + by];
  if (next !== undefined) openItem(next);
}

panel.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "ArrowLeft") stepBy(-1);
  else if (event.key === "ArrowRight") stepBy(1);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && opened >= 0) closeItem();
});
