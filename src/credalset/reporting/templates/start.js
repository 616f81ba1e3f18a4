// Bring the page to life, if there is anything on it.
function update() {
  table.update();
  showError();
  showLevel();
  showChips();
  showSorting();
  if (opened >= 0) showPanel();
  writeAddress();
}

function follow() {
  readAddress();
  opened = state.item === "" ? -1 : data.name.indexOf(state.item);
  panel.hidden = opened < 0;
  update();
}

function filterBy(words) {
  // a second click takes the filter back
  const [key, wanted] = words.split("=");
  choose({ [key]: state[key] === wanted ? "" : wanted });
  byId("items").scrollIntoView();
}

if (count > 0) {
  for (const body of document.querySelectorAll("#table tbody:not(:first-of-type)")) body.remove();
  document.querySelector("#table tbody").removeAttribute("id");
  addSorting();
  for (const words of document.querySelectorAll("[data-link]")) {
    const key = words.dataset.link;
    const link = make("a", { href: `#${key}`, "data-filter": key }, words.textContent);
    words.replaceWith(link);
  }
  for (const link of document.querySelectorAll("[data-filter]"))
    link.onclick = (event) => {
      event.preventDefault();
      filterBy(link.dataset.filter);
    };
  for (const card of document.querySelectorAll("[data-card]")) {
    const item = data.wrong[Number(card.dataset.card)];
    const name = card.querySelector("[data-name]");
    if (item === undefined) continue;
    const button = make("button", { type: "button", class: "plain-button break" }, name.textContent);
    button.onclick = () => openItem(item, button);
    name.replaceWith(button);
  }
  const form = byId("filters");
  form.addEventListener("input", () => {
    const wanted = { q: byId("search").value, step: byId("by-step").value, label: byId("by-label").value };
    if (byId("by-hit")) wanted.hit = byId("by-hit").value;
    choose(wanted);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  if (byId("controls")) byId("controls").addEventListener("submit", (event) => event.preventDefault());
  if (byId("error")) byId("error").onchange = (event) => choose({ error: Number(event.target.value) });
  if (byId("level")) byId("level").oninput = (event) => choose({ level: Number(event.target.value) });
  byId("before").onclick = () => {
    table.page -= 1;
    table.show();
  };
  byId("after").onclick = () => {
    table.page += 1;
    table.show();
  };
  byId("csv").onclick = () => download(table.order, "items.csv");
  byId("queue-csv").onclick = () => download(all, "queue.csv");
  byId("strip").addEventListener("click", (event) => {
    const item = itemOnStrip(event);
    if (item === undefined) return;
    choose({ point: data.name[item] });
    openItem(item, byId("search"));
  });
  window.addEventListener("hashchange", () => {
    const hash = location.hash.slice(1);
    if (hash.includes("=")) follow();
    else if (written) history.replaceState(null, "", `#${written}`); // a link to a section
  });
  window.addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details")) each.open = true;
  });
  window.addEventListener("resize", () => drawStrip(drawn));
  follow();
}
