// The table: filters, order, pages, CSV.
const pageSize = 25;
const all = Array.from({ length: count }, (_, item) => item);
const numeric = new Set(["aleatoric", "epistemic", "width", "votes"]);
const value = {
  name: (item) => data.name[item],
  step: (item) => data.step[item],
  predicted: (item) => classes[data.predicted[item]],
  possible: howMany,
  aleatoric: (item) => data.aleatoric[item],
  epistemic: (item) => data.epistemic[item],
  width: (item) => data.width[item],
  votes: (item) => voteTotal(item),
  covered: (item) => data.covered[item],
};
let searched = null; // names and texts in lower case, made when first needed

const table = {
  order: all,
  page: 0,
  key: null,
  falling: false,
  filtered: false,

  update() {
    const keep = filters();
    this.filtered = keep.length > 0;
    const rows = all.filter((item) => keep.every((test) => test(item)));
    if (this.key !== null) sortBy(rows, this.key, this.falling);
    this.order = rows;
    this.page = 0;
    this.show();
    follow(rows, this.filtered);
  },

  show() {
    const body = document.querySelector("#table tbody");
    const from = this.page * pageSize,
      rows = this.order.slice(from, from + pageSize);
    body.replaceChildren(...rows.map(tableRow));
    const some = this.order.length === 1 ? "1 item" : `${this.order.length.toLocaleString("en")} items`;
    byId("status").textContent = this.filtered
      ? `${some} of ${count.toLocaleString("en")} fit the filters.`
      : `${some}, ${this.key === null ? "in the order of the queue" : "sorted by " + this.key}.`;
    byId("place").textContent = rows.length ? `${from + 1} to ${from + rows.length}` : "none";
    byId("before").disabled = this.page === 0;
    byId("after").disabled = from + pageSize >= this.order.length;
  },

  focus(item) {
    // back to where the reader was
    const place = this.order.indexOf(item);
    if (place < 0) return;
    if (Math.floor(place / pageSize) !== this.page) {
      this.page = Math.floor(place / pageSize);
      this.show();
    }
    const button = document.querySelector(`#table button[data-item="${item}"]`);
    if (button) button.focus();
  },
};

function sortBy(rows, key, falling) {
  const sign = falling ? -1 : 1,
    read = value[key];
  const text = typeof read(0) === "string";
  const keys = new Map(rows.map((item) => [item, read(item)]));
  const missing = (x) => !text && (Number.isNaN(x) || x < 0);
  const collator = new Intl.Collator("en", { numeric: true });
  rows.sort((a, b) => {
    const x = keys.get(a),
      y = keys.get(b);
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b; // nothing known comes last
    return sign * (text ? collator.compare(x, y) : x - y) || a - b;
  });
}

function filters() {
  const tests = [];
  const words = byId("search").value.trim().toLowerCase();
  if (words) {
    searched ??= all.map((item) =>
      (data.name[item] + "\n" + (data.text === null ? "" : data.text[item])).toLowerCase(),
    );
    tests.push((item) => searched[item].includes(words));
  }
  for (const [id, column] of [
    ["by-step", "step"],
    ["by-class", "predicted"],
    ["by-group", "group"],
    ["by-covered", "covered"],
  ]) {
    const chosen = byId(id) ? byId(id).value : "";
    if (chosen !== "") tests.push((item) => data[column][item] === Number(chosen));
  }
  for (const part of ["aleatoric", "epistemic"]) {
    const [from, to] = ["from", "to"].map((end) => byId(`${part}-${end}`).value);
    if (from !== "") tests.push((item) => data[part][item] >= Number(from) * data.fine);
    if (to !== "") tests.push((item) => data[part][item] >= 0 && data[part][item] <= Number(to) * data.fine);
  }
  return tests;
}

function clearFilters() {
  byId("filters").reset();
  table.update();
}

function swatch(step) {
  const name = data.queue[step];
  return draw(
    "svg",
    { class: "swatch", viewBox: "-6 -6 12 12", "aria-hidden": "true" },
    draw("path", { class: `mark ${name}`, d: `M0 0${data.marks[name]}` }),
  );
}

function tableRow(item) {
  const open = make("button", { type: "button", "data-item": item, "aria-haspopup": "dialog" }, data.name[item]);
  const head = make("th", { scope: "row" }, open);
  if (data.text !== null && data.text[item]) head.append(make("span", { class: "text" }, data.text[item]));
  const cell = (text, kind) => make("td", kind ? { class: kind } : {}, text);
  const total = voteTotal(item);
  const row = make(
    "tr",
    {},
    head,
    make("td", { class: "what" }, swatch(data.step[item]), titles[data.step[item]]),
    cell(classes[data.predicted[item]]),
    cell(possible(item, 6)),
    cell(words(fine("aleatoric", item)), "num"),
    cell(words(fine("epistemic", item)), "num"),
    cell(isEmpty(item) ? "–" : words(data.width[item] / data.coarse), "num"),
    cell(Number.isNaN(total) ? "–" : String(total), "num"),
    cell(yes[data.covered[item]]),
  );
  row.onclick = () => openItem(item);
  return row;
}

function addSorting() {
  for (const head of document.querySelectorAll("#table thead th")) {
    const key = head.dataset.key;
    const button = make("button", { type: "button" }, head.textContent);
    button.onclick = () => {
      table.falling = table.key === key ? !table.falling : numeric.has(key);
      table.key = key;
      for (const other of document.querySelectorAll("#table thead th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", table.falling ? "descending" : "ascending");
      table.update();
    };
    head.replaceChildren(button);
  }
}

function csvOf(items) {
  const quote = (text) =>
    `"${String(text)
      .replace(/^[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20]/, "'$&")
      .replaceAll('"', '""')}"`; // no formulas from texts
  const number = (x) => (Number.isNaN(x) ? "" : String(Math.round(1e4 * x) / 1e4));
  const head = [
    "item",
    "to do",
    "predicted",
    "possible labels",
    "aleatoric",
    "epistemic",
    "width",
    data.votesName,
    "covered",
    "reason",
  ];
  if (data.group !== null) head.push("group");
  if (data.text !== null) head.push("text");
  const lines = items.map((item) => {
    const cells = [
      quote(data.name[item]),
      quote(data.queue[data.step[item]]),
      quote(classes[data.predicted[item]]),
      quote(possible(item)),
      number(fine("aleatoric", item)),
      number(fine("epistemic", item)),
      isEmpty(item) ? "" : number(data.width[item] / data.coarse),
      number(voteTotal(item)),
      quote(yes[data.covered[item]]),
      quote(reason(item)),
    ];
    if (data.group !== null) cells.push(quote(data.groups[data.group[item]]));
    if (data.text !== null) cells.push(quote(data.text[item]));
    return cells.join(",");
  });
  return [head.map(quote).join(","), ...lines].join("\r\n") + "\r\n";
}

function download(items, name) {
  const address = URL.createObjectURL(new Blob(["\ufeff" + csvOf(items)], { type: "text/csv;charset=utf-8" }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
