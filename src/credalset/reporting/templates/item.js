// One item in full: votes, set, envelopes, entropies, possible labels, and why.
const sheet = byId("item");
let opened = -1;

function factsOf(item) {
  const total = voteTotal(item);
  const facts = [
    ["to do", titles[data.step[item]]],
    ["possible labels", possible(item)],
    ["predicted", `${classes[data.predicted[item]]} (${words(share("center", item, data.predicted[item]), 2)})`],
    [
      "entropy in the set",
      isEmpty(item)
        ? "the set is empty"
        : `${words(fine("aleatoric", item))} to ${words(fine("aleatoric", item) + fine("epistemic", item))} of 1`,
    ],
    ["aleatoric, epistemic", `${words(fine("aleatoric", item))}, ${words(fine("epistemic", item))}`],
    ["width", isEmpty(item) ? "–" : words(data.width[item] / data.coarse)],
  ];
  if (!hasVotes(item)) facts.push([data.votesName, "none"]);
  else {
    const shown = classes
      .map((name, k) => [name, data.counted ? at("votes", item, k) : voteShare(item, k)])
      .filter(([, n]) => n > 0);
    shown.sort((a, b) => b[1] - a[1]);
    facts.push([
      Number.isNaN(total) ? data.votesName : `${data.votesName} (${total})`,
      shown.map(([name, n]) => `${name}: ${data.counted ? n : words(n, 2)}`).join(", "),
    ]);
  }
  const tested = data.votesName === "votes" ? "votes" : "later votes";
  if (data.covered[item] !== 2)
    facts.push(["covered", `${data.covered[item] === 1 ? "yes" : "no"}, the ${tested} lie ${data.covered[item] === 1 ? "in" : "outside"} the set`]);
  if (data.group !== null) facts.push(["group", data.groups[data.group[item]]]);
  return facts;
}

function picturesOf(item) {
  const box = make("div", { class: "two" }, itemBars(item));
  if (data.outlines !== null && data.outlines[item]) box.append(itemTriangle(item));
  return box;
}

function openItem(item) {
  opened = item;
  const place = table.order.indexOf(item);
  const close = make("button", { type: "button", id: "item-close" }, "Close");
  const before = make("button", { type: "button" }, "Previous");
  const after = make("button", { type: "button" }, "Next");
  before.disabled = place <= 0;
  after.disabled = place < 0 || place >= table.order.length - 1;
  close.onclick = () => sheet.close();
  before.onclick = () => step(-1);
  after.onclick = () => step(1);
  const list = make("dl");
  for (const [name, value] of factsOf(item)) list.append(make("dt", {}, name), make("dd", { class: "break" }, value));
  const body = make(
    "div",
    { class: "sheet" },
    make(
      "header",
      {},
      make("h2", { id: "item-name", tabindex: "-1" }, data.name[item]),
      make("div", { class: "buttons" }, before, after, close),
    ),
  );
  if (data.text !== null && data.text[item])
    body.append(
      make("p", { class: "full", tabindex: "0", role: "region", "aria-label": "Text of the item" }, data.text[item]),
    );
  if (data.link !== null && data.link[item]) body.append(linkTo(data.link[item]));
  body.append(
    make("p", {}, reason(item)),
    picturesOf(item),
    make("p", { class: "quiet" }, ...legend()),
    list,
  );
  sheet.replaceChildren(body);
  if (!sheet.open) sheet.showModal();
  sheet.scrollTop = 0;
  byId("item-name").focus();
}

function legend() {
  const keys = [
    make("span", { class: "key envelope-key" }, "what the set allows"),
    " ",
    make("span", { class: "key prediction-key" }, "prediction"),
  ];
  if (data.votes !== null) keys.push(" ", make("span", { class: "key votes-key" }, `share of ${data.votesName}`));
  if (data.outlines !== null && data.votes !== null) keys.push(" In the triangle the votes are a square.");
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

function step(by) {
  const next = table.order[table.order.indexOf(opened) + by];
  if (next !== undefined) openItem(next);
}

sheet.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "ArrowLeft") step(-1);
  else if (event.key === "ArrowRight") step(1);
});
sheet.addEventListener("click", (event) => {
  if (event.target === sheet) sheet.close();
});
sheet.addEventListener("close", () => table.focus(opened));
