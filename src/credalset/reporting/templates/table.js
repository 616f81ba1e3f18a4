// The table: filters, order, pages, CSV.
const pageSize = 25;
const all = Array.from({ length: count }, (_, item) => item);
const keys = [...document.querySelectorAll("#table thead th")].map((head) => head.dataset.key);
const falling = new Set(["votes", "risk"]); // the larger ones first
const value = {
  name: (item) => data.name[item],
  label: (item) => data.label[item],
  lower: (item) => (isEmpty(item) ? -1 : at("lower", item, data.label[item])),
  mean: (item) => data.mean.lower[item] ?? NaN,
  votes: allVotes,
  step: (item) => now().step[item],
  risk: (item) => data.risk[item],
  p: (item) => (data.p[item] < 0 ? NaN : data.p[item]),
};

const table = {
  order: all,
  page: 0,

  update() {
    const keep = tests();
    let rows = all.filter((item) => keep.every((test) => test(item)));
    const inFilter = new Set(rows);
    drawStrip(rows.length === count ? data.strip : data.strip.filter((item) => inFilter.has(item)));
    if (state.point !== "") rows = rows.filter((item) => data.name[item] === state.point);
    this.filtered = rows.length < count;
    if (state.sort in value) sortBy(rows, state.sort, state.down === "1");
    this.order = rows;
    this.page = 0;
    this.show();
  },

  show() {
    const body = document.querySelector("#table tbody");
    const from = this.page * pageSize,
      rows = this.order.slice(from, from + pageSize);
    body.replaceChildren(...rows.map(tableRow));
    const some = this.order.length === 1 ? "1 item" : `${this.order.length.toLocaleString("en")} items`;
    byId("status").textContent =
      (this.filtered ? `${some} of ${count.toLocaleString("en")}` : some) +
      (state.sort === "" ? ", in the order of the queue." : `, sorted by ${state.sort === "p" ? "p-value" : state.sort}.`);
    byId("place").textContent = rows.length ? `${from + 1} to ${from + rows.length}` : "none";
    byId("before").disabled = this.page === 0;
    byId("after").disabled = from + pageSize >= this.order.length;
  },

  focus(item) {
    // back to where the reader was
    const place = this.order.indexOf(item);
    if (place < 0) return false;
    if (Math.floor(place / pageSize) !== this.page) {
      this.page = Math.floor(place / pageSize);
      this.show();
    }
    document.querySelector(`#table button[data-item="${item}"]`).focus();
    return true;
  },
};

function sortBy(rows, key, down) {
  const sign = down ? -1 : 1,
    read = value[key];
  const text = typeof read(0) === "string";
  const found = new Map(rows.map((item) => [item, read(item)]));
  const missing = (x) => !text && (Number.isNaN(x) || x < 0);
  const collator = new Intl.Collator("en", { numeric: true });
  rows.sort((a, b) => {
    const x = found.get(a),
      y = found.get(b);
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b; // nothing known comes last
    return sign * (text ? collator.compare(x, y) : x - y) || a - b;
  });
}

function swatch(step) {
  return draw(
    "svg",
    { class: "swatch", viewBox: "-6 -6 12 12", "aria-hidden": "true" },
    draw("path", { class: `mark ${step}`, d: `M0 0${data.marks[step]}` }),
  );
}

const cells = {
  name(item) {
    const open = make("button", { type: "button", "data-item": item }, data.name[item]);
    const head = make("th", { scope: "row" }, open);
    if (data.text !== null && data.text[item]) head.append(make("span", { class: "text" }, data.text[item]));
    return head;
  },
  label: (item) => make("td", { class: "break" }, labelOf(item)),
  lower: (item) => make("td", {}, mini(item)),
  mean(item) {
    const [low, high] = [data.mean.lower[item], data.mean.upper[item]];
    return make("td", { class: "num", "data-label": "mean" }, low === null ? "–" : `${low.toFixed(1)}–${high.toFixed(1)}`);
  },
  votes: (item) => make("td", { class: "num", "data-label": "votes" }, voteWords(item)),
  step(item) {
    const step = stepOf(item);
    const cell = make("td", { class: "what" }, swatch(step), make("b", {}, titleOf(step)));
    if (hitOf(item) === 0) cell.append(" ", make("span", { class: "flag" }, data.outcome[0]));
    cell.append(make("span", { class: "text" }, reason(item)));
    return cell;
  },
  risk(item) {
    const risk = data.risk[item] < 0 ? "–" : words(data.risk[item] / data.coarse);
    return make("td", { class: "num", "data-label": "risk" }, risk);
  },
};

function tableRow(item) {
  const row = make("tr", {}, ...keys.map((key) => cells[key](item)));
  row.onclick = (event) => openItem(item, event.currentTarget.querySelector("button"));
  return row;
}

function addSorting() {
  for (const head of document.querySelectorAll("#table thead th")) {
    const key = head.dataset.key;
    const button = make("button", { type: "button" }, head.textContent);
    if (head.title) button.title = head.title;
    button.onclick = () => {
      const first = falling.has(key) ? "1" : "";
      choose({ sort: key, down: state.sort !== key ? first : state.down === "1" ? "" : "1" });
    };
    head.replaceChildren(button);
  }
}

function showSorting() {
  for (const head of document.querySelectorAll("#table thead th")) {
    if (head.dataset.key === state.sort)
      head.setAttribute("aria-sort", state.down === "1" ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

function csvOf(items) {
  const quote = (text) =>
    `"${String(text)
      .replace(/^[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20]/, "'$&")
      .replaceAll('"', '""')}"`; // no formulas from texts
  const columns = [
    ["item", (item) => quote(data.name[item])],
    ["step", (item) => quote(stepOf(item))],
    ["label", (item) => quote(labelOf(item))],
  ];
  if (data.risk !== null) columns.push(["risk", (item) => (data.risk[item] < 0 ? "" : data.risk[item] / data.coarse)]);
  columns.push(["votes", (item) => (hasVotes(shownVotes, item) ? voteTotal(shownVotes, item) : 0)]);
  columns.push(["why", (item) => quote(reason(item))]);
  if (all.some((item) => hitOf(item) !== 2)) columns.push(["result", (item) => quote(data.outcome[hitOf(item)])]);
  for (const feature of data.features)
    columns.push([feature.name, (item) => (feature.code[item] < 0 ? "" : quote(feature.values[feature.code[item]]))]);
  if (data.text !== null) columns.push(["text", (item) => quote(data.text[item])]);
  const lines = items.map((item) => columns.map(([, cell]) => cell(item)).join(","));
  return [columns.map(([name]) => quote(name)).join(","), ...lines].join("\r\n") + "\r\n";
}

function download(items, name) {
  const address = URL.createObjectURL(new Blob(["\ufeff" + csvOf(items)], { type: "text/csv;charset=utf-8" }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
